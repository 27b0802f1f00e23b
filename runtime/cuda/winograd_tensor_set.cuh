// SPDX-License-Identifier: Apache-2.0
// The Winograd kernels on tensor cores: split FP16 operands, or single ones. sm_90a only.
#pragma once

#include "runtime/cuda/redo.cuh"
#include "runtime/cuda/winograd_set.cuh"
#include "tasks/cuda/winograd_tensor.cuh"

namespace megaconv::cuda {

template <int kM, Points kPoints, Layout kLayout, class TileType, class Stored>
struct WinogradTensorKernel
    : WinogradKernel<kM, kLayout, TileType,
                     WinogradTensorTransforms<kM, kPoints, kLayout, TileType, Stored>> {
  using Transforms = WinogradTensorTransforms<kM, kPoints, kLayout, TileType, Stored>;
  using Base = WinogradKernel<kM, kLayout, TileType, Transforms>;
  static constexpr int kThreads = Base::kThreads;

  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& a, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) {
      FilterFooter& footer = Transforms::footer(a);
      if (task.block == 0 && threadIdx.x == 0) footer.tasks_taken = footer.tasks_redone = 0;
    }
    Base::template run<kKind>(a, task, shared);
  }

  /// Filters, if they were transformed in this run; then all groups of tiles, if these or they
  /// themselves need it.
  static __device__ void redo(TaskArgs a, const Task*, std::uint32_t, std::uint32_t num_groups,
                              std::byte* shared) {
    const bool filters = a.w != nullptr && redo_filters(a, shared);
    const auto tasks = [](int down, int across) {
      return static_cast<std::uint32_t>(down * across);
    };
    const auto parts = [](int whole, int part) { return (whole + part - 1) / part; };
    const std::uint32_t inputs = tasks(a.tile_chunks, a.input_channel_chunks);
    const float scale =
        corrected_scale<kThreads>(Transforms::kInputGuess, a.x_magnitudes, num_groups * inputs);
    if (scale == 0.0f && !filters) return;
    if (scale != 0.0f) a.x_scale = scale;
    const std::uint32_t gemms = tasks(parts(Transforms::kPositions, a.positions_per_gemm_task),
                                      parts(a.k_padded, a.filters_per_gemm_task));
    const std::uint32_t outputs =
        tasks(a.tile_chunks, parts(a.k_padded, a.filters_per_output_task));

    // A block takes whole groups, and has a slot of V and M to itself.
    const auto slots = min(gridDim.x, static_cast<unsigned>(min(a.v_slots, a.m_slots)));
    const std::uint32_t slot = blockIdx.x;
    if (slot >= slots) return;
    a.v += slot * Transforms::kPositions * Transforms::position_stride(a, TileType::kRows) *
           static_cast<std::int64_t>(sizeof(__half)) / static_cast<std::int64_t>(sizeof(float));
    a.m += slot * Transforms::kPositions * static_cast<std::int64_t>(a.gemm_tiles) * a.k_padded;
    a.v_slots = a.m_slots = 1;
    const auto run_all = [&]<TaskKind kKind>(std::uint32_t group, std::uint32_t count) {
      for (std::uint32_t block = 0; block < count; ++block) {
        Base::template run<kKind>(a, Task{.kind = kKind, .group = group, .block = block}, shared);
        __syncthreads();
      }
    };
    for (std::uint32_t group = slot; group < num_groups; group += slots) {
      run_all.template operator()<TaskKind::input_transform>(group, inputs);
      run_all.template operator()<TaskKind::gemm>(group, gemms);
      run_all.template operator()<TaskKind::output_transform>(group, outputs);
    }
  }

 private:
  // All filter tasks once more, unless the guess was right. A block that waits for the others waits
  // for tasks only that they have begun.
  static __device__ bool redo_filters(TaskArgs a, std::byte* shared) {
    FilterFooter& footer = Transforms::footer(a);
    const int down = (a.k_padded + a.filters_per_filter_task - 1) / a.filters_per_filter_task;
    const auto num_tasks = static_cast<std::uint32_t>(down * a.filter_channel_chunks);
    const float scale = corrected_scale<kThreads>(Transforms::kFilterGuess, footer.most, num_tasks);
    if (scale == 0.0f) return false;
    a.w_scale = scale;
    __shared__ std::uint32_t taken;
    for (;;) {
      if (threadIdx.x == 0) taken = DeviceSync::fetch_add_relaxed(footer.tasks_taken, 1);
      __syncthreads();
      const std::uint32_t block = taken;
      if (block >= num_tasks) break;
      Base::template run<TaskKind::filter_transform>(
          a, Task{.kind = TaskKind::filter_transform, .block = block}, shared);
      __syncthreads();
      if (threadIdx.x == 0) DeviceSync::add_release(footer.tasks_redone, 1);
    }
    if (threadIdx.x == 0) {
      while (DeviceSync::load_acquire(footer.tasks_redone) < num_tasks) __nanosleep(100);
    }
    __syncthreads();
    return true;
  }
};

/// kParts: FP16 numbers in the place of one.
template <int kM, Points kPoints, Layout kLayout, int kParts, class Stored = float>
KernelSet winograd_tensor_kernels(const Tiling& tiling) {
  const auto make = [&]<int kFilters>() {
    using Tile = TensorTile<kFilters, TensorOperand<kParts>>;
    using Kernel = WinogradTensorKernel<kM, kPoints, kLayout, Tile, Stored>;
    KernelSet set = make_winograd_set<Kernel>(tiling, to_string(tiling.arithmetic));
    set.redo = reinterpret_cast<const void*>(&redo_kernel<Kernel>);
    set.x_scale = Kernel::Transforms::kInputGuess.scale;
    set.w_scale = Kernel::Transforms::kFilterGuess.scale;
    set.number_bytes = kParts * static_cast<int>(sizeof(__half));
    set.capability = 90;
    return set;
  };
  check_room(tiling, 128, 128, "128 x 128");
  return tiling.filter_blocks_per_gemm_task * Tiling::kLaneBlock <= 64
             ? make.template operator()<64>()
             : make.template operator()<128>();
}

}  // namespace megaconv::cuda
