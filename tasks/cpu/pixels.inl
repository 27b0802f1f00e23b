// SPDX-License-Identifier: Apache-2.0
// Between tensors in any layout of a CPU and "pixels": one lane block (16 channels) of one pixel,
// 64 bytes of floats, whatever the tensor's storage type T. All padding and all tails are dealt
// with here, so that transforms and kernels see none.
#pragma once

#include "tasks/cpu/activation.inl"
#include "tasks/cpu/channel_blocks.inl"
#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/products.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// out[col][0..16) = words of rows[..][kStep * col], kStep 1 or 2: transposes num_rows (0 to 16
/// words) rows of `cols` numbers into pixels; lanes past num_rows become zero. place(col) is where
/// pixel `col` goes: what write() takes.
template <class Product = FloatProduct, int kStep = 1, class T, class Place>
MEGACONV_INLINE void transpose_to_pixels(const T* rows, Size row_stride, Size num_rows, Size cols,
                                         const Place& place) {
  for (Size col = 0; col < cols; col += kLanes) {
    const Size num_cols = min_of(cols - col, kLanes);
    for (int part = 0; part < kBlockVecs; ++part) {
      Vec block[kLanes];
      unroll<kLanes>([&](auto i) __attribute__((always_inline)) {
        const Size row = (part * kLanes + i) * Product::kChannels;
        const T* const from = rows + row * row_stride + kStep * col;
        const auto words = [&](Size first, Size count) __attribute__((always_inline)) {
          return Product::read_words(from + first, row_stride, num_rows - row, count);
        };
        if constexpr (kStep == 1) {
          block[i] = words(0, num_cols);
        } else {
          const Size reach = 2 * num_cols - 1;  // the last row may end with its last pixel
          const Vec first = words(0, min_of(reach, kLanes));
          block[i] = shuffle<EvenLanes>(
              first, reach > kLanes ? words(kLanes, min_of(reach - kLanes, kLanes)) : first);
        }
      });
      transpose(block);
      unroll<kLanes>([&](auto i) __attribute__((always_inline)) {
        if (i < num_cols) write(place(col + i) + part * kLanes, block[i]);
      });
    }
  }
}

/// Reads rectangles of one image's pixels, zero outside the image and past the last channel, in
/// words of the product.
template <class T, class Product = FloatProduct>
class PixelReader {
 public:
  /// Channels [first_channel, first_channel + num_channels) of image `n`; at most 16 words. In
  /// nchw16c these are one block.
  PixelReader(const TaskArgs& args, Size n, Size first_channel, Size num_channels)
      : num_channels_(num_channels) {
    const ConvProblem& problem = args.tiling->problem;
    height_ = problem.h;
    width_ = problem.w;
    const Pitches pitches = x_pitches(args);
    const ChannelBlocks blocks(problem.layout, problem.c, height_ * width_, pitches);
    channels_inner_ = problem.layout != Layout::nchw;
    col_stride_ = channels_inner_ ? blocks.pixel(first_channel) : 1;
    row_stride_ = pitches.row * col_stride_;
    channel_stride_ = pitches.step;
    origin_ = static_cast<const T*>(args.x) + n * blocks.image() +
              (channels_inner_ ? blocks.first(first_channel) : first_channel * channel_stride_);
  }

  /// Whether a transform can read the rectangle's pixels from x itself.
  bool in_place(Size row, Size col, Size rows, Size cols) const {
    return channels_inner_ && num_channels_ == kBlock && row >= 0 && col >= 0 &&
           row + rows <= height_ && col + cols <= width_;
  }
  const T* at(Size row, Size col) const { return origin_ + row * row_stride_ + col * col_stride_; }
  Size row_stride() const { return row_stride_; }
  Size col_stride() const { return col_stride_; }

  /// Copies `cols` columns of row `row`, from `col` on, kStep (1 or 2) apart; pixel i goes to
  /// place(i).
  template <int kStep = 1, class Place>
  MEGACONV_INLINE void read_row(Size row, Size col, Size cols, const Place& place) const {
    const auto pixels = [cols](Size columns) __attribute__((always_inline)) {
      return columns <= 0 ? 0 : min_of(cols, ceil_div(columns, kStep));
    };
    Size first = pixels(-col), last = max_of(first, pixels(width_ - col));
    if (row < 0 || row >= height_) first = last = cols;
    for (Size i = 0; i < first; ++i) clear(place(i));
    for (Size i = last; i < cols; ++i) clear(place(i));
    if (channels_inner_) {
      for (Size i = first; i < last; ++i) {
        const T* const from = at(row, col + kStep * i);
        unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
          const Size channel = part * kLanes * Product::kChannels;
          store(place(i) + part * kLanes,
                Product::read_pixel(from + channel, num_channels_ - channel));
        });
      }
    } else {
      transpose_to_pixels<Product, kStep>(
          at(row, col + kStep * first), channel_stride_, num_channels_,
          last - first, [&](Size i) __attribute__((always_inline)) { return place(first + i); });
    }
  }

  /// Copies a rectangle, row by row, to pixels one behind the other.
  void read_rectangle(Size row, Size col, Size rows, Size cols, float* pixels) const {
    for (Size i = 0; i < rows; ++i) {
      read_row(
          row + i, col, cols, [&](Size j) __attribute__((always_inline)) {
            return pixels + (i * cols + j) * kBlock;
          });
    }
  }

 private:
  static MEGACONV_INLINE void clear(float* pixel) {
    unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
      store(pixel + part * kLanes, Product::zero());
    });
  }

  const T* origin_;
  Size height_, width_, num_channels_;
  Size row_stride_, col_stride_, channel_stride_;  // the last in NCHW
  bool channels_inner_;
};

/// Applies the epilogue to rows of output pixels and stores them; what it can of a large y past the
/// caches, so that end_streaming() must follow in the same task.
template <class T>
class PixelWriter {
 public:
  /// Filters [first_filter, first_filter + num_filters) of image `n`; at most 16. In nchw16c these
  /// are one block.
  PixelWriter(const TaskArgs& args, const Extents& extents, Size n, Size first_filter,
              Size num_filters)
      : parts_(parts_of(args.tiling->problem.epilogue)),
        activate_(args.tiling->problem.epilogue.activation),
        num_filters_(num_filters) {
    const ConvProblem& problem = args.tiling->problem;
    const Pitches pitches = y_pitches(args, extents);
    const ChannelBlocks blocks(problem.layout, problem.k, extents.p * extents.q, pitches);
    filters_inner_ = problem.layout != Layout::nchw;
    pixel_stride_ = filters_inner_ ? blocks.pixel(first_filter) : 1;
    filter_stride_ = pitches.step;
    row_ = pitches.row;
    const Size y_size = problem.n * problem.k * extents.p * extents.q;
    streams_ = y_size > kCachedBytes / static_cast<Size>(sizeof(T));
    const Size first = n * blocks.image() + (filters_inner_ ? blocks.first(first_filter)
                                                            : first_filter * filter_stride_);
    y_ = static_cast<T*>(args.y) + first;
    residual_ = problem.epilogue.residual ? static_cast<const T*>(args.residual) + first : nullptr;
    unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
      const Size count = max_of(0, min_of(num_filters - part * kLanes, kLanes));
      const auto read_from = [&](const void* vector) __attribute__((always_inline)) {
        const auto* const typed = static_cast<const typename VectorStorage<T>::Type*>(vector);
        return read_first(typed + first_filter + part * kLanes, count);
      };
      scale_[part] = problem.epilogue.scale ? read_from(args.scale) : broadcast(1);
      bias_[part] = problem.epilogue.bias ? read_from(args.bias) : Vec{};
    });
  }

  /// Stores `cols` pixels, the words of T's products, 64 bytes apart at `sums`, to row `row` from
  /// column `col` on.
  void write_row(const float* sums, Size row, Size col, Size cols) const {
    const Size first = (row * row_ + col) * pixel_stride_;
    if (filters_inner_) {
      if (num_filters_ < kBlock) return write_pixels<false, Parts::any>(sums, first, cols);
      if (parts_ == Parts::none) return write_pixels<true, Parts::none>(sums, first, cols);
      if (parts_ == Parts::any) return write_pixels<true, Parts::any>(sums, first, cols);
      return write_pixels<true, Parts::no_residual>(sums, first, cols);
    }
    if constexpr (sizeof(T) == 1) return write_planes_of_bytes(sums, first, cols);
    for (Size i = 0; i < cols; i += kLanes) {
      for (int part = 0; part < kBlockVecs; ++part) {
        Vec block[kLanes];
        unroll<kLanes>([&](auto j) __attribute__((always_inline)) {
          block[j] = scaled(sums + min_of(i + j, cols - 1) * kBlock, part);
        });
        transpose(block);
        unroll<kLanes>([&](auto j) __attribute__((always_inline)) {
          const Size filter = part * kLanes + j;
          if (filter < num_filters_)
            finish(block[j], first + i + filter * filter_stride_, cols - i);
        });
      }
    }
  }

 private:
  /// Of NHWC and nchw16c, from y[first] on.
  template <bool kWhole, Parts kParts>
  void write_pixels(const float* sums, Size first, Size cols) const {
    const Activate activate = activate_;
    const Size pixel_stride = pixel_stride_;
    const bool residual = kParts == Parts::any && residual_ != nullptr, streams = streams_;
    for (int part = 0; part < kBlockVecs; ++part) {
      const Vec scale = scale_[part], bias = bias_[part];
      const Size count = kWhole ? kLanes : min_of(kLanes, num_filters_ - part * kLanes);
      if (count <= 0) return;
      T* y = y_ + first + part * kLanes;
      const T* from = residual ? residual_ + first + part * kLanes : nullptr;
      for (Size i = 0; i < cols; ++i, y += pixel_stride) {
        const Vec words = load(sums + i * kBlock + part * kLanes);
        Vec sum = Products<T>::number(words);
        if constexpr (kParts != Parts::none) {
          sum = Products<T>::scaled(words, scale, bias);
          if (residual) {
            sum += kWhole ? read(from) : read_first(from, count);
            from += pixel_stride;
          }
          sum = activate(sum);
        }
        kWhole ? store_line(y, sum, streams) : write_first(y, sum, count);
      }
    }
  }

  /// Of NCHW, from y[first] on. Four neighbouring pixels of a filter make a word, so that a
  /// transpose, and a store, is of 4 kLanes pixels.
  void write_planes_of_bytes(const float* sums, Size first, Size cols) const {
    for (Size i = 0; i < cols; i += 4 * kLanes) {
      const Size count = min_of(cols - i, 4 * kLanes);
      for (int part = 0; part < kBlockVecs; ++part) {
        const Size at = first + i + part * kLanes * filter_stride_;
        const Size filters = num_filters_ - part * kLanes;
        Vec residual[kLanes], quads[kLanes]{};
        if (residual_ != nullptr) {
          unroll<kLanes>([&](auto j) __attribute__((always_inline)) {
            residual[j] =
                j < filters ? load_first_quads(residual_ + at + j * filter_stride_, count) : Vec{};
          });
          transpose(residual);
        }
        for (Size j = 0; 4 * j < count; ++j) {
          Words quad{};
          unroll<4>([&](auto b) __attribute__((always_inline)) {
            Vec sum = scaled(sums + min_of(i + 4 * j + b, cols - 1) * kBlock, part);
            if (residual_ != nullptr) {
              const Words place = __builtin_bit_cast(Words, residual[j]) << (24 - 8 * b);
              sum += __builtin_convertvector(__builtin_bit_cast(Ints, place) >> 24, Vec);
            }
            quad |= (rounded_to_int8(activate_(sum)) & 0xff) << (8 * b);
          });
          quads[j] = __builtin_bit_cast(Vec, quad);
        }
        transpose(quads);
        unroll<kLanes>([&](auto j) __attribute__((always_inline)) {
          if (j < filters) store_first_quads(y_ + at + j * filter_stride_, quads[j], count);
        });
      }
    }
  }

  /// Some lanes of a pixel's sums, with their scale and bias. A scale of 1 is exact.
  MEGACONV_INLINE Vec scaled(const float* pixel, int part) const {
    return Products<T>::scaled(load(pixel + part * kLanes), scale_[part], bias_[part]);
  }
  /// Adds the residual, activates and stores the first `count` lanes (any number) at y[at].
  MEGACONV_INLINE void finish(Vec sum, Size at, Size count) const {
    if (!activate_.only_clamps() || (count < kLanes && !kHasMasks<T>)) {
      finish_rest(sum, at, count);
    } else if (count >= kLanes) {
      if (residual_ != nullptr) sum += read(residual_ + at);
      store_line(y_ + at, activate_.clamped(sum), streams_);
    } else if (count > 0) {
      if (residual_ != nullptr) sum += read_first(residual_ + at, count);
      write_first(y_ + at, activate_.clamped(sum), count);
    }
  }
  MEGACONV_OUT_OF_LINE void finish_rest(Vec sum, Size at, Size count) const {
    if (count <= 0) return;
    const Size lanes = min_of(count, kLanes);
    if (residual_ != nullptr) sum += read_first(residual_ + at, lanes);
    sum = activate_(sum);
    lanes == kLanes ? store_line(y_ + at, sum, streams_) : write_first(y_ + at, sum, lanes);
  }

  Parts parts_;
  Activate activate_;
  T* y_;
  const T* residual_;
  Vec scale_[kBlockVecs], bias_[kBlockVecs];
  Size num_filters_;
  Size row_, pixel_stride_, filter_stride_;  // the last in NCHW
  bool filters_inner_, streams_;
};

}  // namespace megaconv::cpu::MEGACONV_ISA
