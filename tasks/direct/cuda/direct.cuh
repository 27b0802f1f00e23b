// SPDX-License-Identifier: Apache-2.0
// Direct tasks: a rectangle of output pixels of one image by a block of filters of one conv group,
// as a matrix product over the terms of a sum, gathered from x as they are needed:
//
//   sum[pixel][filter] = sum over terms e: x[pixel's place + offset(e)] * U[e][filter]
//
// A term is a channel and a tap. They are numbered as they lie in a filter (NCHW: c, r, s; NHWC: r,
// s, c), so that U is w turned over, and few channels or single taps waste nothing. Any stride and
// dilation only changes offset(e); places in the padding, and terms past the last, read zero.
//
// Steps of kDepth terms pass through double-buffered shared memory, filled by asynchronous copies:
//
//   wait for the copies of step s; barrier
//   start the copies of step s + 1 into the other buffer; describe the terms of step s + 2
//   sums += shared[s % 2]
//
// Tensors are of any storage type (Stored); U and the sums are floats.
#pragma once

#include <cuda_pipeline.h>

#include <type_traits>

#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"
#include "tasks/direct/cuda/direct_filter.cuh"
#include "tasks/direct/direct_shapes.hpp"

namespace megaconv::cuda {

/// The output pixels of a group: rows x cols of one image, from (row, col).
struct PixelRect {
  int image, row, col, rows, cols;

  __device__ PixelRect(const TaskArgs& a, std::uint32_t group) {
    const auto row_chunks = static_cast<std::uint32_t>(a.row_chunks);
    const auto col_chunks = static_cast<std::uint32_t>(a.col_chunks);
    const std::uint32_t row_group = col_chunks == 1 ? group : group / col_chunks;
    const std::uint32_t image_idx = row_chunks == 1 ? row_group : row_group / row_chunks;
    image = static_cast<int>(image_idx);
    row = static_cast<int>(row_group - image_idx * row_chunks) * a.rows_per_group;
    col = static_cast<int>(group - row_group * col_chunks) * a.cols_per_group;
    rows = min(a.rows_per_group, a.p - row);
    cols = min(a.cols_per_group, a.q - col);
  }
};

/// A rectangle's pixels, in lines without a gap: whole rows are one.
struct PixelLines {
  int count, length;

  __device__ PixelLines(const TaskArgs& a, const PixelRect& rect) {
    const bool whole = rect.cols == a.q;
    count = whole ? 1 : rect.rows;
    length = whole ? rect.rows * rect.cols : rect.cols;
  }
};

/// Of numbers of at most kMostTaskOutputs: the float is off by less than half an outcome.
__device__ inline int bounded_quotient(int dividend, int divisor) {
  return static_cast<int>(
      __fdividef(static_cast<float>(dividend) + 0.5f, static_cast<float>(divisor)));
}

template <int kShape, Layout kLayout, class Stored = float>
struct DirectTask {
  static constexpr DirectShape kTile = kDirectShapes[kShape];
  static constexpr int kThreads = kTile.threads();
  static constexpr int kDepth = 16;
  static constexpr int kFilters = kTile.filters(), kPixels = kTile.pixels();
  static constexpr int kThreadFilters = kTile.i_tile;
  static constexpr int kThreadPixels = kTile.h_tile * kTile.w_tile;
  static constexpr int kLocalPixels = kTile.h_local * kTile.w_local;  // threads across pixels
  static constexpr int kPixelRow = kPixels + 4;                       // a term's pixels in shared
  static_assert(kTile.i_tile % 4 == 0 && kTile.w_tile % 4 == 0, "runs of 4");

  /// Where a pixel's first tap lies, or what a term adds to that; one load from shared memory.
  struct alignas(16) Place {
    int offset;  ///< in the image, in numbers
    int row, col;
  };
  static constexpr int kOutside = 1 << 29;  // a row that no tap brings back into an image

  struct Shared {
    alignas(16) float x[2][kDepth][kPixelRow];
    alignas(16) float u[2][kDepth][kFilters];
    Place places[kPixels];
    Place terms[2][kDepth];
  };

  // A warp is kWarpFilters x kWarpPixels threads; lanes that share an operand read it together.
  static constexpr int kWarpFilters = kTile.i_local < 8 ? kTile.i_local : 8;
  static constexpr int kWarpPixels = 32 / kWarpFilters;
  static constexpr int kWarpsAcross = kTile.i_local / kWarpFilters;
  static_assert(kTile.i_local % kWarpFilters == 0 && kLocalPixels % kWarpPixels == 0);

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int local_filter() {
    return warp() % kWarpsAcross * kWarpFilters + lane() % kWarpFilters;
  }
  static __device__ int local_pixel() {
    return warp() / kWarpsAcross * kWarpPixels + lane() / kWarpFilters;
  }

  /// Filters and pixels are numbered so that run `i / 4` of all threads comes before the next run.
  static __device__ int filter(int i) {
    return (i / 4 * static_cast<int>(kTile.i_local) + local_filter()) * 4 + i % 4;
  }
  static __device__ int pixel(int i) { return (i / 4 * kLocalPixels + local_pixel()) * 4 + i % 4; }
  /// Row and column of a pixel in the task's rectangle.
  static __device__ void position(int pixel, int& row, int& col) {
    constexpr int kRunsAcross = kTile.w_tile / 4;
    constexpr int kLocalCols = kTile.w_local;
    const int run = pixel / 4 / kLocalPixels, local = pixel / 4 % kLocalPixels;
    row = local / kLocalCols * static_cast<int>(kTile.h_tile) + run / kRunsAcross;
    col = local % kLocalCols * static_cast<int>(kTile.w_tile) + run % kRunsAcross * 4 + pixel % 4;
  }

  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Shared& shared) {
    const PixelRect rect(a, group);
    const DirectFilters filters(a);
    const int first_lane = static_cast<int>(block) * a.filters_per_gemm_task;
    const int conv_group = first_lane / filters.padded;
    const int first_filter = first_lane % filters.padded;
    const int num_filters = min(a.filters_per_gemm_task, filters.padded - first_filter);

    const int num_terms = filters.terms, num_steps = (num_terms + kDepth - 1) / kDepth;
    const std::int64_t image_size = static_cast<std::int64_t>(a.c) * a.h * a.w_in;
    const int first_c = conv_group * (a.c / a.groups);
    const Stored* const x =
        reinterpret_cast<const Stored*>(a.x) + rect.image * image_size +
        (kLayout == Layout::nchw ? static_cast<std::int64_t>(first_c) * a.h * a.w_in : first_c);
    const float* const u =
        a.u + static_cast<std::int64_t>(conv_group) * num_terms * filters.padded + first_filter;

    describe_places(a, rect, shared);
    describe_terms(a, 0, num_terms, shared.terms[0]);
    describe_terms(a, kDepth, num_terms, shared.terms[1]);
    __syncthreads();
    const auto start_load = [&](int step) {
      load_x(a, x, shared.places, shared.terms[step % 2], shared.x[step % 2]);
      load_u(u + static_cast<std::int64_t>(step) * kDepth * filters.padded, filters.padded,
             num_terms - step * kDepth, num_filters, shared.u[step % 2]);
      __pipeline_commit();
    };
    float sums[kThreadPixels][kThreadFilters] = {};
    start_load(0);
    for (int step = 0; step < num_steps; ++step) {
      __pipeline_wait_prior(0);
      __syncthreads();
      if (step + 1 < num_steps) start_load(step + 1);
      // The terms of this step have been read: its copies had been started before the barrier.
      describe_terms(a, (step + 2) * kDepth, num_terms, shared.terms[step % 2]);
      multiply(shared.x[step % 2], shared.u[step % 2], sums);
    }
    store_sums(a, rect, conv_group, first_filter, num_filters, sums);
  }

 private:
  static __device__ void describe_places(const TaskArgs& a, const PixelRect& rect, Shared& shared) {
    for (int i = static_cast<int>(threadIdx.x); i < kPixels; i += kThreads) {
      int row, col;
      position(i, row, col);
      Place place{0, -kOutside, 0};
      if (row < rect.rows && col < rect.cols) {
        place.row = (rect.row + row) * a.stride_h - a.pad_h;
        place.col = (rect.col + col) * a.stride_w - a.pad_w;
        place.offset = (place.row * a.w_in + place.col) * (kLayout == Layout::nchw ? 1 : a.c);
      }
      shared.places[i] = place;
    }
  }

  static __device__ void describe_terms(const TaskArgs& a, int first, int num_terms,
                                        Place (&terms)[kDepth]) {
    if (threadIdx.x >= kDepth) return;
    const int e = first + static_cast<int>(threadIdx.x);
    Place term{0, -kOutside, 0};
    if (e < num_terms) {
      const int channels = a.c / a.groups, taps = a.r * a.s;
      const int c = kLayout == Layout::nchw ? e / taps : e % channels;
      const int tap = kLayout == Layout::nchw ? e % taps : e / channels;
      term.row = tap / a.s * a.dilation_h;
      term.col = tap % a.s * a.dilation_w;
      const int pixels = term.row * a.w_in + term.col;
      term.offset = kLayout == Layout::nchw ? c * a.h * a.w_in + pixels : pixels * a.c + c;
    }
    terms[threadIdx.x] = term;
  }

  // Neighbouring threads take neighbouring numbers of x: pixels (NCHW), or channels (NHWC). Floats
  // are copied asynchronously, others become floats on their way.
  static __device__ void load_x(const TaskArgs& a, const Stored* x, const Place (&places)[kPixels],
                                const Place (&terms)[kDepth], float (&to)[kDepth][kPixelRow]) {
#pragma unroll
    for (int i = 0; i < kDepth * kPixels / kThreads; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * kThreads;
      const int depth = kLayout == Layout::nchw ? index / kPixels : index % kDepth;
      const int pixel = kLayout == Layout::nchw ? index % kPixels : index / kDepth;
      const Place place = places[pixel];
      const Place term = terms[depth];
      const int row = place.row + term.row, col = place.col + term.col;
      const bool exists = static_cast<unsigned>(row) < static_cast<unsigned>(a.h) &&
                          static_cast<unsigned>(col) < static_cast<unsigned>(a.w_in);
      if constexpr (std::is_same_v<Stored, float>) {
        __pipeline_memcpy_async(&to[depth][pixel], exists ? x + place.offset + term.offset : x,
                                sizeof(float), exists ? 0 : sizeof(float));
      } else {
        to[depth][pixel] = exists ? static_cast<float>(x[place.offset + term.offset]) : 0.0f;
      }
    }
  }

  static __device__ void load_u(const float* u, std::int64_t term_stride, int num_terms,
                                int num_filters, float (&to)[kDepth][kFilters]) {
    constexpr int kRuns = kFilters / 4;
#pragma unroll
    for (int i = 0; i < (kDepth * kRuns + kThreads - 1) / kThreads; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * kThreads;
      const int depth = index / kRuns, filter = index % kRuns * 4;
      if (depth >= kDepth) continue;
      const bool exists = depth < num_terms && filter < num_filters;
      __pipeline_memcpy_async(&to[depth][filter], exists ? u + depth * term_stride + filter : u,
                              sizeof(Vec<4>), exists ? 0 : sizeof(Vec<4>));
    }
  }

  static __device__ void multiply(const float (&x)[kDepth][kPixelRow],
                                  const float (&u)[kDepth][kFilters],
                                  float (&sums)[kThreadPixels][kThreadFilters]) {
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      Vec<4> pixels[kThreadPixels / 4], filters[kThreadFilters / 4];
#pragma unroll
      for (int i = 0; i < kThreadPixels; i += 4) pixels[i / 4] = load<4>(&x[depth][pixel(i)]);
#pragma unroll
      for (int j = 0; j < kThreadFilters; j += 4) filters[j / 4] = load<4>(&u[depth][filter(j)]);
#pragma unroll
      for (int i = 0; i < kThreadPixels; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadFilters; ++j) {
          sums[i][j] = fmaf(pixels[i / 4].lane[i % 4], filters[j / 4].lane[j % 4], sums[i][j]);
        }
      }
    }
  }

  static __device__ void store_sums(const TaskArgs& a, const PixelRect& rect, int conv_group,
                                    int first_filter, int num_filters,
                                    const float (&sums)[kThreadPixels][kThreadFilters]) {
    const DirectOutput<kLayout, Stored> output(a, rect.image);
    const int own_filters = a.k / a.groups;
    const int first_k = conv_group * own_filters + first_filter;
    const int end_filter = min(num_filters, own_filters - first_filter);
#pragma unroll
    for (int i = 0; i < kThreadPixels; i += 4) {
      int row, col;
      position(pixel(i), row, col);
      const int num_cols = row < rect.rows ? rect.cols - col : 0;
#pragma unroll
      for (int j = 0; j < kThreadFilters; j += 4) {
        output.store(first_k + filter(j), end_filter - filter(j), rect.row + row, rect.col + col,
                     num_cols, [&](int pixel, int filter) { return sums[i + pixel][j + filter]; });
      }
    }
  }
};

}  // namespace megaconv::cuda
