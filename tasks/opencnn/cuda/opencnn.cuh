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
// memory between two barriers, while nobody computes. Here shared memory has room for two (64 KB,
// all that compute capability 7.5 gives a block): one part is filled while the other is used, and
// one barrier ends each half block of four channels.
//
//   V   two blocks of 8 channels: a thread transforms one tile of one channel of the next block, in
//   two
//       halves, so that all warps have the same work between two barriers; then it loads the patch
//       of the block after it, which has most of a block's time to arrive
//   U   two half blocks, copied as soon as their last readers have passed the barrier
//   operands of the next step of 64 FFMA, in registers, across barriers
//
// (H200: one-sided halves, where four of the eight warps transform between two barriers and the
// others in the next, let the warps wait for each other 23 % of the time; this way 2 %.)
//
// 128 sums, 32 operands, a patch of 16 and their addresses leave no way to 128 registers a thread,
// so one block of 8 warps is resident per multiprocessor.
#pragma once

#include <cstdint>

#include "tasks/opencnn/cuda/opencnn_filter.cuh"
#include "tasks/opencnn/cuda/opencnn_input.cuh"
#include "tasks/opencnn/cuda/opencnn_output.cuh"

namespace megaconv::cuda {

namespace opencnn {

/// M += U V over all channels.
template <Layout kLayout>
class Multiplication {
 public:
  struct SharedStorage {
    InputBlock input[2];
    FilterHalf filter[2];
  };

  __device__ Multiplication(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                            SharedStorage& shared)
      : shared_(shared),
        num_blocks_((args.c + kChannels - 1) / kChannels),
        filters_(args.u + static_cast<std::int64_t>(block) * num_blocks_ *
                              (kPositions * kChannels * kFilters)),
        patch_(args, group) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int position = static_cast<int>(threadIdx.x) / 32 * 2;
    for (int i = 0; i < 2; ++i) {
      v_at_[i] = &shared.input[0].v[position][0][4 * (tile_group(lane) ^ 2 * i)];
    }
    u_at_ = &shared.filter[0].u[position][0][4 * filter_group(lane)];
  }

  __device__ void run(Accumulators& sums) {
    filters_.begin(shared_.filter[0]);
    patch_.load();
    patch_.store_transform(shared_.input[0], 0);
    patch_.store_transform(shared_.input[0], 1);
    patch_.load();
    filters_.finish(shared_.filter[0]);
    __syncthreads();
    filters_.begin(shared_.filter[1]);
    load_step(0, 0);
    for (int block = 0; block < num_blocks_; ++block) {
      const bool more = block + 1 < num_blocks_;
      InputBlock& next_input = shared_.input[(block + 1) % 2];
      multiply_half<0>(more, next_input, sums);
      multiply_half<1>(more, next_input, sums);
    }
  }

 private:
  static constexpr int kSteps = 2 * kHalfChannels;  // (channel, position of the warp)

  // Multiplies half `kHalf` of a block, transforms half of the next block's patch.
  template <int kHalf>
  __device__ void multiply_half(bool more, InputBlock& next_input, Accumulators& sums) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step == 0) {
        patch_.store_transform(next_input, kHalf);
        if constexpr (kHalf == 1) patch_.load();
      }
      if (step + 1 < kSteps) {
        load_step(kHalf, step + 1);
      } else {
        // The last operands of this half are in registers: its filters may be overwritten.
        filters_.finish(shared_.filter[1 - kHalf]);
        __syncthreads();
        if (more) filters_.begin(shared_.filter[kHalf]);
        if constexpr (kHalf == 1) toggle_input();
        load_step(1 - kHalf, 0);
      }
      multiply_step(step, sums);
    }
  }

  // Operands of one channel and position: 8 tiles and 8 filters, as two runs of four.
  __device__ void load_step(int half, int step) {
    const int channel = step / 2, position = step % 2;
    // Groups g and g + 4 of tiles are at g ^ 2 channel and 4 further, or back.
    const float* v =
        v_at_[channel % 2] + (position * kChannels + half * kHalfChannels + channel) * kTiles;
    const float* u = u_at_ + half * (kPositions * kHalfChannels * kFilters) +
                     (position * kHalfChannels + channel) * kFilters;
    const Vec<4> v_low = load<4>(v + channel / 2 * 16), v_high = load<4>(v + 16 - channel / 2 * 16);
    const Vec<4> u_low = load<4>(u), u_high = load<4>(u + kFilters / 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v_[step % 2][i] = v_low.lane[i];
      v_[step % 2][4 + i] = v_high.lane[i];
      u_[step % 2][i] = u_low.lane[i];
      u_[step % 2][4 + i] = u_high.lane[i];
    }
  }

  // From one block's input to the next one's.
  __device__ void toggle_input() {
    input_offset_ = -input_offset_;
    for (int i = 0; i < 2; ++i) v_at_[i] -= input_offset_;
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
  int num_blocks_;
  FilterCopy filters_;
  InputPatch<kLayout> patch_;
  const float* v_at_[2];  // this lane's tiles, of even and of odd channels, in the current block
  const float* u_at_;     // this lane's filters, in half 0
  int input_offset_ = kPositions * kChannels * kTiles;
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
