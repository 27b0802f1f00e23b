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
  static constexpr ScaleGuess kInputGuess = Transforms::kInputGuess,
                              kFilterGuess = Transforms::kFilterGuess;

  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& a, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) prepare_redo(task, Transforms::footer(a));
    run_once<kKind>(a, task, shared);
  }
  template <TaskKind kKind>
  static __device__ void run_once(const TaskArgs& a, const Task& task, std::byte* shared) {
    Base::template run<kKind>(a, task, shared);
  }

  /// Filters, if they were transformed in this run; then all groups of tiles, if these or they
  /// themselves need it.
  static __device__ void redo(TaskArgs a, const Task*, std::uint32_t, std::uint32_t num_groups,
                              std::byte* shared) {
    const auto tasks = [](int down, int across) {
      return static_cast<std::uint32_t>(down * across);
    };
    const auto parts = [](int whole, int part) { return (whole + part - 1) / part; };
    const std::uint32_t inputs = tasks(a.tile_chunks, a.input_channel_chunks);
    const CorrectedScales scales =
        corrected_scales<WinogradTensorKernel>(a, Transforms::footer(a), num_groups * inputs);
    if (scales.filters == 0.0f && scales.inputs == 0.0f) return;
    if (scales.filters != 0.0f) {
      redo_filters<WinogradTensorKernel>(a, Transforms::footer(a), scales.filters, shared);
    }
    if (scales.inputs != 0.0f) a.x_scale = scales.inputs;
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
        run_once<kKind>(a, Task{.kind = kKind, .group = group, .block = block}, shared);
        __syncthreads();
      }
    };
    for (std::uint32_t group = slot; group < num_groups; group += slots) {
      run_all.template operator()<TaskKind::input_transform>(group, inputs);
      run_all.template operator()<TaskKind::gemm>(group, gemms);
      run_all.template operator()<TaskKind::output_transform>(group, outputs);
    }
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
    set.x_scale = Kernel::kInputGuess.scale;
    set.w_scale = Kernel::kFilterGuess.scale;
    set.capability = 90;
    return set;
  };
  check_room(tiling, 128, 128, "128 x 128");
  return tiling.filter_blocks_per_gemm_task * Tiling::kLaneBlock <= 64
             ? make.template operator()<64>()
             : make.template operator()<128>();
}

}  // namespace megaconv::cuda
