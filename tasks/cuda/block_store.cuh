// SPDX-License-Identifier: Apache-2.0
// Runs of contiguous shared memory on their way to global memory, while the thread block goes on.
//
//   fill; publish_shared(); __syncthreads()
//   store_run(...) for this thread's share; commit_runs()
//   wait_until_read<n>(); __syncthreads()    // all but the last n batches may be overwritten
//   wait_until_stored()                      // all of this thread's are there
//
// On sm_90 and later TMA takes them; on older GPUs threads do, at once.
#pragma once

#include <cstdint>
#include <cuda/ptx>

namespace megaconv::cuda {

/// Orders this thread's stores to shared memory before what is stored of it after a barrier.
__device__ inline void publish_shared() {
#if __CUDA_ARCH__ >= 900
  ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
#endif
}

/// The runs that a thread calls store_run() for: first(), and every kStep-th after it.
template <int kThreads>
struct ShareOfRuns {
  static constexpr int kWarps = kThreads / 32;
#if __CUDA_ARCH__ >= 900
  // The threads of a warp start copies one after the other, so each warp takes a share.
  static constexpr int kStep = kThreads;
  static __device__ int first() { return lane() * kWarps + warp(); }
#else
  static constexpr int kStep = kWarps;
  static __device__ int first() { return warp(); }
#endif

 private:
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
};
/// Both ends 16-byte aligned, num_bytes a multiple of 16.
__device__ inline void store_run(void* global, const void* shared, std::uint32_t num_bytes) {
#if __CUDA_ARCH__ >= 900
  ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_global, ::cuda::ptx::space_shared, global, shared,
                             num_bytes);
#else
  for (std::uint32_t i = threadIdx.x % 32; i < num_bytes / sizeof(uint4); i += 32) {
    static_cast<uint4*>(global)[i] = static_cast<const uint4*>(shared)[i];
  }
#endif
}

/// Closes a batch of runs.
__device__ inline void commit_runs() {
#if __CUDA_ARCH__ >= 900
  ::cuda::ptx::cp_async_bulk_commit_group();
#endif
}
template <int kPending>
__device__ inline void wait_until_read() {
#if __CUDA_ARCH__ >= 900
  ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<kPending>{});
#endif
}
__device__ inline void wait_until_stored() {
#if __CUDA_ARCH__ >= 900
  ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<0>{});
#endif
}

}  // namespace megaconv::cuda
