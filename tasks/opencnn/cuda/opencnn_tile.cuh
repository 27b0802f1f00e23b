// SPDX-License-Identifier: Apache-2.0
// Where the 32 tiles of an openCNN task lie in x and in y, for each memory order.
#pragma once

#include <cstdint>

#include "tasks/cuda/task_args.hpp"
#include "tasks/opencnn/cuda/opencnn_transforms.cuh"
#include "tasks/opencnn/opencnn_blocking.hpp"

namespace megaconv::cuda::opencnn {

/// One tile: its image and its place among the tiles of the image.
struct Tile {
  int n, row, col;
  bool exists;  ///< false past the last tile of a short group
};

/// Tile `tile` (0 .. kTiles - 1) of a group; num_groups() says how they are counted.
template <Layout kLayout>
__device__ inline Tile locate(const TaskArgs& args, std::uint32_t group, int tile) {
  const unsigned per_image = static_cast<unsigned>(args.tiles_h * args.tiles_w);
  unsigned n, place;
  if constexpr (kLayout == Layout::chwn) {
    const unsigned groups_per_place = (static_cast<unsigned>(args.n) + kTiles - 1) / kTiles;
    place = group / groups_per_place;
    n = group % groups_per_place * kTiles + static_cast<unsigned>(tile);
  } else {
    const unsigned index = group * kTiles + static_cast<unsigned>(tile);
    n = index / per_image;
    place = index % per_image;
  }
  const unsigned tiles_w = static_cast<unsigned>(args.tiles_w);
  return {static_cast<int>(n), static_cast<int>(place / tiles_w), static_cast<int>(place % tiles_w),
          n < static_cast<unsigned>(args.n)};
}

/// Distances between neighbours of an activation tensor, in floats.
struct Strides {
  std::int64_t image, channel, row, column;
};

/// Of a tensor of `channels` channels with images of height x width.
template <Layout kLayout>
__device__ inline Strides strides_of(std::int64_t images, std::int64_t channels,
                                     std::int64_t height, std::int64_t width) {
  if constexpr (kLayout == Layout::nchw) {
    return {channels * height * width, height * width, width, 1};
  } else if constexpr (kLayout == Layout::nhwc) {
    return {height * width * channels, 1, width * channels, channels};
  } else {
    return {1, height * width * images, width * images, images};
  }
}

}  // namespace megaconv::cuda::opencnn
