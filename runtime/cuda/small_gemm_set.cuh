// SPDX-License-Identifier: Apache-2.0
// Small-tile implicit GEMM of one convolution: a block a task, and the kernel that packs filters.
#pragma once

#include "runtime/cuda/device_sync.cuh"
#include "runtime/cuda/kernels.hpp"
#include "tasks/small_gemm/cuda/pack_filters.cuh"
#include "tasks/small_gemm/cuda/small_gemm.cuh"

namespace megaconv::cuda {

/// Two blocks on an SM: a run of the same plan starts beside the end of the one before it. All but
/// its shares may have been written by what is in front.
template <class Products>
__global__ void __launch_bounds__(kSmallGemmThreads, 2)
    small_gemm_kernel(const __grid_constant__ SmallGemmArgs args, const SmallGemmShare* shares) {
  extern __shared__ __align__(128) char work[];
  __shared__ FilterStages::Shared arrivals;
  __shared__ SumExchange::Shared exchanged;
  __shared__ SmallGemmShare share;
  FilterStages filters(arrivals);
  const SumExchange exchange(exchanged);
  let_next_start();
  constexpr int kWords = sizeof(SmallGemmShare) / sizeof(std::uint32_t);
  if (threadIdx.x < kWords) {
    reinterpret_cast<std::uint32_t*>(&share)[threadIdx.x] =
        reinterpret_cast<const std::uint32_t*>(shares + blockIdx.x)[threadIdx.x];
  }
  __syncthreads();
  SmallGemmTask<Products, typename Products::Stored, true>::run(
      args, share, work, filters, exchange, [](const void* tensor) { return tensor; },
      [] { wait_for_kernel_before(); }, [](TaskPhase) {});
}

template <class Products>
__global__ void __launch_bounds__(FilterPacking<Products>::kThreads)
    pack_filters_kernel(const __grid_constant__ FilterPlaces places, const void* w, void* u) {
  __shared__ typename FilterPacking<Products>::Shared shared;
  FilterPacking<Products>::run(places, w, u, blockIdx.x, shared);
}

template <class Products>
KernelSet small_gemm_kernel_set(const Tiling& tiling, const char* precision) {
  constexpr auto kPack = static_cast<int>(TaskKind::filter_transform);
  constexpr auto kDirect = static_cast<int>(TaskKind::direct);
  KernelSet set{};
  set.name = std::string("small-tile implicit GEMM, ") + precision;
  set.num_threads = kSmallGemmThreads;
  set.stage[kPack] = reinterpret_cast<const void*>(&pack_filters_kernel<Products>);
  set.stage[kDirect] = reinterpret_cast<const void*>(&small_gemm_kernel<Products>);
  set.shared_bytes[kDirect] = static_cast<int>(memory_of(std::get<SmallGemmCut>(tiling.cut)).bytes);
  set.most_shared_bytes = set.shared_bytes[kDirect];
  set.clusters[kDirect] = true;
  return set;
}

}  // namespace megaconv::cuda
