// SPDX-License-Identifier: Apache-2.0
// How a direct task on CUDA is shared out among its threads, for host and device code: the six
// parameters of Akelev's direct kernel ("OpenCL CNN", sections 2 and 4), i for filters, h and w for
// output rows and columns.
//
//   a thread      i_tile x h_tile x w_tile outputs
//   a task        i_local x h_local x w_local threads
//
// In his kernel a thread's outputs are neighbours. Here they are runs of 4 filters and of 4
// columns, so that a warp's reads of shared memory are free of bank conflicts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "megaconv/problem.hpp"
#include "megaconv/tiling.hpp"
#include "tasks/ceil_div.hpp"
#include "tasks/direct/pixel_stream.hpp"

namespace megaconv {

struct DirectShape {
  std::uint32_t i_tile, h_tile, w_tile;
  std::uint32_t i_local, h_local, w_local;
  bool for_16_bits = true;  ///< compiled for tensors of 16 bits, too

  constexpr std::uint32_t filters() const { return i_tile * i_local; }
  constexpr std::uint32_t rows() const { return h_tile * h_local; }
  constexpr std::uint32_t cols() const { return w_tile * w_local; }
  constexpr std::uint32_t pixels() const { return rows() * cols(); }
  constexpr std::uint32_t threads() const { return i_local * h_local * w_local; }
  constexpr bool is_compiled_for(std::size_t element_bytes) const {
    return for_16_bits || element_bytes == sizeof(float);
  }
  constexpr bool has_room(std::uint32_t num_rows, std::uint32_t num_cols,
                          std::uint32_t num_filters) const {
    return num_rows <= rows() && num_cols <= cols() && num_filters <= filters();
  }
};

/// Those that are compiled; the first that has room for a tiling's tasks runs them. A thread has 64
/// sums. Tensors of 16 bits are mostly for tensor cores, and have fewer shapes here.
inline constexpr DirectShape kDirectShapes[] = {
    {8, 2, 4, 16, 4, 2, false},  // 128 filters x 8 x 8 pixels, 128 threads
    {8, 2, 4, 8, 4, 4},          // 64 x 8 x 16
    {8, 2, 4, 8, 7, 4, false},   // 64 x 14 x 16, 224 threads: images of 14, 28 and 56 rows
    {8, 2, 4, 16, 4, 4},         // 128 x 8 x 16, 256 threads
    {8, 2, 4, 4, 8, 4},          // 32 x 16 x 16, 128 threads
};

/// Depthwise tasks have no sums over channels to share: each thread takes tiles of its own, of so
/// many channels, rows and columns. In NHWC where channels come in fours; else of one channel.
constexpr DirectShape depthwise_shape(Layout layout) {
  return layout == Layout::nhwc ? DirectShape{4, 4, 2, 1, 1, 128} : DirectShape{1, 8, 1, 1, 1, 128};
}

/// Whether tasks are for 1x1 filters on few channels: in NHWC, where pixels of x are those of y.
constexpr bool has_few_channels_of_pixels(const ConvProblem& a) {
  constexpr std::int64_t kMost = 32;
  return a.layout == Layout::nhwc && a.groups == 1 && a.r == 1 && a.s == 1 && a.pad_h == 0 &&
         a.pad_w == 0 && a.stride_h == 1 && a.stride_w == 1 && a.c <= kMost;
}

inline constexpr int kPointwiseThreads = 128;  ///< of such a task
inline constexpr int kPointwisePixels = 8;     ///< that a thread has, of four filters or one
/// Threads that have the filters of a pixel.
constexpr std::uint64_t pointwise_threads(std::uint64_t filters) {
  return filters % 4 == 0 ? filters / 4 : filters;
}

/// Whether y of such a task is written in columns (tasks/direct/cuda/direct_columns.cuh). Threads
/// of a few pixels (tasks/direct/cuda/direct_pointwise.cuh) take less time for few filters, and
/// where they store vectors of a small y, or load whole vectors of eight channels or more, too.
constexpr bool writes_columns(const ConvProblem& a) {
  constexpr std::int64_t kMostChannels = 16, kFewChannels = 7, kLeastFilters = 32;
  constexpr std::int64_t kLeastOutputs = 1 << 20;
  const bool in_vectors = a.k % 4 == 0;
  const bool small = a.n * a.h * a.w * a.k < kLeastOutputs;
  return has_few_channels_of_pixels(a) && a.c <= kMostChannels && a.k >= kLeastFilters &&
         !(in_vectors && (small || a.c > kFewChannels));
}

/// Of a depthwise task, or one of few channels.
inline constexpr std::uint64_t kMostTaskOutputs = 1 << 20;

// --- tasks on tensor cores: of pixels that are streams (pixel_stream.hpp), of sums with few terms
// (tasks/direct/cuda/direct_mma.cuh), or of few filters (tasks/direct/cuda/direct_few_filters.cuh)

/// Channels of one tap that a thread loads together; a step of a sum has those of four threads.
inline constexpr std::int64_t kMmaQuad = 4, kMmaStepQuads = 4;
inline constexpr int kMmaThreads = 128;
/// Of filters in shared memory: four blocks share a multiprocessor.
inline constexpr std::int64_t kMmaFilterBytes = 40 * 1024;

/// Filters of whose few terms a warp multiplies some at a time: those of 128 bytes of y.
constexpr std::int64_t mma_filters(std::size_t element_bytes) {
  return static_cast<std::int64_t>(128 / element_bytes);
}
/// Steps of a sum of few terms that are compiled, of tensors of 16 bits; floats take twice as many
/// registers.
inline constexpr std::int64_t kMmaSteps[] = {1, 2, 3, 4, 5, 9, 14};
constexpr std::int64_t most_mma_steps(std::size_t element_bytes) {
  return element_bytes == sizeof(float) ? 9 : 14;
}
/// Blocks of a multiprocessor; of floats fewer, which take more registers.
constexpr std::int64_t mma_blocks(std::size_t element_bytes) {
  return element_bytes == sizeof(float) ? 3 : 4;
}
/// Tiles of 8 pixels that a warp has at a time: as many as there are registers for, beside terms
/// of so many steps.
constexpr std::int64_t mma_tiles(std::size_t element_bytes, std::int64_t steps) {
  const std::int64_t registers = element_bytes == sizeof(float) ? 68 : 52;
  const auto words = static_cast<std::int64_t>(element_bytes);
  return std::clamp<std::int64_t>(registers / (steps * words + 32 / words), 2, 4);
}
/// Of `compiled` the least steps that have all terms of a sum, if threads load so many channels of
/// a tap together; 0 if none have.
inline std::int64_t least_steps(const ConvProblem& a, std::span<const std::int64_t> compiled,
                                std::int64_t part) {
  const std::int64_t parts = a.r * a.s * ceil_div(a.c, part);
  for (const std::int64_t steps : compiled) {
    if (parts <= steps * kMmaStepQuads) return steps;
  }
  return 0;
}
/// Of a sum of few terms.
inline std::int64_t mma_steps(const ConvProblem& a) {
  const std::int64_t steps = least_steps(a, kMmaSteps, kMmaQuad);
  return steps <= most_mma_steps(size_of(a.dtype)) ? steps : 0;
}

/// Few filters a warp multiplies all at a time, in columns of eight; and the steps of their sums
/// that are compiled.
inline constexpr std::int64_t kMostFewFilters = 16, kFewFilterBlocks = 5;
inline constexpr std::int64_t kFewFilterSteps[] = {1, 2, 3, 4, 5, 7};
/// Channels of a tap that a thread loads together.
inline std::int64_t few_filter_part(const ConvProblem& a) {
  return size_of(a.dtype) == 2 && a.c % (2 * kMmaQuad) == 0 ? 2 * kMmaQuad : kMmaQuad;
}
inline std::int64_t few_filter_steps(const ConvProblem& a) {
  return least_steps(a, kFewFilterSteps, few_filter_part(a));
}
/// So many that it matters most how x is loaded.
inline bool has_many_pixels(const ConvProblem& a) { return a.n * a.p() * a.q() >= 400'000; }
inline bool has_few_filters(const ConvProblem& a) {
  return a.k <= kMostFewFilters && few_filter_steps(a) != 0;
}

/// How the filters of a problem lie: in parts that a warp multiplies at a time, of so many bytes.
struct MmaFilterParts {
  std::int64_t filters, bytes;
};
inline MmaFilterParts mma_filter_parts(const ConvProblem& a) {
  if (streams_pixels(a)) {
    const PixelStream stream = pixel_stream(a.c, a.k, size_of(a.dtype));
    return {a.k, stream.filter_bytes};
  }
  if (has_few_filters(a)) {
    const std::int64_t filters = ceil_div<std::int64_t>(a.k, 8) * 8;
    return {filters, few_filter_steps(a) * kMmaStepQuads * few_filter_part(a) * filters *
                         static_cast<std::int64_t>(size_of(a.dtype))};
  }
  return {mma_filters(size_of(a.dtype)), mma_steps(a) * kMmaStepQuads * kMmaQuad * 128};
}
/// How a problem's numbers are multiplied on tensor cores: as they are stored.
constexpr Arithmetic mma_arithmetic(DataType dtype) {
  return dtype == DataType::f16    ? Arithmetic::f16
         : dtype == DataType::bf16 ? Arithmetic::bf16
                                   : Arithmetic::tf32;
}
/// What a problem must be for such tasks; "" if it is.
inline std::string_view mma_need(const ConvProblem& a) {
  if (a.layout != Layout::nhwc) return "layout nhwc";
  if (a.groups != 1) return "one conv group";
  if (a.dtype == DataType::i8) return "floats";
  return streams_pixels(a) || has_few_filters(a) || mma_steps(a) != 0
             ? ""
             : "sums of fewer terms, or fewer filters";
}

}  // namespace megaconv
