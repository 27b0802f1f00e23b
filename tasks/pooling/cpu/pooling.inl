// SPDX-License-Identifier: Apache-2.0
// x -> y: the largest or the average number under every window. kernels.inl includes this.
//
// What vectors hold:
//   nhwc, nchw16c   neighbouring channels of an output
//   nchw   neighbouring outputs of a row, where all columns of their windows are in the image and
//          the stride is 1 or 2; else the same output of kLanes channels, number by number
//
// An output is made of its window's numbers row by row, and in a row from left to right, whatever a
// vector holds. An average ends with one division, and no product is added to a sum. So all
// instruction sets give the same bits, but for the payload of a NaN that is an average.
#pragma once

#include "tasks/cpu/storage.inl"
#include "tasks/pooling/cpu/pooling.hpp"
#include "tasks/pooling/pooling.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

/// A NaN stays; of equal numbers, the first.
struct MaxPool {
  static MEGACONV_INLINE Vec first() { return broadcast(-__builtin_inff()); }
  static MEGACONV_INLINE Vec add(Vec largest, Vec v) {
    const Vec kept = v == v ? largest : v;
    return v > largest ? v : kept;
  }
  static MEGACONV_INLINE Vec finish(Vec largest, Size) { return largest; }
};

struct AveragePool {
  static MEGACONV_INLINE Vec first() { return Vec{}; }
  static MEGACONV_INLINE Vec add(Vec sum, Vec v) { return sum + v; }
  static MEGACONV_INLINE Vec finish(Vec sum, Size count) {
    return sum / broadcast(static_cast<float>(count));
  }
};

/// Rows and columns of an image under a window: its part of them.
struct PoolWindow {
  Size row, rows, col, cols;
};

/// Every other one of 2 kLanes - 1 numbers, of which the first and the last kLanes are given.
struct EveryOther {
  static constexpr int of(int l) { return 2 * l < kLanes ? 2 * l : 2 * l + 1; }
};
/// kLanes numbers, kStep apart; touches no number past the last.
template <int kStep, class T>
MEGACONV_INLINE Vec read_every(const T* from) {
  if constexpr (kStep == 1) {
    return read(from);
  } else {
    return shuffle<EveryOther>(read(from), read(from + kLanes - 1));
  }
}

/// Numbers at any kLanes places.
MEGACONV_INLINE Vec gather(const float* from, const Size (&offsets)[kLanes]) {
  Vec v{};
  unroll<kLanes>([&](auto i) __attribute__((always_inline)) { v[int{i}] = from[offsets[i]]; });
  return v;
}
template <class T>
MEGACONV_INLINE Vec gather(const T* from, const Size (&offsets)[kLanes]) {
  NarrowBits<T> bits{};
  unroll<kLanes>([&](auto i)
                     __attribute__((always_inline)) { bits[int{i}] = from[offsets[i]].bits; });
  return widened<T>(bits);
}
/// The first `count` lanes to places `stride` apart.
template <class T>
MEGACONV_INLINE void scatter(T* to, Vec v, Size stride, Size count) {
  T lanes[kLanes];
  write(lanes, v);
  for (Size i = 0; i < count; ++i) to[i * stride] = lanes[i];
}

template <class Pool, class T>
class PoolBody {
 public:
  /// Of nchw16c, the task's channels are those of one block, which is an image in nhwc.
  PoolBody(const PoolArgs& args, const PoolTask& task) : task_(task), problem_(args.cut->problem) {
    const bool planes = problem_.layout == Layout::nchw;
    const bool blocked = problem_.layout == Layout::nchw16c;
    const Size in_plane = problem_.h * problem_.w, out_plane = task.p * task.q;
    const Size before = blocked ? task.first_channel / kChannelBlock * kChannelBlock : 0;
    channel_ = planes ? in_plane : 1;
    pixel_ = planes ? 1 : problem_.c - before;
    if (blocked) pixel_ = min_of(pixel_, kChannelBlock);
    out_channel_ = planes ? out_plane : 1;
    x_ = static_cast<const T*>(args.x) + (task.image * problem_.c + before) * in_plane +
         (task.first_channel - before) * channel_;
    y_ = static_cast<T*>(args.y) + (task.image * problem_.c + before) * out_plane +
         (task.first_channel - before) * out_channel_;
  }

  void run() const {
    if (problem_.layout != Layout::nchw) return run_pixels();
    // Columns whose windows lie within the image; none where vectors cannot have them.
    const Size stride = problem_.stride_w, last = problem_.w + problem_.pad_w - problem_.s;
    Size begin = max_of(task_.col, ceil_div(problem_.pad_w, stride));
    Size end = last < 0 ? 0 : min_of(task_.col + task_.cols, last / stride + 1);
    if (stride > 2 || end - begin < kLanes) begin = end = task_.col;
    stride == 1 ? run_columns<1>(begin, end) : run_columns<2>(begin, end);
    run_planes(task_.col, begin);
    run_planes(end, task_.col + task_.cols);
  }

 private:
  PoolWindow window(Size row, Size col) const {
    const Size first_row = row * problem_.stride_h - problem_.pad_h;
    const Size first_col = col * problem_.stride_w - problem_.pad_w;
    const Size top = max_of(first_row, 0), left = max_of(first_col, 0);
    return {top, min_of(first_row + problem_.r, problem_.h) - top, left,
            min_of(first_col + problem_.s, problem_.w) - left};
  }
  const T* in(const PoolWindow& at) const { return x_ + (at.row * problem_.w + at.col) * pixel_; }
  T* out(Size row, Size col) const { return y_ + (row * task_.q + col) * pixel_; }

  /// Calls add(number) with the address of every number under the window, of the first channel.
  template <class Add>
  MEGACONV_INLINE void for_each(const PoolWindow& of, const T* from, const Add& add) const {
    for (Size i = 0; i < of.rows; ++i, from += problem_.w * pixel_) {
      for (Size j = 0; j < of.cols; ++j) add(from + j * pixel_);
    }
  }

  /// nhwc, nchw16c.
  void run_pixels() const {
    constexpr int kMost = 4;  // vectors at a time, whose comparisons or sums wait for none other
    const Size channels = task_.num_channels;
    for (Size row = task_.row; row < task_.row + task_.rows; ++row) {
      for (Size col = task_.col; col < task_.col + task_.cols; ++col) {
        const PoolWindow of = window(row, col);
        const T* const from = in(of);
        T* const to = out(row, col);
        if (channels < kLanes) {
          Vec v = Pool::first();
          for_each(
              of, from, [&](const T* number) __attribute__((always_inline)) {
                v = Pool::add(v, read_first(number, channels));
              });
          write_first(to, Pool::finish(v, of.rows * of.cols), channels);
          continue;
        }
        Size c = 0;
        for (; c + kMost * kLanes <= channels; c += kMost * kLanes) {
          pool_channels<kMost>(of, from + c, to + c);
        }
        for (; c < channels; c += kLanes) {  // the last vector may repeat some outputs
          const Size first = min_of(c, channels - kLanes);
          pool_channels<1>(of, from + first, to + first);
        }
      }
    }
  }
  template <int kVecs>
  MEGACONV_INLINE void pool_channels(const PoolWindow& of, const T* from, T* to) const {
    Vec v[kVecs];
    unroll<kVecs>([&](auto i) __attribute__((always_inline)) { v[i] = Pool::first(); });
    for_each(
        of, from, [&](const T* number) __attribute__((always_inline)) {
          unroll<kVecs>([&](auto i) __attribute__((always_inline)) {
            v[i] = Pool::add(v[i], read(number + i * kLanes));
          });
        });
    unroll<kVecs>([&](auto i) __attribute__((always_inline)) {
      write(to + i * kLanes, Pool::finish(v[i], of.rows * of.cols));
    });
  }

  /// nchw: outputs of columns [begin, end), none or at least kLanes, whose windows lie within the
  /// image.
  template <int kStride>
  void run_columns(Size begin, Size end) const {
    for (Size channel = 0; channel < task_.num_channels; ++channel) {
      for (Size row = task_.row; row < task_.row + task_.rows; ++row) {
        for (Size next = begin; next < end; next += kLanes) {
          const Size col = min_of(next, end - kLanes);  // the last vector may repeat some outputs
          const PoolWindow of = window(row, col);
          Vec v = Pool::first();
          for_each(
              of, in(of) + channel * channel_, [&](const T* number) __attribute__((always_inline)) {
                v = Pool::add(v, read_every<kStride>(number));
              });
          write(out(row, col) + channel * out_channel_, Pool::finish(v, of.rows * of.cols));
        }
      }
    }
  }

  /// nchw: outputs of columns [begin, end), of any kind.
  void run_planes(Size begin, Size end) const {
    if (begin >= end) return;
    for (Size channel = 0; channel < task_.num_channels; channel += kLanes) {
      const Size count = min_of(kLanes, task_.num_channels - channel);
      Size offsets[kLanes];  // past the last channel, that one again
      for (Size i = 0; i < kLanes; ++i) {
        offsets[i] = (channel + min_of(i, count - 1)) * channel_;
      }
      for (Size row = task_.row; row < task_.row + task_.rows; ++row) {
        for (Size col = begin; col < end; ++col) {
          const PoolWindow of = window(row, col);
          Vec v = Pool::first();
          for_each(
              of, in(of), [&](const T* number) __attribute__((always_inline)) {
                v = Pool::add(v, gather(number, offsets));
              });
          scatter(out(row, col) + channel * out_channel_, Pool::finish(v, of.rows * of.cols),
                  out_channel_, count);
        }
      }
    }
  }

  const PoolTask& task_;
  const PoolProblem& problem_;
  const T* x_;  ///< the task's first channel of its image
  T* y_;
  Size channel_, pixel_, out_channel_;  ///< distances between neighbours, in numbers
};

template <class T>
void pool(const PoolArgs& args, const PoolTask& task) {
  if (args.cut->problem.mode == PoolMode::max) return PoolBody<MaxPool, T>(args, task).run();
  PoolBody<AveragePool, T>(args, task).run();
}

template <class T>
void pooling(const PoolArgs& args, std::uint32_t group, std::uint32_t block, std::byte*) {
  PoolTask task = task_of(*args.cut, group, block);
  if (args.cut->problem.layout != Layout::nchw16c) return pool<T>(args, task);
  for (Size left = task.num_channels; left > 0; left -= task.num_channels) {
    task.num_channels = min_of(left, kChannelBlock - task.first_channel % kChannelBlock);
    pool<T>(args, task);
    task.first_channel += task.num_channels;
  }
}

#define MEGACONV_POOL_TEXT(name) #name
#define MEGACONV_POOL_NAME(macro) MEGACONV_POOL_TEXT(macro)

extern const PoolKernels kPoolKernels;
const PoolKernels kPoolKernels = {
    .isa = MEGACONV_POOL_NAME(MEGACONV_ISA),
    .by_dtype = {pooling<float>, pooling<Float16>, pooling<Bfloat16>, nullptr},
};

#undef MEGACONV_POOL_NAME
#undef MEGACONV_POOL_TEXT

}  // namespace megaconv::cpu::MEGACONV_ISA
