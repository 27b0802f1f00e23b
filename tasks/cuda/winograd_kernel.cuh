// SPDX-License-Identifier: Apache-2.0
// The task kinds of Winograd, put together for the executors.
#pragma once

#include <cstddef>

#include "tasks/cuda/winograd_gemm.cuh"
#include "tasks/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

/// kTiles x kFilters: shape of a GEMM task; kTiles is also the largest group_tiles.
template <int kM, Points kPoints, int kTiles, int kFilters>
struct WinogradKernel {
  using Transforms = WinogradTransforms<kM, kPoints>;
  using Gemm = WinogradGemm<kM, kTiles, kFilters>;
  // 128 registers a thread: 64 sums, or the alpha^2 values of a transform, fit; two workers hide each
  // other's latencies.
  static constexpr int kBlocksPerSm = 2;

  /// Dynamic shared memory of a task kind; NHWC transforms need none.
  static constexpr int shared_bytes(TaskKind kind, Layout layout) {
    switch (kind) {
      case TaskKind::gemm:
        return Gemm::kSharedBytes;
      case TaskKind::input_transform:
      case TaskKind::output_transform:
        return layout == Layout::nchw ? Transforms::kSharedBytes : 0;
      default:
        return 0;
    }
  }

  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& args, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      Transforms::filter(args, task.block);
    } else if constexpr (kKind == TaskKind::input_transform) {
      Transforms::input(args, task.group, task.block, reinterpret_cast<float*>(shared));
    } else if constexpr (kKind == TaskKind::gemm) {
      Gemm::run(args, task.group, task.block, *reinterpret_cast<typename Gemm::Tile::Shared*>(shared));
    } else if constexpr (kKind == TaskKind::output_transform) {
      Transforms::output(args, task.group, task.block, reinterpret_cast<float*>(shared));
    }
  }
};

}  // namespace megaconv::cuda
