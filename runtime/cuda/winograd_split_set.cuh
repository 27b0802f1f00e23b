// SPDX-License-Identifier: Apache-2.0
// The Winograd kernels on tensor cores, with split FP16 operands. sm_90a only.
#pragma once

#include "runtime/cuda/winograd_set.cuh"
#include "tasks/cuda/winograd_split.cuh"

namespace megaconv::cuda {

template <int kM, Points kPoints, Layout kLayout>
KernelSet winograd_split_kernels(const Tiling& tiling) {
  const auto make = [&]<int kFilters>() {
    using Tile = TensorTile<kFilters>;
    using Transforms = WinogradSplitTransforms<kM, kPoints, kLayout, Tile>;
    KernelSet set =
        make_winograd_set<WinogradKernel<kM, kLayout, Tile, Transforms>>(tiling, "split f16");
    set.measure = reinterpret_cast<const void*>(&measure_magnitudes);
    set.capability = 90;
    return set;
  };
  check_room(tiling, 128, 128, "128 x 128");
  return tiling.filter_blocks_per_gemm_task * Tiling::kLaneBlock <= 64
             ? make.template operator()<64>()
             : make.template operator()<128>();
}

}  // namespace megaconv::cuda
