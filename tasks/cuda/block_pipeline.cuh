// SPDX-License-Identifier: Apache-2.0
// Blocks of contiguous global memory on their way to shared memory, kStages - 1 of them at a time,
// while the thread block computes on the one that arrived.
//
//   BlockPipeline pipeline(shared);
//   for each of the first kStages - 1 steps: pipeline.start(step, copies)
//   for each step:
//     pipeline.wait()                            // the step's block is there, for this thread
//     __syncthreads()                            // ... for all; and the block of the step before,
//     pipeline.start(step + kStages - 1, copies) //     which nobody needs any more, is overwritten
//     ... use the block ...
//   pipeline.close()
//
// On sm_90 and later one thread hands whole blocks to TMA (cp.async.bulk, which an
// mbarrier counts), so that the others spend no instruction on copies: the FP32 matrix tile reaches
// 53 TFLOP/s that way on an H200, 45 with the asynchronous 16-byte copies that older GPUs get.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>
#include <cuda/ptx>

namespace megaconv::cuda {

/// One contiguous copy. Both ends 16-byte aligned, `num_bytes` a multiple of 16.
struct BlockCopy {
  void* shared;
  const void* global;
  int num_bytes;
};

template <int kThreads, int kStages>
class BlockPipeline {
 public:
  struct Shared {
    std::uint64_t arrived[kStages];
  };

  /// Called by all threads, like every method.
  __device__ explicit BlockPipeline(Shared& shared) : shared_(shared) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      for (auto& barrier : shared_.arrived) ::cuda::ptx::mbarrier_init(&barrier, 1);
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
    }
    // The asynchronous proxy is about to read what other workers wrote to global memory by ordinary
    // stores, and to overwrite shared memory that this one used.
    ::cuda::ptx::fence_proxy_async();
    __syncthreads();
#endif
  }

  /// Starts the copies of a step; none for a step that does not exist.
  template <int kCount>
  __device__ void start(bool exists, const BlockCopy (&copies)[kCount]) {
#if __CUDA_ARCH__ >= 900
    if (exists && threadIdx.x == 0) {
      std::uint64_t* const barrier = &shared_.arrived[start_stage_];
      int num_bytes = 0;
      for (const BlockCopy& copy : copies) num_bytes += copy.num_bytes;
      ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                             ::cuda::ptx::space_shared, barrier,
                                             static_cast<std::uint32_t>(num_bytes));
      for (const BlockCopy& copy : copies) {
        ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                                   copy.shared, copy.global,
                                   static_cast<std::uint32_t>(copy.num_bytes), barrier);
      }
    }
#else
    if (exists) {
#pragma unroll
      for (const BlockCopy& copy : copies) {
#pragma unroll
        for (int i = static_cast<int>(threadIdx.x) * kUnit; i < copy.num_bytes;
             i += kThreads * kUnit) {
          __pipeline_memcpy_async(static_cast<char*>(copy.shared) + i,
                                  static_cast<const char*>(copy.global) + i, kUnit);
        }
      }
    }
    __pipeline_commit();
#endif
    start_stage_ = next(start_stage_);
  }

  /// Stage that start() fills next, and stage that wait() delivered last.
  __device__ int start_stage() const { return start_stage_; }
  __device__ int stage() const { return stage_; }

  /// The next step's block is there, as far as this thread copied it (all of it on sm_90).
  __device__ void wait() {
    stage_ = next(stage_);
#if __CUDA_ARCH__ >= 900
    while (!::cuda::ptx::mbarrier_try_wait_parity(&shared_.arrived[stage_], parity_)) {
    }
    if (stage_ == kStages - 1) parity_ ^= 1;
#else
    __pipeline_wait_prior(kStages - 2);
#endif
  }

  /// After the last step: leaves the shared memory to the next task.
  __device__ void close() {
#if __CUDA_ARCH__ >= 900
    __syncthreads();
    if (threadIdx.x == 0) {
      for (auto& barrier : shared_.arrived) __mbarrier_inval(&barrier);
    }
#endif
  }

 private:
  static constexpr int kUnit = 16;
  static __device__ int next(int stage) { return stage + 1 == kStages ? 0 : stage + 1; }

  Shared& shared_;
  int start_stage_ = 0;
  int stage_ = kStages - 1;
  std::uint32_t parity_ = 0;
};

/// Orders this thread's ordinary stores before what the asynchronous proxy of any SM will read,
/// once they are released to it.
__device__ inline void publish_to_copy_engine() {
#if __CUDA_ARCH__ >= 900
  ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_global);
#endif
}

}  // namespace megaconv::cuda
