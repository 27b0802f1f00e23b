// SPDX-License-Identifier: Apache-2.0
// Tensors whose channels are neighbours, NHWC and nchw16c: where pixels lie, and how sums whose
// lanes are channels are written.
#pragma once

#include <type_traits>

#include "tasks/cpu/activation.inl"
#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/products.inl"

namespace megaconv::cpu::MEGACONV_ISA {

inline Pitches pitches_or_dense(const Pitches& given, Layout layout, Size channels, Size height,
                                Size width) {
  if (given.image != 0) return given;
  const Size plane = height * width;
  return {channels * plane, width, layout == Layout::nchw ? plane : channels};
}
inline Pitches x_pitches(const TaskArgs& args) {
  const ConvProblem& a = args.tiling->problem;
  return pitches_or_dense(args.x_pitches, a.layout, a.c, a.h, a.w);
}
inline Pitches y_pitches(const TaskArgs& args, const Extents& extents) {
  const ConvProblem& a = args.tiling->problem;
  return pitches_or_dense(args.y_pitches, a.layout, a.k, extents.p, extents.q);
}

/// An image in blocks of 16 channels, whose pixels follow each other: at channel 0 of a block,
/// `pixel` elements apart. In NHWC blocks are interleaved.
struct ChannelBlocks {
  ChannelBlocks(Layout layout, Size num_channels, Size num_pixels, const Pitches& given)
      : channels(num_channels),
        pixels(num_pixels),
        pitches(given),
        blocked(layout == Layout::nchw16c) {}

  /// Of a channel that begins a block.
  Size first(Size channel) const { return blocked ? channel * pixels : channel; }
  Size pixel(Size channel) const {
    return blocked ? min_of(channels - channel, kBlock) : pitches.step;
  }
  Size image() const { return pitches.image; }

  Size channels, pixels;
  Pitches pitches;
  bool blocked;
};

/// Applies the epilogue and stores; what it can of a large y past the caches, so that
/// end_streaming() must follow in the same task.
template <class T>
class ChannelWriter {
 public:
  ChannelWriter(const TaskArgs& args, const Extents& extents, Size image)
      : blocks_(args.tiling->problem.layout, args.tiling->problem.k, extents.p * extents.q,
                y_pitches(args, extents)),
        epilogue_(args.tiling->problem.epilogue),
        parts_(parts_of(epilogue_)),
        activate_(epilogue_.activation),
        scale_(static_cast<const Vector*>(args.scale)),
        bias_(static_cast<const Vector*>(args.bias)) {
    const Size image_size = blocks_.image();
    streams_ = args.tiling->problem.n * image_size > kCachedBytes / static_cast<Size>(sizeof(T));
    is_plain_ = parts_ != Parts::any && activate_.only_clamps();
    y_ = static_cast<T*>(args.y) + image * image_size;
    residual_ =
        static_cast<const T*>(args.residual) + (epilogue_.residual ? image * image_size : 0);
  }

  /// Where a line of tiles goes, and how. Asked once: for each tile it took 20 cycles of AVX-512.
  struct Line {
    enum class Way { neighbours, streamed, apart, any };
    Way way;
    Size pixel, step;  ///< of the next tile, as in write(),
    Size block, count;
    int lane;
    T* y;                  ///< its first number,
    Size y_step, y_block;  ///< and from there to the next pixel and block
  };
  /// Of tiles with kVecs vectors.
  template <int kVecs>
  Line line(Size pixel, Size step, Size block, int lane, Size count) const {
    using Way = typename Line::Way;
    T* const y = place(pixel, block) + lane;
    Line line{Way::any,
              pixel,
              step,
              block,
              count,
              lane,
              y,
              step * blocks_.pixel(block),
              blocks_.first(kBlock)};
    // Whole blocks only: in nchw16c pixels of the last one may be nearer to each other.
    const bool whole = count >= ceil_div(kVecs, kBlockVecs) * kBlock - lane;
    // Of neighbours in a block no pixel needs an address of its own.
    const bool neighbours = line.y_step == kBlock;
    if (!kConverts && is_plain_ && whole && (!streams_ || (neighbours && is_cache_line(y)))) {
      line.way = streams_ ? Way::streamed : neighbours ? Way::neighbours : Way::apart;
    }
    return line;
  }

  /// The next tile of a line.
  template <int kPixels, int kVecs>
  MEGACONV_INLINE void write_tile(const Vec (&sums)[kPixels][kVecs], Line& line) const {
    if (line.way == Line::Way::any) {
      unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
        Vec vec[kPixels];
        unroll<kPixels>([&](auto i) __attribute__((always_inline)) { vec[i] = sums[i][j]; });
        constexpr int kLane = j % kBlockVecs * kLanes;
        const Size from = j / kBlockVecs * kBlock;
        write(vec, line.pixel, line.step, line.block + from, line.lane + kLane,
              line.count - from - kLane);
      });
    } else if (parts_ == Parts::none) {
      write_plain<Parts::none>(sums, line);
    } else {
      write_plain<Parts::no_residual>(sums, line);
    }
    advance(line, kPixels);
  }

  /// By so many of its pixels.
  MEGACONV_INLINE void advance(Line& line, Size pixels) const {
    line.pixel += pixels * line.step;
    line.y += pixels * line.y_step;
  }

  /// The first `count` (any number) channels behind `lane` of the block that begins with channel
  /// `block`, of pixels `step` apart from `pixel` on.
  template <int kPixels>
  MEGACONV_INLINE void write(const Vec (&sums)[kPixels], Size pixel, Size step, Size block,
                             int lane, Size count) const {
    if (count <= 0) return;
    if (kConverts || count < kLanes || !activate_.only_clamps()) {
      write_rest(sums, kPixels, pixel, step, block, lane, count);
    } else if (parts_ == Parts::none) {
      write_whole<Parts::none>(sums, pixel, step, block, lane);
    } else if (parts_ == Parts::no_residual) {
      write_whole<Parts::no_residual>(sums, pixel, step, block, lane);
    } else {
      write_whole<Parts::any>(sums, pixel, step, block, lane);
    }
  }

 private:
  // Of narrow types without instructions for it, which are most of what would be inlined.
  static constexpr bool kConverts = kLanes < 8 && sizeof(T) < sizeof(float);

  using Vector = typename VectorStorage<T>::Type;

  MEGACONV_INLINE T* place(Size pixel, Size block) const {
    return y_ + blocks_.first(block) + pixel * blocks_.pixel(block);
  }
  // Whether vectors at it are cache lines.
  static bool is_cache_line(const T* y) {
    constexpr std::size_t kLineBytes = 64;
    return sizeof(T) * kLanes == kLineBytes &&
           reinterpret_cast<std::uintptr_t>(y) % kLineBytes == 0;
  }

  // Whole vectors of a tile, clamped at most, without a residual.
  template <Parts kParts, int kPixels, int kVecs>
  MEGACONV_INLINE void write_plain(const Vec (&sums)[kPixels][kVecs], const Line& line) const {
    using Way = typename Line::Way;
    if (line.way == Way::neighbours) {
      write_vecs<kParts, false>(sums, line, Index<kBlock>{});
    } else if (line.way == Way::apart) {
      write_vecs<kParts, false>(sums, line, line.y_step);
    } else {
      write_vecs<kParts, true>(sums, line, Index<kBlock>{});
    }
  }
  template <Parts kParts, bool kStreams, int kPixels, int kVecs, class Distance>
  MEGACONV_INLINE void write_vecs(const Vec (&sums)[kPixels][kVecs], const Line& line,
                                  Distance distance) const {
    const Activate activate = activate_;
    Vec scale[kVecs], bias[kVecs];
    unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
      const Size channel = line.block + line.lane + j * kLanes;
      scale[j] = epilogue_.scale ? read(scale_ + channel) : broadcast(1);
      bias[j] = epilogue_.bias ? read(bias_ + channel) : Vec{};
    });
    unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
      T* const first = line.y + j / kBlockVecs * line.y_block + j % kBlockVecs * kLanes;
      unroll<kPixels>([&](auto i) __attribute__((always_inline)) {
        Vec sum = Products<T>::number(sums[i][j]);
        if constexpr (kParts != Parts::none) {
          sum = activate.clamped(Products<T>::scaled(sums[i][j], scale[j], bias[j]));
        }
        T* const y = first + i * distance;
        if constexpr (kStreams && std::is_same_v<T, float>) {
          stream(y, sum);
        } else {
          store_line(y, sum, false);
        }
      });
    });
  }

  // Whole vectors that are clamped at most. What is the same for all pixels is known when
  // compiling, or in registers.
  template <Parts kParts, int kPixels>
  MEGACONV_INLINE void write_whole(const Vec (&sums)[kPixels], Size pixel, Size step, Size block,
                                   int lane) const {
    const Size channel = block + lane, pixel_stride = blocks_.pixel(block);
    const Vec scale = epilogue_.scale ? read(scale_ + channel) : broadcast(1);
    const Vec bias = epilogue_.bias ? read(bias_ + channel) : Vec{};
    const bool residual = kParts == Parts::any && epilogue_.residual, streams = streams_;
    const Activate activate = activate_;
    const Size first = blocks_.first(block) + lane + pixel * pixel_stride;
    step *= pixel_stride;
    T* y = y_ + first;
    const T* from = residual ? residual_ + first : nullptr;
    unroll<kPixels>([&](auto i) __attribute__((always_inline)) {
      Vec sum = Products<T>::number(sums[i]);
      if constexpr (kParts != Parts::none) {
        sum = Products<T>::scaled(sums[i], scale, bias);
        if (residual) sum += read(from + i * step);
        sum = activate.clamped(sum);
      }
      store_line(y, sum, streams);
      y += step;
    });
  }

  // All else. Out of line, from memory: inlined for every size of tiles it was most of their code.
  MEGACONV_OUT_OF_LINE void write_rest(const Vec* sums, Size num_pixels, Size pixel, Size step,
                                       Size block, int lane, Size count) const {
    const Size lanes = min_of(count, kLanes);
    const bool whole = lanes == kLanes, none = whole && parts_ == Parts::none, streams = streams_;
    const Size channel = block + lane, pixel_stride = blocks_.pixel(block);
    const Vec scale = epilogue_.scale ? read_first(scale_ + channel, lanes) : broadcast(1);
    const Vec bias = epilogue_.bias ? read_first(bias_ + channel, lanes) : Vec{};
    const Activate activate = activate_;
    const Size first = blocks_.first(block) + lane + pixel * pixel_stride;
    step *= pixel_stride;
    T* y = y_ + first;
    const T* from = epilogue_.residual ? residual_ + first : nullptr;
    for (Size i = 0; i < num_pixels; ++i, y += step) {
      Vec sum = none ? Products<T>::number(sums[i]) : Products<T>::scaled(sums[i], scale, bias);
      if (from != nullptr) sum += read_first(from + i * step, lanes);
      sum = activate(sum);
      whole ? store_line(y, sum, streams) : write_first(y, sum, lanes);
    }
  }

  ChannelBlocks blocks_;
  Epilogue epilogue_;
  Parts parts_;
  Activate activate_;
  const Vector *scale_, *bias_;
  T* y_;
  const T* residual_;
  bool streams_, is_plain_;
};

}  // namespace megaconv::cpu::MEGACONV_ISA
