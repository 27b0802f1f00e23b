// SPDX-License-Identifier: Apache-2.0
// Winograd's CUDA tasks on tensor cores of compute capability 8.0, without any.
#include "runtime/cuda/winograd_mma_set.cuh"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

void check(const char* shape, const TilingOptions& options) {
  const std::string text = shape;
  test::check_emulated((text + "+nchw").c_str(), false, options,
                       cuda::winograd_mma_kernels<Layout::nchw>);
  test::check_emulated((text + "+nhwc").c_str(), false, options,
                       cuda::winograd_mma_kernels<Layout::nhwc>);
}

cuda::KernelSet fma_kernels(const Tiling& tiling) {
  constexpr Points kPoints = Points::low_error;
  return tiling.m == 2 ? cuda::winograd_kernels<2, kPoints, Layout::nhwc>(tiling)
                       : cuda::winograd_kernels<4, kPoints, Layout::nhwc>(tiling);
}

TEST_CASE("emulated CUDA: Winograd's tasks on a warp's tensor cores are right on odd shapes") {
  for (const char* shape : {"n1c1h1k1", "n3c20h13w9k37+bias+relu", "n2c17h6w5k65p0",
                            "n1c70h10k48p2+relu+residual", "n1c8h7w3k200p3+bias"}) {
    TilingOptions options;
    options.algorithm = Algorithm::winograd;
    options.arithmetic = Arithmetic::split_f16;
    for (const std::uint32_t m : {2u, 4u}) {
      options.m = m;
      check(shape, options);
    }
    options.arithmetic = Arithmetic::f16;
    check(shape, options);
  }
}

// What the tensor cores cut off grows with the sums that they add to; these are small.
TEST_CASE("emulated CUDA: three products on a warp's tensor cores err less than multiply-adds") {
  for (const std::uint32_t m : {2u, 4u}) {
    TilingOptions options;
    options.algorithm = Algorithm::winograd;
    options.m = m;
    const char* const problem = "n1c512h8k64+nhwc";
    const ErrorReport fma = test::emulated_error(problem, options, fma_kernels);
    options.arithmetic = Arithmetic::split_f16;
    const ErrorReport split =
        test::emulated_error(problem, options, cuda::winograd_mma_kernels<Layout::nhwc>);
    INFO("F(" << m << "x" << m << "): " << to_string(split) << "; fma: " << to_string(fma));
    CHECK(split.relative_l2 < fma.relative_l2);
  }
}

}  // namespace
}  // namespace megaconv
