// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's tasks on tensors that are operands as they are, put together for the executors.
// sm_90a only.
#pragma once

#include <string>

#include "mapping/tiling.hpp"
#include "runtime/cuda/kernel_set.cuh"
#include "tasks/cuda/implicit_gemm_in_place.cuh"

namespace megaconv::cuda {

template <class Numbers>
struct ImplicitGemmInPlaceKernel {
  using Gemm = ImplicitGemmInPlaceTask<Numbers>;
  static constexpr int kThreads = Gemm::kThreads;
  static constexpr int kBlocksPerSm = 1;

  static constexpr int shared_bytes(TaskKind) { return kSharedBytesInPlace; }
  template <TaskKind kKind>
  static __device__ __forceinline__ void run(const TaskArgs& a, const Task& task,
                                             std::byte* shared) {
    if constexpr (kKind == TaskKind::direct) {
      Gemm::run(a, typename Gemm::Walk(a, task.group, task.block),
                typename Gemm::Shared(a, shared));
    }
  }
  static __device__ void close(const TaskArgs& a, std::byte* shared) {
    Gemm::close(typename Gemm::Shared(a, shared));
  }
};

template <class Numbers>
KernelSet implicit_gemm_in_place_kernels(const Tiling& tiling) {
  using Kernel = ImplicitGemmInPlaceKernel<Numbers>;
  KernelSet set = make_kernel_set<Kernel, Stage<TaskKind::direct>>(
      std::string("implicit GEMM, ") + to_string(tiling.arithmetic) + " in place, tiles of " +
      std::to_string(Kernel::Gemm::kFilters) + " filters x " +
      std::to_string(tile_places_in_place(tiling.places_per_group)) + " places");
  set.capability = 90;
  set.operands_in_place = true;
  set.gemm_filters = Kernel::Gemm::kFilters;
  set.channel_multiple = Numbers::kDepth;
  return set;
}

}  // namespace megaconv::cuda
