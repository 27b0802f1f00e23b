// SPDX-License-Identifier: Apache-2.0
// How CUDA's tasks are run without a GPU: the only file of these programs that knows how the
// library is made inside.
#include "tests/checksums/emulated_compute.hpp"

#include <cstring>

#include "tests/emulated_cuda/emulated_run.hpp"
#if __CUDA_ARCH__ < 800
#include "runtime/cuda/direct_set.cuh"
#include "runtime/cuda/opencnn_set.cuh"
#include "runtime/cuda/winograd_set.cuh"
#elif __CUDA_ARCH__ < 900
#include "runtime/cuda/winograd_mma_set.cuh"
#else
#include "runtime/cuda/implicit_gemm_set.cuh"
#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/wgmma_tile.cuh"
#endif

namespace megaconv::checksums {
namespace {

#if __CUDA_ARCH__ < 800 || __CUDA_ARCH__ >= 900
template <Layout kLayout>
cuda::KernelSet fma_kernels(const Tiling& tiling) {
  constexpr Points kLowError = Points::low_error, kInteger = Points::integer;
  const WinogradTiles& tiles = *tiling.tiles();
  const bool low_error = tiles.points == kLowError;
  if (tiles.m == 2) return cuda::winograd_kernels<2, kLowError, kLayout>(tiling);
  return low_error ? cuda::winograd_kernels<4, kLowError, kLayout>(tiling)
                   : cuda::winograd_kernels<4, kInteger, kLayout>(tiling);
}
#endif

#if __CUDA_ARCH__ < 800
constexpr EmulatedCode kCode = EmulatedCode::sm75;

template <Layout kLayout>
cuda::KernelSet kernels(const Tiling& tiling) {
  if (tiling.algorithm() == Algorithm::opencnn) return cuda::opencnn_kernels<kLayout>(tiling);
  if constexpr (kLayout != Layout::chwn) {
    if (tiling.algorithm() == Algorithm::direct) return cuda::direct_kernels<kLayout>(tiling);
    return fma_kernels<kLayout>(tiling);
  }
  throw Error(Status::unsupported, "layout chwn: must be openCNN");
}
#elif __CUDA_ARCH__ < 900
constexpr EmulatedCode kCode = EmulatedCode::sm80;

template <Layout kLayout>
cuda::KernelSet kernels(const Tiling& tiling) {
  return cuda::winograd_mma_kernels<kLayout>(tiling);
}
#else
constexpr EmulatedCode kCode = EmulatedCode::sm90;

template <Layout kLayout>
cuda::KernelSet kernels(const Tiling& tiling) {
  constexpr Points kLowError = Points::low_error, kInteger = Points::integer;
  const bool split = tiling.arithmetic == Arithmetic::split_f16;
  if (tiling.algorithm() == Algorithm::implicit_gemm) {
    return split ? cuda::implicit_gemm_kernels<cuda::SplitNumbers, kLayout>(tiling)
                 : cuda::implicit_gemm_kernels<cuda::RoundedNumbers, kLayout>(tiling);
  }
  if (tiling.arithmetic == Arithmetic::fma) return fma_kernels<kLayout>(tiling);
  using cuda::WgmmaTile;
  if (!split) return cuda::winograd_tensor_kernels<WgmmaTile, 4, kLowError, kLayout, 1>(tiling);
  const WinogradTiles& tiles = *tiling.tiles();
  if (tiles.m == 2) {
    return cuda::winograd_tensor_kernels<WgmmaTile, 2, kLowError, kLayout, 2>(tiling);
  }
  return tiles.points == kLowError
             ? cuda::winograd_tensor_kernels<WgmmaTile, 4, kLowError, kLayout, 2>(tiling)
             : cuda::winograd_tensor_kernels<WgmmaTile, 4, kInteger, kLayout, 2>(tiling);
}
#endif

cuda::KernelSet kernels_of(const Tiling& tiling) {
  switch (tiling.problem.layout) {
    case Layout::nchw:
      return kernels<Layout::nchw>(tiling);
    case Layout::nhwc:
      return kernels<Layout::nhwc>(tiling);
    default:
#if __CUDA_ARCH__ < 800
      return kernels<Layout::chwn>(tiling);
#else
      throw Error(Status::unsupported, "layout chwn: must be openCNN");
#endif
  }
}

}  // namespace

EmulatedCode emulated_code() { return kCode; }

std::vector<float> compute_emulated(const ConvProblem& problem, const PlanOptions& options,
                                    const Data& data) {
  const Target target{
      .backend = Backend::cuda, .workers = 8, .split_f16 = kCode != EmulatedCode::sm75};
  const Lowering lowering = lower(problem, options.tiling, options.mapping, target);
  test::Layer layer(problem, false);
  const auto copy = [](const Bytes& from, std::vector<float>& to) {
    if (from.size() != 0) std::memcpy(to.data(), from.get(), from.size());
  };
  copy(data.x, layer.x);
  copy(data.w, layer.w);
  copy(data.bias, layer.bias);
  copy(data.residual, layer.residual);
  return test::run_emulated(layer, lowering, kernels_of(lowering.tiling()),
                            test::ThreadOrder::forward);
}

}  // namespace megaconv::checksums
