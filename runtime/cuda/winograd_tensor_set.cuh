// SPDX-License-Identifier: Apache-2.0
// The Winograd kernels on tensor cores: split FP16 operands, or single ones.
#pragma once

#include "runtime/cuda/redo_kernel.cuh"
#include "runtime/cuda/winograd_set.cuh"
#include "tasks/winograd/cuda/winograd_tensor.cuh"

namespace megaconv::cuda {

template <int kM, Points kPoints, Layout kLayout, class TileType, class Stored,
          bool kInStages = false>
struct WinogradTensorKernel
    : WinogradKernel<kM, kLayout, TileType,
                     WinogradTensorTransforms<kM, kPoints, kLayout, TileType, Stored, kInStages>> {
  using Transforms = WinogradTensorTransforms<kM, kPoints, kLayout, TileType, Stored, kInStages>;
  using InStages = WinogradTensorKernel<kM, kPoints, kLayout, TileType, Stored, true>;
  using Base = WinogradKernel<kM, kLayout, TileType, Transforms>;
  static constexpr int kThreads = Base::kThreads;
  static constexpr ScaleGuess kInputGuess = Transforms::kInputGuess,
                              kFilterGuess = Transforms::kFilterGuess;

  /// Filters and inputs of F(2x2) leave room for one block more, whose loads are on their way.
  static constexpr int stage_blocks_per_sm(TaskKind kind) {
    const bool makes_operands =
        kind == TaskKind::filter_transform || kind == TaskKind::input_transform;
    return kM == 2 && makes_operands ? Base::kBlocksPerSm * 3 / 2 : Base::stage_blocks_per_sm(kind);
  }

  template <TaskKind kKind>
  static __device__ void run(const TaskArgs& a, const Task& task, std::byte* shared) {
    if constexpr (kKind == TaskKind::filter_transform) prepare_redo(task, footer(a));
    run_once<kKind>(a, task, shared);
  }
  template <TaskKind kKind>
  static __device__ void run_once(const TaskArgs& a, const Task& task, std::byte* shared) {
    Base::template run<kKind>(a, task, shared);
  }

  static __device__ OperandFooter& footer(const TaskArgs& a) { return Transforms::footer(a); }
  static __device__ std::uint32_t noted_of_group(const TaskArgs& a) {
    return Transforms::input_tasks(a);
  }
  /// Filters, if it is they that need it, then all groups of tiles.
  static __device__ void redo(const TaskArgs& args, const CorrectedScales& scales, const Task*,
                              std::uint32_t, std::uint32_t num_groups, std::byte* shared) {
    const auto parts = [](int whole, int part) {
      return static_cast<std::uint32_t>((whole + part - 1) / part);
    };
    TaskArgs a = args;
    if (scales.filters != 0.0f) {
      redo_filters<WinogradTensorKernel>(a, footer(a), scales.filters, shared);
    }
    if (scales.inputs != 0.0f) a.x_scale = scales.inputs;
    const std::uint32_t inputs = noted_of_group(a);
    const std::uint32_t gemms = parts(Transforms::kPositions, a.positions_per_gemm_task) *
                                parts(a.k_padded, a.filters_per_gemm_task);
    const std::uint32_t outputs =
        static_cast<std::uint32_t>(a.tile_chunks) * parts(a.k_padded, a.filters_per_output_task);

    // A block takes whole groups, and has a slot of V and M to itself.
    const auto slots = min(gridDim.x, static_cast<unsigned>(min(a.v_slots, a.m_slots)));
    const std::uint32_t slot = blockIdx.x;
    if (slot >= slots) return;
    a.v += slot * Transforms::kPositions * Transforms::position_stride(a, TileType::kRows) *
           static_cast<std::int64_t>(sizeof(__half)) / static_cast<std::int64_t>(sizeof(float));
    a.m = reinterpret_cast<float*>(
        slot_of_m<typename TileType::NumberOfM, kLayout>(a, slot, Transforms::kPositions).sums);
    a.v_slots = a.m_slots = 1;
    const auto run_all = [&]<TaskKind kKind>(std::uint32_t group, std::uint32_t count) {
      for (std::uint32_t block = 0; block < count; ++block) {
        run_once<kKind>(a, Task{.kind = id_of(kKind), .group = group, .block = block}, shared);
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

/// TensorTile: WgmmaTile or MmaTile; Operand: tensor_tile.cuh.
template <template <int, class, Layout> class TensorTile, int kM, Points kPoints, Layout kLayout,
          class Operand, class Stored = float>
KernelSet winograd_tensor_kernels(const Tiling& tiling) {
  const auto make = [&]<int kFilters>() {
    using Tile = TensorTile<kFilters, Operand, kLayout>;
    using Kernel = WinogradTensorKernel<kM, kPoints, kLayout, Tile, Stored>;
    KernelSet set = make_winograd_set<Kernel>(tiling, to_string(tiling.arithmetic));
    set.redo = reinterpret_cast<const void*>(&redo_kernel<Kernel>);
    set.x_scale = Kernel::kInputGuess.scale;
    set.w_scale = Kernel::kFilterGuess.scale;
    return set;
  };
  check_room(tiling, 128, 128, "128 x 128");
  return std::get<WinogradCut>(tiling.cut).filter_blocks_per_gemm_task * Tiling::kLaneBlock <= 64
             ? make.template operator()<64>()
             : make.template operator()<128>();
}

}  // namespace megaconv::cuda
