// SPDX-License-Identifier: Apache-2.0
// CPU bodies of elementwise tasks, one table per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "megaconv/elementwise.hpp"

namespace megaconv::cpu {

/// What an elementwise task may touch.
struct ElementwiseArgs {
  const ElementwiseCut* cut = nullptr;
  const void* const* x = nullptr;  ///< tensors; layout and storage type of cut->problem
  const void* residual = nullptr;  ///< as y
  const float* scale = nullptr;    ///< [C]
  const float* bias = nullptr;     ///< [C]
  void* y = nullptr;
};

/// Runs one task. It needs no scratch memory.
using ElementwiseFunction = void (*)(const ElementwiseArgs& args, std::uint32_t group);

struct ElementwiseKernels {
  const char* isa;  ///< that the bodies are compiled for: "avx512", "avx2", "portable"
  ElementwiseFunction by_dtype[kNumDataTypes];  ///< null for i8

  ElementwiseFunction run(DataType dtype) const {
    return by_dtype[static_cast<std::size_t>(dtype)];
  }
};

/// The table for an instruction set of available_isas(); empty chooses as kernels_for() does.
/// Throws as it does.
const ElementwiseKernels& elementwise_kernels_for(std::string_view isa = {});

}  // namespace megaconv::cpu
