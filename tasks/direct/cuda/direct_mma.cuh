// SPDX-License-Identifier: Apache-2.0
// Direct tasks on tensor cores, in NHWC, of sums with few terms: 1x1 filters on few channels, or
// larger ones on very few. A warp loads all terms of some pixels into registers, and multiplies
// them by as many filters at a time as 128 bytes of y have, which the block has in shared memory. x
// passes through no shared memory, and no warp waits for another once the filters are there.
//
// A thread loads quads (mma_quads.cuh). Of pixel lane / 4:
//
//   step                  0                    1
//   lane % 4              0    1    2    3     0    1    2    3
//   quad of the sum       0    1    2    3     4    5    6    7
//
// Its sums are of two pixels, lane % 4 * 2 and the next, and of 16 bytes of filters, those from
// lane / 4 * kRun on. So a warp stores whole lines.
//
//   U   [128 bytes of filters][step][vector][lane] of 16 bytes; zeros past the last term and filter
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>

#include "tasks/direct/cuda/mma_outputs.cuh"
#include "tasks/direct/cuda/mma_quads.cuh"

namespace megaconv::cuda {

/// kSteps: those that have all terms of a sum. (A kernel of all of them would take longer to
/// start.)
template <class Stored, int kSteps>
struct MmaTask {
  static constexpr int kThreads = kMmaThreads, kWarps = kThreads / 32;
  static constexpr int kFilters = static_cast<int>(mma_filters(sizeof(Stored)));
  static constexpr int kQuad = static_cast<int>(kMmaQuad);
  static constexpr int kStepQuads = static_cast<int>(kMmaStepQuads);
  static constexpr int kBlocksPerSm = static_cast<int>(mma_blocks(sizeof(Stored)));
  using Quad = MmaQuad<Stored>;
  // Filters of a thread: neighbours, 16 bytes of y. Two of them come of 16 filters by 8 pixels, of
  // which a step has so many matrix instructions.
  static constexpr int kRun = static_cast<int>(16 / sizeof(Stored));
  static constexpr int kMatrices = kFilters / 16, kInstructions = Quad::kWords / 2;
  static constexpr int kVectors = kMatrices * kInstructions;
  // Of 8 pixels each, as many as there are registers for.
  static constexpr int kTiles = static_cast<int>(mma_tiles(sizeof(Stored), kSteps));

  struct Shared {
    alignas(16) uint4 filters[kMmaFilterBytes / sizeof(uint4)];
    MmaTerm terms[kSteps * kStepQuads];
  };

  /// Filter tasks: filters_per_filter_task filters of w.
  static __device__ void pack_filters(const TaskArgs& a, std::uint32_t block) {
    constexpr int kLanes = DirectFilters::kLanes;
    const int begin = static_cast<int>(block) * a.filters_per_filter_task;
    const int end = min(begin + a.filters_per_filter_task, a.k_padded);
    for (int first = begin; first < end; first += kLanes) {
      const int chunk = first / kFilters;
      for (int i = static_cast<int>(threadIdx.x); i < kSteps * kVectors * 32; i += kThreads) {
        const int lane = i % 32, vector = i / 32 % kVectors, step = i / 32 / kVectors;
        // All filters of a vector are of the same lane block.
        const int filter = chunk * kFilters + lane / 4 * kRun + vector / kInstructions * 2;
        if (filter < first || filter >= first + kLanes) continue;
        const int quad = step * kStepQuads + lane % 4, word = vector % kInstructions * 2;
        const Quad even = quad_of_filter<Stored>(a, filter, quad),
                   odd = quad_of_filter<Stored>(a, filter + 1, quad);
        // Selected without an index, so that they stay in registers.
        constexpr int kLast = Quad::kWords - 2;
        const uint4 words = word == 0
                                ? uint4{even.words[0], odd.words[0], even.words[1], odd.words[1]}
                                : uint4{even.words[kLast], odd.words[kLast], even.words[kLast + 1],
                                        odd.words[kLast + 1]};
        vectors_of(a, chunk)[i] = words;
      }
    }
  }

  /// wait(): for the kernel that wrote what is read.
  template <class Wait>
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Shared& shared, Wait wait) {
    const int first_k = static_cast<int>(block) * a.filters_per_gemm_task;
    const int chunks = (min(a.filters_per_gemm_task, a.k - first_k) + kFilters - 1) / kFilters;
    for (int i = static_cast<int>(threadIdx.x); i < kSteps * kStepQuads; i += kThreads) {
      shared.terms[i] = MmaTerm::of(a, i, kQuad);
    }
    __syncthreads();
    const PixelRect rect(a, group);
    const Warp warp{a, rect, shared, first_k, chunks, MmaOutputs<Stored, kRun>(a, rect.image)};
    warp.run([&] {
      wait();
      const uint4* const u = vectors_of(a, first_k / kFilters);
      for (int i = static_cast<int>(threadIdx.x); i < chunks * kSteps * kVectors * 32;
           i += kThreads) {
        __pipeline_memcpy_async(&shared.filters[i], &u[i], sizeof(uint4));
      }
      __pipeline_commit();
    });
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  static __device__ uint4* vectors_of(const TaskArgs& a, int chunk) {
    return reinterpret_cast<uint4*>(a.u) +
           static_cast<std::int64_t>(chunk) * kSteps * kVectors * 32;
  }

  // What a warp does of a task.
  struct Warp {
    const TaskArgs& a;
    const PixelRect rect;
    const Shared& shared;
    const int first_k, chunks;
    const MmaOutputs<Stored, kRun> to_y;

    /// load_filters() is called when the first pixels are known, and waits: what comes before is
    /// for free.
    template <class LoadFilters>
    __device__ void run(LoadFilters load_filters) const {
      constexpr int kPixels = 8 * kTiles;
      const int tiles = (rect.rows * rect.cols + kPixels - 1) / kPixels;
      // Of few pixels warps share the filters.
      const int parts = tiles >= kWarps ? 1 : min(chunks, kWarps / tiles);
      const int in_part = (chunks + parts - 1) / parts;
      const int warp = static_cast<int>(threadIdx.x) / 32;
      for (int i = warp; i < kWarps || i < tiles * parts; i += kWarps) {
        const int first = i / parts * kPixels, begin = i % parts * in_part;
        const Pixels pixels(a, rect, first);
        if (i == warp) load_filters();
        Inputs inputs;
        load(pixels, inputs);
        if (i == warp) {  // filters arrive beside them
          __pipeline_wait_prior(0);
          __syncthreads();
        }
        multiply(pixels, inputs, begin, min(begin + in_part, chunks));
      }
    }

    // Where pixels are that a lane loads, and those that it stores.
    struct Pixels {
      int row[kTiles], col[kTiles];  // in x
      int places[2 * kTiles];        // in an image of y; less than 0 if there is none

      __device__ Pixels(const TaskArgs& a, const PixelRect& rect, int first) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const int index = first + i * 8 + lane() / 4, down = bounded_quotient(index, rect.cols);
          const int y_row = rect.row + down, y_col = rect.col + index - down * rect.cols;
          const bool exists = down < rect.rows;
          row[i] = exists ? y_row * a.stride_h - a.pad_h : a.h;  // or outside
          col[i] = y_col * a.stride_w - a.pad_w;
          const int place = exists ? (y_row * a.q + y_col) * a.k : -1;
#pragma unroll
          for (int j = 0; j < 2; ++j) {  // whoever loads a pixel knows its place
            places[2 * i + j] = __shfl_sync(0xffffffffu, place, (lane() % 4 * 2 + j) * 4);
          }
        }
      }
    };

    using Inputs = Quad[kSteps][kTiles];

    __device__ void load(const Pixels& pixels, Inputs& inputs) const {
      const bool vectors = a.c % kQuad == 0 && are_aligned<Vec<4, Stored>>(a.x);
      vectors ? load<true>(pixels, inputs) : load<false>(pixels, inputs);
    }
    template <bool kVector>
    __device__ void load(const Pixels& pixels, Inputs& inputs) const {
      const Stored* const x = reinterpret_cast<const Stored*>(a.x) +
                              static_cast<std::int64_t>(rect.image) * a.h * a.w_in * a.c;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const MmaTerm term = shared.terms[step * kStepQuads + lane() % 4];
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const int row = pixels.row[i], col = pixels.col[i];
          const bool exists = static_cast<unsigned>(row + term.row) < static_cast<unsigned>(a.h) &&
                              static_cast<unsigned>(col + term.col) < static_cast<unsigned>(a.w_in);
          const Stored* const from = x + ((row * a.w_in + col) * a.c + term.offset);
          Vec<4, Stored> numbers;
          if constexpr (kVector) {
            numbers = load_if<4>(exists, from);
          } else {
#pragma unroll
            for (int j = 0; j < kQuad; ++j) {
              numbers.lane[j] = load_if<1>(exists && j < term.channels, from + j).lane[0];
            }
          }
          inputs[step][i] = Quad::of(numbers);
        }
      }
    }

    // By some chunks of the task's filters; a chunk is what a warp multiplies by at a time.
    __device__ void multiply(const Pixels& pixels, const Inputs& inputs, int begin, int end) const {
#pragma unroll 1
      for (int chunk = begin; chunk < end; ++chunk) {
        float sums[kTiles][kMatrices][4] = {};
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          std::uint32_t filters[kMatrices][kInstructions][4];
#pragma unroll
          for (int i = 0; i < kVectors; ++i) {
            const uint4 words =
                shared.filters[((chunk * kSteps + step) * kVectors + i) * 32 + lane()];
            std::memcpy(&filters[i / kInstructions][i % kInstructions], &words, sizeof words);
          }
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
            for (int i = 0; i < kMatrices; ++i) {
#pragma unroll
              for (int j = 0; j < kInstructions; ++j) {
                const std::uint32_t* const words = &inputs[step][tile].words[2 * j];
                add_products<Stored>(sums[tile][i], filters[i][j], {words[0], words[1]});
              }
            }
          }
        }
        float outputs[2 * kTiles * kRun];
#pragma unroll
        for (int i = 0; i < 2 * kTiles * kRun; ++i) {
          const int pixel = i / kRun, filter = i % kRun;
          outputs[i] = sums[pixel / 2][filter / 2][filter % 2 * 2 + pixel % 2];
        }
        to_y.finish(pixels.places, first_k + chunk * kFilters + lane() / 4 * kRun, outputs);
      }
    }
  };
};

}  // namespace megaconv::cuda
