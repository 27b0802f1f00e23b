// SPDX-License-Identifier: Apache-2.0
// Direct tasks on CUDA that stream pixels (tasks/direct/cuda/direct_pixel_stream.cuh): which
// problems are for them, and how a block cuts its shared memory. For host and device code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaconv/problem.hpp"

namespace megaconv {

/// Of a problem's channels and filters. Shared memory of a block: all filters, their scales and
/// biases; then of each warp its mbarriers, its stages of x, and two tiles of outputs.
struct PixelStream {
  static constexpr int kWarps = 8, kMostStages = 4, kOutputs = 2, kBarrierBytes = 64;
  static constexpr int kSharedBytes = 224 * 1024;  ///< of 227 KB

  int channels;        ///< of a part of a sum; a step has four
  int steps, columns;  ///< of a sum; of eight filters
  int pixels;          ///< of a warp's tile
  int stages;          ///< of x
  int warps;           ///< that work; none: there is no room
  int filter_bytes, factor_bytes, x_bytes, y_bytes, warp_bytes;

  constexpr int shared_bytes() const { return filter_bytes + factor_bytes + warps * warp_bytes; }
  constexpr int blocks_per_sm() const { return 2 * shared_bytes() <= kSharedBytes ? 2 : 1; }
};

/// With so much shared memory.
constexpr PixelStream pixel_stream(std::int64_t c, std::int64_t k, std::size_t element_bytes,
                                   int shared_bytes) {
  constexpr int kQuad = 4, kStepParts = 4, kColumn = 8, kRows = 16, kMisfit = 16, kLane = 128;
  constexpr int kTileBytes = 6 * 1024, kMostPixels = 8 * kRows, kFactorBytes = 8;
  const int element = static_cast<int>(element_bytes), own_c = static_cast<int>(c),
            own_k = static_cast<int>(k);
  PixelStream s{};
  s.channels = element == 2 && own_c % (2 * kQuad) == 0 ? 2 * kQuad : kQuad;
  s.steps = (own_c + s.channels * kStepParts - 1) / (s.channels * kStepParts);
  s.columns = (own_k + kColumn - 1) / kColumn;
  s.filter_bytes = s.steps * kStepParts * s.channels * s.columns * kColumn * element;
  s.factor_bytes = (s.columns * kColumn * kFactorBytes + kLane - 1) / kLane * kLane;
  const int room = shared_bytes - s.filter_bytes - s.factor_bytes;
  // So many pixels that a copy is worth its while.
  s.pixels = kRows;
  while (s.pixels < kMostPixels && 2 * s.pixels * (own_c + own_k) * element <= kTileBytes) {
    s.pixels *= 2;
  }
  s.x_bytes = s.pixels * own_c * element + kMisfit;
  s.y_bytes = s.pixels * own_k * element + kMisfit;
  for (s.warps = PixelStream::kWarps; s.warps > 0; --s.warps) {
    const int rest =
        room / s.warps - PixelStream::kBarrierBytes - kLane - PixelStream::kOutputs * s.y_bytes;
    s.stages = rest > 0 ? rest / s.x_bytes : 0;
    if (s.stages > 0) break;
  }
  if (s.stages > PixelStream::kMostStages) s.stages = PixelStream::kMostStages;
  s.warp_bytes = (PixelStream::kBarrierBytes + s.stages * s.x_bytes +
                  PixelStream::kOutputs * s.y_bytes + kLane - 1) /
                 kLane * kLane;
  return s;
}
/// Two blocks share a multiprocessor, if all warps of both have room.
constexpr PixelStream pixel_stream(std::int64_t c, std::int64_t k, std::size_t element_bytes) {
  const PixelStream half = pixel_stream(c, k, element_bytes, PixelStream::kSharedBytes / 2);
  if (half.warps == PixelStream::kWarps) return half;
  return pixel_stream(c, k, element_bytes, PixelStream::kSharedBytes);
}

/// Whether filters come in no vectors of 16 bytes, so that other tasks store y number by number,
/// and streams take less time. Short pixels are worth a stream only where they are many, and large
/// sums are faster by tasks that share x. (H100, docs/results/odd_filters_h100.csv)
inline bool has_odd_filters(const ConvProblem& a) {
  constexpr std::int64_t kVector = 16, kLeastPixels = 8'000, kSomePixels = 50'000;
  constexpr std::int64_t kManyPixels = 150'000, kFew = 16, kMany = 32, kShort = 16, kLong = 24;
  const auto element = static_cast<std::int64_t>(size_of(a.dtype));
  const std::int64_t pixels = a.n * a.h * a.w;
  if (a.k * element % kVector == 0 || pixels < kLeastPixels) return false;
  if (a.dtype == DataType::f32) {
    constexpr std::int64_t kMostChannels = 64, kMostFilters = 128, kMostOfShort = 64;
    const bool short_ones = pixels >= kManyPixels && a.k <= kMostOfShort;
    return (a.k >= kMany || (a.k > kFew && a.c >= kLong)) && a.c <= kMostChannels &&
           (a.c >= kShort || short_ones) && (pixels >= kSomePixels || a.k <= kMostFilters);
  }
  constexpr std::int64_t kMostChannels = 128, kFewChannels = 48, kMostWeights = 13'000;
  const bool large = a.c > kMostChannels || (a.c > kFewChannels && a.c * a.k > kMostWeights);
  const bool is_worth_it = pixels >= kSomePixels || a.c >= kLong || (a.c >= kShort && a.k >= kMany);
  return a.k > kFew && !large && is_worth_it;
}

/// Whether direct tasks on tensor cores do so: where pixels are many and short; where they are long
/// and TMA cannot load them, since they begin anywhere; and where filters are odd. Vectors of
/// floats that four filters have are stored as fast without. (H100,
/// docs/results/pixel_stream_h100.csv)
inline bool streams_pixels(const ConvProblem& a) {
  constexpr std::int64_t kManyPixels = 150'000, kShort = 24, kLessShort = 32, kFewFilters = 48;
  constexpr std::int64_t kLong = 160, kVeryFewFilters = 16, kManyBytes = 10'000'000, kVector = 16;
  constexpr std::int64_t kMostFilterBytes = 96 * 1024;
  const bool pixels = a.layout == Layout::nhwc && a.groups == 1 && a.r == 1 && a.s == 1 &&
                      a.pad_h == 0 && a.pad_w == 0 && a.stride_h == 1 && a.stride_w == 1;
  if (!pixels || a.dtype == DataType::i8 || a.c * a.k > kMostFilterBytes) return false;
  const auto element = static_cast<std::int64_t>(size_of(a.dtype));
  const bool floats = a.dtype == DataType::f32;
  const std::int64_t count = a.n * a.h * a.w;
  const std::int64_t most_short = a.k <= kShort ? kLessShort : kShort;
  const bool many_short =
      !floats && count >= kManyPixels && a.c <= most_short && a.k <= kFewFilters;
  const bool large_long = !floats && a.c >= kLong && a.c * element % kVector != 0 &&
                          a.k <= kVeryFewFilters && count * a.c * element >= kManyBytes;
  if (!many_short && !large_long && !has_odd_filters(a)) return false;
  constexpr int kLeastWarps = 4;  // fewer have too little on their way
  const PixelStream stream = pixel_stream(a.c, a.k, size_of(a.dtype));
  return stream.warps >= kLeastWarps && stream.filter_bytes <= kMostFilterBytes;
}

}  // namespace megaconv
