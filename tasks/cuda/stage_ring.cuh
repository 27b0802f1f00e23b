// SPDX-License-Identifier: Apache-2.0
// Stages of shared memory that producer warps fill and consumer warps empty, each at its own pace
// (sm_90: mbarriers). A cursor walks the ring; producers and consumers have one each.
//
//   producer:  ring.wait_empty(at); fill; ring.arrive_full(at.stage);  at.advance()
//   consumer:  ring.wait_full(at);  use;  ring.arrive_empty(at.stage); at.advance()
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>
#include <cuda/ptx>

namespace megaconv::cuda {

template <int kStages>
struct StageRing {
  std::uint64_t full[kStages], empty[kStages];

  struct Cursor {
    int stage = 0;
    std::uint32_t parity = 0;
    /// If fewer stages are used, as many.
    __device__ void advance(int stages = kStages) {
      if (++stage == stages) stage = 0, parity ^= 1;
    }
    __device__ int stage_before() const { return stage == 0 ? kStages - 1 : stage - 1; }
  };

  /// Called by one thread before any other call.
  __device__ void init(std::uint32_t fillers, std::uint32_t users) {
    for (int i = 0; i < kStages; ++i) {
      ::cuda::ptx::mbarrier_init(&full[i], fillers);
      ::cuda::ptx::mbarrier_init(&empty[i], users);
    }
  }
  /// Called by one thread after all others: the memory may be used for something else.
  __device__ void close() {
    for (int i = 0; i < kStages; ++i) {
      __mbarrier_inval(&full[i]);
      __mbarrier_inval(&empty[i]);
    }
  }

  __device__ void wait_full(const Cursor& at) { wait(&full[at.stage], at.parity); }
  __device__ void wait_empty(const Cursor& at) { wait(&empty[at.stage], at.parity ^ 1); }
  /// The only filler of a stage arrives, and announces bytes that TMA will bring; they
  /// count on the barrier that is returned.
  __device__ std::uint64_t* expect(const Cursor& at, std::uint32_t num_bytes) {
    ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                           ::cuda::ptx::space_shared, &full[at.stage], num_bytes);
    return &full[at.stage];
  }
  __device__ void arrive_full(int stage) { ::cuda::ptx::mbarrier_arrive(&full[stage]); }
  __device__ void arrive_empty(int stage) { ::cuda::ptx::mbarrier_arrive(&empty[stage]); }

 private:
  static __device__ void wait(std::uint64_t* barrier, std::uint32_t parity) {
    while (!::cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
  }
};

}  // namespace megaconv::cuda
