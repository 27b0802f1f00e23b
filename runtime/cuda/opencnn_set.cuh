// SPDX-License-Identifier: Apache-2.0
// openCNN's tasks, put together for the executors, and the kernels of one memory order.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/cuda/kernel_set.cuh"
#include "tasks/opencnn/cuda/opencnn.cuh"
#include "tasks/opencnn/cuda/opencnn_filter.cuh"

namespace megaconv::cuda {

template <OutputLayout kOutput, Layout kLayout>
struct OpencnnKernel {
  using Fused = OpencnnTask<kOutput, kLayout>;
  static constexpr int kThreads = kBlockThreads;
  // 128 sums a thread and what feeds them take all 255 registers.
  static constexpr int kBlocksPerSm = 1;

  static constexpr int shared_bytes(TaskKind kind) {
    return kind == TaskKind::direct ? static_cast<int>(sizeof(typename Fused::SharedStorage)) : 0;
  }

  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& args, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      OpencnnFilterTransform<kLayout>::run(args, task.block);
    } else if constexpr (kKind == TaskKind::direct) {
      Fused::run(args, task.group, task.block, shared);
    }
  }
};

template <Layout kLayout>
KernelSet opencnn_kernels(const Tiling& tiling) {
  const OutputLayout layout = std::get<OpencnnCut>(tiling.cut).output_layout;
  const std::string name = std::string("opencnn F(2x2,3x3), ") + to_string(layout);
  const auto make = [&]<OutputLayout kOutput>() {
    using OfAnyOutput = OpencnnKernel<OutputLayout::optSTS64, kLayout>;
    return make_kernel_set<OpencnnKernel<kOutput, kLayout>,
                           SharedStage<OfAnyOutput, TaskKind::filter_transform>,
                           Stage<TaskKind::direct>>(name);
  };
  switch (layout) {
    case OutputLayout::baseline:
      return make.template operator()<OutputLayout::baseline>();
    case OutputLayout::optSTS64:
      return make.template operator()<OutputLayout::optSTS64>();
    case OutputLayout::optSTS64_compact:
      return make.template operator()<OutputLayout::optSTS64_compact>();
    default:
      return make.template operator()<OutputLayout::optLDS64>();
  }
}

}  // namespace megaconv::cuda
