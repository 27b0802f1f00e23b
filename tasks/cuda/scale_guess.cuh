// SPDX-License-Identifier: Apache-2.0
// The scale of numbers that become FP16. To measure a tensor first would be to read it once more,
// so tasks scale by a guess and note the largest magnitudes that they met; when all are done, these
// tell whether the guess suited them. If not, whoever asks computes everything again.
#pragma once

#include "tasks/cuda/split_f16.cuh"

namespace megaconv::cuda {

/// Multiplied by `scale`, magnitudes from `least` up to `most` have all the bits that they need.
struct ScaleGuess {
  float scale, least, most;
};

/// What filter tasks leave behind U.
struct FilterFooter {
  float scale;                              ///< of U
  std::uint32_t tasks_taken, tasks_redone;  ///< whoever computes U again counts here
  MagnitudeBits most[1];                    ///< [filter tasks] largest magnitude that each met
};

/// Stores the largest magnitude that the threads of a block met. Called by all of them.
template <int kThreads>
__device__ inline void note_magnitude(const LargestFinite& own, MagnitudeBits* block_magnitude) {
  __shared__ MagnitudeBits of_warp[kThreads / 32];
  const MagnitudeBits most = __reduce_max_sync(0xffffffffu, own.bits());
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x == 0) {
    MagnitudeBits of_block = 0;
    for (const MagnitudeBits bits : of_warp) of_block = max(of_block, bits);
    *block_magnitude = of_block;
  }
  __syncthreads();  // of_warp may be overwritten
}

/// The scale with which to compute again, or 0 if the guess was right. Called by all threads of a
/// block, with what each task noted.
template <int kThreads>
__device__ inline float corrected_scale(ScaleGuess guess, const MagnitudeBits* magnitudes,
                                        std::uint32_t count) {
  __shared__ MagnitudeBits most;
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  MagnitudeBits own = 0;
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) own = max(own, magnitudes[i]);
  own = __reduce_max_sync(0xffffffffu, own);
  if (threadIdx.x % 32 == 0) atomicMax(&most, own);
  __syncthreads();
  const MagnitudeBits of_all = most;
  __syncthreads();  // `most` may be overwritten
  const float scaled = __uint_as_float(of_all) * guess.scale;
  const bool right = of_all == 0 || (scaled >= guess.least && scaled < guess.most);
  return right ? 0.0f : split_scale(of_all, 1.0f);
}

}  // namespace megaconv::cuda
