// SPDX-License-Identifier: Apache-2.0
// Direct tasks on tensor cores, put together for the executors.
#pragma once

#include <cstddef>

#include "runtime/cuda/kernel_set.cuh"
#include "tasks/direct/cuda/direct_mma.cuh"

namespace megaconv::cuda {

template <class Stored>
struct DirectMmaKernel {
  using Direct = MmaTask<Stored>;
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

template <class Stored>
KernelSet direct_mma_kernels(const Tiling&) {
  return make_kernel_set<DirectMmaKernel<Stored>, Stage<TaskKind::filter_transform>,
                         Stage<TaskKind::direct>>("direct, on tensor cores");
}

}  // namespace megaconv::cuda
