// SPDX-License-Identifier: Apache-2.0
// Direct tasks, put together for the executors, and the kernels of one memory order.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "megaconv/error.hpp"
#include "runtime/cuda/kernel_set.cuh"
#include "tasks/direct/cuda/direct.cuh"
#include "tasks/direct/cuda/direct_columns.cuh"
#include "tasks/direct/cuda/direct_depthwise.cuh"
#include "tasks/direct/cuda/direct_pointwise.cuh"

namespace megaconv::cuda {

/// Direct: a task, which may have something in shared memory.
template <class Direct, class Stored>
struct DirectKernel {
  static constexpr int kThreads = Direct::kThreads;
  static constexpr int kBlocksPerSm = 512 / kThreads;  // 128 registers a thread
  static constexpr bool kShares = requires { typename Direct::Shared; };

  static constexpr int shared_bytes(TaskKind kind) {
    if constexpr (kShares) {
      if (kind == TaskKind::direct) return static_cast<int>(sizeof(typename Direct::Shared));
    }
    return 0;
  }
  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& args, const Task& task,
                             [[maybe_unused]] std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      pack_direct_filters<kThreads, Stored>(args, task.block);
    } else if constexpr (kKind == TaskKind::direct && kShares) {
      Direct::run(args, task.group, task.block,
                  *reinterpret_cast<typename Direct::Shared*>(shared));
    } else if constexpr (kKind == TaskKind::direct) {
      Direct::run(args, task.group, task.block);
    }
  }
};

template <class Kernel>
KernelSet direct_kernel_set(const std::string& name) {
  return make_kernel_set<Kernel, Stage<TaskKind::filter_transform>, Stage<TaskKind::direct>>(
      "direct, " + name);
}

inline std::string shape_text(const DirectShape& shape) {
  const auto product = [](std::uint32_t i, std::uint32_t h, std::uint32_t w) {
    return std::to_string(i) + " x " + std::to_string(h) + " x " + std::to_string(w);
  };
  return product(shape.i_tile, shape.h_tile, shape.w_tile) + " outputs a thread, " +
         product(shape.i_local, shape.h_local, shape.w_local) + " threads";
}

template <Layout kLayout, class Stored = float>
KernelSet direct_kernels(const Tiling& tiling) {
  const auto& cut = std::get<DirectCut>(tiling.cut);
  const std::uint32_t blocks = cut.filter_blocks_per_gemm_task;
  const bool pointwise = has_few_channels_of_pixels(tiling.problem);
  if (tiling.problem.depthwise() || pointwise) {
    const std::string kind = pointwise ? "1x1" : "depthwise";
    const std::uint64_t outputs =
        std::uint64_t{blocks} * Tiling::kLaneBlock * cut.rows_per_group * cut.cols_per_group;
    if (outputs > kMostTaskOutputs) {
      throw Error(Status::unsupported, "cuda: " + kind + " tasks of " + std::to_string(outputs) +
                                           " outputs, must be at most " +
                                           std::to_string(kMostTaskOutputs));
    }
    if constexpr (kLayout == Layout::nhwc) {
      if (writes_columns(tiling.problem)) {
        return direct_kernel_set<DirectKernel<ColumnsTask<Stored>, Stored>>(
            kind + " on few channels, in columns");
      }
      if (pointwise) {
        return direct_kernel_set<DirectKernel<PointwiseTask<Stored>, Stored>>(kind +
                                                                              " on few channels");
      }
    }
    return direct_kernel_set<DirectKernel<DepthwiseTask<kLayout, Stored>, Stored>>(kind);
  }
  const auto groups = static_cast<std::uint32_t>(tiling.problem.groups);
  if (groups > 1 && tiling.filter_blocks() / groups % blocks != 0) {
    throw Error(Status::unsupported, "cuda: direct tasks of " + std::to_string(blocks) +
                                         " lane blocks of filters, must divide the " +
                                         std::to_string(tiling.filter_blocks() / groups) +
                                         " of a conv group");
  }
  const std::uint32_t filters = blocks * Tiling::kLaneBlock;
  KernelSet set{};
  const auto try_shape = [&]<int kShape>() {
    constexpr DirectShape kTile = kDirectShapes[kShape];
    if constexpr (kTile.is_compiled_for(sizeof(Stored))) {
      if (!set.name.empty() || !kTile.has_room(cut.rows_per_group, cut.cols_per_group, filters)) {
        return;
      }
      set = direct_kernel_set<DirectKernel<DirectTask<kShape, kLayout, Stored>, Stored>>(
          shape_text(kTile));
    }
  };
  [&]<int... kShape>(std::integer_sequence<int, kShape...>) {
    (try_shape.template operator()<kShape>(), ...);
  }
  (std::make_integer_sequence<int, static_cast<int>(std::size(kDirectShapes))>{});
  if (set.name.empty()) {
    throw Error(Status::unsupported, "cuda: direct tasks of " + std::to_string(filters) +
                                         " filters x " + std::to_string(cut.rows_per_group) +
                                         " x " + std::to_string(cut.cols_per_group) +
                                         " pixels, must be at most 128 x 8 x 16 or 32 x 16 x 16");
  }
  return set;
}

}  // namespace megaconv::cuda
