// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/small_gemm.hpp"

namespace megaconv::cuda {

/// The largest magnitudes that the warps of a task have seen, by stage: in shared memory.
class Magnitudes {
  static constexpr int kWarps = kSmallGemmThreads / 32;

 public:
  static constexpr int kWords = static_cast<int>(kSmallGemmStages) * kWarps;
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
  std::uint32_t* shared_;
};

}  // namespace megaconv::cuda
