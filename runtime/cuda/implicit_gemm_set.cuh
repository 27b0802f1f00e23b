// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's tasks, put together for the executors. sm_90a only.
#pragma once

#include <string>

#include "runtime/cuda/kernel_set.cuh"
#include "runtime/cuda/redo_kernel.cuh"
#include "tasks/cuda/scale_guess.cuh"
#include "tasks/implicit_gemm/cuda/implicit_gemm.cuh"
#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv::cuda {

template <class Numbers, int kFilters, int kPlaces, Layout kLayout, bool kHasSteps>
struct ImplicitGemmKernel : ImplicitGemmGuesses<Numbers> {
  using Gemm = ImplicitGemmTask<Numbers, kFilters, kPlaces, kLayout, kHasSteps>;
  using Shared = typename Gemm::Shared;
  static constexpr int kThreads = Gemm::kThreads;
  static constexpr int kBlocksPerSm = 1;

  static constexpr int stage_blocks_per_sm(TaskKind kind) {
    return kind == TaskKind::direct ? 1 : 2;
  }
  // x does not depend on the filters' stage.
  static constexpr bool waits_itself(TaskKind kind) { return kind == TaskKind::direct; }
  static constexpr bool reads_ahead(TaskKind kind) { return kind == TaskKind::direct; }

  using Filters = typename Gemm::Operand;
  static constexpr int shared_bytes(TaskKind kind) {
    return static_cast<int>(kind == TaskKind::direct ? sizeof(Shared)
                                                     : sizeof(typename Filters::Part));
  }
  template <TaskKind kKind>
  static __device__ __forceinline__ void run(const TaskArgs& a, const Task& task,
                                             std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform && Numbers::kScaled) {
      prepare_redo(task, footer(a));
    }
    run_once<kKind>(a, task, shared);
  }
  template <TaskKind kKind>
  static __device__ __forceinline__ void run_once(const TaskArgs& a, const Task& task,
                                                  std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      Filters::template transform<kThreads, kLayout>(
          a, task.block, *reinterpret_cast<typename Filters::Part*>(shared));
    } else if constexpr (kKind == TaskKind::input_transform) {
      if constexpr (kLayout == Layout::nhwc) {
        copy_input_to_depth<typename Numbers::Stored, kThreads>(
            a, task.group * static_cast<std::uint32_t>(a.input_tasks) + task.block);
      }
    } else if constexpr (kKind == TaskKind::direct) {
      const typename Gemm::Walk walk(a, task.group, task.block);
      Gemm::run(a, walk, task.group * noted_of_group(a) + walk.first_k / a.filters_at_once,
                *reinterpret_cast<Shared*>(shared), [] { wait_for_kernel_before(); });
    }
  }

  static __device__ OperandFooter& footer(const TaskArgs& a) { return Filters::footer(a); }
  /// The first filters of conv groups that are multiplied as one note x.
  static __device__ std::uint32_t noted_of_group(const TaskArgs& a) {
    return static_cast<std::uint32_t>(a.k / a.filters_at_once);
  }
  /// Filters, if it is they that need it, then all direct tasks.
  static __device__ void redo(const TaskArgs& args, const CorrectedScales& scales,
                              const Task* tasks, std::uint32_t num_tasks, std::uint32_t,
                              std::byte* shared) {
    TaskArgs a = args;
    if (scales.filters != 0.0f) {
      redo_filters<ImplicitGemmKernel>(a, footer(a), scales.filters, shared);
    }
    if (scales.inputs != 0.0f) a.x_scale = scales.inputs;
    for (std::uint32_t i = blockIdx.x; i < num_tasks; i += gridDim.x) {
      if (kind_of(tasks[i]) != TaskKind::direct) continue;
      run_once<TaskKind::direct>(a, tasks[i], shared);
      __syncthreads();
    }
  }
};

/// make<width>(), with the widest of the widths up to kPlaces that is not wider than `places`,
/// which is one of them.
template <class Numbers, int kMost, int kPlaces = kMost, class Make>
KernelSet of_width(std::uint32_t places, const Make& make) {
  constexpr int kNarrower = kPlaces - tile_step(kMost, Numbers::kSplit);
  if constexpr (kNarrower >= kMost / 2) {
    if (places < kPlaces) return of_width<Numbers, kMost, kNarrower>(places, make);
  }
  return make.template operator()<kPlaces>();
}

inline ImplicitGemmTile tile_of(const Tiling& tiling) {
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  return implicit_gemm_tile(cut.filter_blocks_per_gemm_task, cut.places_per_group,
                            tiling.arithmetic);
}

/// Whether each tap has its own input, or there is one.
inline bool has_steps(const Tiling& tiling) {
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const auto cols = static_cast<std::int32_t>(cut.cols_per_group);
  return make_stripes(multiplied(tiling).problem, cols).taps_have_own_inputs();
}

/// Tiles of kFilters filters, which is what the tiling's have.
template <class Numbers, int kFilters, Layout kLayout, bool kHasSteps>
KernelSet implicit_gemm_kernels_of(const Tiling& tiling) {
  const auto make = [&]<int kPlaces>() {
    using Kernel = ImplicitGemmKernel<Numbers, kFilters, kPlaces, kLayout, kHasSteps>;
    using OfAnyWidth = ImplicitGemmKernel<Numbers, kFilters, 128, kLayout, true>;
    KernelSet set = make_kernel_set<
        Kernel, SharedStage<OfAnyWidth, TaskKind::filter_transform, TaskKind::input_transform>,
        Stage<TaskKind::direct>>(std::string("implicit GEMM, ") + to_string(tiling.arithmetic) +
                                 ", tiles of " + std::to_string(kFilters) + " filters x " +
                                 std::to_string(kPlaces) + " padded pixels");
    if constexpr (Numbers::kScaled) set.redo = reinterpret_cast<const void*>(&redo_kernel<Kernel>);
    set.x_scale = Kernel::kInputGuess.scale;
    set.w_scale = Kernel::kFilterGuess.scale;
    const ConvProblem& problem = tiling.problem;
    set.noted_of_block = static_cast<std::uint32_t>(problem.k / filters_at_once(problem));
    set.gemm_filters = kFilters;
    set.channel_multiple = Numbers::kDepth;
    return set;
  };
  const std::uint32_t places = tile_of(tiling).places;
  if constexpr (kFilters == 64) {
    return of_width<Numbers, 256>(places, make);
  } else {
    if constexpr (!Numbers::kSplit) {
      if (places > 128) return of_width<Numbers, 256>(places, make);
    }
    return of_width<Numbers, 128>(places, make);
  }
}

template <class Numbers, int kFilters, Layout kLayout>
KernelSet implicit_gemm_kernels_of(const Tiling& tiling) {
  return has_steps(tiling) ? implicit_gemm_kernels_of<Numbers, kFilters, kLayout, true>(tiling)
                           : implicit_gemm_kernels_of<Numbers, kFilters, kLayout, false>(tiling);
}

template <class Numbers, Layout kLayout>
KernelSet implicit_gemm_kernels(const Tiling& tiling) {
  return tile_of(tiling).filters == 64 ? implicit_gemm_kernels_of<Numbers, 64, kLayout>(tiling)
                                       : implicit_gemm_kernels_of<Numbers, 128, kLayout>(tiling);
}

}  // namespace megaconv::cuda
