// SPDX-License-Identifier: Apache-2.0
// Sums whose products several tasks share out: the blocks of a cluster, each of which has summed
// some of the channels for all filters. A block gets all blocks' sums of its own filters,
// [block][pixel][own filter], so that they are added in one order whoever comes first.
//
//   open()            this block is in the task: the others may send. A barrier of the cluster,
//      |              whose other half is in run()
//   run()             sums to their blocks, which count the bytes; waits for those of this block
//
// In run(), blocks wait for each other. They have the same producers, and stand beside each other
// in the order, so that all come.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "tasks/cuda/block_cluster.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

/// Lasts as long as the block, from one task to the next.
class SumExchange {
 public:
  struct Shared {
    std::uint64_t arrived;
    std::uint32_t parity;  // of the exchange at hand
  };

  /// By all threads, before a barrier of the block.
  explicit __device__ SumExchange(Shared& shared) : shared_(shared) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != kIssuer) return;
    ::cuda::ptx::mbarrier_init(&shared_.arrived, 1);
    ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
    shared_.parity = 1;
#endif
  }

  /// By all threads, behind a barrier of all that used the shared memory.
  __device__ void open([[maybe_unused]] const SmallGemmArgs& a,
                       [[maybe_unused]] const SmallGemmShare& share) const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == kIssuer) {
      shared_.parity ^= 1;
      const int floats = a.shares * share.rows * share.cols * a.own_filters;
      ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                             ::cuda::ptx::space_shared, &shared_.arrived,
                                             static_cast<std::uint32_t>(floats * sizeof(float)));
    }
    BlockCluster(a.shares, share.rank).arrive_relaxed();
#endif
  }

  /// `sums`: [warp over sums][pixel][filter], behind a barrier of the block that has written them.
  __device__ void run([[maybe_unused]] const SmallGemmArgs& a,
                      [[maybe_unused]] const SmallGemmShare& share,
                      [[maybe_unused]] const float* sums, [[maybe_unused]] float* received) const {
#if __CUDA_ARCH__ >= 900
    const BlockCluster cluster(a.shares, share.rank);
    const int count = (share.rows * share.cols) << a.vector_bits;
    float* const of_share = received + share.rank * a.summand_stride;
    cluster.wait();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kSmallGemmThreads) {
      const int pixel = i >> a.vector_bits, filter = (i - (pixel << a.vector_bits)) * kVector;
      const int owner = filter >> a.own_bits;
      Vec<kVector> value = zero<kVector>();
      const float* from = sums + pixel * a.sum_pitch + filter;
#pragma unroll 1
      for (int warp = 0; warp < a.sum_warps; warp += kAtOnce, from += kAtOnce * a.warp_sums) {
        Vec<kVector> part[kAtOnce];
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          part[n] = warp + n < a.sum_warps
                        ? *reinterpret_cast<const Vec<kVector>*>(from + n * a.warp_sums)
                        : zero<kVector>();
        }
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) value = value + part[n];
      }
      cluster.send(owner, of_share + ((pixel - owner) << a.own_bits) + filter, value,
                   &shared_.arrived);
    }
    while (!::cuda::ptx::mbarrier_try_wait_parity(&shared_.arrived, shared_.parity)) {
    }
#endif
  }

 private:
  static constexpr int kVector = 4;        // numbers
  static constexpr int kAtOnce = 4;        // sums of warps
  static constexpr unsigned kIssuer = 32;  // not the thread that waits for other tasks

  Shared& shared_;
};

}  // namespace megaconv::cuda
