// SPDX-License-Identifier: Apache-2.0
// Direct tasks on tensor cores, in NHWC, of 1x1 filters: what takes time is to read x and to write
// y. Both are streams: neighbouring pixels with all their channels, or all their filters, are one
// run of memory. Each warp has runs of its own, and shared memory for some of them. It asks the
// copy engine for the next ones, multiplies those that are there, and hands the outputs back. No
// warp waits for another once the filters are there.
//
// A step of a sum has the channels that four threads read together, 16 or 8 bytes each. Of pixels
// lane / 4 and lane / 4 + 8:
//
//   step                  0                    1
//   lane % 4              0    1    2    3     0    1    2    3
//   part of the sum       0    1    2    3     4    5    6    7
//
// A matrix instruction takes terms in any order, as long as both operands have the same. Its
// columns are eight filters.
//
//   U   [step][column][lane] of a part; zeros past the last channel and filter
#pragma once

#include <algorithm>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/block_store.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/direct/cuda/direct.cuh"
#include "tasks/direct/cuda/mma_quads.cuh"
#include "tasks/direct/pixel_stream.hpp"

namespace megaconv::cuda {

/// kQuads: of a part (mma_quads.cuh).
template <class Stored, int kQuads>
struct PixelStreamTask {
  static constexpr int kThreads = PixelStream::kWarps * 32, kBlocksPerSm = 2;
  /// Begins a block's dynamic shared memory, of which pixel_stream() says how it goes on.
  struct Shared {
    alignas(128) std::byte begin[128];
  };

  /// Filter tasks: filters_per_filter_task filters of w.
  static __device__ void pack_filters(const TaskArgs& a, std::uint32_t block) {
    const PixelStream stream = pixel_stream(a.c, a.k, sizeof(Stored));
    const int begin = static_cast<int>(block) * a.filters_per_filter_task;
    const int end = begin + a.filters_per_filter_task;
    auto* const u = reinterpret_cast<Part*>(a.u);
    for (int i = static_cast<int>(threadIdx.x); i < stream.steps * stream.columns * 32;
         i += kThreads) {
      const int column = i / 32 % stream.columns, step = i / 32 / stream.columns;
      const int filter = column * 8 + i % 32 / 4;
      if (filter < begin || filter >= end) continue;
      u[i] = Part::of_filter(a, filter, step * 4 + i % 4);
    }
  }

  /// wait(): for the kernel that wrote what is read. All filters are one block.
  template <class Wait>
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t /*block*/,
                             Shared& shared, Wait wait) {
    const PixelStream stream = pixel_stream(a.c, a.k, sizeof(Stored));
    std::byte* const begin = shared.begin;
    auto* const factors = reinterpret_cast<float2*>(begin + stream.filter_bytes);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const Pixels pixels(a, group, stream);
    Copies copies{a, stream,
                  begin + stream.filter_bytes + stream.factor_bytes + warp * stream.warp_bytes};
    if (warp < stream.warps) copies.open();
    const int first = warp < stream.warps ? warp : pixels.tiles;
    for (int stage = 0; stage < stream.stages; ++stage) {
      copies.start(pixels.tile(first + stage * stream.warps), stage, wait);
    }
    wait();
    const auto* const u = reinterpret_cast<const uint4*>(a.u);
    for (int i = static_cast<int>(threadIdx.x); i < stream.filter_bytes / 16; i += kThreads) {
      __pipeline_memcpy_async(reinterpret_cast<uint4*>(begin) + i, u + i, sizeof(uint4));
    }
    __pipeline_commit();
    const bool has_factors = a.scale != nullptr || a.bias != nullptr;
    if (has_factors) {
      const auto of_filter = [&](const float* vector, int k, float otherwise) {
        return vector != nullptr && k < a.k
                   ? static_cast<float>(reinterpret_cast<const Stored*>(vector)[k])
                   : otherwise;
      };
      for (int k = static_cast<int>(threadIdx.x); k < stream.columns * 8; k += kThreads) {
        factors[k] = {of_filter(a.scale, k, 1.0f), of_filter(a.bias, k, 0.0f)};
      }
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    const Products products{a, stream, reinterpret_cast<const Part*>(begin),
                            has_factors ? factors : nullptr};
    int stage = 0;
    std::uint32_t parity = 0;
    for (int i = first, turn = 0; i < pixels.tiles; i += stream.warps, ++turn) {
      const Tile tile = pixels.tile(i);
      copies.wait(stage, parity);
      std::byte* const outputs = copies.outputs(tile, turn % PixelStream::kOutputs);
      const std::byte* const inputs = copies.inputs(tile, stage);
      products.of_tile(tile, inputs, outputs);
      copies.store(tile, outputs);
      copies.start(pixels.tile(i + stream.stages * stream.warps), stage, [] {});
      if (++stage == stream.stages) stage = 0, parity ^= 1;
    }
    if (warp < stream.warps) copies.close();
  }

 private:
  static constexpr int kChannels = 4 * kQuads;  // of a part
  using Numbers = Vec<kChannels, Stored>;
  using Part = MmaPart<Stored, kQuads>;
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// Neighbouring pixels of x and of y.
  struct Tile {
    std::int64_t first;
    int count;  // none behind the last tile
  };
  /// Those of a group. Whole rows are one line.
  struct Pixels {
    std::int64_t first;
    int length, pitch, size, line_tiles, tiles;
    __device__ Pixels(const TaskArgs& a, std::uint32_t group, const PixelStream& stream)
        : pitch(a.q), size(stream.pixels) {
      const PixelRect rect(a, group);
      const PixelLines lines(a, rect);
      first = (static_cast<std::int64_t>(rect.image) * a.p + rect.row) * a.q + rect.col;
      length = lines.length;
      line_tiles = (length + size - 1) / size;
      tiles = lines.count * line_tiles;
    }
    __device__ Tile tile(int index) const {
      if (index >= tiles) return {0, 0};
      const int line = line_tiles == tiles ? 0 : index / line_tiles;
      const int begin = (index - line * line_tiles) * size;
      return {first + static_cast<std::int64_t>(line) * pitch + begin, min(size, length - begin)};
    }
  };

  /// What of a stream lies at an address that is no multiple of what the copy engine takes.
  static constexpr int kAtOnce = 16;
  static __device__ int misfit(const void* address) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % kAtOnce);
  }

  /// A warp's runs on their way: x to its shared memory, y from there.
  struct Copies {
    const TaskArgs& a;
    const PixelStream& stream;
    std::byte* const own;  // mbarriers, stages of x, outputs

    __device__ const std::byte* x(std::int64_t pixel) const {
      return reinterpret_cast<const std::byte*>(reinterpret_cast<const Stored*>(a.x) + pixel * a.c);
    }
    __device__ std::byte* y(std::int64_t pixel) const {
      return reinterpret_cast<std::byte*>(reinterpret_cast<Stored*>(a.y) + pixel * a.k);
    }
    __device__ std::uint64_t* full(int stage) const {
      return reinterpret_cast<std::uint64_t*>(own) + stage;
    }
    __device__ std::byte* stage_begin(int stage) const {
      return own + PixelStream::kBarrierBytes + stage * stream.x_bytes;
    }
    /// They lie in shared memory as far from a multiple of 16 bytes as in global memory.
    __device__ std::byte* inputs(const Tile& tile, int stage) const {
      return stage_begin(stage) + misfit(x(tile.first));
    }

#if __CUDA_ARCH__ >= 900
    __device__ void open() const {
      if (lane() == 0) {
        for (int stage = 0; stage < stream.stages; ++stage) {
          ::cuda::ptx::mbarrier_init(full(stage), 1);
        }
        ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      }
      __syncwarp();
    }
    /// before_copy() is called when it is known what is to be copied.
    template <class Before>
    __device__ void start(const Tile& tile, int stage, Before before_copy) const {
      if (tile.count == 0) return;
      __syncwarp();  // what lies there has been read
      const std::byte* const from = x(tile.first);
      const int before = misfit(from), bytes = tile.count * a.c * static_cast<int>(sizeof(Stored));
      const int whole = (before + bytes + kAtOnce - 1) / kAtOnce * kAtOnce;
      // Bytes of neighbours come along, but none that are not of x.
      const std::byte* const end = x(static_cast<std::int64_t>(a.n) * a.p * a.q);
      const bool bulk = misfit(a.x) == 0 && from - before + whole <= end;
      before_copy();
      if (!bulk) {
        copy_numbers(inputs(tile, stage), from, bytes);
        __syncwarp();
      }
      if (lane() != 0) return;
      if (bulk) {
        ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                               ::cuda::ptx::space_shared, full(stage),
                                               static_cast<std::uint32_t>(whole));
        ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                                   stage_begin(stage), from - before,
                                   static_cast<std::uint32_t>(whole), full(stage));
      } else {
        ::cuda::ptx::mbarrier_arrive(full(stage));
      }
    }
    __device__ void wait(int stage, std::uint32_t parity) const {
      while (!::cuda::ptx::mbarrier_try_wait_parity(full(stage), parity)) {
      }
    }
    __device__ void close() const {
      wait_until_stored();
      __syncwarp();
      if (lane() != 0) return;
      for (int stage = 0; stage < stream.stages; ++stage) __mbarrier_inval(full(stage));
    }
#else
    __device__ void open() const {}
    template <class Before>
    __device__ void start(const Tile& tile, int stage, Before before_copy) const {
      before_copy();
      __syncwarp();
      copy_numbers(inputs(tile, stage), x(tile.first),
                   tile.count * a.c * static_cast<int>(sizeof(Stored)));
    }
    __device__ void wait(int, std::uint32_t) const { __syncwarp(); }
    __device__ void close() const {}
#endif

    /// Where a tile's outputs are to be put; those before have been read.
    __device__ std::byte* outputs(const Tile& tile, int turn) const {
      if (lane() == 0) wait_until_read<PixelStream::kOutputs - 1>();
      __syncwarp();
      return own + PixelStream::kBarrierBytes + stream.stages * stream.x_bytes +
             turn * stream.y_bytes + misfit(y(tile.first));
    }
    __device__ void store(const Tile& tile, const std::byte* outputs) const {
      publish_shared();
      __syncwarp();
      std::byte* const to = y(tile.first);
      const int bytes = tile.count * a.k * static_cast<int>(sizeof(Stored));
      const int before = min((kAtOnce - misfit(to)) % kAtOnce, bytes);
      const int whole = (bytes - before) / kAtOnce * kAtOnce;
      copy_numbers(to, outputs, before);
      copy_numbers(to + before + whole, outputs + before + whole, bytes - before - whole);
#if __CUDA_ARCH__ >= 900
      if (lane() == 0 && whole > 0) {
        store_run(to + before, outputs + before, static_cast<std::uint32_t>(whole));
      }
#else
      store_run(to + before, outputs + before, static_cast<std::uint32_t>(whole));
#endif
      commit_runs();
    }
    static __device__ void copy_numbers(std::byte* to, const std::byte* from, int bytes) {
      for (int i = lane(); i < bytes / static_cast<int>(sizeof(Stored)); i += 32) {
        reinterpret_cast<Stored*>(to)[i] = reinterpret_cast<const Stored*>(from)[i];
      }
    }
  };

  struct Products {
    const TaskArgs& a;
    const PixelStream& stream;
    const Part* const filters;
    const float2* const factors;  // scale and bias; null if there are none

    /// From inputs to outputs in shared memory.
    __device__ void of_tile(const Tile& tile, const std::byte* inputs, std::byte* outputs) const {
      const auto* const x = reinterpret_cast<const Stored*>(inputs);
      auto* const y = reinterpret_cast<Stored*>(outputs);
      const bool vectors = a.c % kChannels == 0 && are_aligned<Numbers>(x);
      const bool whole = a.k % 8 == 0 && are_aligned<Vec<2, Stored>>(y);
      if (vectors) {
        whole ? of_tile<true, true>(tile, x, y) : of_tile<true, false>(tile, x, y);
      } else {
        whole ? of_tile<false, true>(tile, x, y) : of_tile<false, false>(tile, x, y);
      }
    }

   private:
    // kVectors: parts lie where vectors may. kWhole: columns have eight filters, and pairs of
    // outputs lie so.
    template <bool kVectors, bool kWhole>
    __device__ void of_tile(const Tile& tile, const Stored* x, Stored* y) const {
      for (int first = 0; first < tile.count; first += 16) {
        int column = 0;
#pragma unroll 1
        for (; column + 4 <= stream.columns; column += 4) {
          of_columns<kVectors, kWhole, 4>(tile, first, column, x, y);
        }
        if (stream.columns & 2) {
          of_columns<kVectors, kWhole, 2>(tile, first, column, x, y);
          column += 2;
        }
        if (stream.columns & 1) of_columns<kVectors, kWhole, 1>(tile, first, column, x, y);
      }
    }

    // Of 16 pixels by some columns of filters.
    template <bool kVectors, bool kWhole, int kColumns>
    __device__ void of_columns(const Tile& tile, int first, int column, const Stored* x,
                               Stored* y) const {
      const int pixel = first + lane() / 4, part = lane() % 4;
      const Stored* const from = x + pixel * a.c + part * kChannels;
      const Part* const own = filters + column * 32 + lane();
      float sums[kColumns][4] = {};
#pragma unroll 2
      for (int step = 0; step < stream.steps; ++step) {
        Part inputs[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          inputs[i] = load<kVectors>(from + i * 8 * a.c + step * 4 * kChannels,
                                     a.c - (step * 4 + part) * kChannels);
        }
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const Part filter = own[(step * stream.columns + j) * 32];
          add_products(sums[j], inputs, filter);
        }
      }
      finish<kWhole>(tile, pixel, column * 8 + part * 2, sums, y);
    }

    // A part of which so many channels exist.
    template <bool kVectors>
    static __device__ Part load(const Stored* from, int channels) {
      Part part = {};
      if constexpr (kVectors) {
        if (channels <= 0) return part;
        if constexpr (std::is_same_v<Stored, float>) {
          const auto numbers = *reinterpret_cast<const Numbers*>(from);
#pragma unroll
          for (int i = 0; i < kChannels; ++i) part.words[i] = round_to_tf32(numbers.lane[i]);
        } else {
          part = *reinterpret_cast<const Part*>(from);
        }
      } else {
        Numbers numbers;
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          numbers.lane[i] = i < channels ? from[i] : static_cast<Stored>(0.0f);
        }
        if constexpr (std::is_same_v<Stored, float>) {
#pragma unroll
          for (int i = 0; i < kChannels; ++i) part.words[i] = round_to_tf32(numbers.lane[i]);
        } else {
          std::memcpy(part.words, &numbers, sizeof part.words);
        }
      }
      return part;
    }

    // Sums of two filters from the k-th on, of every column, of a pixel and that eight further on.
    template <bool kWhole, int kColumns>
    __device__ void finish(const Tile& tile, int pixel, int k, const float (&sums)[kColumns][4],
                           Stored* y) const {
      float outputs[kColumns * 4];
#pragma unroll
      for (int i = 0; i < kColumns * 4; ++i) outputs[i] = sums[i / 4][i % 4];
      if (factors != nullptr) {
#pragma unroll
        for (int i = 0; i < kColumns * 4; ++i) {
          const float2 factor = factors[k + i / 4 * 8 + i % 2];
          outputs[i] = outputs[i] * factor.x + factor.y;
        }
      }
      if (a.residual != nullptr) {
        const auto* const residual = reinterpret_cast<const Stored*>(a.residual) + tile.first * a.k;
#pragma unroll
        for (int i = 0; i < kColumns * 4; ++i) {
          const int at = pixel + i % 4 / 2 * 8, filter = k + i / 4 * 8 + i % 2;
          if (at < tile.count && filter < a.k) {
            outputs[i] +=
                static_cast<float>(residual[static_cast<std::int64_t>(at) * a.k + filter]);
          }
        }
      }
      activate(a.activation, outputs);
      Stored* const first = y + pixel * a.k + k;
#pragma unroll
      for (int i = 0; i < kColumns * 4; i += 2) {
        Stored* const to = first + (i % 4 / 2 * 8 * a.k + i / 4 * 8);
        const Vec<2, Stored> both{
            {static_cast<Stored>(outputs[i]), static_cast<Stored>(outputs[i + 1])}};
        if constexpr (kWhole) {
          *reinterpret_cast<Vec<2, Stored>*>(to) = both;
        } else {
          if (k + i / 4 * 8 < a.k) to[0] = both.lane[0];
          if (k + i / 4 * 8 + 1 < a.k) to[1] = both.lane[1];
        }
      }
    }
  };
};

}  // namespace megaconv::cuda
