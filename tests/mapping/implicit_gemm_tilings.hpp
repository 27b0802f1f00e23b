// SPDX-License-Identifier: Apache-2.0
// Tilings of implicit GEMM that tests look at.
#pragma once

#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

namespace megaconv::test {

inline Tiling tiling_of(const char* text, TilingOptions options = {},
                        Algorithm algorithm = Algorithm::implicit_gemm) {
  options.algorithm = algorithm;
  return make_tiling(
      parse_problem(text), options,
      {.backend = Backend::cuda, .workers = 264, .split_f16 = true, .multiprocessors = 132});
}

inline ImplicitGemmCut cut_of(const Tiling& tiling) {
  return std::get<ImplicitGemmCut>(tiling.cut);
}

/// A tiling's tasks have an order that keeps their dependencies, and it reads back from a file.
inline void check_order_and_file(const Tiling& tiling, const MappingOptions& options = {}) {
  Lowering lowering = cut(tiling);
  lowering.mapping = make_mapping(lowering.graph, options);
  CHECK_FALSE(validate(lowering.graph, lowering.mapping));
  CHECK(import_mapping(export_mapping(lowering)).tiling() == tiling);
}

}  // namespace megaconv::test
