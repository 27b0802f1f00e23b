// SPDX-License-Identifier: Apache-2.0
// A task of a small-tile implicit GEMM: a tile of output pixels by a block of filters.
//
//   before the wait   where this thread's pixels lie; filters of the first K blocks, on their way
//   wait()            the task's producers are done
//   each K block      x to shared memory, once for all taps; a barrier; products
//   shared memory     every warp's sums
//   epilogue          the sums of all warps, bias, residual, activation
//
// Two K blocks are in shared memory at a time. Filters come by one copy each.
#pragma once

#include <cstdint>

#include "tasks/small_gemm/cuda/epilogue.cuh"
#include "tasks/small_gemm/cuda/filter_stages.cuh"
#include "tasks/small_gemm/cuda/input_loader.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

/// What a warp computes: 16 filters, up to 8 times kPixelTiles pixels, some steps of a K block.
template <class Products>
class SmallGemmTile {
 public:
  __device__ SmallGemmTile(const SmallGemmArgs& a, const SmallGemmShare& share)
      : a_(a), lane_(static_cast<int>(threadIdx.x) % 32) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    filter_warp_ = warp % a.filter_warps;
    const int pixel_warp = warp / a.filter_warps % a.pixel_warps;
    sum_warp_ = warp / a.filter_warps / a.pixel_warps;
    const int tiles = (a.rows_per_group * a.cols_per_group - 1) / 8 + 1;
    first_tile_ = pixel_warp * a.warp_tiles;
    num_tiles_ = min(a.warp_tiles, tiles - first_tile_);
    find_pixels(share);
    find_steps();
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sum_[j][n] = 0;
    }
  }

  /// The products of a K block.
  __device__ void multiply(const char* stage) {
    if (num_tiles_ <= 0) return;
    switch (a_.warp_tiles) {
      case 1:
        return multiply_tiles<1>(stage);
      case 2:
        return multiply_tiles<2>(stage);
      case 3:
      case 4:
        return multiply_tiles<4>(stage);
      default:
        return multiply_tiles<7>(stage);
    }
  }

  __device__ void scale(float factor) {
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sum_[j][n] *= factor;
    }
  }

  __device__ void write_sums(float* sums) const {
    const int pitch = sum_pitch(a_);
    float* const own = sums + sum_warp_ * sums_of_warp(a_) + filter_warp_ * 16 + lane_ / 4;
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
      if (j >= num_tiles_) break;
      float* const to = own + ((first_tile_ + j) * 8 + lane_ % 4 * 2) * pitch;
      to[0] = sum_[j][0];
      to[pitch] = sum_[j][1];
      to[8] = sum_[j][2];
      to[pitch + 8] = sum_[j][3];
    }
  }

 private:
  static constexpr int kPixelTiles = static_cast<int>(SmallGemmCut::kWarpPixelTiles);
  static constexpr int kStepBytes = 64, kFilterBytes = 1024;
  static constexpr int kParts = Products::kPairs ? 2 : 1;

  // Places in a stage of this thread's quarter of its pixels, under the first tap.
  __device__ void find_pixels(const SmallGemmShare& share) {
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
      int pixel = (first_tile_ + j) * 8 + lane_ / 4;
      if (j >= num_tiles_ || pixel >= share.rows * share.cols) pixel = 0;  // any that is there
      const int row = row_of(share, pixel), col = pixel - row * share.cols;
      place_[j] = (row * a_.step_h * a_.in_cols + col * a_.step_w) * a_.pitch + lane_ % 4 * 16;
    }
  }

  // Warps over sums have steps of their own.
  __device__ void find_steps() {
    const int per_warp = (a_.block_steps - 1) / a_.sum_warps + 1;
    begin_ = sum_warp_ * per_warp;
    end_ = min(begin_ + per_warp, a_.block_steps);
    const int tap = begin_ / a_.chunks, row = tap / a_.taps_w;
    chunk_ = begin_ - tap * a_.chunks;
    tap_w_ = tap - row * a_.taps_w;
    const int tap_bytes = a_.to_next_tap + a_.chunks * kStepBytes;
    offset_ = chunk_ * kStepBytes + tap * tap_bytes + row * a_.to_next_row;
  }

  template <int kTiles>
  __device__ void multiply_tiles(const char* stage) {
    const char* filters = stage + a_.x_bytes * kParts + lane_ * 16 +
                          (filter_warp_ * a_.block_steps + begin_) * (kFilterBytes * kParts);
    int chunk = chunk_, tap_w = tap_w_;
    const char* x = stage + offset_;
#pragma unroll 2
    for (int step = begin_; step < end_; ++step) {
      if constexpr (Products::kPairs) {
        multiply_pairs<kTiles>(filters, x);
      } else {
        const FilterWords words = filter_words(eight(filters), eight(filters + kFilterBytes / 2));
        PixelWords pixels[kTiles];
#pragma unroll
        for (int j = 0; j < kTiles; ++j) pixels[j] = pixel_words(eight(x + place_[j]));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < kTiles; ++j) Products::add(sum_[j], words, pixels[j], half);
        }
      }
      filters += kFilterBytes * kParts;
      x += kStepBytes;
      if (++chunk == a_.chunks) {
        chunk = 0;
        x += a_.to_next_tap;
        if (++tap_w == a_.taps_w) {
          tap_w = 0;
          x += a_.to_next_row;
        }
      }
    }
  }

  // A product of several sums at a time, so that a sum's next one finds the one before done.
  template <int kTiles>
  __device__ void multiply_pairs(const char* filters, const char* x) {
    constexpr int kAtOnce = kTiles < 2 ? 1 : 2;  // what registers hold
    const FilterWords high = filter_words(eight(filters), eight(filters + kFilterBytes / 2));
    const FilterWords low = filter_words(eight(filters + kFilterBytes),
                                         eight(filters + kFilterBytes + kFilterBytes / 2));
    const FilterWords high_shifted = shifted(high);
#pragma unroll
    for (int first = 0; first < kTiles; first += kAtOnce) {
      PixelWords pixels[kAtOnce], rests[kAtOnce];
      float of_step[kAtOnce][4] = {};
      const auto for_each = [&](auto visit) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (first + j < kTiles) visit(j);
        }
      };
      for_each([&](int j) {
        pixels[j] = pixel_words(eight(x + place_[first + j]));
        rests[j] = pixel_words(eight(x + place_[first + j] + a_.x_bytes));
      });
      for_each([&](int j) { Products::add(of_step[j], low, pixels[j], 0); });
      for_each([&](int j) { Products::add(of_step[j], low, pixels[j], 1); });
      for_each([&](int j) { Products::add(of_step[j], high_shifted, rests[j], 0); });
      for_each([&](int j) { Products::add(of_step[j], high_shifted, rests[j], 1); });
      for_each([&](int j) { Products::add(of_step[j], high, pixels[j], 0); });
      for_each([&](int j) { Products::add(of_step[j], high, pixels[j], 1); });
      for_each([&](int j) {
#pragma unroll
        for (int n = 0; n < 4; ++n) sum_[first + j][n] += of_step[j][n];
      });
    }
  }

  static __device__ Eight eight(const char* from) { return *reinterpret_cast<const Eight*>(from); }

  const SmallGemmArgs& a_;
  int lane_, filter_warp_, sum_warp_, first_tile_, num_tiles_;
  int place_[kPixelTiles];
  int begin_, end_, chunk_, tap_w_, offset_;  // steps, and where the first one is
  float sum_[kPixelTiles][4];
};

/// A task. `shared`: TaskMemory::bytes of shared memory. wait() is a barrier of the block.
/// tensor(pointer): what a pointer of the arguments stands for.
template <class Products>
class SmallGemmTask {
 public:
  using Stored = typename Products::Stored;

  template <class Tensor, class Wait>
  static __device__ void run(const SmallGemmArgs& a, const SmallGemmShare& share, char* shared,
                             FilterStages& filters, Tensor tensor, Wait wait) {
    const SmallGemmTensors<Stored> tensors{
        static_cast<const Stored*>(tensor(a.x)), static_cast<const char*>(tensor(a.u)),
        static_cast<const float*>(tensor(a.bias)), static_cast<const Stored*>(tensor(a.residual)),
        static_cast<Stored*>(const_cast<void*>(tensor(a.y)))};
    const char* const u =
        tensors.u + static_cast<std::int64_t>(share.filter_block) * a.k_blocks * a.filter_bytes;
    const auto start_filters = [&](int k_block) {
      const int stage = k_block % FilterStages::kStages;
      filters.start(stage, shared + (stage + 1) * a.stage_bytes - a.filter_bytes,
                    u + static_cast<std::int64_t>(k_block) * a.filter_bytes, a.filter_bytes);
    };
    FilterStages::take_over();
    const int num_first = min(a.k_blocks, FilterStages::kStages);
    for (int k_block = 0; k_block < num_first; ++k_block) start_filters(k_block);
    auto* const vectors = reinterpret_cast<float*>(shared + a.work_bytes);
    SmallGemmEpilogue<Stored> epilogue(a, share, tensors, vectors);
    const InputLoader<Products> x(a, share, tensors.x);
    SmallGemmTile<Products> tile(a, share);
    Magnitudes magnitudes(reinterpret_cast<std::uint32_t*>(vectors + 2 * kMostFilters));
    wait();
    const auto load = [&](int k_block) {
      const int stage = k_block % FilterStages::kStages;
      const std::uint32_t most = x.load(shared + stage * a.stage_bytes, k_block);
      __pipeline_commit();
      if constexpr (Products::kConverts) magnitudes.put(stage, most);
    };
    for (int k_block = 0; k_block < num_first; ++k_block) load(k_block);
    epilogue.load_residual();
    float scale = 0;  // of x in the sums, once there is one
#pragma unroll 1
    for (int k_block = 0; k_block < a.k_blocks; ++k_block) {
      const int stage = k_block % FilterStages::kStages;
      char* const of_stage = shared + stage * a.stage_bytes;
      k_block + 1 < a.k_blocks ? __pipeline_wait_prior(1) : __pipeline_wait_prior(0);
      filters.wait(stage);
      __syncthreads();
      if constexpr (Products::kConverts) {
        const bool fits = fits_halves(magnitudes.most(stage));
        if (fits && (scale == 0 || scale == 1)) {
          scale = 1;
        } else {
          const float own = fits ? 1 : scale_of(x, k_block, magnitudes, stage);
          // Sums may not become too large: what is small beside them has their scale.
          const float next = scale == 0 || (own != 0 && own < scale) ? own : scale;
          if (next != 0) load_again(x, of_stage, k_block, next);
          if (scale != 0 && next != scale) tile.scale(next / scale);
          scale = next;
        }
      }
      tile.multiply(of_stage);
      __syncthreads();
      if (k_block + FilterStages::kStages < a.k_blocks) {
        start_filters(k_block + FilterStages::kStages);
        load(k_block + FilterStages::kStages);
      }
    }
    auto* const sums = reinterpret_cast<float*>(shared);
    tile.write_sums(sums);
    __syncthreads();
    epilogue.write_outputs(sums, scale == 0 ? 1 : scale);
  }

 private:
  static constexpr int kMostFilters = 16 * static_cast<int>(SmallGemmCut::kWarps);

  // The largest magnitudes that warps have seen, by stage.
  class Magnitudes {
   public:
    explicit __device__ Magnitudes(std::uint32_t* shared) : shared_(shared) {}
    /// By all threads, before a barrier.
    __device__ void put(int stage, std::uint32_t magnitude) {
      const std::uint32_t of_warp = __reduce_max_sync(~0u, magnitude);
      if (threadIdx.x % 32 == 0) shared_[stage * kWarps + threadIdx.x / 32] = of_warp;
    }
    __device__ std::uint32_t most(int stage) const {
      std::uint32_t most = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) most = max(most, shared_[stage * kWarps + warp]);
      return most;
    }

   private:
    static constexpr int kWarps = static_cast<int>(SmallGemmCut::kWarps);
    std::uint32_t* shared_;
  };

  // Of a K block whose numbers are too large for FP16 or all too small; 0: they are zeros.
  static __device__ float scale_of(const InputLoader<Products>& x, int k_block,
                                   Magnitudes& magnitudes, int stage) {
    __syncthreads();  // all have seen that
    magnitudes.put(stage, x.largest(k_block));
    __syncthreads();
    const MagnitudeBits most = magnitudes.most(stage);
    return most == 0 ? 0 : split_scale(most);
  }
  static __device__ void load_again(const InputLoader<Products>& x, char* stage, int k_block,
                                    float scale) {
    x.load_scaled(stage, k_block, scale);
    __syncthreads();
  }
};

}  // namespace megaconv::cuda
