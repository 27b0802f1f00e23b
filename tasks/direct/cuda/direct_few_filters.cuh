// SPDX-License-Identifier: Apache-2.0
// Direct tasks on tensor cores, in NHWC, of few filters and few terms: what takes time is to read
// x. A warp has 16 pixels, which are the rows of its matrix instructions, and all filters. It loads
// all terms of its pixels into registers; the filters are in shared memory. No warp waits for
// another once these are there.
//
// A thread loads parts of a sum: one quad (mma_quads.cuh), or two neighbours where channels come in
// whole eights of 16 bits. Of pixels lane / 4 and lane / 4 + 8:
//
//   step                  0                    1
//   lane % 4              0    1    2    3     0    1    2    3
//   part of the sum       0    1    2    3     4    5    6    7
//
// Its sums are of the same pixels, and of kRun neighbouring filters from lane % 4 * kRun on.
//
//   U   [step][column of 8 filters][lane] of a part; zeros past the last term and filter
#pragma once

#include <cuda_pipeline.h>

#include <iterator>

#include "tasks/direct/cuda/mma_outputs.cuh"
#include "tasks/direct/cuda/mma_quads.cuh"

namespace megaconv::cuda {

/// kQuads: of a part.
template <class Stored, int kQuads>
struct FewFiltersTask {
  static constexpr int kThreads = kMmaThreads, kWarps = kThreads / 32;
  static constexpr int kBlocksPerSm = static_cast<int>(kFewFilterBlocks);
  static constexpr int kStepParts = static_cast<int>(kMmaStepQuads);
  static constexpr int kMostColumns = static_cast<int>(kMostFewFilters) / 8;
  static constexpr int kCompiled = static_cast<int>(std::size(kFewFilterSteps));
  static constexpr int kMostSteps = static_cast<int>(kFewFilterSteps[kCompiled - 1]);
  static constexpr int kPixels = 16;

  struct Shared {
    alignas(16) uint4 filters[kMostSteps * kMostColumns * 32];
    MmaTerm terms[kMostSteps * kStepParts];
  };

  /// Filter tasks: filters_per_filter_task filters of w.
  static __device__ void pack_filters(const TaskArgs& a, std::uint32_t block) {
    const int begin = static_cast<int>(block) * a.filters_per_filter_task;
    const int end = begin + a.filters_per_filter_task;
    const int steps = steps_of(a), columns = columns_of(a), run = 2 * columns;
    auto* const u = reinterpret_cast<Part*>(a.u);
    for (int i = static_cast<int>(threadIdx.x); i < steps * columns * 32; i += kThreads) {
      const int in_column = i % 32 / 4, column = i / 32 % columns, step = i / 32 / columns;
      const int filter = in_column / 2 * run + column * 2 + in_column % 2;
      if (filter < begin || filter >= end) continue;
      u[i] = Part::of_filter(a, filter, step * kStepParts + i % 4);
    }
  }

  /// wait(): for the kernel that wrote what is read. All filters are one block.
  template <class Wait>
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t /*block*/,
                             Shared& shared, Wait wait) {
    const int steps = steps_of(a), columns = columns_of(a);
    for (int i = static_cast<int>(threadIdx.x); i < steps * kStepParts; i += kThreads) {
      shared.terms[i] = MmaTerm::of(a, i, 4 * kQuads);
    }
    const PixelRect rect(a, group);
    wait();
    auto* const filters = reinterpret_cast<Part*>(shared.filters);
    const auto* const u = reinterpret_cast<const Part*>(a.u);
    for (int i = static_cast<int>(threadIdx.x); i < steps * columns * 32; i += kThreads) {
      __pipeline_memcpy_async(&filters[i], &u[i], sizeof(Part));
    }
    __pipeline_commit();
    __syncthreads();  // terms are there
    unroll<kMostColumns>([&](auto index) {
      constexpr int kColumns = index() + 1;
      if (columns != kColumns) return;
      Warp<kColumns>{a, rect, shared, steps, MmaOutputs<Stored, 2 * kColumns>(a, rect.image)}.run();
    });
  }

 private:
  // Numbers of x as they are, and of a filter as they are multiplied.
  using Numbers = Vec<4 * kQuads, Stored>;
  using Part = MmaPart<Stored, kQuads>;

  // Those that are compiled for a sum.
  static __device__ int steps_of(const TaskArgs& a) {
    const int parts = a.r * a.s * ((a.c + 4 * kQuads - 1) / (4 * kQuads));
    int result = 0;
    unroll<kCompiled>([&](auto index) {
      constexpr int kSteps = static_cast<int>(kFewFilterSteps[kCompiled - 1 - index()]);
      if (parts <= kSteps * kStepParts) result = kSteps;
    });
    return result;
  }
  static __device__ int columns_of(const TaskArgs& a) { return (a.k + 7) / 8; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  template <int kColumns>
  struct Warp {
    static constexpr int kRun = 2 * kColumns;
    const TaskArgs& a;
    const PixelRect rect;
    const Shared& shared;
    const int steps;
    const MmaOutputs<Stored, kRun> to_y;

    __device__ void run() const {
      const bool vectors = a.c % (4 * kQuads) == 0 && are_aligned<Numbers>(a.x);
      vectors ? run<true>() : run<false>();
    }

   private:
    // The two pixels of a thread.
    struct Pixels {
      int row[2], col[2];  // in x
      int places[2];       // in an image of y; less than 0 if there is none

      __device__ Pixels(const TaskArgs& a, const PixelRect& rect, int first) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int index = first + i * 8 + lane() / 4, down = bounded_quotient(index, rect.cols);
          const int y_row = rect.row + down, y_col = rect.col + index - down * rect.cols;
          const bool exists = down < rect.rows;
          row[i] = exists ? y_row * a.stride_h - a.pad_h : a.h;  // or outside
          col[i] = y_col * a.stride_w - a.pad_w;
          places[i] = exists ? (y_row * a.q + y_col) * a.k : -1;
        }
      }
    };
    // As words: the compiler takes vectors of 16-bit numbers apart as soon as they are there.
    using Words = typename WordsOf<sizeof(Numbers)>::Type;

    template <bool kVector>
    __device__ void run() const {
      const int pixels = rect.rows * rect.cols, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
      for (int i = warp; i < kWarps || i * kPixels < pixels; i += kWarps) {
        const Pixels own(a, rect, i * kPixels);
        float sums[kColumns][4] = {};
        unroll<kCompiled>([&](auto index) {  // what is small of a tile, for every number of steps
          constexpr int kSteps = static_cast<int>(kFewFilterSteps[index()]);
          if (steps != kSteps) return;
          Words inputs[kSteps][2];
          load<kVector>(own, inputs);
          if (i == warp) {  // filters arrive beside them
            __pipeline_wait_prior(0);
            __syncthreads();
          }
          multiply(inputs, sums);
        });
        float outputs[2 * kRun];
#pragma unroll
        for (int j = 0; j < 2 * kRun; ++j) {
          const int pixel = j / kRun, filter = j % kRun;
          outputs[j] = sums[filter / 2][pixel * 2 + filter % 2];
        }
        to_y.finish(own.places, lane() % 4 * kRun, outputs);
      }
    }

    // Of some channels those from `begin` on, one by one.
    static constexpr int kWordNumbers = static_cast<int>(sizeof(std::uint32_t) / sizeof(Stored));
    static __device__ std::uint32_t load_word(bool exist, const Stored* from, int begin,
                                              int channels) {
      std::uint32_t word = 0;
#pragma unroll
      for (int i = kWordNumbers - 1; i >= 0; --i) {
        using Bits = typename WordsOf<sizeof(Vec<1, Stored>)>::Type;
        Bits bits = 0;
        if (exist && begin + i < channels) bits = *reinterpret_cast<const Bits*>(from + begin + i);
        word = kWordNumbers == 1 ? bits : word << 16 | bits;
      }
      return word;
    }

    template <bool kVector, int kSteps>
    __device__ void load(const Pixels& pixels, Words (&inputs)[kSteps][2]) const {
      const Stored* const x = reinterpret_cast<const Stored*>(a.x) +
                              static_cast<std::int64_t>(rect.image) * a.h * a.w_in * a.c;
      int first[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) first[i] = (pixels.row[i] * a.w_in + pixels.col[i]) * a.c;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const MmaTerm term = shared.terms[step * kStepParts + lane() % 4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = pixels.row[i] + term.row, col = pixels.col[i] + term.col;
          const bool exists = static_cast<unsigned>(row) < static_cast<unsigned>(a.h) &&
                              static_cast<unsigned>(col) < static_cast<unsigned>(a.w_in);
          const Stored* const from = x + (first[i] + term.offset);
          Words& words = inputs[step][i];
          if constexpr (kVector) {
            words = {};
            if (exists) words = *reinterpret_cast<const Words*>(from);
          } else {
            Part part;
#pragma unroll
            for (int j = 0; j < Part::kWords; ++j) {
              part.words[j] = load_word(exists, from, j * kWordNumbers, term.channels);
            }
            std::memcpy(&words, part.words, sizeof words);
          }
        }
      }
    }

    template <int kSteps>
    __device__ void multiply(const Words (&inputs)[kSteps][2], float (&sums)[kColumns][4]) const {
      const auto* const filters = reinterpret_cast<const Part*>(shared.filters);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        Part pixels[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          std::memcpy(pixels[i].words, &inputs[step][i], sizeof inputs[step][i]);
          if constexpr (std::is_same_v<Stored, float>) {
#pragma unroll
            for (std::uint32_t& word : pixels[i].words) word = round_to_tf32(__uint_as_float(word));
          }
        }
#pragma unroll
        for (int column = 0; column < kColumns; ++column) {
          const Part filter = filters[(step * kColumns + column) * 32 + lane()];
          add_products(sums[column], pixels, filter);
        }
      }
    }
  };
};

}  // namespace megaconv::cuda
