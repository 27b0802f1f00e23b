// SPDX-License-Identifier: Apache-2.0
// Depthwise tasks of NHWC: lanes are channels, each with its own filter, and x is read as it is.
//
//   y[pixel][channel] = sum over taps of x[pixel, tap][channel] u[tap][channel]
//
// Padding has no taps: rows of the output take those that are inside of the image, and columns at
// the borders are computed one by one, apart from the others.
#pragma once

#include "tasks/cpu/activation.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/pixels.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Applies the epilogue and stores; what it can of a large y past the caches, so that
/// end_streaming() must follow in the same task.
template <class T>
class DepthwiseWriter {
 public:
  DepthwiseWriter(const TaskArgs& args, const Extents& extents, Size image)
      : epilogue_(args.tiling->problem.epilogue),
        activate_(epilogue_.activation),
        scale_(static_cast<const Vector*>(args.scale)),
        bias_(static_cast<const Vector*>(args.bias)) {
    const ConvProblem& problem = args.tiling->problem;
    const Size image_size = extents.p * extents.q * problem.k;
    streams_ = problem.n * image_size > kCachedBytes / static_cast<Size>(sizeof(T));
    y_ = static_cast<T*>(args.y) + image * image_size;
    residual_ =
        static_cast<const T*>(args.residual) + (epilogue_.residual ? image * image_size : 0);
  }

  /// The first `count` (any number) channels from `channel` on, of pixels `step` apart from y[at].
  template <int kPixels>
  MEGACONV_INLINE void write(const Vec (&sums)[kPixels], Size at, Size step, Size channel,
                             Size count) const {
    if (count <= 0) return;
    const bool whole = count >= kLanes;
    const auto read_some = [&](const auto* from) __attribute__((always_inline)) {
      return whole ? read(from) : read_first(from, count);
    };
    const Vec scale = epilogue_.scale ? read_some(scale_ + channel) : broadcast(1);
    const Vec bias = epilogue_.bias ? read_some(bias_ + channel) : Vec{};
    unroll<kPixels>([&](auto pixel) __attribute__((always_inline)) {
      const Size place = at + pixel * step + channel;
      Vec sum = Products<T>::scaled(sums[pixel], scale, bias);
      if (epilogue_.residual) sum += read_some(residual_ + place);
      sum = activate_(sum);
      whole ? store_line(y_ + place, sum, streams_) : write_first(y_ + place, sum, count);
    });
  }

 private:
  using Vector = typename VectorStorage<T>::Type;
  Epilogue epilogue_;
  Activate activate_;
  const Vector *scale_, *bias_;
  T* y_;
  const T* residual_;
  bool streams_;
};

/// What a kernel sums. Distances in elements.
template <class T>
struct DepthwiseArgs {
  const T* x;                  ///< first tap of the first pixel
  Size x_pixel, x_row, x_col;  ///< between pixels, and between rows and columns of taps
  Size rows, cols;             ///< of taps
  const float* u;              ///< [tap][16], from the first tap on
  Size u_row;                  ///< words between rows of taps
  Size y, y_pixel;             ///< in y: the first pixel, and between pixels
  Size channel;                ///< the first one
  const DepthwiseWriter<T>* writer;
};

template <class Product, int kPixels, bool kWhole, class T>
void depthwise_kernel(const DepthwiseArgs<T>& args, Size channels) {
  Vec sums[kPixels][kBlockVecs];
  unroll<kPixels * kBlockVecs>([&](auto i) __attribute__((always_inline)) {
    sums[i / kBlockVecs][i % kBlockVecs] = Vec{};
  });
  const Size x_pixel = args.x_pixel, x_col = args.x_col, cols = args.cols;
  const T* x_row = args.x;
  const float* u_row = args.u;
  for (Size r = args.rows; r > 0; --r, x_row += args.x_row, u_row += args.u_row) {
    const T* x = x_row;
    const float* u = u_row;
    for (Size s = cols; s > 0; --s, x += x_col, u += kBlock) {
      unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
        const Vec weights = load(u + part * kLanes);
        unroll<kPixels>([&](auto pixel) __attribute__((always_inline)) {
          const T* const from = x + pixel * x_pixel + part * kLanes;
          const Vec input = Product::read_pixel(from, kWhole ? kLanes : channels - part * kLanes);
          sums[pixel][part] = Product::multiply_add(sums[pixel][part], input, weights);
        });
      });
    }
  }
  unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
    Vec block[kPixels];
    unroll<kPixels>([&](auto pixel)
                        __attribute__((always_inline)) { block[pixel] = sums[pixel][part]; });
    args.writer->template write<kPixels>(block, args.y, args.y_pixel, args.channel + part * kLanes,
                                         kWhole ? kLanes : channels - part * kLanes);
  });
}

/// A power of two of neighbouring pixels, kPixels at most.
template <class Product, int kPixels, class T>
void depthwise_pixels(const DepthwiseArgs<T>& args, Size pixels, Size channels) {
  if constexpr (kPixels > 1) {
    if (pixels < kPixels) return depthwise_pixels<Product, kPixels / 2>(args, pixels, channels);
  }
  channels == kBlock ? depthwise_kernel<Product, kPixels, true>(args, channels)
                     : depthwise_kernel<Product, kPixels, false>(args, channels);
}

/// The taps of an output that are inside of the image, along one dimension.
struct TapRange {
  /// Tap 0 is at `first`; the image has `extent` rows or columns.
  TapRange(Size first, Size extent, Size dilation, Size taps)
      : begin(min_of(ceil_div(max_of(-first, 0), dilation), taps)),
        end(max_of(begin, min_of(taps, ceil_div(max_of(extent - first, 0), dilation)))) {}
  Size count() const { return end - begin; }
  Size begin, end;
};

/// Channels of `blocks`. All are computed of some pixels before the next ones, so that x, y and u
/// are read and written in long runs.
template <class T>
void depthwise_channels(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                        const BlockRange& blocks) {
  using Product = typename Products<T>::Depthwise;
  constexpr Size kPixels = 8 / kBlockVecs;
  const ConvProblem& problem = args.tiling->problem;
  const PixelReader<T, Product> reader(args, rect.image, 0, kBlock);
  const DepthwiseWriter<T> writer(args, extents, rect.image);
  DepthwiseArgs<T> kernel;
  kernel.x_pixel = problem.stride_w * reader.col_stride();
  kernel.x_row = problem.dilation_h * reader.row_stride();
  kernel.x_col = problem.dilation_w * reader.col_stride();
  kernel.u_row = problem.s * kBlock;
  kernel.y_pixel = problem.k;
  kernel.writer = &writer;
  const Size u_block = problem.r * problem.s * kBlock;
  // Columns [inner, outer) have all their taps.
  const Size inner = ceil_div(problem.pad_w, problem.stride_w) - rect.col;
  const Size reach = problem.w + problem.pad_w - extents.extent_w;  // the last whole one's column
  const Size outer = (reach < 0 ? 0 : reach / problem.stride_w + 1) - rect.col;
  for (Size row = 0; row < rect.rows; ++row) {
    const Size first_row = (rect.row + row) * problem.stride_h - problem.pad_h;
    const TapRange rows(first_row, problem.h, problem.dilation_h, problem.r);
    kernel.rows = rows.count();
    for (Size col = 0; col < rect.cols;) {
      const Size first_col = (rect.col + col) * problem.stride_w - problem.pad_w;
      const TapRange cols(first_col, problem.w, problem.dilation_w, problem.s);
      kernel.cols = cols.count();
      // Pixels with the same taps.
      const Size alike = col >= inner ? max_of(min_of(outer, rect.cols) - col, 1) : 1;
      Size pixels = kPixels;
      while (pixels > alike) pixels /= 2;
      const T* const x = reader.at(first_row + rows.begin * problem.dilation_h,
                                   first_col + cols.begin * problem.dilation_w);
      const float* const u = args.u + (rows.begin * problem.s + cols.begin) * kBlock;
      const Size y = ((rect.row + row) * extents.q + rect.col + col) * problem.k;
      for (Size kb = blocks.first; kb < blocks.last; ++kb) {
        kernel.x = x + kb * kBlock;
        kernel.u = u + kb * u_block;
        kernel.y = y;
        kernel.channel = kb * kBlock;
        depthwise_pixels<Product, kPixels>(kernel, pixels,
                                           min_of(kBlock, extents.filters - kb * kBlock));
      }
      col += pixels;
    }
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
