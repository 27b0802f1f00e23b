// SPDX-License-Identifier: Apache-2.0
// A K block of x in pairs whose high ones FP16 has not. Rare: so it is a function, short rather
// than fast, and costs other code no registers.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "tasks/cuda/split_f16.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/cuda/stored_pairs.cuh"

namespace megaconv::cuda {

/// Of the numbers under some rows of the filter, behind so many channels, by all threads: times a
/// power of two to the stage, if there is one, and the largest finite magnitude of a thread's.
/// Zeros beyond x are there. All are rounded, so that only wide ones need their rests.
__device__ __noinline__ inline MagnitudeBits scale_pairs(const SmallGemmArgs& a,
                                                         const SmallGemmShare& share,
                                                         const void* image, int row_block,
                                                         int channels_before, char* stage,
                                                         float scale) {
  constexpr int kPiece = 8;
  LargestFinite largest;
  const int pixel_numbers = a.pieces * kPiece;
  const int numbers = share.in_rows * a.in_cols * pixel_numbers;
  for (int i = static_cast<int>(threadIdx.x); i < numbers; i += kSmallGemmThreads) {
    const int pixel = i / pixel_numbers, number = i - pixel * pixel_numbers;
    const int row = pixel / a.in_cols, col = pixel - row * a.in_cols;
    const int h = share.row * a.stride_h - a.pad_h + row_block * a.block_rows + row * a.spacing_h;
    const int w = share.col * a.stride_w - a.pad_w + col * a.spacing_w;
    const int channel = channels_before + number;
    if (static_cast<unsigned>(h) >= static_cast<unsigned>(share.end_h) ||
        static_cast<unsigned>(w) >= static_cast<unsigned>(share.end_w) ||
        channel / kPiece * kPiece >= share.num_channels) {
      continue;
    }
    const auto* const high = static_cast<const std::uint16_t*>(image) + (h * a.x_row + w) * a.c +
                             share.first_channel + channel;
    const float x = is_wide(*high) ? wide_number(*high, high[a.w * a.c]) : number_of_half(*high);
    largest.add(x);
    if (stage == nullptr) continue;
    *reinterpret_cast<__half*>(stage + pixel * a.pitch + number * 2) = __float2half_rn(x * scale);
  }
  return largest.bits();
}

}  // namespace megaconv::cuda
