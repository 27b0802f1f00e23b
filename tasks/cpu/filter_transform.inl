// SPDX-License-Identifier: Apache-2.0
// w -> U: G g G^T for Winograd, in double and rounded once; packed as it is for direct convolution.
#pragma once

#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/pixels.inl"
#include "tasks/cpu/products.inl"
#include "tasks/winograd/cpu/winograd_1d.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// The filters of one lane block: rows of w, each all taps and channels of one filter.
template <class T>
struct FilterRows {
  FilterRows(const TaskArgs& args, const Extents& extents, Size filter_block) {
    const ConvProblem& problem = args.tiling->problem;
    const Size group = filter_block / extents.filter_blocks_per_conv_group;
    const Size first = filter_block % extents.filter_blocks_per_conv_group * kBlock;
    size = problem.r * problem.s * extents.channels;
    rows = static_cast<const T*>(args.w) + (group * extents.filters + first) * size;
    num_rows = min_of(kBlock, extents.filters - first);
    const bool nhwc = problem.layout == Layout::nhwc;
    channel_stride = nhwc ? 1 : problem.r * problem.s;
    tap_stride = nhwc ? extents.channels : 1;
  }
  const T* rows;
  Size num_rows, size;
  Size channel_stride, tap_stride;  ///< within a row
};

/// G g G^T of the filters in the lanes: taps[tap][lane], taps `tap_stride` floats apart, to
/// u[p][lane].
template <class H, class W>
MEGACONV_INLINE void transform_filter_lanes(const float* taps, Size tap_stride, float* u,
                                            Size position_stride) {
  constexpr int kDoubles = kLanes / 2;
  constexpr double kScale = 1 / static_cast<double>(H::kGDenominator * W::kGDenominator);
  for (Size lane = 0; lane < kBlock; lane += kDoubles) {
    DoubleVec columns[kWinogradR][H::kAlpha];  // (G g)^T
    unroll<kWinogradR>([&](auto s) __attribute__((always_inline)) {
      DoubleVec g[kWinogradR];
      unroll<kWinogradR>([&](auto r) __attribute__((always_inline)) {
        const float* const tap = taps + (r * kWinogradR + s) * tap_stride + lane;
        g[r] = __builtin_convertvector(load<HalfVec>(tap), DoubleVec);
      });
      filter_1d<H>(g, columns[s]);
    });
    for (int i = 0; i < H::kAlpha; ++i) {
      const DoubleVec row[kWinogradR] = {columns[0][i], columns[1][i], columns[2][i]};
      DoubleVec out[W::kAlpha];
      filter_1d<W>(row, out);
      unroll<W::kAlpha>([&](auto j) __attribute__((always_inline)) {
        store(u + (i * W::kAlpha + j) * position_stride + lane,
              __builtin_convertvector(kScale * out[j], HalfVec));
      });
    }
  }
}

inline constexpr int kTaps = kWinogradR * kWinogradR;
inline constexpr Size kTapStride = kBlock * kBlock;  // floats

/// taps[tap][channel][lane] of one lane block and channels [first, first + count), count at most
/// 16.
template <class T>
void read_taps(const FilterRows<T>& filters, Size first, Size count, float* taps) {
  if (filters.channel_stride == 1) {
    for (Size tap = 0; tap < kTaps; ++tap) {
      transpose_to_pixels(
          filters.rows + tap * filters.tap_stride + first, filters.size, filters.num_rows,
          count, [&](Size c) __attribute__((always_inline)) {
            return taps + tap * kTapStride + c * kBlock;
          });
    }
  } else {
    transpose_to_pixels(
        filters.rows + first * kTaps, filters.size, filters.num_rows,
        count * kTaps, [&](Size i) __attribute__((always_inline)) {
          return taps + i % kTaps * kTapStride + i / kTaps * kBlock;
        });
  }
}

/// U[p][c][lane] of the same, with U from channel `first` on.
template <class H, class W>
void transform_taps(const float* taps, Size count, float* u, Size position_stride) {
  // The positions of U are far apart, often by a power of two, so that they share few cache sets:
  // products are collected in L1 and written in runs.
  constexpr Size kRun = 8;  // channels
  constexpr int kPositions = H::kAlpha * W::kAlpha;
  const bool cached =
      kPositions * position_stride <= kCachedBytes / static_cast<Size>(sizeof(float));
  alignas(64) float products[kPositions * kRun * kBlock];  // [position][channel][lane]
  for (Size c = 0; c < count; c += kRun) {
    const Size run = min_of(kRun, count - c) * kBlock;
    for (Size i = 0; i < run; i += kBlock) {
      transform_filter_lanes<H, W>(taps + c * kBlock + i, kTapStride, products + i, kRun * kBlock);
    }
    for (Size p = 0; p < kPositions; ++p) {
      float* const to = u + p * position_stride + c * kBlock;
      for (Size i = 0; i < run; i += kLanes) {
        const Vec v = load(products + p * kRun * kBlock + i);
        cached ? store(to + i, v) : stream(to + i, v);
      }
    }
  }
}

/// Words of a lane block of U.
template <class Product>
Size packed_filter_block(const ConvProblem& problem, const Extents& extents) {
  const Size words = ceil_div(extents.channels, Product::kChannels);
  return (Product::kHeads + problem.r * problem.s * words) * kBlock;
}

/// The head of one lane block of U, so that sums over nothing but zeros are 0; [first, last): its
/// words.
template <class Product>
void write_head(float* head, const float* first, const float* last) {
  for (Size lane = 0; lane < kBlock; lane += kLanes) {
    Vec sum{};
    for (const float* u = first; u != last; u += kBlock) {
      sum = Product::multiply_add(sum, Product::zero(), load(u + lane));
    }
    store(head + lane, -__builtin_bit_cast(Ints, sum));
  }
}

/// U of one lane block: word `word` of a tap, of one channel or more, is the place(tap, word)-th.
template <class Product, class T, class Place>
MEGACONV_INLINE void pack_words(const FilterRows<T>& filters, Size channels, float* u,
                                const Place& place) {
  transpose_to_pixels<typename Product::Single>(
      filters.rows, filters.size, filters.num_rows,
      filters.size, [&](Size i) __attribute__((always_inline)) {
        const bool channels_inner = filters.channel_stride == 1;
        const Size tap = channels_inner ? i / channels : i % filters.channel_stride;
        const Size c = channels_inner ? i % channels : i / filters.channel_stride;
        return Product::channel(u + place(tap, c / Product::kChannels) * kBlock, c);
      });
}

/// U[tap][word][lane] of one lane block, after its head.
template <class Product, class T>
void pack_filters(const FilterRows<T>& filters, Size channels, float* block) {
  const Size words = ceil_div(channels, Product::kChannels);
  float* const u = block + Product::kHeads * kBlock;
  pack_words<Product>(
      filters, channels,
      u, [&](Size tap, Size word) __attribute__((always_inline)) { return tap * words + word; });
  if constexpr (Product::kHeads != 0) {
    const Size taps = filters.size / channels;
    write_head<Product>(block, u, u + taps * words * kBlock);
  }
}

/// For direct convolution.
template <class T>
void filter_packing(const TaskArgs& args, std::uint32_t, std::uint32_t block, std::byte*) {
  const Tiling& tiling = *args.tiling;
  const Extents extents(tiling);
  const BlockRange blocks(block, tiling.filter_blocks_per_filter_task, extents.filter_blocks);
  const auto pack = [&](auto product) {
    using Product = decltype(product);
    const Size u_block = packed_filter_block<Product>(tiling.problem, extents);
    for (Size kb = blocks.first; kb < blocks.last; ++kb) {
      pack_filters<Product>(FilterRows<T>(args, extents, kb), extents.channels,
                            args.u + kb * u_block);
    }
  };
  if (extents.depthwise) return pack(typename Products<T>::Depthwise{});
  pack(typename Products<T>::Direct{});
}

/// Tasks of kind `filter_transform`.
template <class T>
void filter_transform(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                      std::byte* scratch) {
  const Tiling& tiling = *args.tiling;
  const WinogradTiles* const tiles = tiling.tiles();
  if (tiles == nullptr) return filter_packing<T>(args, group, block, scratch);
  const Extents extents(tiling);
  // block = filter chunk * channel chunks + channel chunk
  const Size total_channel_blocks = ceil_div(extents.channels, kBlock);
  const Size channel_chunks = ceil_div(total_channel_blocks, tiling.channel_blocks_per_filter_task);
  const BlockRange blocks(block / channel_chunks, tiling.filter_blocks_per_filter_task,
                          extents.filter_blocks);
  const BlockRange channel_blocks(block % channel_chunks, tiling.channel_blocks_per_filter_task,
                                  total_channel_blocks);
  for (Size kb = blocks.first; kb < blocks.last; ++kb) {
    const FilterRows<T> filters(args, extents, kb);
    float* const u = args.u + kb * extents.channels * kBlock;
    const Size position_stride = extents.filter_blocks * extents.channels * kBlock;
    const Size end = min_of(channel_blocks.last * kBlock, extents.channels);
    for (Size c = channel_blocks.first * kBlock; c < end; c += kBlock) {
      const Size count = min_of(kBlock, extents.channels - c);
      alignas(64) float taps[kTaps * kTapStride];
      read_taps(filters, c, count, taps);
      with_winograd(*tiles, [&](auto h, auto w) {
        transform_taps<decltype(h), decltype(w)>(taps, count, u + c * kBlock, position_stride);
      });
    }
  }
  end_streaming();
}

}  // namespace megaconv::cpu::MEGACONV_ISA
