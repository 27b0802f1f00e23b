// SPDX-License-Identifier: Apache-2.0
// Direct tasks whose lanes are columns of the output: for NCHW, where the columns of x and of y are
// neighbours, so that nothing is transposed. Words are single channels.
//
// The input of a task is planes, one a channel. Where x holds floats and the filter neither strides
// nor pads nor is depthwise, they are those of x. Else a task copies its input, with zeros for the
// padding, rows and columns sorted by their remainders modulo the stride:
//
//   [channel][row % stride_h][col % stride_w][row / stride_h][col / stride_w]
//
// Either way output (i, j) of a task's rectangle reads tap (r, s) at i * pitch + j plus an offset
// of the tap. Where the columns between two rows are few, a run goes through all rows, and what it
// computes there is dropped: 7 rows of 7 columns and 2 of padding are 4 vectors of 16, not 7.
//
// Sums are added in the order of U, (r, s, channel), as by the micro-kernel.
#pragma once

#include "tasks/cpu/activation.inl"
#include "tasks/cpu/channel_blocks.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/products.inl"

namespace megaconv::cpu::MEGACONV_ISA {

// The largest tile of sums that leaves registers for x and for a broadcast of u.
#if MEGACONV_LANES == 16
inline constexpr int kColumnFilters = 8, kColumnVecs = 3;  // 24 of 32 registers
#elif MEGACONV_LANES == 8 || defined(__aarch64__)
inline constexpr int kColumnFilters = 4, kColumnVecs = 3;  // 12 of 16, or of 32
#else
inline constexpr int kColumnFilters = 4, kColumnVecs = 2;  // 8 of 16
#endif
/// Vectors of a depthwise kernel, which has one filter.
inline constexpr int kDepthwiseVecs = 8;
/// Input of a part of the columns of direct tasks.
inline constexpr Size kPartBytes = 24 << 10;
inline constexpr Size kVecBytes = kLanes * sizeof(float);
static_assert(kColumnFilters * kColumnVecs * kLanes <= kMaxColumnSums);
static_assert(kDepthwiseVecs * kLanes <= kMaxColumnSums);

/// What a kernel sums. Distances in words.
struct ColumnArgs {
  const float* x;     ///< first column of the first channel
  Size x_channel;     ///< from one channel to the next
  const Panel* taps;  ///< where each tap is from x, and its channels
  Size num_taps;
  const float* u;   ///< [tap][channel][16], from the first filter's lane on
  float* out;       ///< [filter][column]
  Size out_filter;  ///< from one filter to the next
  Size last_lanes;  ///< of the last vector, that may be read
};

template <class Product, int kFilters, int kVecs, bool kTail>
void column_kernel(const ColumnArgs& args) {
  Vec sums[kFilters][kVecs];
  unroll<kFilters * kVecs>([&](auto i) __attribute__((always_inline)) {
    sums[i / kVecs][i % kVecs] = Vec{};
  });
  const float* u = args.u;
  const Size x_channel = args.x_channel;
  const Panel* const last = args.taps + args.num_taps;
  for (const Panel* tap = args.taps; tap != last; ++tap) {
    const float* x = args.x + tap->offset;
    for (Size c = tap->words; c > 0; --c, x += x_channel, u += kBlock) {
      Vec columns[kVecs];
      unroll<kVecs>([&](auto v) __attribute__((always_inline)) {
        const float* const from = x + v * kLanes;
        columns[v] = kTail && v == kVecs - 1 ? read_first(from, args.last_lanes) : load(from);
      });
      unroll<kFilters>([&](auto f) __attribute__((always_inline)) {
        const Vec weight = Product::broadcast_word(u + f);
        unroll<kVecs>([&](auto v) __attribute__((always_inline)) {
          sums[f][v] = Product::multiply_add(sums[f][v], columns[v], weight);
        });
      });
    }
  }
  unroll<kFilters * kVecs>([&](auto i) __attribute__((always_inline)) {
    store(args.out + i / kVecs * args.out_filter + i % kVecs * kLanes, sums[i / kVecs][i % kVecs]);
  });
}

/// Sums `vecs` (1 to kMostVecs) vectors of columns of kFilters filters.
template <class Product, int kFilters, int kMostVecs>
void sum_columns(const ColumnArgs& args, Size vecs) {
  if constexpr (kMostVecs > 1) {
    if (vecs < kMostVecs) return sum_columns<Product, kFilters, kMostVecs - 1>(args, vecs);
  }
  if constexpr (kFilters > 1) {  // one: a copy
    if (args.last_lanes < kLanes) return column_kernel<Product, kFilters, kMostVecs, true>(args);
  }
  column_kernel<Product, kFilters, kMostVecs, false>(args);
}

/// Whether tasks read x as it is.
template <class T>
bool reads_columns_in_place(const ConvProblem& problem, const Extents& extents) {
  return sizeof(T) == sizeof(float) && !extents.depthwise && problem.stride_h == 1 &&
         problem.stride_w == 1 && problem.pad_h == 0 && problem.pad_w == 0;
}

/// to[i] = the word of from[step * i], i < count.
template <class Product, class T>
void copy_columns(const T* from, Size step, float* to, Size count) {
  const auto words = [](const T* first, Size number) __attribute__((always_inline)) {
    return Product::read_words(first, 0, 1, number);
  };
  if (step == 1) {
    Size i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, words(from + i, kLanes));
    if (i < count) write_first(to + i, words(from + i, count - i), count - i);
  } else if (step == 2) {
    for (Size i = 0; i < count; i += kLanes) {
      const Size number = min_of(count - i, kLanes);
      const Size reach = 2 * number - 1;  // the row may end with the last one
      const Vec first = words(from + 2 * i, min_of(reach, kLanes));
      const Vec second =
          reach > kLanes ? words(from + 2 * i + kLanes, min_of(reach - kLanes, kLanes)) : first;
      write_first(to + i, shuffle<EvenLanes>(first, second), number);
    }
  } else {
    for (Size i = 0; i < count; ++i) write_first(to + i, words(from + step * i, 1), 1);
  }
}

/// Lists where rows of one channel's input go, from channel 0 of the image, whose rows are `x_row`
/// elements apart, and to its plane; returns how many. The padding is not written.
inline Size list_copies(const ConvProblem& problem, const Extents& extents, const PixelRect& rect,
                        Size x_row, RowCopy* copies) {
  const Size rows = (rect.rows - 1) * problem.stride_h + extents.extent_h;
  const Size cols = (rect.cols - 1) * problem.stride_w + extents.extent_w;
  const Size row = rect.row * problem.stride_h - problem.pad_h;
  const Size col = rect.col * problem.stride_w - problem.pad_w;
  const Size first_col = max_of(0, -col), last_col = min_of(cols, problem.w - col);
  const Size step = problem.stride_w;
  Size num_copies = 0;
  for (Size i = max_of(0, -row); i < min_of(rows, problem.h - row); ++i) {
    const Size phase = i % problem.stride_h;
    if (phase >= extents.extent_h) continue;  // between filters
    const Size from = (row + i) * x_row + col;
    const Size to = phase * step * extents.phase_plane + i / problem.stride_h * extents.phase_cols;
    for (Size j = 0; j < min_of(step, extents.extent_w); ++j) {
      const Size first = ceil_div(max_of(first_col - j, 0), step);
      const Size count = ceil_div(max_of(last_col - j, 0), step) - first;
      if (count <= 0) continue;
      copies[num_copies++] = {from + first * step + j, to + j * extents.phase_plane + first, count};
    }
  }
  return num_copies;
}

/// The runs of a rectangle: through all of its rows, or one for each.
struct Runs {
  /// `pitch`, `y_row`: from row to row of x or of planes, and of y.
  Runs(const PixelRect& rect, Size pitch, Size y_row) {
    const bool whole = pitch <= ceil_div(rect.cols, kLanes) * kLanes;
    count = whole ? 1 : rect.rows;
    rows = whole ? rect.rows : 1;
    cols = rect.cols;
    if (pitch == cols && cols == y_row) {  // without gaps, in y, too
      cols *= rows;
      rows = 1;
    }
    columns = (rows - 1) * pitch + cols;
  }
  Size vecs() const { return ceil_div(columns, kLanes); }
  Size count;
  Size rows, cols;  ///< of one
  Size columns;     ///< computed for one, with what is dropped
};

/// Lists what goes to y of a run whose rows are `pitch` columns apart in it and `width` in y, by
/// vectors; and one behind the last.
inline void list_segments(const Runs& runs, Size pitch, Size width, Segment* segments) {
  for (Size row = 0; row < runs.rows; ++row) {
    const Size begin = row * pitch, end = begin + runs.cols;
    for (Size vec = begin / kLanes; vec * kLanes < end; ++vec) {
      const Size lane0 = vec * kLanes;
      *segments++ = {.y = row * width + lane0 - begin,
                     .vec = static_cast<std::int32_t>(vec),
                     .first = static_cast<std::int16_t>(max_of(begin - lane0, 0)),
                     .last = static_cast<std::int16_t>(min_of(end - lane0, kLanes))};
    }
  }
  *segments = {.y = 0, .vec = INT32_MAX, .first = 0, .last = 0};
}

/// Applies the epilogue to sums of one filter and stores them; what it can of a large y past the
/// caches, so that end_streaming() must follow in the same task.
template <class T>
class ColumnWriter {
 public:
  ColumnWriter(const TaskArgs& args, const Extents& extents, const PixelRect& rect)
      : args_(args),
        epilogue_(args.tiling->problem.epilogue),
        activate_(epilogue_.activation),
        pitches_(y_pitches(args, extents)) {
    const Size y_size = args.tiling->problem.n * pitches_.image;
    streams_ = y_size > kCachedBytes / static_cast<Size>(sizeof(T));
    first_ = rect.image * pitches_.image + rect.row * pitches_.row + rect.col;
  }

  /// The segments of vectors [first, last) of a run that begins with the rectangle's row `row`,
  /// from `segment` on; returns the one behind them.
  const Segment* write(const float* sums, Size filter, Size row, const Segment* segment, Size first,
                       Size last) const {
    const auto vector_of = [&](const void* vector) __attribute__((always_inline)) {
      const auto* const typed = static_cast<const typename VectorStorage<T>::Type*>(vector);
      return broadcast(read_first(typed + filter, 1)[0]);
    };
    const Vec scale = epilogue_.scale ? vector_of(args_.scale) : broadcast(1);
    const Vec bias = epilogue_.bias ? vector_of(args_.bias) : Vec{};
    const Size begin = first_ + filter * pitches_.step + row * pitches_.row;
    T* const y = static_cast<T*>(args_.y) + begin;
    const T* const residual =
        epilogue_.residual ? static_cast<const T*>(args_.residual) + begin : nullptr;
    for (; segment->vec < last; ++segment) {
      const LaneRange lanes{segment->first, segment->last};
      const bool all = lanes.last - lanes.first == kLanes;
      Vec sum = Products<T>::scaled(load(sums + (segment->vec - first) * kLanes), scale, bias);
      if (residual != nullptr) {
        sum += all ? read(residual + segment->y) : read_lanes(residual + segment->y, lanes);
      }
      sum = activate_(sum);
      all ? store_line(y + segment->y, sum, streams_) : write_lanes(y + segment->y, sum, lanes);
    }
    return segment;
  }

 private:
  const TaskArgs& args_;
  Epilogue epilogue_;
  Activate activate_;
  Pitches pitches_;
  Size first_;
  bool streams_;
};

/// Calls body(part's first, part's vecs) for the parts, of at most `most` vectors, of `vecs`
/// vectors from `first` on. They are shared out evenly: 4 are 2 + 2, not 3 + 1.
template <class Body>
void for_each_part(Size first, Size vecs, Size most, const Body& body) {
  for (Size parts = ceil_div(vecs, most); parts > 0; --parts) {
    const Size part = ceil_div(vecs, parts);
    body(first, part);
    first += part;
    vecs -= part;
  }
}

/// The taps of a filter, in the order of U. `x_row`: between rows of x, if it is read in place.
inline Size list_taps(const ConvProblem& problem, const Extents& extents, bool in_place, Size x_row,
                      Size channels, Panel* taps) {
  Size num_taps = 0;
  for (Size r = 0; r < problem.r; ++r) {
    for (Size s = 0; s < problem.s; ++s) {
      const Size row = r * problem.dilation_h, col = s * problem.dilation_w;
      const Size phase = row % problem.stride_h * problem.stride_w + col % problem.stride_w;
      const Size offset = in_place ? row * x_row + col
                                   : phase * extents.phase_plane +
                                         row / problem.stride_h * extents.phase_cols +
                                         col / problem.stride_w;
      taps[num_taps++] = {offset, channels};
    }
  }
  return num_taps;
}

/// What the channels and filters of a task have in common.
template <class T>
struct ColumnTask {
  ColumnTask(const TaskArgs& args, const Extents& extents, const PixelRect& rect, Size num_channels,
             Size num_planes, std::byte* scratch)
      : in_place(reads_columns_in_place<T>(args.tiling->problem, extents)),
        x_at(x_pitches(args)),
        y_row(y_pitches(args, extents).row),
        pitch(in_place ? x_at.row : extents.phase_cols),
        runs(rect, pitch, y_row),
        writer(args, extents, rect),
        planes(reinterpret_cast<float*>(scratch)),
        sums(reinterpret_cast<float*>(scratch + extents.pixels_at)),
        taps(reinterpret_cast<Panel*>(scratch + extents.panels_at)),
        copies(reinterpret_cast<RowCopy*>(scratch + extents.copies_at)),
        segments(reinterpret_cast<Segment*>(scratch + extents.segments_at)) {
    const ConvProblem& problem = args.tiling->problem;
    num_taps = list_taps(problem, extents, in_place, x_at.row, num_channels, taps);
    list_segments(runs, pitch, y_row, segments);
    x = static_cast<const T*>(args.x) + rect.image * x_at.image;
    if (in_place) {
      x += rect.row * x_at.row + rect.col;
    } else {
      num_copies = list_copies(problem, extents, rect, x_at.row, copies);
      step = problem.stride_w;
      __builtin_memset(planes, 0, static_cast<std::size_t>(num_planes * extents.plane) * 4);
    }
  }

  template <class Product>
  void copy(Size channel, float* plane) const {
    const T* const from = x + channel * x_at.step;
    for (const RowCopy* row = copies; row != copies + num_copies; ++row) {
      copy_columns<Product>(from + row->from, step, plane + row->to, row->count);
    }
  }
  /// Of the last of `vecs` vectors from `first` on, those that may be read.
  Size last_lanes(Size first, Size vecs) const {
    return in_place ? min_of(kLanes, runs.columns - (first + vecs - 1) * kLanes) : kLanes;
  }

  bool in_place;
  Pitches x_at;
  Size y_row;
  Size pitch;
  Runs runs;
  ColumnWriter<T> writer;
  float *planes, *sums;
  Panel* taps;
  RowCopy* copies;
  Segment* segments;
  const T* x;  ///< channel 0; in place from the first output on, else all of the image
  Size num_taps, num_copies = 0, step = 1;
};

/// `blocks` of one conv group.
template <class T>
void direct_columns(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                    Size conv_group, const BlockRange& blocks, std::byte* scratch) {
  using Product = typename Products<T>::Direct;
  const ColumnTask<T> task(args, extents, rect, extents.channels, extents.channels, scratch);
  const Size first_channel = conv_group * extents.channels;
  const float* x = task.planes;
  if (task.in_place) {
    x = reinterpret_cast<const float*>(task.x) + first_channel * task.x_at.step;
  } else {
    for (Size c = 0; c < extents.channels; ++c) {
      task.template copy<Product>(first_channel + c, task.planes + c * extents.plane);
    }
  }
  const Size first_block = conv_group * extents.filter_blocks_per_conv_group;
  const Size u_block = task.num_taps * extents.channels * kBlock;
  // Filters go through as many columns as keep x in the first-level cache, so that y is written in
  // long runs.
  const Size most_vecs =
      max_of(1, kPartBytes / (extents.channels * kColumnVecs * kVecBytes)) * kColumnVecs;
  for (Size row = 0; row < task.runs.count; ++row) {
    const Segment* begin = task.segments;
    for_each_part(0, task.runs.vecs(), most_vecs, [&](Size block_first, Size block_vecs) {
      const Segment* end = begin;
      const auto multiply = [&](const float* u, Size filter, Size num_filters) {
        const Segment* segments = begin;
        for_each_part(block_first, block_vecs, kColumnVecs, [&](Size first, Size vecs) {
          sum_columns<Product, kColumnFilters, kColumnVecs>(
              {.x = x + row * task.pitch + first * kLanes,
               .x_channel = task.in_place ? task.x_at.step : extents.plane,
               .taps = task.taps,
               .num_taps = task.num_taps,
               .u = u,
               .out = task.sums,
               .out_filter = kColumnVecs * kLanes,
               .last_lanes = task.last_lanes(first, vecs)},
              vecs);
          const Segment* next = segments;
          for (Size i = 0; i < num_filters; ++i) {
            next = task.writer.write(task.sums + i * kColumnVecs * kLanes, filter + i, row,
                                     segments, first, first + vecs);
          }
          segments = next;
        });
        end = segments;
      };
      for (Size kb = blocks.first; kb < blocks.last; ++kb) {
        const Size filter = (kb - first_block) * kBlock;  // within the conv group
        const Size filters = min_of(kBlock, extents.filters - filter);
        for (Size k = 0; k < filters; k += kColumnFilters) {
          multiply(args.u + kb * u_block + k, conv_group * extents.filters + filter + k,
                   min_of(kColumnFilters, filters - k));
        }
      }
      begin = end;
    });
  }
}

/// Channels of `blocks`, each with its own filter.
template <class T>
void depthwise_columns(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                       const BlockRange& blocks, std::byte* scratch) {
  using Product = typename Products<T>::Depthwise;
  const ColumnTask<T> task(args, extents, rect, 1, extents.plane_channels, scratch);
  const Size last_channel = min_of(blocks.last * kBlock, extents.filters);
  // A plane is read when its rows have long been stored: before, what crosses rows would wait for
  // them, and for the y before them.
  for (Size first = blocks.first * kBlock; first < last_channel; first += extents.plane_channels) {
    const Size channels = min_of(extents.plane_channels, last_channel - first);
    for (Size c = 0; c < channels; ++c) {
      task.template copy<Product>(first + c, task.planes + c * extents.plane);
    }
    for (Size c = first; c < first + channels; ++c) {
      const float* const x = task.planes + (c - first) * extents.plane;
      for (Size row = 0; row < task.runs.count; ++row) {
        const Segment* segments = task.segments;
        for_each_part(0, task.runs.vecs(), kDepthwiseVecs, [&](Size vec, Size vecs) {
          sum_columns<Product, 1, kDepthwiseVecs>(
              {.x = x + row * task.pitch + vec * kLanes,
               .x_channel = 0,
               .taps = task.taps,
               .num_taps = task.num_taps,
               .u = args.u + c / kBlock * task.num_taps * kBlock + c % kBlock,
               .out = task.sums,
               .out_filter = 0,
               .last_lanes = kLanes},
              vecs);
          segments = task.writer.write(task.sums, c, row, segments, vec, vec + vecs);
        });
      }
    }
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
