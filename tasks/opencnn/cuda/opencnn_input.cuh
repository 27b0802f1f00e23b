// SPDX-License-Identifier: Apache-2.0
// How an openCNN task brings the next channels in: input patches through registers, where they are
// transformed, and filters as they are.
#pragma once

#include <cstdint>

#include "tasks/cuda/task_args.hpp"
#include "tasks/opencnn/cuda/opencnn_tile.cuh"
#include "tasks/opencnn/cuda/opencnn_transforms.cuh"
#include "tasks/opencnn/opencnn_blocking.hpp"

namespace megaconv::cuda::opencnn {

/// V of one block of channels. Tiles are kept in groups of four, as they are read, and group g of
/// channel c stands at place g ^ 2 (c % 4). A warp then stores without bank conflicts whether its
/// lanes are 32 tiles of one channel or (nhwc) 8 tiles, two groups, of four channels:
/// {2i, 2i + 1} ^ {0, 2, 4, 6} are all eight places.
struct InputBlock {
  alignas(16) float v[kPositions][kChannels][kTiles];

  __device__ static constexpr int column(int channel, int tile) {
    return (tile / 4 ^ 2 * (channel % 4)) * 4 + tile % 4;
  }
};

/// U of half a block of channels.
struct FilterHalf {
  alignas(16) float u[kPositions][kHalfChannels][kFilters];
};

/// One tile of one channel of each block: its 4 x 4 patch of x, held in registers until its
/// transform is stored.
template <Layout kLayout>
class InputPatch {
 public:
  __device__ InputPatch(const TaskArgs& args, std::uint32_t group) : num_channels_(args.c) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    // Lanes run along what is contiguous in x: images, columns of tiles, or channels.
    constexpr bool kChannelsFast = kLayout == Layout::nhwc;
    const int tile = kChannelsFast ? warp % 4 * 8 + lane / 4 : lane;
    channel_ = kChannelsFast ? warp / 4 * kHalfChannels + lane % 4 : warp;
    at_ = channel_ * kTiles + InputBlock::column(channel_, tile);

    const Strides strides = strides_of<kLayout>(args.n, args.c, args.h, args.w_in);
    row_stride_ = static_cast<int>(strides.row);
    column_stride_ = static_cast<int>(strides.column);
    block_stride_ = kChannels * strides.channel;

    const Tile place = locate<kLayout>(args, group, tile);
    const int row = kOutputTile * place.row - args.pad_h,
              col = kOutputTile * place.col - args.pad_w;
    first_ = args.x + place.n * strides.image + row * strides.row + col * strides.column +
             min(channel_, num_channels_ - 1) * strides.channel;
    if (place.exists) {
#pragma unroll
      for (int i = 0; i < kPositions; ++i) {
        const bool inside =
            static_cast<unsigned>(row + i / kAlpha) < static_cast<unsigned>(args.h) &&
            static_cast<unsigned>(col + i % kAlpha) < static_cast<unsigned>(args.w_in);
        mask_ |= static_cast<unsigned>(inside) << i;
      }
    }
  }

  /// Reads the patch of the next block. Pixels outside the image are never loaded and stay zero.
  /// Past the last channel the last patch is read again: U is zero there.
  __device__ void load() {
    // Worked out here each time: kept over the loop, 16 addresses and predicates would spill.
    int row_stride = row_stride_, column_stride = column_stride_;
    unsigned mask = mask_;
    asm volatile("" : "+r"(row_stride), "+r"(column_stride), "+r"(mask));
    const float* row = first_;
#pragma unroll
    for (int i = 0; i < kAlpha; ++i, row += row_stride) {
#pragma unroll
      for (int j = 0; j < kAlpha; ++j) {
        if (mask >> (i * kAlpha + j) & 1) {
          patch_[i * kAlpha + j] = __ldg(row + j * column_stride);
        }
      }
    }
    channel_ += kChannels;
    if (channel_ < num_channels_) first_ += block_stride_;
  }

  /// Rows 2 `half` and 2 `half` + 1 of B^T d B.
  __device__ void store_transform(InputBlock& block, int half) const {
    float rows[kAlpha][kAlpha];  // (B^T d)^T
#pragma unroll
    for (int j = 0; j < kAlpha; ++j) {
      const float column[kAlpha] = {patch_[j], patch_[4 + j], patch_[8 + j], patch_[12 + j]};
      input_transform_1d(column, rows[j]);
    }
#pragma unroll
    for (int i = 2 * half; i < 2 * half + 2; ++i) {
      const float row[kAlpha] = {rows[0][i], rows[1][i], rows[2][i], rows[3][i]};
      float v[kAlpha];
      input_transform_1d(row, v);
#pragma unroll
      for (int j = 0; j < kAlpha; ++j) (&block.v[i * kAlpha + j][0][0])[at_] = v[j];
    }
  }

 private:
  const float* first_;  // pixel (0, 0) of the patch, in the channel to be loaded next
  std::int64_t block_stride_;
  int row_stride_, column_stride_;
  int channel_, num_channels_;
  int at_;             // in a position of InputBlock
  unsigned mask_ = 0;  // bit i: pixel i of the patch is inside the image
  float patch_[kPositions] = {};
};

/// Copies the filters of kHalfChannels channels, 16 KB in a row, without waiting for them: from
/// compute capability 8.0 straight to shared memory, before it through registers. Never through L1,
/// which does not see what other blocks of the same launch wrote.
class FilterCopy {
  static constexpr int kVectors = sizeof(FilterHalf) / (16 * kBlockThreads);

 public:
  explicit __device__ FilterCopy(const float* u)
      : from_(reinterpret_cast<const float4*>(u) + threadIdx.x) {}

  __device__ void begin([[maybe_unused]] FilterHalf& half) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#if __CUDA_ARCH__ >= 800
      const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(vector(half, i)));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                   "l"(from_ + i * kBlockThreads)
                   : "memory");
#else
      held_[i] = __ldcg(from_ + i * kBlockThreads);
#endif
    }
    from_ += kVectors * kBlockThreads;
  }

  /// What begin() copied is visible to all threads after the next barrier.
  __device__ void finish([[maybe_unused]] FilterHalf& half) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
#pragma unroll
    for (int i = 0; i < kVectors; ++i) *vector(half, i) = held_[i];
#endif
  }

 private:
  static __device__ float4* vector(FilterHalf& half, int i) {
    return reinterpret_cast<float4*>(&half.u[0][0][0]) + threadIdx.x + i * kBlockThreads;
  }

  const float4* from_;
#if __CUDA_ARCH__ < 800
  float4 held_[kVectors];
#endif
};

}  // namespace megaconv::cuda::opencnn
