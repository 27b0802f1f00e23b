// SPDX-License-Identifier: Apache-2.0
// Direct tasks of 1x1 filters on 16 channels or fewer, in NHWC: what takes time is to write y,
// where pixels are one run of numbers. A thread has a column of it: a vector of neighbouring
// numbers in every period of pixels. So its filters are always the same, and stay in registers.
//
//   K = 6, vectors of 4, a period of 2 pixels:
//     pixel      0 0 0 0   0 0 1 1   1 1 1 1
//     filter     0 1 2 3   4 5 0 1   2 3 4 5
//     column     0         1         2
//
// Outputs of one pixel (columns 0 and 2) share what is read of x; those of several (column 1) read
// their own. x is in shared memory, as floats: [pixels][pitch], zeros past the last channel.
#pragma once

#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

template <class Stored = float>
struct ColumnsTask {
  static constexpr int kThreads = kPointwiseThreads;
  static constexpr int kNumbers = 8192;

  struct Shared {
    alignas(16) float x[kNumbers];
  };

  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Shared& shared) {
    if (a.c <= 4) {
      run_lines<static_cast<int>(16 / sizeof(Stored)), 4>(a, group, block, shared.x);
    } else if (a.c <= 8) {
      run_lines<4, 8>(a, group, block, shared.x);
    } else {
      run_lines<2, 16>(a, group, block, shared.x);
    }
  }

 private:
  // An odd number of quads, so that neighbouring pixels are in different banks.
  template <int kChannels>
  static constexpr int kPitch = kChannels == 4 ? 4 : kChannels + 4;

  // Pixels of y, and as many of x, without a gap.
  struct Line {
    std::int64_t first;
    int length;
  };

  template <int kWidth, int kChannels>
  static __device__ void run_lines(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                                   float* x) {
    constexpr int kMost = kNumbers / kPitch<kChannels>;
    const PixelRect rect(a, group);
    const PixelLines lines(a, rect);
    for (int i = 0; i < lines.count; ++i) {
      const std::int64_t first =
          (static_cast<std::int64_t>(rect.image) * a.p + rect.row + i) * a.q + rect.col;
      for (int begin = 0; begin < lines.length; begin += kMost) {
        if (i + begin > 0) __syncthreads();  // x has been read
        const Line line{first + begin, min(kMost, lines.length - begin)};
        load<kChannels>(a, line, x);
        __syncthreads();
        run_columns<kWidth, kChannels>(a, line, block, x);
      }
    }
  }

  template <int kChannels>
  static __device__ void load(const TaskArgs& a, const Line& line, float* to) {
    constexpr int kAtOnce = 4, kQuads = kChannels / 4;
    const int count = line.length * kQuads;
    const bool vectors = a.c % 4 == 0 && are_aligned<Vec<4, Stored>>(a.x);
    const Stored* const x = reinterpret_cast<const Stored*>(a.x) + line.first * a.c;
    for (int first = static_cast<int>(threadIdx.x); first < count; first += kThreads * kAtOnce) {
      Vec<4, Stored> loaded[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int index = first + i * kThreads, pixel = index / kQuads, c = index % kQuads * 4;
        const Stored* const from = x + pixel * a.c + c;
        const bool exists = index < count;
        if (vectors) {
          loaded[i] = load_if<4>(exists && c < a.c, from);
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            loaded[i].lane[j] = load_if<1>(exists && c + j < a.c, from + j).lane[0];
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int index = first + i * kThreads;
        if (index >= count) break;
        cuda::store(to + index / kQuads * kPitch<kChannels> + index % kQuads * 4,
                    to_floats(loaded[i]));
      }
    }
  }

  // How the outputs of a line lie. The first period may begin before it.
  template <int kWidth>
  struct Columns {
    int first_k, filters;  // of the task
    bool whole;            // vectors may be stored as such
    int shift = 0;         // a period has 2^shift pixels
    int count, of_one;     // columns; those with outputs of one pixel
    int lead, periods;     // pixels of the first period before the line

    __device__ Columns(const TaskArgs& a, const Line& line, std::uint32_t block)
        : first_k(static_cast<int>(block) * a.filters_per_gemm_task),
          filters(min(a.filters_per_gemm_task, a.k - first_k)),
          whole((filters == a.k || a.k % kWidth == 0) &&
                are_aligned<Vec<kWidth, Stored>>(a.y, a.residual)) {
      int width = kWidth;
      count = whole ? a.k : (filters + kWidth - 1) / kWidth;
      if (whole) {
        for (; width > 1 && count % 2 == 0; width /= 2) count /= 2;
        if (width == 1) count = filters / kWidth;
        for (; width > 1; width /= 2) ++shift;
      }
      const int of_several = shift == 0 ? 0 : a.k < kWidth ? count : last_of_period();
      of_one = count - of_several;
      lead = static_cast<int>(line.first) & last_of_period();
      periods = (lead + line.length + last_of_period()) >> shift;
    }
    __device__ int last_of_period() const { return (1 << shift) - 1; }

    // The column behind so many others of its kind.
    __device__ int of_one_pixel(const TaskArgs& a, int index) const {
      for (int i = 1; i <= last_of_period(); ++i) index += index >= i * a.k / kWidth;
      return index;
    }
    __device__ int of_several_pixels(const TaskArgs& a, int index) const {
      return a.k < kWidth ? index : (index + 1) * a.k / kWidth;
    }
  };

  // What is the same for all outputs of a column.
  template <int kWidth, bool kSeveralPixels>
  struct Outputs {
    static constexpr int kPixels = kSeveralPixels ? kWidth : 1;
    static constexpr unsigned kAll = (1u << kWidth) - 1;
    int offset;                           // in a period
    int filter[kPixels], pixel[kPixels];  // of the first output, or of each
    unsigned exist = kAll;                // as bits: those of filters that exist
    bool whole;

    __device__ Outputs(const TaskArgs& a, const Columns<kWidth>& columns, int column)
        : offset(columns.first_k + column * kWidth), whole(columns.whole) {
      int d = columns.shift == 0 ? 0 : bounded_quotient(offset, a.k), k = offset - d * a.k;
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
        filter[i] = k;
        pixel[i] = d;
        if (++k == a.k) k = 0, ++d;
      }
      const int left = columns.first_k + columns.filters - filter[0];
      if (!whole && left < kWidth) exist = (1u << left) - 1;
    }
    __device__ int filter_of(int output) const {
      return kSeveralPixels ? filter[output] : filter[0] + output;
    }

    // Zeros past the last channel. All loads are on their way before the first is waited for.
    template <int kChannels>
    __device__ void load_weights(const TaskArgs& a, Vec<kWidth> (&weights)[kChannels]) const {
      constexpr int kRun = kWidth < 4 ? kWidth : 4;
      if (!kSeveralPixels && filter[0] % kRun == 0) {
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
#pragma unroll
          for (int j = 0; j < kWidth; j += kRun) {
            const auto run = cuda::load<kRun>(a.u + min(i, a.c - 1) * a.k_padded + filter[0] + j);
#pragma unroll
            for (int l = 0; l < kRun; ++l) weights[i].lane[j + l] = run.lane[l];
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
#pragma unroll
          for (int j = 0; j < kWidth; ++j) {
            weights[i].lane[j] = a.u[min(i, a.c - 1) * a.k_padded + filter_of(j)];
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        if (i >= a.c) weights[i] = zero<kWidth>();
      }
    }

    // The vector at `at` of y, of which some outputs exist, with the epilogue.
    __device__ void finish(const TaskArgs& a, std::int64_t at, unsigned exist_here,
                           float (&sums)[kWidth]) const {
      const auto* const scale = reinterpret_cast<const Stored*>(a.scale);
      const auto* const bias = reinterpret_cast<const Stored*>(a.bias);
      const auto* const residual = reinterpret_cast<const Stored*>(a.residual);
      if (scale != nullptr || bias != nullptr) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const int k = min(filter_of(i), a.k - 1);
          if (scale != nullptr) sums[i] *= static_cast<float>(scale[k]);
          if (bias != nullptr) sums[i] += static_cast<float>(bias[k]);
        }
      }
      const bool at_once = whole && exist_here == kAll;
      if (residual != nullptr) {
        const auto vector = load_if<kWidth>(at_once, residual + at);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const bool alone = !at_once && (exist_here >> i & 1) != 0;
          sums[i] += static_cast<float>(vector.lane[i]) +
                     static_cast<float>(load_if<1>(alone, residual + at + i).lane[0]);
        }
      }
      activate(a.activation, sums);
      Stored* const y = reinterpret_cast<Stored*>(a.y) + at;
      store_if(at_once, y, as_vector(sums));
      if (at_once || exist_here == 0) return;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        store_if((exist_here >> i & 1) != 0, y + i, Vec<1>{sums[i]});
      }
    }
  };

  template <int kWidth>
  static __device__ Vec<kWidth> as_vector(const float (&numbers)[kWidth]) {
    Vec<kWidth> vector;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) vector.lane[i] = numbers[i];
    return vector;
  }

  template <int kWidth, int kChannels>
  static __device__ void run_columns(const TaskArgs& a, const Line& line, std::uint32_t block,
                                     const float* x) {
    const Columns<kWidth> columns(a, line, block);
    // Calls part(column, first period, end), with parts of a column that are long, so that filters
    // are loaded seldom, but evenly many for the threads.
    const auto share_out = [&](int num_columns, auto part) {
      constexpr int kTurns = 8, kHeight = 8;
      if (num_columns == 0) return;
      const int parts =
          max(max(1, bounded_quotient(kThreads, num_columns)),
              min(bounded_quotient(kTurns * kThreads, num_columns), columns.periods / kHeight));
      const int height = bounded_quotient(columns.periods + parts - 1, parts);
      const int count = num_columns * bounded_quotient(columns.periods + height - 1, height);
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
        const int row = bounded_quotient(i, num_columns), begin = row * height;
        part(i - row * num_columns, begin, min(begin + height, columns.periods));
      }
    };
    share_out(columns.of_one, [&](int index, int begin, int end) {
      const Outputs<kWidth, false> outputs(a, columns, columns.of_one_pixel(a, index));
      run_column<kWidth, kChannels>(a, line, columns, x, outputs, begin, end);
    });
    share_out(columns.count - columns.of_one, [&](int index, int begin, int end) {
      const Outputs<kWidth, true> outputs(a, columns, columns.of_several_pixels(a, index));
      run_column<kWidth, kChannels>(a, line, columns, x, outputs, begin, end);
    });
  }

  // Some of a column's periods.
  template <int kWidth, int kChannels, bool kSeveralPixels>
  static __device__ void run_column(const TaskArgs& a, const Line& line,
                                    const Columns<kWidth>& columns, const float* x,
                                    const Outputs<kWidth, kSeveralPixels>& outputs, int begin,
                                    int end) {
    constexpr int kRows = kSeveralPixels ? 1 : 4, kPixels = kSeveralPixels ? kWidth : 1;
    if constexpr (!kSeveralPixels) {
      const int before = columns.lead - outputs.pixel[0];
      begin = max(begin, before > 0 ? 1 : 0);
      end = min(end, (line.length + before + columns.last_of_period()) >> columns.shift);
    }
    Vec<kWidth> weights[kChannels];
    outputs.load_weights(a, weights);
    const bool bare = a.scale == nullptr && a.bias == nullptr && a.residual == nullptr;
    int in_line = (begin << columns.shift) - columns.lead;  // first pixel of a period
    std::int64_t at = (line.first + in_line) * a.k + outputs.offset;
#pragma unroll 1
    for (; begin < end; begin += kRows) {
      float sums[kRows][kWidth] = {};
      unsigned exist[kRows];
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        exist[row] = !kSeveralPixels && begin + row < end ? outputs.exist : 0;
#pragma unroll
        for (int i = 0; i < kPixels; ++i) {
          const int pixel = in_line + (row << columns.shift) + outputs.pixel[i];
          const int there = max(0, min(pixel, line.length - 1));
          if (kSeveralPixels && there == pixel) exist[row] |= 1u << i;
          multiply<kWidth, kChannels, kPixels>(x + there * kPitch<kChannels>, weights, i,
                                               sums[row]);
        }
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (bare && outputs.whole && (!kSeveralPixels || exist[row] == outputs.kAll)) {
          activate(a.activation, sums[row]);
          store_if(exist[row] != 0, reinterpret_cast<Stored*>(a.y) + at, as_vector(sums[row]));
        } else {
          outputs.finish(a, at, exist[row], sums[row]);
        }
        at += a.k << columns.shift;
      }
      in_line += kRows << columns.shift;
    }
  }

  // Adds the products of a pixel: for all outputs of a vector, or for that of the pixel.
  template <int kWidth, int kChannels, int kPixels>
  static __device__ void multiply(const float* x, const Vec<kWidth> (&weights)[kChannels],
                                  int pixel, float (&sums)[kWidth]) {
    constexpr int kOutputs = kWidth / kPixels;
#pragma unroll
    for (int c = 0; c < kChannels; c += 4) {
      const Vec<4> inputs = cuda::load<4>(x + c);
#pragma unroll
      for (int i = 0; i < 4 * kOutputs; ++i) {
        float& sum = sums[pixel + i % kOutputs];
        sum = fmaf(inputs.lane[i / kOutputs], weights[c + i / kOutputs].lane[pixel + i % kOutputs],
                   sum);
      }
    }
  }
};

}  // namespace megaconv::cuda
