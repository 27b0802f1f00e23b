// SPDX-License-Identifier: Apache-2.0
// Depthwise tasks of a stage, in NHWC: TMA loads what each reads of x as a box, with zeros for the
// padding, while those before are computed. A thread has four channels, the same in every task, of
// tiles of 4 x 2 outputs (depthwise_sums.cuh). Its weights of 3 x 3 taps stay in registers from
// task to task.
//
//   box, stage of the ring   [row][col][channel]
//   threads                  parts of four channels; behind them, the next tile's
#pragma once

#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/tensor_copy.cuh"
#include "tasks/direct/cuda/direct_depthwise.cuh"
#include "tasks/direct/depthwise_box.hpp"

namespace megaconv::cuda {

template <class Stored, int kTaps, int kStride>
class DepthwiseBoxes {
  using Plain = DepthwiseTask<Layout::nhwc, Stored>;

 public:
  static constexpr int kThreads = Plain::kThreads, kBlocksPerSm = 4;

  /// Every gridDim.x-th task, by all threads of a block. wait(): for the kernel that wrote what is
  /// read. `memory`: as much as box_of() says.
  template <class Wait>
  static __device__ void run(const TaskArgs& a, const Task* tasks, std::uint32_t num_tasks,
                             std::byte* memory, Wait wait) {
    if (!can_load(a)) {
      wait();
      for (std::uint32_t i = blockIdx.x; i < num_tasks; i += gridDim.x) {
        Plain::template run_filters<1, kTaps, kStride>(a, tasks[i].group, tasks[i].block);
      }
      return;
    }
    const DepthwiseBox box = box_of(a);
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    std::byte* const stages = memory + DepthwiseBox::kBarrierBytes;
    const auto load = [&](std::uint32_t i, const Cursor& at) {
      if (i >= num_tasks) return;
      const PixelRect rect(a, tasks[i].group);
      const int channel = static_cast<int>(tasks[i].block) * a.filters_per_gemm_task;
      std::uint64_t* const barrier = ring.expect(at, static_cast<std::uint32_t>(box.bytes));
      wait();  // as late as can be: what comes before the first time is for free
      copy_box(stages + at.stage * box.stage_bytes, a.x_tensors[0],
               {channel, rect.col * kStride - a.pad_w, rect.row * kStride - a.pad_h, rect.image},
               barrier);
    };
    if (threadIdx.x == 0) {
      prefetch_map(a.x_tensors[0]);
      ring.init(1, 1);
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    }
    __syncthreads();
    Cursor at;
    if (threadIdx.x == 0) {
      for (std::uint32_t i = blockIdx.x; at.parity == 0; at.advance(box.stages), i += gridDim.x) {
        load(i, at);
      }
      at = {};
    }
    Task task = tasks[blockIdx.x];  // the plan's, which no kernel before writes
    wait();
    Share share(a);
    for (std::uint32_t i = blockIdx.x; i < num_tasks; at.advance(box.stages)) {
      const PixelRect rect(a, task.group);
      share.take(a, task.block);
      ring.wait_full(at);
      share.compute(a, rect, box,
                    reinterpret_cast<const Stored*>(stages + at.stage * box.stage_bytes));
      __syncthreads();
      if (threadIdx.x == 0) load(i + static_cast<std::uint32_t>(box.stages) * gridDim.x, at);
      i += gridDim.x;
      if (i < num_tasks) task = tasks[i];
    }
    if (threadIdx.x == 0) ring.close();
  }

 private:
  static constexpr int kChannels = depthwise_shape(Layout::nhwc).i_tile;
  static constexpr int kRows = Plain::kRows, kCols = Plain::kCols;
  using Ring = StageRing<DepthwiseBox::kMostStages>;
  using Cursor = typename Ring::Cursor;
  static_assert(sizeof(Ring) <= DepthwiseBox::kBarrierBytes);

  static __device__ DepthwiseBox box_of(const TaskArgs& a) {
    return depthwise_box(kTaps, kStride, a.rows_per_group, a.cols_per_group,
                         a.filters_per_gemm_task, sizeof(Stored));
  }
  // Whether tensors begin where TMA and vectors of a thread's channels may.
  static __device__ bool can_load(const TaskArgs& a) {
    return are_aligned<uint4>(a.x) &&
           are_aligned<Vec<kChannels, Stored>>(a.y, a.residual, a.scale, a.bias);
  }

  /// A tile's inputs in a box.
  class Inputs {
   public:
    __device__ Inputs(const Stored* first, int to_next_col, int to_next_row)
        : first_(first), to_next_col_(to_next_col), to_next_row_(to_next_row) {}
    __device__ Inputs from(int cols) const {
      return {first_ + cols * to_next_col_, to_next_col_, to_next_row_};
    }
    template <int kCount>
    __device__ Vec<kCount, Stored> at(int rows, int cols) const {
      return load_stored<kCount>(first_ + rows * to_next_row_ + cols * to_next_col_);
    }

   private:
    const Stored* first_;
    int to_next_col_, to_next_row_;
  };

  /// A thread's share of every task.
  class Share {
   public:
    __device__ explicit Share(const TaskArgs& a) {
      const int parts = a.filters_per_gemm_task / kChannels;
      tiles_at_once_ = kThreads / parts;
      first_tile_ = static_cast<int>(threadIdx.x) / parts;
      channel_ = (static_cast<int>(threadIdx.x) - first_tile_ * parts) * kChannels;
    }
    /// A task's filters.
    __device__ void take(const TaskArgs& a, std::uint32_t block) {
      const int k = static_cast<int>(block) * a.filters_per_gemm_task + channel_;
      if (k == k_) return;
      k_ = k;
      if constexpr (kKeepsWeights) {
        if (exists(a)) weights_.load_from(a.u + k, a.k_padded);
      }
    }
    __device__ void compute(const TaskArgs& a, const PixelRect& rect, const DepthwiseBox& box,
                            const Stored* x) const {
      if (!exists(a)) return;
      const int down = (rect.rows + kRows - 1) / kRows, across = (rect.cols + kCols - 1) / kCols;
      const int to_next_col = a.filters_per_gemm_task, to_next_row = box.cols * to_next_col;
      const DirectOutput<Layout::nhwc, Stored> output(a, rect.image);
      for (int tile = first_tile_; tile < down * across; tile += tiles_at_once_) {
        const int line = bounded_quotient(tile, across);
        const int row = line * kRows, col = (tile - line * across) * kCols;
        const Inputs inputs(
            x + row * kStride * to_next_row + col * kStride * to_next_col + channel_, to_next_col,
            to_next_row);
        DepthwiseSums<kRows, kCols, kChannels> sums;
        if constexpr (kKeepsWeights) {
          sums.template add_all<kStride>(weights_, inputs);
        } else {
          sums.template add_columns<kTaps, kStride>(a.u + k_, a.k_padded, kTaps, kStride, 1,
                                                    inputs);
        }
        output.template store_channels<kRows, kCols, kChannels>(
            k_, rect.row + row, rect.col + col, rect.rows - row, rect.cols - col, sums.outputs);
      }
    }

   private:
    static constexpr bool kKeepsWeights = kTaps == 3;
    struct Nothing {};
    // Channels past the last one, and threads past the last tile's.
    __device__ bool exists(const TaskArgs& a) const {
      return k_ < a.k && first_tile_ < tiles_at_once_;
    }
    int tiles_at_once_, first_tile_, channel_, k_ = -1;
    std::conditional_t<kKeepsWeights, DepthwiseWeights<kTaps, kChannels>, Nothing> weights_;
  };
};

}  // namespace megaconv::cuda
