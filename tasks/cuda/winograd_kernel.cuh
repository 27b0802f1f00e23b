// SPDX-License-Identifier: Apache-2.0
// The task kinds of Winograd, put together for the executors.
#pragma once

#include <cstddef>

#include "tasks/cuda/winograd_gemm.cuh"
#include "tasks/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

/// kTiles x kFilters: shape of a GEMM task; kTiles is also the largest group_tiles.
template <int kM, Points kPoints, Layout kLayout, int kTiles, int kFilters>
struct WinogradKernel {
  using Gemm = WinogradGemm<kM, kLayout, kTiles, kFilters>;
  static constexpr int kThreads = Gemm::Tile::kThreads;
  using Transforms = WinogradTransforms<kM, kPoints, kLayout, kThreads>;
  // 128 registers a thread: 64 sums, or the alpha^2 values of a transform, fit. With four workers
  // of 128 threads on an SM, three keep the multipliers busy while one waits for memory.
  static constexpr int kBlocksPerSm = 512 / kThreads;

  /// Dynamic shared memory of a task.
  static constexpr int shared_bytes(TaskKind kind) {
    switch (kind) {
      case TaskKind::gemm:
        return static_cast<int>(sizeof(typename Gemm::Shared));
      case TaskKind::input_transform:
        return Transforms::kPatchBytes;
      default:
        return 0;
    }
  }

  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& args, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      Transforms::filter(args, task.block);
    } else if constexpr (kKind == TaskKind::input_transform) {
      Transforms::input(args, task.group, task.block, shared);
    } else if constexpr (kKind == TaskKind::gemm) {
      Gemm::run(args, task.group, task.block, *reinterpret_cast<typename Gemm::Shared*>(shared));
    } else if constexpr (kKind == TaskKind::output_transform) {
      Transforms::output(args, task.group, task.block);
    }
  }
};

}  // namespace megaconv::cuda
