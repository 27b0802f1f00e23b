// SPDX-License-Identifier: Apache-2.0
// Direct tasks on tensor cores, in NHWC, of sums with few terms: 1x1 filters on few channels, or
// larger ones on very few. A warp loads all terms of some pixels into registers, and multiplies
// them by as many filters at a time as 128 bytes of y have, which the block has in shared memory. x
// passes through no shared memory, and no warp waits for another once the filters are there.
//
// A matrix instruction takes terms in any order, as long as both operands have the same, and
// filters in any order, too. So a thread loads quads: four channels of one tap. Of pixel lane / 4:
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

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include <algorithm>
#include <iterator>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/mma.cuh"
#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

/// Four channels of a tap, as numbers of a matrix instruction.
template <class Stored>
struct MmaQuad {
  static constexpr int kWords = static_cast<int>(sizeof(Vec<4, Stored>) / sizeof(std::uint32_t));
  std::uint32_t words[kWords];

  static __device__ MmaQuad of(const Vec<4, Stored>& numbers) {
    MmaQuad quad;
    if constexpr (kWords == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) quad.words[i] = round_to_tf32(numbers.lane[i]);
    } else {
      std::memcpy(quad.words, &numbers, sizeof quad.words);
    }
    return quad;
  }
};

/// sums += 16 filters, as one or two matrix instructions have them, by 8 pixels.
__device__ inline void add_products(float (&sums)[4], const std::uint32_t (&filters)[1][4],
                                    const MmaQuad<__half>& pixels) {
  mma(sums, filters[0], pixels.words);
}
__device__ inline void add_products(float (&sums)[4], const std::uint32_t (&filters)[1][4],
                                    const MmaQuad<__nv_bfloat16>& pixels) {
  mma_bf16(sums, filters[0], pixels.words);
}
__device__ inline void add_products(float (&sums)[4], const std::uint32_t (&filters)[2][4],
                                    const MmaQuad<float>& pixels) {
  mma_tf32(sums, filters[0], {pixels.words[0], pixels.words[1]});
  mma_tf32(sums, filters[1], {pixels.words[2], pixels.words[3]});
}

template <class Stored>
struct MmaTask {
  static constexpr int kThreads = kMmaThreads, kWarps = kThreads / 32;
  static constexpr int kFilters = static_cast<int>(mma_filters(sizeof(Stored)));
  static constexpr int kQuad = static_cast<int>(kMmaQuad);
  static constexpr int kStepQuads = static_cast<int>(kMmaStepQuads);
  static constexpr int kMostSteps = static_cast<int>(most_mma_steps(sizeof(Stored)));
  // Floats take so many that three blocks share a multiprocessor, others four.
  static constexpr bool kFloats = sizeof(Stored) == sizeof(float);
  static constexpr int kBlocksPerSm = kFloats ? 3 : 4, kTileRegisters = kFloats ? 68 : 52;
  static constexpr int kCompiled = static_cast<int>(std::size(kMmaSteps));
  using Quad = MmaQuad<Stored>;
  // Filters of a thread: neighbours, 16 bytes of y. Two of them come of 16 filters by 8 pixels, of
  // which a step has so many matrix instructions.
  static constexpr int kRun = static_cast<int>(16 / sizeof(Stored));
  static constexpr int kMatrices = kFilters / 16, kInstructions = Quad::kWords / 2;
  static constexpr int kVectors = kMatrices * kInstructions;

  /// A quad of a sum: what it adds to a pixel's place in x, and how many channels it has.
  struct alignas(16) Term {
    int offset, row, col, channels;
  };
  static constexpr int kOutside = -(1 << 29);  // a row that no pixel brings into an image

  struct Shared {
    alignas(16) uint4 filters[kMmaFilterBytes / sizeof(uint4)];
    Term terms[kMostSteps * kStepQuads];
  };

  /// The steps that are compiled for a sum.
  static __device__ int steps_of(const TaskArgs& a) {
    const int quads = a.r * a.s * quads_of_tap(a);
    int result = 0;
    unroll<kCompiled>([&](auto index) {
      constexpr int kSteps = static_cast<int>(kMmaSteps[kCompiled - 1 - index()]);
      if (quads <= kSteps * kStepQuads) result = kSteps;
    });
    return result;
  }

  /// Filter tasks: filters_per_filter_task filters of w.
  static __device__ void pack_filters(const TaskArgs& a, std::uint32_t block) {
    constexpr int kLanes = DirectFilters::kLanes;
    const int begin = static_cast<int>(block) * a.filters_per_filter_task;
    const int end = min(begin + a.filters_per_filter_task, a.k_padded);
    const int steps = steps_of(a);
    for (int first = begin; first < end; first += kLanes) {
      const int chunk = first / kFilters;
      for (int i = static_cast<int>(threadIdx.x); i < steps * kVectors * 32; i += kThreads) {
        const int lane = i % 32, vector = i / 32 % kVectors, step = i / 32 / kVectors;
        // All filters of a vector are of the same lane block.
        const int filter = chunk * kFilters + lane / 4 * kRun + vector / kInstructions * 2;
        if (filter < first || filter >= first + kLanes) continue;
        const int quad = step * kStepQuads + lane % 4, word = vector % kInstructions * 2;
        const Quad even = quad_of_filter(a, filter, quad),
                   odd = quad_of_filter(a, filter + 1, quad);
        // Selected without an index, so that they stay in registers.
        constexpr int kLast = Quad::kWords - 2;
        const uint4 words = word == 0
                                ? uint4{even.words[0], odd.words[0], even.words[1], odd.words[1]}
                                : uint4{even.words[kLast], odd.words[kLast], even.words[kLast + 1],
                                        odd.words[kLast + 1]};
        vectors_of(a, chunk, steps)[i] = words;
      }
    }
  }

  /// wait(): for the kernel that wrote what is read.
  template <class Wait>
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Shared& shared, Wait wait) {
    const int steps = steps_of(a);
    const int first_k = static_cast<int>(block) * a.filters_per_gemm_task;
    const int chunks = (min(a.filters_per_gemm_task, a.k - first_k) + kFilters - 1) / kFilters;
    for (int i = static_cast<int>(threadIdx.x); i < steps * kStepQuads; i += kThreads) {
      shared.terms[i] = term_of(a, i);
    }
    __syncthreads();
    const Warp warp{a, PixelRect(a, group), shared, first_k, chunks, width_of(a)};
    wait();
    const uint4* const u = vectors_of(a, first_k / kFilters, steps);
    for (int i = static_cast<int>(threadIdx.x); i < chunks * steps * kVectors * 32; i += kThreads) {
      __pipeline_memcpy_async(&shared.filters[i], &u[i], sizeof(uint4));
    }
    __pipeline_commit();
    unroll<kCompiled>([&](auto index) {
      constexpr int kSteps = static_cast<int>(kMmaSteps[index()]);
      if constexpr (kSteps <= kMostSteps) {
        if (steps == kSteps) warp.template run<kSteps>();
      }
    });
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int quads_of_tap(const TaskArgs& a) { return (a.c + kQuad - 1) / kQuad; }

  // Filters come in vectors of so many.
  static __device__ int width_of(const TaskArgs& a) {
    const auto suits = [&]<int kWidth>() {
      return a.k % kWidth == 0 &&
             are_aligned<Vec<kWidth, Stored>>(reinterpret_cast<const Stored*>(a.y),
                                              reinterpret_cast<const Stored*>(a.scale),
                                              reinterpret_cast<const Stored*>(a.bias),
                                              reinterpret_cast<const Stored*>(a.residual));
    };
    if (suits.template operator()<kRun>()) return kRun;
    if (suits.template operator()<4>()) return 4;
    return suits.template operator()<2>() ? 2 : 1;
  }

  static __device__ uint4* vectors_of(const TaskArgs& a, int chunk, int steps) {
    return reinterpret_cast<uint4*>(a.u) + static_cast<std::int64_t>(chunk) * steps * kVectors * 32;
  }

  static __device__ Quad quad_of_filter(const TaskArgs& a, int filter, int index) {
    const int quads = quads_of_tap(a), tap = index / quads, c = index % quads * kQuad;
    const Stored* const w = reinterpret_cast<const Stored*>(a.w) +
                            (static_cast<std::int64_t>(filter) * a.r * a.s + tap) * a.c + c;
    const bool exists = filter < a.k && tap < a.r * a.s;
    Vec<4, Stored> numbers;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      numbers.lane[i] = load_if<1>(exists && c + i < a.c, w + i).lane[0];
    }
    return Quad::of(numbers);
  }

  static __device__ Term term_of(const TaskArgs& a, int index) {
    const int quads = quads_of_tap(a), tap = index / quads, c = index % quads * kQuad;
    if (tap >= a.r * a.s) return {0, kOutside, 0, 0};
    const int row = tap / a.s * a.dilation_h, col = tap % a.s * a.dilation_w;
    return {(row * a.w_in + col) * a.c + c, row, col, min(kQuad, a.c - c)};
  }

  // What a warp does of a task.
  struct Warp {
    const TaskArgs& a;
    const PixelRect rect;
    const Shared& shared;
    const int first_k, chunks;
    const int width;  // of vectors of filters

    // Of 8 pixels each, as many as there are registers for.
    template <int kSteps>
    static constexpr int kTiles = std::clamp(kTileRegisters /
                                                 (kSteps * Quad::kWords + 4 * kMatrices),
                                             2, 4);

    template <int kSteps>
    __device__ void run() const {
      constexpr int kPixels = 8 * kTiles<kSteps>;
      const int tiles = (rect.rows * rect.cols + kPixels - 1) / kPixels;
      // Of few pixels warps share the filters.
      const int parts = tiles >= kWarps ? 1 : min(chunks, kWarps / tiles);
      const int in_part = (chunks + parts - 1) / parts;
      const int warp = static_cast<int>(threadIdx.x) / 32;
      for (int i = warp; i < kWarps || i < tiles * parts; i += kWarps) {
        const int first = i / parts * kPixels, begin = i % parts * in_part;
        const Pixels<kTiles<kSteps>> pixels(a, rect, first);
        Inputs<kSteps> inputs;
        load<kSteps>(pixels, inputs);
        if (i == warp) {  // filters arrive beside them
          __pipeline_wait_prior(0);
          __syncthreads();
        }
        multiply<kSteps>(pixels, inputs, begin, min(begin + in_part, chunks));
      }
    }

    // Where pixels are that a lane loads, and those that it stores.
    template <int kTileCount>
    struct Pixels {
      int row[kTileCount], col[kTileCount];  // in x
      int in_y[2 * kTileCount];              // in an image; less than 0 if there is none

      __device__ Pixels(const TaskArgs& a, const PixelRect& rect, int first) {
#pragma unroll
        for (int i = 0; i < kTileCount; ++i) {
          const int index = first + i * 8 + lane() / 4, down = bounded_quotient(index, rect.cols);
          row[i] = down < rect.rows ? (rect.row + down) * a.stride_h - a.pad_h : a.h;  // or outside
          col[i] = (rect.col + index - down * rect.cols) * a.stride_w - a.pad_w;
        }
#pragma unroll
        for (int i = 0; i < 2 * kTileCount; ++i) {
          const int index = first + i / 2 * 8 + lane() % 4 * 2 + i % 2;
          const int down = bounded_quotient(index, rect.cols);
          const int in_image = (rect.row + down) * a.q + rect.col + index - down * rect.cols;
          in_y[i] = down < rect.rows ? in_image : -1;
        }
      }
    };

    template <int kSteps>
    using Inputs = Quad[kSteps][kTiles<kSteps>];

    template <int kSteps>
    __device__ void load(const Pixels<kTiles<kSteps>>& pixels, Inputs<kSteps>& inputs) const {
      const bool vectors = a.c % kQuad == 0 && are_aligned<Vec<4, Stored>>(a.x);
      vectors ? load<kSteps, true>(pixels, inputs) : load<kSteps, false>(pixels, inputs);
    }
    template <int kSteps, bool kVector>
    __device__ void load(const Pixels<kTiles<kSteps>>& pixels, Inputs<kSteps>& inputs) const {
      const Stored* const x = reinterpret_cast<const Stored*>(a.x) +
                              static_cast<std::int64_t>(rect.image) * a.h * a.w_in * a.c;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const Term term = shared.terms[step * kStepQuads + lane() % 4];
#pragma unroll
        for (int i = 0; i < kTiles<kSteps>; ++i) {
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
    template <int kSteps>
    __device__ void multiply(const Pixels<kTiles<kSteps>>& pixels, const Inputs<kSteps>& inputs,
                             int begin, int end) const {
#pragma unroll 1
      for (int chunk = begin; chunk < end; ++chunk) {
        float sums[kTiles<kSteps>][kMatrices][4] = {};
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
          for (int tile = 0; tile < kTiles<kSteps>; ++tile) {
#pragma unroll
            for (int i = 0; i < kMatrices; ++i) {
              add_products(sums[tile][i], filters[i], inputs[step][tile]);
            }
          }
        }
        float outputs[2 * kTiles<kSteps> * kRun];
#pragma unroll
        for (int i = 0; i < 2 * kTiles<kSteps> * kRun; ++i) {
          const int pixel = i / kRun, filter = i % kRun;
          outputs[i] = sums[pixel / 2][filter / 2][filter % 2 * 2 + pixel % 2];
        }
        finish(pixels, first_k + chunk * kFilters + lane() / 4 * kRun, outputs);
      }
    }

    // Outputs [pixel][filter], with the epilogue. `k`: the first filter.
    template <int kTileCount>
    __device__ void finish(const Pixels<kTileCount>& pixels, int k,
                           float (&outputs)[2 * kTileCount * kRun]) const {
      if (a.scale != nullptr || a.bias != nullptr || a.residual != nullptr) {
        in_vectors([&]<int kWidth>() { add_tensors<kWidth>(pixels, k, outputs); });
      }
      activate(a.activation, outputs);
      in_vectors([&]<int kWidth>() { store<kWidth>(pixels, k, outputs); });
    }

    // body.operator()<kWidth>()
    template <class Body>
    __device__ void in_vectors(Body body) const {
      if (width == kRun) [[likely]] {
        body.template operator()<kRun>();
      } else if (width == 4) {
        body.template operator()<4>();
      } else if (width == 2) {
        body.template operator()<2>();
      } else {
        body.template operator()<1>();
      }
    }

    __device__ std::int64_t place_in_y(int pixel) const {
      return (static_cast<std::int64_t>(rect.image) * a.p * a.q + pixel) * a.k;
    }

    // Calls body(first output, pixel, first filter) of every vector.
    template <int kWidth, int kCount, class Body>
    __device__ void for_vectors(int k, float (&)[kCount], Body body) const {
#pragma unroll
      for (int i = 0; i < kCount; i += kWidth) {
        body(i, i / kRun, k + i % kRun);
      }
    }

    template <int kWidth, int kTileCount, int kCount>
    __device__ void add_tensors(const Pixels<kTileCount>& pixels, int k,
                                float (&outputs)[kCount]) const {
      const auto* const scale = reinterpret_cast<const Stored*>(a.scale);
      const auto* const bias = reinterpret_cast<const Stored*>(a.bias);
      const auto* const residual = reinterpret_cast<const Stored*>(a.residual);
      for_vectors<kWidth>(k, outputs, [&](int i, int pixel, int filter) {
        const std::int64_t in_y = place_in_y(pixels.in_y[pixel]);
        const auto factors = load_if<kWidth>(scale != nullptr && filter < a.k, scale + filter);
        const auto added = load_if<kWidth>(bias != nullptr && filter < a.k, bias + filter);
        const auto more =
            load_if<kWidth>(residual != nullptr && filter < a.k && pixels.in_y[pixel] >= 0,
                            residual + in_y + filter);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          float& output = outputs[i + j];
          if (scale != nullptr) output *= static_cast<float>(factors.lane[j]);
          output += static_cast<float>(added.lane[j]);
          output += static_cast<float>(more.lane[j]);
        }
      });
    }

    template <int kWidth, int kTileCount, int kCount>
    __device__ void store(const Pixels<kTileCount>& pixels, int k, float (&outputs)[kCount]) const {
      for_vectors<kWidth>(k, outputs, [&](int i, int pixel, int filter) {
        const std::int64_t in_y = place_in_y(pixels.in_y[pixel]);
        if (pixels.in_y[pixel] < 0 || filter >= a.k) return;
        Vec<kWidth> vector;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) vector.lane[j] = outputs[i + j];
        cuda::store(reinterpret_cast<Stored*>(a.y) + in_y + filter, vector);
      });
    }
  };
};

}  // namespace megaconv::cuda
