// SPDX-License-Identifier: Apache-2.0
// Winograd's CUDA tasks of FP32 multiply-adds, without a GPU.
#include "runtime/cuda/winograd_set.cuh"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

using test::check_emulated;

template <Layout kLayout>
cuda::KernelSet kernels(const Tiling& tiling) {
  switch (tiling.tiles()->m) {
    case 2:
      return cuda::winograd_kernels<2, Points::low_error, kLayout>(tiling);
    case 4:
      return tiling.tiles()->points == Points::low_error
                 ? cuda::winograd_kernels<4, Points::low_error, kLayout>(tiling)
                 : cuda::winograd_kernels<4, Points::integer, kLayout>(tiling);
    default:
      return cuda::winograd_kernels<6, Points::low_error, kLayout>(tiling);
  }
}

// One pixel; channels, filters and images of odd sizes; no padding, and more of it; many filters.
const char* const kShapes[] = {
    "n1c1h1k1",
    "n3c20h13w9k37+bias+relu",
    "n2c17h6w5k65p0",
    "n1c33h10k48p2+relu+residual",
    "n1c8h7w3k200p3+bias",
};

TEST_CASE("emulated CUDA: Winograd's tasks are right on odd shapes, in any order of threads") {
  for (const char* shape : kShapes) {
    for (const std::uint32_t m : {2u, 4u}) {
      TilingOptions options;
      options.algorithm = Algorithm::winograd;
      options.m = m;
      check_emulated((std::string(shape) + "+nchw").c_str(), false, options, kernels<Layout::nchw>);
      check_emulated((std::string(shape) + "+nhwc").c_str(), false, options, kernels<Layout::nhwc>);
    }
  }
}

TEST_CASE("emulated CUDA: Winograd's tasks are exact on integers") {
  for (const char* shape : kShapes) {
    for (const std::uint32_t m : {2u, 4u}) {
      TilingOptions options;
      options.algorithm = Algorithm::winograd;
      options.m = m;
      options.points = Points::integer;
      check_emulated((std::string(shape) + "+nchw").c_str(), true, options, kernels<Layout::nchw>);
      check_emulated((std::string(shape) + "+nhwc").c_str(), true, options, kernels<Layout::nhwc>);
    }
  }
}

}  // namespace
}  // namespace megaconv
