// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's tasks, put together for the executors. sm_90a only.
#pragma once

#include <string>

#include "mapping/tiling.hpp"
#include "runtime/cuda/kernel_set.cuh"
#include "runtime/cuda/redo.cuh"
#include "tasks/cuda/implicit_gemm.cuh"
#include "tasks/cuda/scale_guess.cuh"

namespace megaconv::cuda {

template <class Numbers, int kFilters, int kPlaces, Layout kLayout>
struct ImplicitGemmKernel : ImplicitGemmGuesses<Numbers> {
  using Gemm = ImplicitGemmTask<Numbers, kFilters, kPlaces, kLayout>;
  using Shared = typename Gemm::Shared;
  static constexpr int kThreads = Gemm::kThreads;
  static constexpr int kBlocksPerSm = 1;

  // x does not depend on the filters' stage.
  static constexpr bool waits_itself(TaskKind kind) { return kind == TaskKind::direct; }
  static constexpr bool reads_ahead(TaskKind kind) { return kind == TaskKind::direct; }

  using Filters = typename Gemm::Operand;
  static constexpr int shared_bytes(TaskKind kind) {
    return static_cast<int>(kind == TaskKind::direct ? sizeof(Shared)
                                                     : sizeof(typename Filters::Part));
  }
  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& a, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform && Numbers::kScaled) {
      prepare_redo(task, Filters::footer(a));
    }
    run_once<kKind>(a, task, shared);
  }
  template <TaskKind kKind>
  static __device__ void run_once(const TaskArgs& a, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      Filters::template transform<kThreads, kLayout>(
          a, task.block, *reinterpret_cast<typename Filters::Part*>(shared));
    } else if constexpr (kKind == TaskKind::direct) {
      Gemm::run(a, typename Gemm::Walk(a, task.group, task.block), task.group,
                *reinterpret_cast<Shared*>(shared), [] { wait_for_kernel_before(); });
    }
  }

  /// Filters, if they were transformed in this run; then all direct tasks, if these or they
  /// themselves need it.
  static __device__ void redo(TaskArgs a, const Task* tasks, std::uint32_t num_tasks,
                              std::uint32_t num_groups, std::byte* shared) {
    const CorrectedScales scales =
        corrected_scales<ImplicitGemmKernel>(a, Filters::footer(a), num_groups);
    if (scales.filters == 0.0f && scales.inputs == 0.0f) return;
    if (scales.filters != 0.0f) {
      redo_filters<ImplicitGemmKernel>(a, Filters::footer(a), scales.filters, shared);
    }
    if (scales.inputs != 0.0f) a.x_scale = scales.inputs;
    for (std::uint32_t i = blockIdx.x; i < num_tasks; i += gridDim.x) {
      if (tasks[i].kind != TaskKind::direct) continue;
      run_once<TaskKind::direct>(a, tasks[i], shared);
      __syncthreads();
    }
  }
};

template <class Numbers, Layout kLayout>
KernelSet implicit_gemm_kernels(const Tiling& tiling) {
  const auto make = [&]<int kFilters, int kPlaces>() {
    using Kernel = ImplicitGemmKernel<Numbers, kFilters, kPlaces, kLayout>;
    KernelSet set =
        make_kernel_set<Kernel, Stage<TaskKind::filter_transform>, Stage<TaskKind::direct>>(
            std::string("implicit GEMM, ") + to_string(tiling.arithmetic) + ", tiles of " +
            std::to_string(kFilters) + " filters x " + std::to_string(kPlaces) + " places");
    if constexpr (Numbers::kScaled) set.redo = reinterpret_cast<const void*>(&redo_kernel<Kernel>);
    set.x_scale = Kernel::kInputGuess.scale;
    set.w_scale = Kernel::kFilterGuess.scale;
    set.capability = 90;
    set.gemm_filters = kFilters;
    set.channel_multiple = Numbers::kDepth;
    return set;
  };
  const ImplicitGemmTile tile = implicit_gemm_tile(tiling.filter_blocks_per_gemm_task,
                                                   tiling.places_per_group, tiling.arithmetic);
  if (tile.filters == 64) return make.template operator()<64, 256>();
  if constexpr (!Numbers::kSplit) {
    if (tile.places == 256) return make.template operator()<128, 256>();
  }
  return make.template operator()<128, 128>();
}

}  // namespace megaconv::cuda
