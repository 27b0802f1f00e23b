// SPDX-License-Identifier: Apache-2.0
// A task of a small-tile implicit GEMM: a tile of output pixels by a block of filters.
//
//   before the wait     where this thread's pixels lie; the first step's filters, on their way
//   wait()              the task's producers are done
//   steps               pixels and filters from the caches to registers, one step ahead; products
//   shared memory       every warp's sums, [warp over sums][pixel][filter]
//   epilogue            sums of all warps in their order, bias, residual, activation; by 16 bytes
//
// Pixels are read once a tap. That the taps of a filter and the warps over filters read the same
// ones is the L1 cache's business.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

/// Row in its tile of a pixel, of less than 2^10: exact, since a quotient and a half is never as
/// near to the next whole number as three roundings are to it.
__device__ inline int row_of(const SmallGemmShare& share, int pixel) {
  return static_cast<int>((static_cast<float>(pixel) + 0.5f) * share.reciprocal);
}

/// The tensors of a node.
template <class Stored>
struct SmallGemmTensors {
  const Stored* x;
  const char* u;
  const float* bias;
  const Stored* residual;
  Stored* y;
};

/// Distance of a pixel's sums in shared memory, without conflicts of banks, and of a warp's.
__device__ inline int sum_pitch(const SmallGemmArgs& a) { return a.filters_per_task + 4; }
__device__ inline int sums_of_warp(const SmallGemmArgs& a) {
  return ((a.rows_per_group * a.cols_per_group - 1) / 8 + 1) * 8 * sum_pitch(a);
}

/// What a warp computes: 16 filters, and up to 8 times kPixelTiles pixels. kVectors: whether 16
/// bytes of channels are loaded at once.
template <class Products, bool kVectors>
class SmallGemmTile {
 public:
  using Stored = typename Products::Stored;

  template <class Wait>
  static __device__ void run(const SmallGemmArgs& a, const SmallGemmShare& share,
                             const SmallGemmTensors<Stored>& tensors, float* shared, Wait wait) {
    SmallGemmTile tile(a, share, tensors, shared);
    tile.multiply(wait);
    tile.write_sums();
  }

 private:
  static constexpr int kPixelTiles = static_cast<int>(SmallGemmCut::kWarpPixelTiles);
  static constexpr int kVector = 16 / static_cast<int>(sizeof(Stored));  // numbers
  static constexpr int kStep = 4 * kVector;
  static constexpr int kWord = 4 / static_cast<int>(sizeof(Stored));

  __device__ SmallGemmTile(const SmallGemmArgs& a, const SmallGemmShare& share,
                           const SmallGemmTensors<Stored>& tensors, float* shared)
      : a_(a),
        share_(share),
        tensors_(tensors),
        sums_(shared + a.filters_per_task),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    filter_warp_ = warp % a.filter_warps;
    const int pixel_warp = warp / a.filter_warps % a.pixel_warps;
    sum_warp_ = warp / a.filter_warps / a.pixel_warps;
    const int tiles = (a.rows_per_group * a.cols_per_group - 1) / 8 + 1;
    const int warp_tiles = (tiles - 1) / a.pixel_warps + 1;
    first_tile_ = pixel_warp * warp_tiles;
    num_tiles_ = min(warp_tiles, tiles - first_tile_);
  }

  template <class Wait>
  __device__ void multiply(Wait wait) {
    const int total = a_.taps_h * a_.taps_w * a_.chunks;
    const int per_warp = (total - 1) / a_.sum_warps + 1;
    const int begin = sum_warp_ * per_warp, end = min(begin + per_warp, total);
    const int tile = share_.filter_block * a_.filter_warps + filter_warp_;
    const char* const u = tensors_.u + static_cast<std::int64_t>(tile) * total * 1024 + lane_ * 16;
    const auto load_filters = [&](Quarter(&filters)[2], int step) {
      filters[0] = read_only(u + step * 1024);
      filters[1] = read_only(u + step * 1024 + 512);
    };
    Quarter filters[2];
    if (begin < end) load_filters(filters, begin);
    find_pixels();
    wait();
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sum_[j][n] = 0;
    }
    if (begin >= end) return;
    chunk_ = begin % a_.chunks;
    tap_w_ = begin / a_.chunks % a_.taps_w;
    tap_h_ = begin / a_.chunks / a_.taps_w;
    // Two steps are in registers in turn.
    Quarter pixels[kPixelTiles], other_filters[2], other_pixels[kPixelTiles];
    load_pixels(pixels);
    for (int step = begin + 1;; ++step) {
      if (step < end) {
        advance();
        load_filters(other_filters, step);
        load_pixels(other_pixels);
      }
      add_products(filters, pixels);
      if (step >= end) break;
      if (++step < end) {
        advance();
        load_filters(filters, step);
        load_pixels(pixels);
      }
      add_products(other_filters, other_pixels);
      if (step >= end) break;
    }
  }

  // A part of several sums at a time, so that a sum's next instruction finds the one before done.
  __device__ void add_products(const Quarter (&filters)[2], const Quarter (&pixels)[kPixelTiles]) {
    constexpr int kAtOnce = Products::kStepsApart ? 2 : kPixelTiles;  // what registers hold
    const typename Products::Filters of_filters = Products::filters(filters[0], filters[1]);
#pragma unroll
    for (int first = 0; first < kPixelTiles; first += kAtOnce) {
      typename Products::Pixels of_pixels[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) of_pixels[j] = Products::pixels(pixels[first + j]);
      float of_step[kAtOnce][4] = {};
      unroll<Products::kParts>([&](auto part) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          auto& sum = Products::kStepsApart ? of_step[j] : sum_[first + j];
          Products::template add<decltype(part)::value>(sum, of_filters, of_pixels[j]);
        }
      });
      if constexpr (Products::kStepsApart) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
#pragma unroll
          for (int n = 0; n < 4; ++n) sum_[first + j][n] += of_step[j][n];
        }
      }
    }
  }

  // --- pixels

  // Of this thread's pixels: their first tap's place in the image, and which taps are inside it.
  __device__ void find_pixels() {
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
      const int pixel = (first_tile_ + j) * 8 + lane_ / 4;
      inside_[j] = 0;
      place_[j] = 0;
      if constexpr (!kVectors) col_[j] = 0;
      if (j >= num_tiles_ || pixel >= share_.rows * share_.cols) continue;
      const int tile_row = row_of(share_, pixel);
      const int row = (share_.row + tile_row) * a_.stride_h - a_.pad_h;
      const int col = (share_.col + pixel - tile_row * share_.cols) * a_.stride_w - a_.pad_w;
      inside_[j] = taps_inside(row, a_.dilation_h, a_.h, a_.taps_h) |
                   (a_.whole_rows ? 1u : taps_inside(col, a_.dilation_w, a_.w, a_.taps_w)) << 16;
      place_[j] = (row * a_.w + col) * a_.c + share_.first_channel + lane_ % 4 * kVector;
      if constexpr (!kVectors) col_[j] = col * a_.c;
    }
  }

  // A bit for every tap of a row or column that is inside the image.
  static __device__ std::uint32_t taps_inside(int first, int dilation, int extent, int taps) {
    if (dilation == 1) {
      const int begin = max(-first, 0), end = min(extent - first, taps);
      return begin < end ? (1u << end) - (1u << begin) : 0u;
    }
    std::uint32_t inside = 0;
#pragma unroll 1
    for (int tap = 0; tap < taps; ++tap, first += dilation) {
      inside |= static_cast<std::uint32_t>(first >= 0 && first < extent) << tap;
    }
    return inside;
  }

  __device__ void advance() {
    if (++chunk_ < a_.chunks) return;
    chunk_ = 0;
    if (++tap_w_ < a_.taps_w) return;
    tap_w_ = 0;
    ++tap_h_;
  }

  __device__ void load_pixels(Quarter (&pixels)[kPixelTiles]) const {
    const std::uint32_t tap = 1u << tap_h_ | 0x10000u << tap_w_;
    const int distance =
        (tap_h_ * a_.dilation_h * a_.w + tap_w_ * a_.dilation_w) * a_.c + chunk_ * kStep;
    const int number = chunk_ * kStep + lane_ % 4 * kVector;  // of the tap
    const Stored* const image =
        tensors_.x + static_cast<std::int64_t>(share_.image) * a_.h * a_.w * a_.c;
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
      pixels[j] = Quarter{};
      if (j >= num_tiles_) continue;
      const bool inside = (inside_[j] & tap) == tap;
      if constexpr (kVectors) {
        if (inside && number < share_.num_channels) {
          pixels[j] = *reinterpret_cast<const Quarter*>(image + (place_[j] + distance));
        }
      } else if (inside) {
        pixels[j] = load_numbers(image + (place_[j] + distance), number, col_[j]);
      }
    }
  }

  // Numbers that no vector begins with: of a channel range, or of a filter's row, of which those
  // outside the image are zero.
  __device__ Quarter load_numbers(const Stored* from, int number, int col) const {
    const int count = (a_.whole_rows ? a_.numbers : share_.num_channels) - number;
    if (count <= 0) return Quarter{};
    const int before = a_.whole_rows ? col + number : 0;  // of the image's row
    const bool inside = before >= kWord && before + kVector + kWord <= a_.w * a_.c;
    if (a_.whole_rows ? inside : count >= kVector) {
      Quarter quarter = load_words(from);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int left = count - i * kWord;
        if (left <= 0) quarter.word[i] = 0;
        if (kWord == 2 && left == 1) quarter.word[i] &= 0xffffu;
      }
      return quarter;
    }
    union {
      Quarter quarter;
      Bits bits[kVector];
    } loaded;
    const Bits* const bits = reinterpret_cast<const Bits*>(from);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const int at = before + i;
      const bool exists = i < count && (!a_.whole_rows || (at >= 0 && at < a_.w * a_.c));
      loaded.bits[i] = exists ? bits[i] : Bits{0};
    }
    return loaded.quarter;
  }

  // 16 bytes at any number: four words, or what two neighbours of five have of each.
  static __device__ Quarter load_words(const Stored* from) {
    Quarter quarter;
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    const auto* const words = reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3});
    if (address % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) quarter.word[i] = words[i];
      return quarter;
    }
    std::uint32_t low = words[0];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t high = words[i + 1];
      quarter.word[i] = low >> 16 | high << 16;
      low = high;
    }
    return quarter;
  }

  // --- sums

  __device__ void write_sums() const {
    float* const own = sums_ + sum_warp_ * sums_of_warp(a_);
    const int pitch = sum_pitch(a_);
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
      if (j >= num_tiles_) break;
      const int pixel = (first_tile_ + j) * 8 + lane_ % 4 * 2;
      float* const to = own + pixel * pitch + filter_warp_ * 16 + lane_ / 4;
      to[0] = sum_[j][0];
      to[pitch] = sum_[j][1];
      to[8] = sum_[j][2];
      to[pitch + 8] = sum_[j][3];
    }
  }

  static __device__ Quarter read_only(const char* from) {
    const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
    return {{words.x, words.y, words.z, words.w}};
  }

  using Bits = std::conditional_t<sizeof(Stored) == 2, std::uint16_t, std::uint32_t>;

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  const SmallGemmTensors<Stored> tensors_;
  float* sums_;
  int lane_, filter_warp_, sum_warp_, first_tile_, num_tiles_;
  int chunk_, tap_w_, tap_h_;  // of the step whose pixels are loaded next
  std::uint32_t inside_[kPixelTiles];
  int place_[kPixelTiles];
  int col_[kVectors ? 1 : kPixelTiles];
  float sum_[kPixelTiles][4];
};

/// From sums in shared memory to outputs: a thread has 16 bytes of filters of a pixel at a time.
template <class Stored>
class SmallGemmEpilogue {
 public:
  /// Before the wait: the bias to shared memory, and where this thread's first outputs are.
  __device__ SmallGemmEpilogue(const SmallGemmArgs& a, const SmallGemmShare& share,
                               const SmallGemmTensors<Stored>& tensors, float* shared)
      : a_(a), share_(share), tensors_(tensors), shared_(shared) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < a.filters_per_task) {
      const int filter = share.first_filter + thread;
      shared[thread] = tensors.bias != nullptr && filter < a.k ? tensors.bias[filter] : 0.0f;
    }
    const int blocks = a.filters_per_task / kVector;
    filter_ = thread % blocks * kVector;
    pixel_ = thread / blocks;
    stride_ = kSmallGemmThreads / blocks;
    num_pixels_ = share.first_filter + filter_ < a.k ? share.rows * share.cols : 0;
    find_outputs();
  }

  /// Behind the wait: the residual, on its way while the block multiplies.
  __device__ void load_residual() {
    if (tensors_.residual == nullptr || a_.k % kVector != 0) return;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (pixel_ + i * stride_ >= num_pixels_) break;
      residual_[i] = *reinterpret_cast<const Vec<kVector, Stored>*>(tensors_.residual + output_[i]);
    }
  }

  /// Behind a barrier of the block, which has written its sums.
  __device__ void write_outputs() {
#pragma unroll 1
    for (;;) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (pixel_ + i * stride_ >= num_pixels_) return;
        store_output(pixel_ + i * stride_, tensors_.y + output_[i], residual_[i],
                     tensors_.residual + output_[i]);
      }
      pixel_ += kAtOnce * stride_;
      find_outputs();
      load_residual();
    }
  }

 private:
  static constexpr int kVector = 16 / static_cast<int>(sizeof(Stored));  // numbers
  static constexpr int kAtOnce = 4;                                      // outputs of a thread

  __device__ void find_outputs() {
    const std::int64_t image = static_cast<std::int64_t>(share_.image) * a_.p * a_.q * a_.k;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int pixel = pixel_ + i * stride_, row = row_of(share_, pixel);
      const int at = (share_.row + row) * a_.q + share_.col + pixel - row * share_.cols;
      output_[i] = image + (at * a_.k + share_.first_filter + filter_);
    }
  }

  __device__ void store_output(int pixel, Stored* y, const Vec<kVector, Stored>& residual,
                               const Stored* residuals) const {
    Vec<kVector> value = sum_at(shared_ + filter_);
    const float* sums = shared_ + a_.filters_per_task + pixel * sum_pitch(a_) + filter_;
#pragma unroll 2
    for (int warp = 0; warp < a_.sum_warps; ++warp, sums += sums_of_warp(a_)) {
      value = value + sum_at(sums);
    }
    if (a_.k % kVector == 0) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (tensors_.residual != nullptr) value.lane[i] += static_cast<float>(residual.lane[i]);
        value.lane[i] = activate(a_.activation, value.lane[i]);
      }
      store<kVector>(y, value);
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (share_.first_filter + filter_ + i >= a_.k) break;
      float one = value.lane[i];
      if (tensors_.residual != nullptr) one += static_cast<float>(residuals[i]);
      y[i] = static_cast<Stored>(activate(a_.activation, one));
    }
  }

  static __device__ Vec<kVector> sum_at(const float* from) {
    Vec<kVector> sum;
#pragma unroll
    for (int i = 0; i < kVector; i += 4) {
      const auto four = *reinterpret_cast<const Vec<4>*>(from + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum.lane[i + j] = four.lane[j];
    }
    return sum;
  }

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  const SmallGemmTensors<Stored> tensors_;
  float* shared_;
  int filter_, pixel_, stride_, num_pixels_;
  std::int64_t output_[kAtOnce];
  Vec<kVector, Stored> residual_[kAtOnce];
};

/// A task, by the tile that its warps have. `shared`: sum_bytes() and a float for every filter of a
/// task. wait() is a barrier of the block. tensor(pointer): what a pointer of the arguments stands
/// for.
template <class Products>
struct SmallGemmTask {
  using Stored = typename Products::Stored;
  template <class Tensor, class Wait>
  static __device__ void run(const SmallGemmArgs& a, const SmallGemmShare& share, float* shared,
                             Tensor tensor, Wait wait) {
    const SmallGemmTensors<Stored> tensors{
        static_cast<const Stored*>(tensor(a.x)), static_cast<const char*>(tensor(a.u)),
        static_cast<const float*>(tensor(a.bias)), static_cast<const Stored*>(tensor(a.residual)),
        static_cast<Stored*>(const_cast<void*>(tensor(a.y)))};
    SmallGemmEpilogue<Stored> epilogue(a, share, tensors, shared);
    const auto begin = [&] {
      wait();
      epilogue.load_residual();
    };
    a.vectors ? SmallGemmTile<Products, true>::run(a, share, tensors, shared, begin)
              : SmallGemmTile<Products, false>::run(a, share, tensors, shared, begin);
    __syncthreads();
    epilogue.write_outputs();
  }
};

}  // namespace megaconv::cuda
