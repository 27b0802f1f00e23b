// SPDX-License-Identifier: Apache-2.0
// openCNN: fused F(2x2,3x3) convolution in FP32. One task computes y for 64 filters of 32 tiles:
//
//   per 8 channels:  patches of x -> registers -> V = B^T d B -> shared memory (opencnn_input.cuh)
//                    U (transformed by OpencnnFilterTransform)  -> shared memory
//                    M += U V: 16 products of 64 x 32 over the channels, two a warp
//   at the end:      M -> shared memory -> y = A^T M A, epilogue (opencnn_output.cuh)
//
// Written from Castro, Andrade, Fraguela: "openCNN: A Winograd Minimal Filtering Algorithm
// Implementation in CUDA" (Mathematics 2021, 9, 2033); lanes and blocking after Yan, Wang, Chu
// (PPoPP 2020), which it builds on.
//
// Software pipeline. The paper holds the next 8 channels in registers and writes them to shared
// memory between two barriers, while nobody computes. Here the same 48 KB are two buffers of 4
// channels: one is filled while the other is used, and there is one barrier per 4 channels. Patches
// are still read one tile of one channel a thread, 8 channels at a time: of the two warps that
// share a scheduler, w and w + 4, one writes its transforms in the first half of a block and the
// other in the second.
//
// 128 sums, 32 operands (two steps), a patch of 16 and its addresses leave no way to 128 registers
// a thread, so one block is resident per multiprocessor; everything that takes long is started a
// whole half block (512 FFMA a thread, two for patches) before it is needed.
#pragma once

#include <cstdint>

#include "tasks/cuda/opencnn_filter.cuh"
#include "tasks/cuda/opencnn_input.cuh"
#include "tasks/cuda/opencnn_output.cuh"

namespace megaconv::cuda {

namespace opencnn {

/// M += U V over all channels.
template <Layout kLayout>
class Multiplication {
 public:
  struct SharedStorage {
    Operands half[2];
  };

  __device__ Multiplication(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                            SharedStorage& shared)
      : shared_(shared),
        // Says that the warp's index is the same in all its lanes.
        warp_(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0)),
        num_blocks_((args.c + kChannels - 1) / kChannels),
        patch_(args, group, warp_, static_cast<int>(threadIdx.x) % 32),
        filters_(args.u + static_cast<std::int64_t>(block) * num_blocks_ *
                              (kPositions * kChannels * kFilters)) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float* input = &shared.half[0].input[2 * warp_][0][0];
    input_[0] = input + 4 * tile_group(lane);
    input_[1] = input + 4 * (tile_group(lane) ^ 2);
    filter_ = &shared.half[0].filter[2 * warp_][0][4 * filter_group(lane)];
  }

  __device__ void run(Accumulators& sums) {
    filters_.begin(shared_.half[0]);
    patch_.load();
    if (warp_ < 4) {
      patch_.store_transform(shared_.half[0]);
      patch_.load();
    }
    filters_.finish(shared_.half[0]);
    __syncthreads();
    load_step(0, 0);
    for (int block = 0; block < num_blocks_; ++block) {
      multiply_half<0>(true, sums);
      multiply_half<1>(block + 1 < num_blocks_, sums);
    }
  }

 private:
  static constexpr int kSteps = 2 * kHalfChannels;  // (channel, position of the warp)
  static constexpr int kStoreStep = 2;

  // Multiplies half `kHalf` of a block, fills the other buffer for the half after it.
  template <int kHalf>
  __device__ void multiply_half(bool more_filters, Accumulators& sums) {
    Operands& next = shared_.half[1 - kHalf];
    if (more_filters) filters_.begin(next);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step == kStoreStep && warp_ / 4 == 1 - kHalf) {
        patch_.store_transform(next);
        patch_.load();
      }
      if (step + 1 < kSteps) {
        load_step(kHalf, step + 1);
      } else {
        // The last operands of this half are in registers: its buffer may be overwritten.
        filters_.finish(next);
        __syncthreads();
        load_step(1 - kHalf, 0);
      }
      multiply_step(step, sums);
    }
  }

  // Operands of one channel and position: 8 tiles and 8 filters, as two runs of four.
  __device__ void load_step(int half, int step) {
    const int channel = step / 2, position = step % 2;
    const int buffer = half * static_cast<int>(sizeof(Operands) / sizeof(float));
    const float* input = input_[channel % 2] + buffer +
                         (position * kHalfChannels + channel) * kTiles;  // place g ^ 2 channel
    const float* filter = filter_ + buffer + (position * kHalfChannels + channel) * kFilters;
    const Vec<4> v_low = load<4>(input + (channel / 2 == 0 ? 0 : 16));
    const Vec<4> v_high = load<4>(input + (channel / 2 == 0 ? 16 : 0));
    const Vec<4> u_low = load<4>(filter), u_high = load<4>(filter + 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v_[step % 2][i] = v_low.lane[i];
      v_[step % 2][4 + i] = v_high.lane[i];
      u_[step % 2][i] = u_low.lane[i];
      u_[step % 2][4 + i] = u_high.lane[i];
    }
  }

  __device__ void multiply_step(int step, Accumulators& sums) const {
#pragma unroll
    for (int filter = 0; filter < 8; ++filter) {
#pragma unroll
      for (int tile = 0; tile < 8; ++tile) {
        float& sum = sums[step % 2][filter][tile];
        sum = fmaf(u_[step % 2][filter], v_[step % 2][tile], sum);
      }
    }
  }

  SharedStorage& shared_;
  int warp_, num_blocks_;
  InputPatch<kLayout> patch_;
  FilterCopy filters_;
  const float* input_[2];  // this lane's tiles: of even and of odd channels
  const float* filter_;
  float u_[2][8], v_[2][8];  // [step % 2]
};

}  // namespace opencnn

/// Task `block` (of opencnn::num_blocks) of a group (of opencnn::num_groups). All kBlockThreads
/// threads call run; between two tasks in the same shared memory the caller puts a barrier. Needs
/// R = S = 3, stride and dilation 1, one channel group; reads U from args.u (opencnn_blocking.hpp).
/// 4 rows of x and of y must be less than 2^31 floats.
template <OutputLayout kOutput, Layout kLayout>
struct OpencnnTask {
  using Multiplication = opencnn::Multiplication<kLayout>;
  using OutputTransform = opencnn::OutputTransform<kOutput, kLayout>;

  union SharedStorage {
    typename Multiplication::SharedStorage operands;
    typename OutputTransform::SharedStorage output;
  };

  static __device__ void run(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                             void* shared) {
    auto& storage = *static_cast<SharedStorage*>(shared);
    opencnn::Accumulators sums = {};
    Multiplication(args, group, block, storage.operands).run(sums);
    __syncthreads();
    OutputTransform(args, group, block).run(storage.output, sums);
  }
};

}  // namespace megaconv::cuda
