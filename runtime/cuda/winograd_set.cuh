// SPDX-License-Identifier: Apache-2.0
// The Winograd kernels of one tile size, set of points and memory order.
#pragma once

#include <string>

#include "megaconv/error.hpp"
#include "runtime/cuda/kernel_set.cuh"
#include "tasks/cuda/winograd_kernel.cuh"

namespace megaconv::cuda {

/// The two shapes of GEMM task: 64 tiles x 128 filters, and 128 x 64 for few filters.
template <int kM, Points kPoints, Layout kLayout>
KernelSet winograd_kernels(const Tiling& tiling) {
  const auto make = [&]<int kTiles, int kFilters>() {
    const std::string size = std::to_string(kM) + "x" + std::to_string(kM);
    KernelSet set = make_kernel_set<WinogradKernel<kM, kPoints, kLayout, kTiles, kFilters>,
                                    TaskKind::filter_transform, TaskKind::input_transform,
                                    TaskKind::gemm, TaskKind::output_transform>(
        "winograd F(" + size + ",3x3), tasks of " + std::to_string(kTiles) + " tiles x " +
        std::to_string(kFilters) + " filters");
    set.gemm_tiles = kTiles;
    set.gemm_filters = kFilters;
    return set;
  };
  // Transform tasks write V in runs of 4 tiles.
  if (tiling.tiles_per_transform_task % 4 != 0 &&
      tiling.tiles_per_transform_task != tiling.group_tiles) {
    throw Error(Status::unsupported, "cuda: transform tasks of " +
                                         std::to_string(tiling.tiles_per_transform_task) +
                                         " tiles, must be a multiple of 4 or the whole group");
  }
  const std::uint32_t filters = tiling.filter_blocks_per_gemm_task * Tiling::kLaneBlock;
  if (tiling.group_tiles <= 64 && filters <= 128) return make.template operator()<64, 128>();
  if (tiling.group_tiles <= 128 && filters <= 64) return make.template operator()<128, 64>();
  throw Error(Status::unsupported, "cuda: GEMM tasks of " + std::to_string(tiling.group_tiles) +
                                       " tiles x " + std::to_string(filters) +
                                       " filters, must be at most 64 x 128 or 128 x 64");
}

}  // namespace megaconv::cuda
