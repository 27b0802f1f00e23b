// SPDX-License-Identifier: Apache-2.0
// The scale of numbers that become FP16. To measure a tensor first would be to read it once more,
// so tasks scale by a guess and note the largest magnitudes that they met; when all are done, these
// tell whether the guess suited them. If not, everything is computed again (redo.cuh).
#pragma once

#include "tasks/cuda/split_f16.cuh"

namespace megaconv::cuda {

/// Multiplied by `scale`, magnitudes from `least` up to `most` have all the bits that they need.
struct ScaleGuess {
  float scale, least, most;
};

/// Implicit GEMM's. Scaled numbers from kLeast to kMost keep all bits: of split ones the low
/// halves, too, even where they are 2^3 times smaller than the largest. The guesses suit largest
/// magnitudes of x from 2^-6 to 2^8 and of w from 2^-10 to 2^4, single numbers 2^3 less as well.
template <class Numbers>
struct ImplicitGemmGuesses {
  static constexpr float kLeast = Numbers::kSplit ? 0x1p1f : 0x1p-2f, kMost = 0x1p15f;
  static constexpr ScaleGuess kInputGuess{Numbers::kScaled ? 0x1p7f : 1.0f, kLeast, kMost};
  static constexpr ScaleGuess kFilterGuess{Numbers::kScaled ? 0x1p11f : 0.0f, kLeast, kMost};
};

/// What filter tasks leave behind U, and input tasks of implicit GEMM beside V.
struct OperandFooter {
  float scale;                              ///< of filters
  std::uint32_t tasks_taken, tasks_redone;  ///< counted while operands are computed again
  MagnitudeBits most[1];                    ///< [tasks] largest magnitude that each met
};

/// Stores the largest magnitude that the threads of a block met. Called by all of them.
template <int kThreads>
__device__ inline void note_magnitude(MagnitudeBits own, MagnitudeBits* block_magnitude) {
  __shared__ MagnitudeBits of_warp[kThreads / 32];
  const MagnitudeBits most = __reduce_max_sync(0xffffffffu, own);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x == 0) {
    MagnitudeBits of_block = 0;
    for (const MagnitudeBits bits : of_warp) of_block = max(of_block, bits);
    *block_magnitude = of_block;
  }
  __syncthreads();  // of_warp may be overwritten
}

/// What the tasks of a run noted.
struct NotedMagnitudes {
  const MagnitudeBits *filters, *inputs;
  std::uint32_t num_filters, num_inputs;
};
/// The largest of them.
struct LargestNoted {
  MagnitudeBits filters, inputs;
};
/// Puts the largest ones from the `first`-th of each table on, every `step`-th, into `most`, in
/// shared memory. Called by all threads of a warp; both tables are on their way at the same time.
__device__ inline void look_at(const NotedMagnitudes& noted, std::uint32_t first,
                               std::uint32_t step, LargestNoted& most) {
  LargestNoted own{};
  for (std::uint32_t i = first; i < max(noted.num_filters, noted.num_inputs); i += step) {
    const MagnitudeBits filter = i < noted.num_filters ? noted.filters[i] : 0;
    const MagnitudeBits input = i < noted.num_inputs ? noted.inputs[i] : 0;
    own = {max(own.filters, filter), max(own.inputs, input)};
  }
  own = {__reduce_max_sync(0xffffffffu, own.filters), __reduce_max_sync(0xffffffffu, own.inputs)};
  if (threadIdx.x % 32 == 0) {
    atomicMax(&most.filters, own.filters);
    atomicMax(&most.inputs, own.inputs);
  }
}
/// Called by all threads of a block.
template <int kThreads>
__device__ inline LargestNoted largest_of(const NotedMagnitudes& noted) {
  __shared__ LargestNoted most;
  if (threadIdx.x == 0) most = {};
  __syncthreads();
  look_at(noted, threadIdx.x, kThreads, most);
  __syncthreads();
  return most;
}

/// The scale with which to compute again, or 0 if the guess was right. Small numbers become no
/// larger than they need to be: those of other blocks may be large.
__device__ inline float corrected_scale(ScaleGuess guess, MagnitudeBits most) {
  constexpr float kEnough = 0x1p3f;  // times the least
  const float scaled = __uint_as_float(most) * guess.scale;
  if (most == 0 || (scaled >= guess.least && scaled < guess.most)) return 0.0f;
  return scaled < guess.least ? split_scale(most, kEnough * guess.least) : split_scale(most);
}

}  // namespace megaconv::cuda
