// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's tasks on operands in place, put together for the executors: tensors as they are,
// or what tasks make of them. sm_90a only.
#pragma once

#include <string>

#include "runtime/cuda/kernel_set.cuh"
#include "runtime/cuda/redo_kernel.cuh"
#include "runtime/cuda/stream_kernel.cuh"
#include "tasks/implicit_gemm/cuda/implicit_gemm_in_place.cuh"
#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv::cuda {

template <class Numbers, Operands kOperands, bool kSharesChannels>
struct ImplicitGemmInPlaceKernel : ImplicitGemmGuesses<Numbers> {
  using Gemm = ImplicitGemmInPlaceTask<Numbers, kOperands, kSharesChannels>;
  static constexpr int kThreads = Gemm::kThreads;
  static constexpr int kBlocksPerSm = 1;
  static constexpr bool kMakesOperands = true;  ///< copies of w and x, of those that have them
  static constexpr bool kCopiesInput = kOperands == Operands::in_copy;
  static constexpr bool kConverts = Gemm::kConverts || Gemm::kConvertsRows;
  static constexpr bool kClusters = Gemm::kClusters;
  /// The stage of direct tasks checks the scales: all magnitudes are noted before it begins, or
  /// blocks note those of what they multiply, and compute that again by themselves.
  static constexpr bool kChecksScales = kCopiesInput || Gemm::kConvertsRows;
  static constexpr int stage_blocks_per_sm(TaskKind) { return 1152 / kThreads; }
  // x itself does not depend on the stages before.
  static constexpr bool reads_ahead(TaskKind kind) {
    return kOperands == Operands::converted && kind == TaskKind::direct;
  }

  static constexpr int shared_bytes(TaskKind kind) {
    return kind == TaskKind::direct ? kSharedBytesInPlace : 0;
  }
  /// Filter and input tasks.
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
  static __device__ __forceinline__ void run_once(const TaskArgs& a, const Task& task, std::byte*) {
    const std::uint32_t input = task.group * static_cast<std::uint32_t>(a.input_tasks) + task.block;
    if constexpr (kKind == TaskKind::filter_transform) {
      if constexpr (Numbers::kScaled) {
        convert_filters<kThreads, Gemm::kConvertsRows, Gemm::kSplitsRows>(a, task.block);
      } else {
        a.groups == 1 ? copy_filters_to_depth<typename Numbers::Stored, kThreads>(a, task.block)
                      : join_filters_of_groups<typename Numbers::Stored, kThreads>(a, task.block);
      }
    } else if constexpr (kKind == TaskKind::input_transform) {
      if constexpr (Numbers::kScaled) {
        convert_input<kThreads>(a, input);
      } else {
        copy_input_to_depth<typename Numbers::Stored, kThreads>(a, input);
      }
    }
  }

  /// Called by all threads of a block.
  static __device__ __forceinline__ typename Gemm::Shared open(const TaskArgs& a,
                                                               std::byte* shared) {
    return Gemm::open(a, shared);
  }
  /// Direct tasks, by all threads of a block, which call wait() before they touch a tensor.
  template <class Source, class Wait>
  static __device__ __forceinline__ void multiply(const TaskArgs& a, float x_scale, Source& source,
                                                  const typename Gemm::Shared& shared, Wait wait) {
    const auto note = [&](const Task& task, int index, MagnitudeBits magnitude) {
      a.x_magnitudes[task.group * noted_of_group(a) + static_cast<std::uint32_t>(index)] =
          magnitude;
    };
    Gemm::run(
        a, x_scale, source, shared, wait, [](unsigned) {}, note);
    Gemm::close();
  }
  /// The same of a stage, and everything again if the guesses did not suit what the stage before
  /// or the block itself has noted: in place of a kernel behind the run, for which the next one
  /// would wait.
  template <class Wait>
  static __device__ __forceinline__ void multiply_and_check(const TaskArgs& args, const Task* tasks,
                                                            std::uint32_t num_tasks,
                                                            std::byte* shared, Wait wait) {
    __shared__ LargestNoted most;
    if (threadIdx.x == 0) most = {};
    const auto num_groups = static_cast<std::uint32_t>(args.num_groups);
    TasksInTurn source(tasks, num_tasks);
    const auto check = [&](unsigned checker) {
      auto noted = noted_of_run<ImplicitGemmInPlaceKernel>(args, num_groups);
      if constexpr (!kCopiesInput) noted.num_inputs = 0;
      if (noted.num_filters + noted.num_inputs == 0) return;
      wait();
      look_at(noted, checker, Gemm::kCheckers, most);
    };
    const auto note = [&](const Task&, int, MagnitudeBits magnitude) {
      atomicMax(&most.inputs, magnitude);
    };
    Gemm::run(args, args.x_scale, source, Gemm::open(args, shared), wait, check, note);
    Gemm::close();
    __syncthreads();
    const auto scales = corrected_scales<ImplicitGemmInPlaceKernel>(args, most);
    if (!scales.differ()) return;
    leave_right_scale(args, scales);
    TasksInTurn again(tasks, num_tasks);
    const auto reopened = Gemm::reopen(args, shared);
    const float x_scale = make_again(args, scales, num_groups, shared);
    multiply(args, x_scale, again, reopened, [] {});
  }

  static __device__ OperandFooter& footer(const TaskArgs& a) {
    return footer_of_filters<Numbers::kSplit>(a);
  }
  static __device__ std::uint32_t noted_of_group(const TaskArgs& a) {
    // Blocks of a cluster that load x for each other note the same.
    const int blocks = Gemm::kConvertsRows ? 1 : a.cluster_blocks;
    return static_cast<std::uint32_t>(kCopiesInput ? a.input_tasks : blocks * Gemm::kNotedOfBlock);
  }
  /// Filters and copies of x, whichever need it. Returns what x is multiplied by then.
  static __device__ __forceinline__ float make_again(const TaskArgs& args,
                                                     const CorrectedScales& scales,
                                                     std::uint32_t num_groups, std::byte* shared) {
    TaskArgs a = args;
    if (scales.filters != 0.0f) {
      redo_filters<ImplicitGemmInPlaceKernel>(a, footer(a), scales.filters, shared);
    }
    if (scales.inputs != 0.0f) {
      a.x_scale = scales.inputs;
      if constexpr (kCopiesInput) {
        redo_tasks<ImplicitGemmInPlaceKernel, TaskKind::input_transform>(
            a, *a.x_footer, num_groups * noted_of_group(a), shared);
      }
    }
    order_tma_after_acquire();  // of all tasks that were computed again
    return a.x_scale;
  }
  /// These, and then all direct tasks. `args` is the kernel's parameter, where TMA finds
  /// the tensor maps.
  static __device__ __forceinline__ void redo(const TaskArgs& args, const CorrectedScales& scales,
                                              const Task* tasks, std::uint32_t num_tasks,
                                              std::uint32_t num_groups, std::byte* shared) {
    const float x_scale = make_again(args, scales, num_groups, shared);
    const auto blocks = static_cast<std::uint32_t>(
        (args.k_padded + args.filters_per_gemm_task - 1) / args.filters_per_gemm_task);
    const std::uint32_t num_direct = num_groups * blocks;  // the last ones
    WholeTasksInTurn source(tasks + (num_tasks - num_direct), num_direct);
    multiply(args, x_scale, source, open(args, shared), [] {});
  }
};

template <class Numbers, Operands kOperands, bool kSharesChannels = false>
KernelSet make_in_place_set(const Tiling& tiling) {
  using Kernel = ImplicitGemmInPlaceKernel<Numbers, kOperands, kSharesChannels>;
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const ConvProblem problem = multiplied_problem(tiling.problem, cut.operands);
  const Stripes stripes = make_stripes(problem, static_cast<std::int32_t>(cut.cols_per_group));
  const std::int32_t filters = filters_in_place(kOperands, cut.filter_blocks_per_gemm_task);
  const std::string name =
      std::string("implicit GEMM, ") + to_string(tiling.arithmetic) +
      (Kernel::kConverts ? " converted" : " in place") + ", tiles of " + std::to_string(filters) +
      " filters x " +
      std::to_string(tile_places_in_place(cut.places_per_group, stripes, kOperands, problem.c)) +
      " padded pixels";
  KernelSet set{};
  if constexpr (Kernel::kConverts) {
    set = make_streaming_kernel_set<Kernel, Stage<TaskKind::filter_transform>,
                                    StreamingStage<TaskKind::direct>>(name);
    set.noted_of_block = Kernel::Gemm::kNotedOfBlock;
  } else if constexpr (kOperands == Operands::in_copy) {
    set = make_streaming_kernel_set<Kernel,
                                    Stage<TaskKind::filter_transform, TaskKind::input_transform>,
                                    StreamingStage<TaskKind::direct>>(name);
  } else {
    set = make_streaming_kernel_set<Kernel,
                                    Stage<TaskKind::filter_transform, TaskKind::input_transform>,
                                    StreamingStage<TaskKind::direct>>(name);
    set.filters_in_place = filters_are_operands(tiling.problem, kOperands);
  }
  set.stage_checks_scales = Kernel::kChecksScales;
  if constexpr (Numbers::kScaled) set.redo = reinterpret_cast<const void*>(&redo_kernel<Kernel>);
  set.x_scale = Kernel::kInputGuess.scale;
  set.w_scale = Kernel::kFilterGuess.scale;
  set.operands = kOperands;
  set.gemm_filters = filters;
  set.channel_multiple = Numbers::kSplit ? kPieceChannels : Numbers::kDepth;
  return set;
}

template <class Numbers, Operands kOperands>
KernelSet implicit_gemm_in_place_kernels(const Tiling& tiling) {
  if constexpr (may_share_channels(kOperands)) {
    if (channel_shares(tiling) > 1) return make_in_place_set<Numbers, kOperands, true>(tiling);
  }
  return make_in_place_set<Numbers, kOperands>(tiling);
}

}  // namespace megaconv::cuda
