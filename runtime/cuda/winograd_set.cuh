// SPDX-License-Identifier: Apache-2.0
// The Winograd kernels of one tile size, set of points and memory order.
#pragma once

#include <string>

#include "megaconv/error.hpp"
#include "runtime/cuda/kernel_set.cuh"
#include "tasks/cuda/simt_tile.cuh"
#include "tasks/tiling.hpp"
#include "tasks/winograd/cuda/winograd_kernel.cuh"

namespace megaconv::cuda {

/// Throws Error(unsupported) for sizes that the kernels' tasks have no room for, or that are not
/// whole runs of V.
inline void check_room(const Tiling& tiling, int tiles, int filters, const char* rooms) {
  const auto& cut = std::get<WinogradCut>(tiling.cut);
  const std::uint32_t num_filters = cut.filter_blocks_per_gemm_task * Tiling::kLaneBlock;
  if (cut.group_tiles > static_cast<std::uint32_t>(tiles) ||
      num_filters > static_cast<std::uint32_t>(filters)) {
    throw Error(Status::unsupported, "cuda: GEMM tasks of " + std::to_string(cut.group_tiles) +
                                         " tiles x " + std::to_string(num_filters) +
                                         " filters, must be at most " + rooms);
  }
  const std::uint32_t run = tiles_of_v_run(tiling.arithmetic);
  if (cut.tiles_per_transform_task % run != 0 && cut.tiles_per_transform_task != cut.group_tiles) {
    throw Error(Status::unsupported,
                "cuda: transform tasks of " + std::to_string(cut.tiles_per_transform_task) +
                    " tiles, must be a multiple of " + std::to_string(run) + " or the whole group");
  }
}

/// `Kernel`: a WinogradKernel.
template <class Kernel>
KernelSet make_winograd_set(const Tiling& tiling, const std::string& arithmetic) {
  using Tile = typename Kernel::Tile;
  const std::string m = std::to_string(tiling.tiles()->m);
  KernelSet set =
      make_kernel_set<Kernel, Stage<TaskKind::filter_transform, TaskKind::input_transform>,
                      Stage<TaskKind::gemm>, Stage<TaskKind::output_transform>>(
          "winograd F(" + m + "x" + m + ",3x3), " + arithmetic + ", tasks of " +
          std::to_string(Tile::kRows) + " tiles x " + std::to_string(Tile::kFilters) + " filters");
  set.gemm_tiles = Tile::kRows;
  set.gemm_filters = Tile::kFilters;
  set.channel_multiple = Tile::kDepth;
  return set;
}

/// FP32 multiply-adds. The two shapes of GEMM task: 64 tiles x 128 filters, and 128 x 64 for few
/// filters.
template <int kM, Points kPoints, Layout kLayout>
KernelSet winograd_kernels(const Tiling& tiling) {
  const auto make = [&]<int kTiles, int kFilters>() {
    using Tile = SimtTile<kTiles, kFilters, kLayout>;
    using Transforms = WinogradTransforms<kM, kPoints, kLayout, Tile::kThreads>;
    return make_winograd_set<WinogradKernel<kM, kLayout, Tile, Transforms>>(tiling, "fma");
  };
  constexpr const char* kRooms = "64 x 128 or 128 x 64";
  if (tiling.tiles()->group_tiles <= 64) {
    check_room(tiling, 64, 128, kRooms);
    return make.template operator()<64, 128>();
  }
  check_room(tiling, 128, 64, kRooms);
  return make.template operator()<128, 64>();
}

}  // namespace megaconv::cuda
