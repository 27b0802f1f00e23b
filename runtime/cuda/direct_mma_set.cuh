// SPDX-License-Identifier: Apache-2.0
// Direct tasks on tensor cores, put together for the executors.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/cuda/kernel_set.cuh"
#include "tasks/direct/cuda/direct_few_filters.cuh"
#include "tasks/direct/cuda/direct_mma.cuh"
#include "tasks/direct/cuda/direct_pixel_stream.cuh"

namespace megaconv::cuda {

/// Direct: a task, which packs its filters itself.
template <class Direct>
struct DirectMmaKernel {
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

template <class Direct>
KernelSet direct_mma_set(const char* of_what) {
  return make_kernel_set<DirectMmaKernel<Direct>, Stage<TaskKind::filter_transform>,
                         Stage<TaskKind::direct>>(std::string("direct, of few ") + of_what +
                                                  ", on tensor cores");
}

// A kernel of all steps of sums would take longer to start.
template <class Stored, std::size_t kIndex = 0>
KernelSet few_terms_kernels(std::int64_t steps) {
  constexpr std::int64_t kSteps = kMmaSteps[kIndex], kMost = most_mma_steps(sizeof(Stored));
  if constexpr (kSteps < kMost) {
    if (steps != kSteps) return few_terms_kernels<Stored, kIndex + 1>(steps);
  }
  return direct_mma_set<MmaTask<Stored, static_cast<int>(kSteps)>>("terms");
}

template <class Stored>
KernelSet few_filters_kernels(std::int64_t part) {
  if constexpr (sizeof(Stored) == sizeof(std::uint16_t)) {
    if (part == 2 * kMmaQuad) return direct_mma_set<FewFiltersTask<Stored, 2>>("filters");
  }
  return direct_mma_set<FewFiltersTask<Stored, 1>>("filters");
}

template <class Stored>
KernelSet pixel_stream_kernels(const PixelStream& stream) {
  KernelSet set;
  constexpr int kChannels = static_cast<int>(kMmaQuad);
  constexpr const char* kWhat = "channels or filters of pixels";
  if constexpr (sizeof(Stored) == sizeof(std::uint16_t)) {
    if (stream.channels == 2 * kChannels) set = direct_mma_set<PixelStreamTask<Stored, 2>>(kWhat);
  }
  if (stream.channels == kChannels) set = direct_mma_set<PixelStreamTask<Stored, 1>>(kWhat);
  set.shared_bytes[static_cast<int>(TaskKind::direct)] = stream.shared_bytes();
  set.most_shared_bytes = stream.shared_bytes();
  return set;
}

template <class Stored>
KernelSet direct_mma_kernels(const Tiling& tiling) {
  const ConvProblem& problem = tiling.problem;
  if (streams_pixels(problem)) {
    return pixel_stream_kernels<Stored>(pixel_stream(problem.c, problem.k, sizeof(Stored)));
  }
  return has_few_filters(problem) ? few_filters_kernels<Stored>(few_filter_part(problem))
                                  : few_terms_kernels<Stored>(mma_steps(problem));
}

}  // namespace megaconv::cuda
