// SPDX-License-Identifier: Apache-2.0
// A task of a small-tile implicit GEMM: a tile of output pixels by a block of filters.
//
//   before the wait   where this thread's pixels lie; filters of the first K blocks, on their way,
//                     if they are there
//   wait()            the task's producers are done
//   each K block      x to shared memory, once for all taps; a barrier; products
//   shared memory     every warp's sums; a barrier
//   cluster           of sums that tasks share: each has all tasks' sums of some of the filters
//   epilogue          the sums of all warps, bias, residual, activation
//
// Several K blocks are in shared memory at a time. Filters come by one copy each.
#pragma once

#include <cstdint>

#include "megaconv/task_phase.hpp"
#include "tasks/small_gemm/cuda/computed_input.cuh"
#include "tasks/small_gemm/cuda/epilogue.cuh"
#include "tasks/small_gemm/cuda/expanded_input.cuh"
#include "tasks/small_gemm/cuda/filter_stages.cuh"
#include "tasks/small_gemm/cuda/input_loader.cuh"
#include "tasks/small_gemm/cuda/magnitudes.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/quotient.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/cuda/sum_exchange.cuh"

namespace megaconv::cuda {

/// What a warp computes: 16 filters, up to 8 times kPixelTiles pixels, some steps of a K block.
template <class Products>
class SmallGemmTile {
 public:
  /// By all threads. `places`: of the steps of a K block in a stage of x, which this writes; they
  /// are there behind a barrier.
  __device__ SmallGemmTile(const SmallGemmArgs& a, const SmallGemmShare& share, int* places)
      : a_(a), lane_(static_cast<int>(threadIdx.x) % 32) {
    const Part part(a);
    find_pixels(share, part);
    find_steps(places, part);
    if constexpr (Products::kLeavesRegisters) own_sums_ = OwnSums(a, part, lane_);
#pragma unroll
    for (auto& sum : sum_) {
#pragma unroll
      for (float& number : sum) number = 0;
    }
  }

  /// The products of a K block.
  __device__ void multiply(const char* stage) {
    switch (a_.warp_tiles) {
      case 1:
        return multiply_tiles<1>(stage);
      case 2:
        return multiply_tiles<2>(stage);
      default:
        return multiply_tiles<4>(stage);
    }
  }

  __device__ void scale(float factor) {
#pragma unroll
    for (auto& sum : sum_) {
#pragma unroll
      for (float& number : sum) number *= factor;
    }
  }

  __device__ void write_sums(float* sums) {
    if constexpr (!Products::kPairs) add_halves();
    if constexpr (!Products::kLeavesRegisters) own_sums_ = OwnSums(a_, Part(a_), lane_);
    const int pitch = own_sums_.pitch;
    float* to = sums + own_sums_.first;
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j, to += 8 * pitch) {
      if (j >= own_sums_.num_tiles) break;
      to[0] = sum_[j][0];
      to[pitch] = sum_[j][1];
      to[8] = sum_[j][2];
      to[pitch + 8] = sum_[j][3];
    }
  }

 private:
  static constexpr int kPixelTiles = static_cast<int>(SmallGemmCut::kWarpPixelTiles);
  static constexpr int kStepBytes = 64, kInstructionBytes = 512;
  static constexpr int kParts = Products::kPairs ? 2 : 1;
  static constexpr int kFilterBytes = 2 * kInstructionBytes * kParts;

  // What of a task a warp has.
  struct Part {
    int filter_warp, sum_warp, first_tile, num_tiles;

    explicit __device__ Part(const SmallGemmArgs& a) {
      const int warp = static_cast<int>(threadIdx.x) / 32;
      filter_warp = warp & ((1 << a.filter_bits) - 1);
      const int pixel_warp = warp >> a.filter_bits & ((1 << a.pixel_bits) - 1);
      sum_warp = warp >> (a.filter_bits + a.pixel_bits);
      const int tiles = (a.pixels_per_group - 1) / 8 + 1;
      first_tile = pixel_warp * a.warp_tiles;
      num_tiles = min(a.warp_tiles, tiles - first_tile);
    }
  };

  // Where this thread's sums go: floats.
  struct OwnSums {
    int first, pitch, num_tiles;

    OwnSums() = default;
    __device__ OwnSums(const SmallGemmArgs& a, const Part& part, int lane)
        : first(part.sum_warp * a.warp_sums + part.filter_warp * 16 + lane / 4 +
                (part.first_tile * 8 + lane % 4 * 2) * a.sum_pitch),
          pitch(a.sum_pitch),
          num_tiles(part.num_tiles) {}
  };

  // Places in a stage of this thread's quarter of its pixels, under the first tap.
  __device__ void find_pixels(const SmallGemmShare& share, const Part& part) {
#pragma unroll
    for (int j = 0; j < kPixelTiles; ++j) {
      int pixel = (part.first_tile + j) * 8 + lane_ / 4;
      if (j >= part.num_tiles || pixel >= share.rows * share.cols) pixel = 0;  // any that is there
      const int row = row_of(share, pixel), col = pixel - row * share.cols;
      place_[j] = (row * a_.step_h * a_.in_cols + col * a_.step_w) * a_.pitch + lane_ % 4 * 16;
    }
  }

  // Warps over sums have steps of their own. Those without a pixel have none.
  __device__ void find_steps(int* places, const Part& part) {
    const int begin = min(part.sum_warp * a_.warp_steps, a_.block_steps);
    num_steps_ = part.num_tiles > 0 ? min(a_.warp_steps, a_.block_steps - begin) : 0;
    steps_ = places + begin;
    first_filter_ = a_.stage_bytes - a_.filter_bytes + lane_ * 16 +
                    (part.filter_warp * a_.block_steps + begin) * kFilterBytes;
    const int tap_bytes = a_.to_next_tap + a_.chunks * kStepBytes;
    for (int step = static_cast<int>(threadIdx.x); step < a_.block_steps;
         step += kSmallGemmThreads) {
      const int tap = quotient(step, a_.chunks_reciprocal);
      const int row = quotient(tap, a_.taps_w_reciprocal);
      places[step] = (step - tap * a_.chunks) * kStepBytes + tap * tap_bytes + row * a_.to_next_row;
    }
  }

  // What a step multiplies.
  template <int kTiles>
  struct Operands {
    FilterWords filters;
    PixelWords pixels[kTiles];
  };
  template <int kTiles>
  __device__ void load(Operands<kTiles>& operands, const char* filters, const char* x) const {
    operands.filters = filters_at(filters);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) operands.pixels[j] = pixels_at(x + place_[j]);
  }

  template <int kTiles>
  __device__ void multiply_tiles(const char* stage) {
    const char* const filters = stage + first_filter_;
    if constexpr (Products::kPairs) {
      int place = num_steps_ > 0 ? steps_[0] : 0;
#pragma unroll 1
      for (int step = 0; step < num_steps_; ++step) {
        const char* const x = stage + place;
        place = steps_[min(step + 1, num_steps_ - 1)];
        multiply_pairs<kTiles>(filters + step * kFilterBytes, x);
      }
    } else if (num_steps_ > 0) {
      // A step ahead, and the place of the one behind it; the last one once more. Nothing that is
      // loaded only in some cases: that would hold its registers all the time.
      const int last = num_steps_ - 1;
      Operands<kTiles> operands[2];
      load(operands[0], filters, stage + steps_[0]);
      int place = steps_[min(1, last)];
#pragma unroll 1
      for (int step = 0;;) {
        load(operands[1], filters + min(step + 1, last) * kFilterBytes, stage + place);
        place = steps_[min(step + 2, last)];
        multiply_step(operands[0]);
        if (++step > last) break;
        load(operands[0], filters + min(step + 1, last) * kFilterBytes, stage + place);
        place = steps_[min(step + 2, last)];
        multiply_step(operands[1]);
        if (++step > last) break;
      }
    }
  }
  // Where tiles are few, each half of a step has a sum of its own: an instruction does not wait for
  // the one before.
  template <int kTiles>
  __device__ void multiply_step(const Operands<kTiles>& operands) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const int sum = kTiles <= kPixelTiles / 2 ? half * kTiles + j : j;
        Products::add(sum_[sum], operands.filters, operands.pixels[j], half);
      }
    }
  }
  __device__ void add_halves() {
    const auto add = [this](int to, int from) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sum_[to][n] += sum_[from][n];
    };
    if (a_.warp_tiles == 1) add(0, 1);
    if (a_.warp_tiles == 2) add(0, 2), add(1, 3);
  }

  // The products with rests have a sum of their own. Two tiles at a time: an instruction does not
  // wait for the one before.
  template <int kTiles>
  __device__ void multiply_pairs(const char* filters, const char* x) {
    constexpr int kAtOnce = kTiles < 2 ? 1 : 2;  // what registers hold
    const FilterWords high = filters_at(filters);
    const FilterWords rest = filters_at(filters + 2 * kInstructionBytes);
#pragma unroll
    for (int first = 0; first < kTiles; first += kAtOnce) {
      PixelWords highs[kAtOnce], rests[kAtOnce];
      float of_step[kAtOnce][4] = {}, of_rests[kAtOnce][4] = {};
      const auto for_each = [&](auto visit) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) visit(j);
      };
      for_each([&](int j) {
        highs[j] = pixels_at(x + place_[first + j]);
        rests[j] = pixels_at(x + place_[first + j] + a_.x_bytes);
      });
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        for_each([&](int j) { Products::add(of_rests[j], rest, highs[j], half); });
        for_each([&](int j) { Products::add(of_step[j], high, highs[j], half); });
        for_each([&](int j) { Products::add(of_rests[j], high, rests[j], half); });
      }
      for_each([&](int j) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          sum_[first + j][n] += fmaf(of_rests[j][n], 0x1p-11f, of_step[j][n]);
        }
      });
    }
  }

  struct alignas(16) Sixteen {  // bytes
    std::uint32_t word[4];
  };
  static __device__ FilterWords filters_at(const char* from) {
    FilterWords words;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Sixteen of = *reinterpret_cast<const Sixteen*>(from + i * kInstructionBytes);
#pragma unroll
      for (int j = 0; j < 4; ++j) words.of[i][j] = of.word[j];
    }
    return words;
  }
  static __device__ PixelWords pixels_at(const char* from) {
    const Sixteen of = *reinterpret_cast<const Sixteen*>(from);
    return {{{of.word[0], of.word[1]}, {of.word[2], of.word[3]}}};
  }

  const SmallGemmArgs& a_;
  const int lane_;
  int place_[kPixelTiles];
  const int* steps_;  // places in a stage of x
  int num_steps_, first_filter_;
  OwnSums own_sums_;
  float sum_[kPixelTiles][4];
};

/// A task. `shared`: TaskMemory::bytes of shared memory, which all threads have left behind a
/// barrier of the block. wait() is one, too. tensor(pointer): what a pointer of the arguments
/// stands for. mark(phase): a phase ends. Bias: how it is stored. kConstantsWait: filters and bias,
/// too, may not be there before wait(). Loader: of x, InputLoader or ComputedInput.
template <class Products, class Bias = float, bool kConstantsWait = false,
          class Loader = InputLoader<Products>>
class SmallGemmTask {
 public:
  template <class Tensor, class Wait, class Mark>
  static __device__ void run(const SmallGemmArgs& a, const SmallGemmShare& share, char* shared,
                             FilterStages& filters, const SumExchange& exchange, Tensor tensor,
                             Wait wait, Mark mark) {
    const char* const u =
        static_cast<const char*>(tensor(a.u)) +
        static_cast<std::int64_t>(share.filter_block) * a.k_blocks * a.filter_bytes;
    const auto start_filters = [&](int k_block, int stage) {
      filters.start(stage, shared + (stage + 1) * a.stage_bytes - a.filter_bytes,
                    u + static_cast<std::int64_t>(k_block) * a.filter_bytes, a.filter_bytes);
    };
    if (a.shares > 1) exchange.open(a, share);
    filters.take_over();
    const auto start_all_filters = [&] {
#pragma unroll 1
      for (int k_block = 0; k_block < a.stages; ++k_block) start_filters(k_block, k_block);
    };
    if constexpr (!kConstantsWait) start_all_filters();
    auto* const vectors = reinterpret_cast<float*>(shared + a.vectors_at);
    SmallGemmEpilogue<Products, Bias> epilogue(a, share, tensor, vectors);
    if constexpr (!kConstantsWait) epilogue.load_vectors(tensor);
    Loader x(a, share, tensor, shared);
    SmallGemmTile<Products> tile(a, share, reinterpret_cast<int*>(shared + a.steps_at));
    auto* const words = reinterpret_cast<std::uint32_t*>(vectors + 2 * kMostFilters);
    Magnitudes magnitudes(words);
    std::uint32_t* const needs_care = words + Magnitudes::kWords;
    wait();
    if constexpr (kConstantsWait) {
      start_all_filters();
      epilogue.load_vectors(tensor);
    }
    const auto load = [&](int k_block, int stage) {
      const std::uint32_t most = x.load(shared + stage * a.stage_bytes, k_block);
      __pipeline_commit();
      if constexpr (Products::kConverts) {
        if (!x.completes() && !x.in_pairs()) magnitudes.put(stage, most);
      }
    };
    if constexpr (Products::kStoresPairs) {  // with the first K block
      if (threadIdx.x == kAsker) {
        if (x.in_pairs()) {
          __pipeline_memcpy_async(needs_care, tensor(a.wide_pairs), sizeof *needs_care);
        } else {
          *needs_care = 1;
        }
      }
    }
#pragma unroll 1
    for (int k_block = 0; k_block < a.stages; ++k_block) load(k_block, k_block);
    epilogue.put_bias();
    float scale = 0;  // of x in the sums, once there is one
#pragma unroll 1
    for (int k_block = 0, stage = 0; k_block < a.k_blocks; ++k_block) {
      char* const of_stage = shared + stage * a.stage_bytes;
      __pipeline_wait_prior(min(a.k_blocks - 1 - k_block, a.stages - 1));
      if constexpr (Loader::kComputes) filters.wait(stage);
      if (x.completes()) {
        const std::uint32_t most = x.complete(of_stage, k_block);
        if constexpr (Products::kConverts) magnitudes.put(stage, most);
      }
      if constexpr (!Loader::kComputes) filters.wait(stage);
      __syncthreads();
      if (k_block == 0) mark(TaskPhase::inputs);
      // Pairs of which none is wide need nothing: one look, and one jump, before their products.
      if (Products::kConverts && (!Products::kStoresPairs || *needs_care != 0)) {
        bool fits;
        if (x.in_pairs()) {
          fits = !__syncthreads_or(x.has_wide(of_stage));
        } else {
          fits = fits_halves(magnitudes.most(stage));
        }
        if (fits && (scale == 0 || scale == 1)) [[likely]] {
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
      if (k_block + a.stages < a.k_blocks) {
        __syncthreads();  // all have left the stage
        start_filters(k_block + a.stages, stage);
        load(k_block + a.stages, stage);
      }
      if (++stage == a.stages) stage = 0;
    }
    mark(TaskPhase::products);
    epilogue.load_residual(tensor);
    if (a.sums_wait) __syncthreads();
    auto* sums = reinterpret_cast<float*>(shared + a.sums_at);
    if (scale != 0 && scale != 1) [[unlikely]]
      tile.scale(inverse_of_scale(scale));
    tile.write_sums(sums);
    __syncthreads();
    if (a.shares > 1) {
      auto* const received = reinterpret_cast<float*>(shared + a.received_at);
      exchange.run(a, share, sums, received);
      sums = received;
    }
    epilogue.write_outputs(sums, tensor);
    epilogue.write_second(sums, tensor);
    mark(TaskPhase::outputs);
  }

 private:
  static constexpr int kMostFilters = 16 * static_cast<int>(SmallGemmCut::kWarps);
  static constexpr unsigned kAsker = 32;  // not the thread that waits for other tasks

  // Of a K block whose numbers are too large for FP16 or all too small; 0: they are zeros.
  static __device__ float scale_of(Loader& x, int k_block, Magnitudes& magnitudes, int stage) {
    __syncthreads();  // all have seen that
    magnitudes.put(stage, x.largest(k_block));
    __syncthreads();
    const MagnitudeBits most = magnitudes.most(stage);
    return most == 0 ? 0 : split_scale(most);
  }
  static __device__ void load_again(Loader& x, char* stage, int k_block, float scale) {
    x.load_scaled(stage, k_block, scale);
    __syncthreads();
  }
};

}  // namespace megaconv::cuda
