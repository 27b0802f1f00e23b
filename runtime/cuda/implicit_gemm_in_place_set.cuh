// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's tasks on operands in place, put together for the executors: tensors as they are,
// or what input and filter tasks make of them. sm_90a only.
#pragma once

#include <string>

#include "mapping/tiling.hpp"
#include "runtime/cuda/kernel_set.cuh"
#include "runtime/cuda/redo.cuh"
#include "tasks/cuda/implicit_gemm_in_place.cuh"

namespace megaconv::cuda {

template <class Numbers>
struct ImplicitGemmInPlaceKernel : ImplicitGemmGuesses<Numbers> {
  using Gemm = ImplicitGemmInPlaceTask<Numbers>;
  static constexpr int kThreads = Gemm::kThreads;
  static constexpr int kBlocksPerSm = 1;
  static constexpr int stage_blocks_per_sm(TaskKind kind) {
    return kind == TaskKind::direct ? 1 : 3;
  }
  static constexpr bool waits_itself(TaskKind kind) { return kind == TaskKind::direct; }

  static constexpr int shared_bytes(TaskKind kind) {
    return kind == TaskKind::direct ? kSharedBytesInPlace : 0;
  }
  template <TaskKind kKind>
  static __device__ __forceinline__ void run(const TaskArgs& a, const Task& task,
                                             std::byte* shared) {
    if constexpr (Numbers::kScaled && kKind == TaskKind::filter_transform) {
      prepare_redo(task, footer(a));
    } else if constexpr (Numbers::kScaled && kKind == TaskKind::input_transform) {
      prepare_redo(task, *a.x_footer);
    }
    run_once<kKind>(a, task, shared);
  }
  template <TaskKind kKind>
  static __device__ __forceinline__ void run_once(const TaskArgs& a, const Task& task,
                                                  std::byte* shared) {
    if constexpr (kKind == TaskKind::direct) {
      Gemm::run(a, typename Gemm::Walk(a, task.group, task.block), typename Gemm::Shared(a, shared),
                [] { wait_for_kernel_before(); });
    } else if constexpr (Numbers::kScaled && kKind == TaskKind::filter_transform) {
      convert_filters<kThreads>(a, task.block);
    } else if constexpr (Numbers::kScaled && kKind == TaskKind::input_transform) {
      convert_input<kThreads>(a,
                              task.group * static_cast<std::uint32_t>(a.input_tasks) + task.block);
    }
  }
  static __device__ void close(const TaskArgs& a, const Task& task, std::byte* shared) {
    if (task.kind == TaskKind::direct) Gemm::close(typename Gemm::Shared(a, shared));
  }

  static __device__ OperandFooter& footer(const TaskArgs& a) { return footer_of_filters(a); }
  static __device__ std::uint32_t noted_of_group(const TaskArgs& a) {
    return static_cast<std::uint32_t>(a.input_tasks);
  }
  /// Filters and inputs, whichever need it; then all direct tasks. `args` is the kernel's
  /// parameter, where the copy engine finds the tensor maps.
  static __device__ __forceinline__ void redo(const TaskArgs& args, const CorrectedScales& scales,
                                              const Task* tasks, std::uint32_t num_tasks,
                                              std::uint32_t num_groups, std::byte* shared) {
    TaskArgs a = args;
    if (scales.filters != 0.0f) {
      redo_filters<ImplicitGemmInPlaceKernel>(a, footer(a), scales.filters, shared);
    }
    if (scales.inputs != 0.0f) {
      a.x_scale = scales.inputs;
      redo_tasks<ImplicitGemmInPlaceKernel, TaskKind::input_transform>(
          a, *a.x_footer, num_groups * noted_of_group(a), shared);
    }
    for (std::uint32_t i = blockIdx.x; i < num_tasks; i += gridDim.x) {
      if (tasks[i].kind != TaskKind::direct) continue;
      run_once<TaskKind::direct>(args, tasks[i], shared);
      __syncthreads();
      if (threadIdx.x == 0) close(args, tasks[i], shared);
      __syncthreads();
    }
  }
};

template <class Numbers>
KernelSet implicit_gemm_in_place_kernels(const Tiling& tiling) {
  using Kernel = ImplicitGemmInPlaceKernel<Numbers>;
  const Stripes stripes =
      make_stripes(tiling.problem, static_cast<std::int32_t>(tiling.cols_per_group));
  const std::string name =
      std::string("implicit GEMM, ") + to_string(tiling.arithmetic) + " in place, tiles of " +
      std::to_string(Kernel::Gemm::kFilters) + " filters x " +
      std::to_string(tile_places_in_place(tiling.places_per_group, stripes.reach)) + " places";
  KernelSet set{};
  if constexpr (Numbers::kScaled) {
    set = make_kernel_set<Kernel, Stage<TaskKind::filter_transform, TaskKind::input_transform>,
                          Stage<TaskKind::direct>>(name);
    set.redo = reinterpret_cast<const void*>(&redo_kernel<Kernel>);
  } else {
    set = make_kernel_set<Kernel, Stage<TaskKind::direct>>(name);
    set.filters_in_place = true;
  }
  set.x_scale = Kernel::kInputGuess.scale;
  set.w_scale = Kernel::kFilterGuess.scale;
  set.capability = 90;
  set.reads_pixels = true;
  set.gemm_filters = Kernel::Gemm::kFilters;
  set.channel_multiple = Numbers::kDepth;
  return set;
}

}  // namespace megaconv::cuda
