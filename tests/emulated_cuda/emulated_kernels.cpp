// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated_cuda/emulated_kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "megaconv/error.hpp"
#include "runtime/cuda/winograd_set.cuh"
#if __CUDA_ARCH__ < 800
#include "runtime/cuda/direct_set.cuh"
#include "runtime/cuda/opencnn_set.cuh"
#elif __CUDA_ARCH__ < 900
#include "runtime/cuda/direct_mma_set.cuh"
#include "runtime/cuda/winograd_mma_set.cuh"
#else
#include "runtime/cuda/depthwise_set.cuh"
#include "runtime/cuda/direct_mma_set.cuh"
#include "runtime/cuda/direct_set.cuh"
#include "runtime/cuda/implicit_gemm_set.cuh"
#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/wgmma_tile.cuh"
#endif

namespace megaconv::test {
namespace {

constexpr Points kLowError = Points::low_error, kInteger = Points::integer;

template <Layout kLayout>
cuda::KernelSet fma_kernels(const Tiling& tiling) {
  const WinogradTiles& tiles = *tiling.tiles();
  if (tiles.m == 2) return cuda::winograd_kernels<2, kLowError, kLayout>(tiling);
  return tiles.points == kLowError ? cuda::winograd_kernels<4, kLowError, kLayout>(tiling)
                                   : cuda::winograd_kernels<4, kInteger, kLayout>(tiling);
}

// make.operator()<Stored>(), of the problem's storage type.
template <class Make>
cuda::KernelSet of_storage(const Tiling& tiling, Make make) {
  switch (tiling.problem.dtype) {
    case DataType::f16:
      return make.template operator()<__half>();
    case DataType::bf16:
      return make.template operator()<__nv_bfloat16>();
    default:
      return make.template operator()<float>();
  }
}

#if __CUDA_ARCH__ < 800
template <Layout kLayout>
cuda::KernelSet kernels(const Tiling& tiling) {
  if (tiling.algorithm() == Algorithm::opencnn) return cuda::opencnn_kernels<kLayout>(tiling);
  if constexpr (kLayout != Layout::chwn) {
    if (tiling.algorithm() == Algorithm::direct) {
      return of_storage(
          tiling, [&]<class Stored>() { return cuda::direct_kernels<kLayout, Stored>(tiling); });
    }
    return fma_kernels<kLayout>(tiling);
  }
  throw Error(Status::unsupported, "layout chwn: must be openCNN");
}
#elif __CUDA_ARCH__ < 900
template <Layout kLayout>
cuda::KernelSet kernels(const Tiling& tiling) {
  if (tiling.algorithm() == Algorithm::direct) {
    return of_storage(tiling,
                      [&]<class Stored>() { return cuda::direct_mma_kernels<Stored>(tiling); });
  }
  return tiling.arithmetic == Arithmetic::fma ? fma_kernels<kLayout>(tiling)
                                              : cuda::winograd_mma_kernels<kLayout>(tiling);
}
#else
template <Layout kLayout>
cuda::KernelSet implicit_gemm_kernels(const Tiling& tiling) {
  if constexpr (kLayout == Layout::nhwc) {
    if (tiling.problem.dtype == DataType::f16) {
      return cuda::implicit_gemm_kernels<cuda::StoredNumbers<__half>, kLayout>(tiling);
    }
  }
  return tiling.arithmetic == Arithmetic::split_f16
             ? cuda::implicit_gemm_kernels<cuda::SplitNumbers, kLayout>(tiling)
             : cuda::implicit_gemm_kernels<cuda::RoundedNumbers, kLayout>(tiling);
}

template <Layout kLayout>
cuda::KernelSet kernels(const Tiling& tiling) {
  using cuda::WgmmaTile;
  if (tiling.algorithm() == Algorithm::implicit_gemm) return implicit_gemm_kernels<kLayout>(tiling);
  if (tiling.algorithm() == Algorithm::direct) {
    const ConvProblem& a = tiling.problem;
    return of_storage(tiling, [&]<class Stored>() {
      if (a.depthwise()) {
        return cuda::depthwise_kernels<Stored>(cuda::direct_kernels<Layout::nhwc, Stored>(tiling),
                                               tiling);
      }
      return cuda::pixel_stream_kernels<Stored>(pixel_stream(a.c, a.k, sizeof(Stored)));
    });
  }
  if (tiling.arithmetic == Arithmetic::fma) return fma_kernels<kLayout>(tiling);
  if (tiling.arithmetic != Arithmetic::split_f16) {
    using Operand =
        std::conditional_t<kLayout == Layout::nhwc, cuda::RowOperand, cuda::TensorOperand<1> >;
    return of_storage(tiling, [&]<class Stored>() {
      return cuda::winograd_tensor_kernels<WgmmaTile, 4, kLowError, kLayout, Operand, Stored>(
          tiling);
    });
  }
  const WinogradTiles& tiles = *tiling.tiles();
  if (tiles.m == 2) {
    return cuda::winograd_tensor_kernels<WgmmaTile, 2, kLowError, kLayout, cuda::TensorOperand<2> >(
        tiling);
  }
  return tiles.points == kLowError ? cuda::winograd_tensor_kernels<WgmmaTile, 4, kLowError, kLayout,
                                                                   cuda::TensorOperand<2> >(tiling)
                                   : cuda::winograd_tensor_kernels<WgmmaTile, 4, kInteger, kLayout,
                                                                   cuda::TensorOperand<2> >(tiling);
}
#endif

}  // namespace

cuda::KernelSet emulated_kernels(const Tiling& tiling) {
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

}  // namespace megaconv::test
