// SPDX-License-Identifier: Apache-2.0
// Direct tasks on tensor cores, put together for the executors.
#pragma once

#include <cstddef>

#include "runtime/cuda/kernel_set.cuh"
#include "tasks/direct/cuda/direct_few_filters.cuh"
#include "tasks/direct/cuda/direct_mma.cuh"

namespace megaconv::cuda {

template <class Stored, int kSteps>
struct FewTermsKernel {
  using Direct = MmaTask<Stored, kSteps>;
  static constexpr int kThreads = Direct::kThreads;
  static constexpr int kBlocksPerSm = Direct::kBlocksPerSm;

  static constexpr bool waits_itself(TaskKind kind) { return kind == TaskKind::direct; }

  static constexpr int shared_bytes(TaskKind kind) {
    return kind == TaskKind::direct ? static_cast<int>(sizeof(typename Direct::Shared)) : 0;
  }
  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& args, const Task& task,
                             [[maybe_unused]] std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      Direct::pack_filters(args, task.block);
    } else if constexpr (kKind == TaskKind::direct) {
      Direct::run(args, task.group, task.block, *reinterpret_cast<typename Direct::Shared*>(shared),
                  [] { wait_for_kernel_before(); });
    }
  }
};

template <class Stored, int kQuads>
struct FewFiltersKernel {
  using Direct = FewFiltersTask<Stored, kQuads>;
  static constexpr int kThreads = Direct::kThreads;
  static constexpr int kBlocksPerSm = Direct::kBlocksPerSm;

  static constexpr bool waits_itself(TaskKind kind) { return kind == TaskKind::direct; }

  static constexpr int shared_bytes(TaskKind kind) {
    return kind == TaskKind::direct ? static_cast<int>(sizeof(typename Direct::Shared)) : 0;
  }
  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& args, const Task& task,
                             [[maybe_unused]] std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      Direct::pack_filters(args, task.block);
    } else if constexpr (kKind == TaskKind::direct) {
      Direct::run(args, task.group, *reinterpret_cast<typename Direct::Shared*>(shared),
                  [] { wait_for_kernel_before(); });
    }
  }
};

// A kernel of all steps of sums would take longer to start.
template <class Stored, std::size_t kIndex = 0>
KernelSet few_terms_kernels(std::int64_t steps) {
  constexpr std::int64_t kSteps = kMmaSteps[kIndex], kMost = most_mma_steps(sizeof(Stored));
  if constexpr (kSteps < kMost) {
    if (steps != kSteps) return few_terms_kernels<Stored, kIndex + 1>(steps);
  }
  return make_kernel_set<FewTermsKernel<Stored, static_cast<int>(kSteps)>,
                         Stage<TaskKind::filter_transform>, Stage<TaskKind::direct>>(
      "direct, of few terms, on tensor cores");
}

template <class Stored>
KernelSet few_filters_kernels(std::int64_t part) {
  using Filters = Stage<TaskKind::filter_transform>;
  using Direct = Stage<TaskKind::direct>;
  constexpr auto kName = "direct, of few filters, on tensor cores";
  if constexpr (sizeof(Stored) == sizeof(std::uint16_t)) {
    if (part == 2 * kMmaQuad) {
      return make_kernel_set<FewFiltersKernel<Stored, 2>, Filters, Direct>(kName);
    }
  }
  return make_kernel_set<FewFiltersKernel<Stored, 1>, Filters, Direct>(kName);
}

template <class Stored>
KernelSet direct_mma_kernels(const Tiling& tiling) {
  const ConvProblem& problem = tiling.problem;
  return has_few_filters(problem) ? few_filters_kernels<Stored>(few_filter_part(problem))
                                  : few_terms_kernels<Stored>(mma_steps(problem));
}

}  // namespace megaconv::cuda
