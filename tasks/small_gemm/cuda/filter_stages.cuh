// SPDX-License-Identifier: Apache-2.0
// Filters of K blocks on their way to the pipeline stages of a block of threads. On Hopper one
// thread hands them to TMA, on older GPUs all threads copy.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>
#include <cuda/ptx>

#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/small_gemm.hpp"

namespace megaconv::cuda {

/// Lasts as long as the block, from one task to the next.
class FilterStages {
 public:
  static constexpr int kStages = static_cast<int>(kSmallGemmStages);
  struct Shared {
    std::uint64_t arrived[kStages];
  };

  /// By all threads, before a barrier of the block.
  explicit __device__ FilterStages(Shared& shared) : shared_(shared) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != 0) return;
    for (auto& barrier : shared_.arrived) ::cuda::ptx::mbarrier_init(&barrier, 1);
    ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
#endif
  }

  /// Before the first copies of a task, behind a barrier of all that used the shared memory: what
  /// they did there comes before what TMA does. One fence on the way is enough.
  __device__ void take_over() const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == kIssuer) ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
#endif
  }

  /// By all threads, behind a barrier of all that used the stage.
  __device__ void start([[maybe_unused]] int stage, void* to, const char* from,
                        int num_bytes) const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != kIssuer) return;
    std::uint64_t* const barrier = &shared_.arrived[stage];
    ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                           ::cuda::ptx::space_shared, barrier,
                                           static_cast<std::uint32_t>(num_bytes));
    ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, to, from,
                               static_cast<std::uint32_t>(num_bytes), barrier);
#else
    for (int i = static_cast<int>(threadIdx.x) * 16; i < num_bytes; i += kSmallGemmThreads * 16) {
      __pipeline_memcpy_async(static_cast<char*>(to) + i, from + i, 16);
    }
    __pipeline_commit();
#endif
  }

  /// By all threads. On older GPUs the copies are those of this thread, and it has waited for them.
  __device__ void wait([[maybe_unused]] int stage) {
#if __CUDA_ARCH__ >= 900
    while (!::cuda::ptx::mbarrier_try_wait_parity(&shared_.arrived[stage], parity_ >> stage & 1)) {
    }
    parity_ ^= 1u << stage;
#endif
  }

 private:
  static constexpr unsigned kIssuer = 32;  // not the thread that waits for other tasks

  Shared& shared_;
  std::uint32_t parity_ = 0;
};

}  // namespace megaconv::cuda
