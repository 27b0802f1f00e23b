// SPDX-License-Identifier: Apache-2.0
// Winograd's CUDA tasks of FP32 multiply-adds, without a GPU.
#include <string>

#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

// One pixel; channels, filters and images of odd sizes; no padding, and more of it; many filters.
const char* const kShapes[] = {
    "n1c1h1k1",
    "n3c20h13w9k37+scale+bias+relu",
    "n2c17h6w5k65p0",
    "n1c33h10k48p2+relu+residual",
    "n1c8h7w3k200p3+bias",
};

void check(const TilingOptions& asked, bool integers) {
  for (const char* shape : kShapes) {
    for (const std::uint32_t m : {2u, 4u}) {
      TilingOptions options = asked;
      options.algorithm = Algorithm::winograd;
      options.m = m;
      test::check_in_both_layouts(shape, integers, options);
    }
  }
}

TEST_CASE("emulated CUDA: Winograd's tasks are right on odd shapes, in any order of threads") {
  check({}, false);
}

TEST_CASE("emulated CUDA: Winograd's tasks are exact on integers") {
  check({.points = Points::integer}, true);
}

TEST_CASE("emulated CUDA: Winograd's tasks have activations that are no straight lines") {
  for (const char* activation : {"+silu", "+gelu", "+hard_swish"}) {
    test::check_in_both_layouts(std::string("n1c20h9w11k37+bias+residual") + activation, false,
                                {.algorithm = Algorithm::winograd, .m = 4});
  }
}

}  // namespace
}  // namespace megaconv
