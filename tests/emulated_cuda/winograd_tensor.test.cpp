// SPDX-License-Identifier: Apache-2.0
// Winograd's CUDA tasks on tensor cores, without any.
#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/wgmma_tile.cuh"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

using test::check_emulated;

TEST_CASE("emulated CUDA: Winograd's tasks on tensor cores are right on odd shapes") {
  for (const char* shape : {"n1c1h1k1", "n3c20h13w9k37+bias+relu", "n2c17h6w5k65p0",
                            "n1c70h10k48p2+relu+residual", "n1c8h7w3k200p3+bias"}) {
    TilingOptions options;
    options.algorithm = Algorithm::winograd;
    options.arithmetic = Arithmetic::split_f16;
    const std::string nchw = std::string(shape) + "+nchw", nhwc = std::string(shape) + "+nhwc";
    constexpr Points kPoints = Points::low_error;
    options.m = 2;
    check_emulated(nchw.c_str(), false, options,
                   cuda::winograd_tensor_kernels<cuda::WgmmaTile, 2, kPoints, Layout::nchw, 2>);
    check_emulated(nhwc.c_str(), false, options,
                   cuda::winograd_tensor_kernels<cuda::WgmmaTile, 2, kPoints, Layout::nhwc, 2>);
    options.m = 4;
    check_emulated(nchw.c_str(), false, options,
                   cuda::winograd_tensor_kernels<cuda::WgmmaTile, 4, kPoints, Layout::nchw, 2>);
    check_emulated(nhwc.c_str(), false, options,
                   cuda::winograd_tensor_kernels<cuda::WgmmaTile, 4, kPoints, Layout::nhwc, 2>);
    options.arithmetic = Arithmetic::f16;
    check_emulated(nchw.c_str(), false, options,
                   cuda::winograd_tensor_kernels<cuda::WgmmaTile, 4, kPoints, Layout::nchw, 1>);
    check_emulated(nhwc.c_str(), false, options,
                   cuda::winograd_tensor_kernels<cuda::WgmmaTile, 4, kPoints, Layout::nhwc, 1>);
  }
}

TEST_CASE("emulated CUDA: Winograd on tensor cores is as accurate at any magnitude") {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.m = 4;
  options.arithmetic = Arithmetic::split_f16;
  constexpr Points kPoints = Points::low_error;
  test::check_magnitudes(
      "n2c20h6w5k37+nchw", options,
      cuda::winograd_tensor_kernels<cuda::WgmmaTile, 4, kPoints, Layout::nchw, 2>);
  options.arithmetic = Arithmetic::f16;
  test::check_magnitudes(
      "n2c20h6w5k37+nhwc", options,
      cuda::winograd_tensor_kernels<cuda::WgmmaTile, 4, kPoints, Layout::nhwc, 1>);
}

}  // namespace
}  // namespace megaconv
