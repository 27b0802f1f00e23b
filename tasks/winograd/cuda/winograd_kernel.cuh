// SPDX-License-Identifier: Apache-2.0
// The task kinds of Winograd, put together for the executors.
#pragma once

#include <cstddef>

#include "tasks/winograd/cuda/winograd_gemm.cuh"

namespace megaconv::cuda {

/// TileType: the matrix tile of its GEMM tasks; TransformTasks: filter, input and output tasks that
/// write that tile's operands.
template <int kM, Layout kLayout, class TileType, class TransformTasks>
struct WinogradKernel {
  using Tile = TileType;
  using Gemm = WinogradGemm<kM, kLayout, Tile>;
  static constexpr int kThreads = Tile::kThreads;
  // Several workers on an SM keep the multipliers busy while one waits for memory; with the threads
  // of all, 128 registers a thread remain.
  static constexpr int kBlocksPerSm = Tile::kBlocksPerSm;
  /// In a stage of one kind: outputs of one filter a thread leave room for more loads on their way.
  static constexpr int stage_blocks_per_sm(TaskKind kind) {
    const bool narrow = kind == TaskKind::output_transform && kLayout == Layout::nchw && kM == 4;
    return narrow ? kBlocksPerSm * 3 / 2 : kBlocksPerSm;
  }

  /// Dynamic shared memory of a task.
  static constexpr int shared_bytes(TaskKind kind) {
    switch (kind) {
      case TaskKind::gemm:
        return static_cast<int>(sizeof(typename Tile::Shared));
      case TaskKind::input_transform:
        return TransformTasks::kPatchBytes;
      case TaskKind::output_transform:
        return TransformTasks::kOutputBytes;
      default:
        return 0;
    }
  }

  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& args, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      TransformTasks::filter(args, task.block);
    } else if constexpr (kKind == TaskKind::input_transform) {
      TransformTasks::input(args, task.group, task.block, shared);
    } else if constexpr (kKind == TaskKind::gemm) {
      Gemm::run(args, task.group, task.block, *reinterpret_cast<typename Tile::Shared*>(shared));
    } else if constexpr (kKind == TaskKind::output_transform) {
      TransformTasks::output(args, task.group, task.block, shared);
    }
  }
};

}  // namespace megaconv::cuda
