// SPDX-License-Identifier: Apache-2.0
// Clusters: neighbouring blocks of a launch that reach each other's shared memory, which is laid
// out alike in all of them (sm_90). A block that was launched in none is one by itself.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

class BlockCluster {
 public:
  __device__ BlockCluster(int size, int rank) : size_(size), rank_(rank) {}
  /// The one that this block is in.
  static __device__ BlockCluster current() {
    // Volatile, lest the compiler read them again where they are used, which takes long.
    int size, rank;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return {size, rank};
  }
  __device__ int size() const { return size_; }
  /// Of this block.
  __device__ int rank() const { return rank_; }

  /// Called by all threads of all blocks, in whatever order.
  __device__ void sync() const {
    arrive();
    wait();
  }
  /// sync() in two parts, by turns. What was stored before arrive_relaxed() need not be seen: a
  /// release waits for stores to global memory.
  __device__ void arrive() const { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
  __device__ void arrive_relaxed() const {
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  }
  __device__ void wait() const { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
  /// Where a block has what lies at `own` in this one.
  template <class T>
  __device__ T* at(int rank, T* own) const {
    T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return there;
  }
  /// Arrives at the first phase of a block's barrier: a thread that waits for it sees what this
  /// one, and others of its warp in front of a __syncwarp(), have stored in that block.
  __device__ void arrive(int rank, std::uint64_t* barrier) const {
    ::cuda::ptx::mbarrier_arrive(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster,
                                 ::cuda::ptx::space_cluster, at(rank, barrier));
  }
  __device__ void wait(std::uint64_t* barrier, std::uint32_t parity = 0) const {
    while (!::cuda::ptx::mbarrier_try_wait_parity(::cuda::ptx::sem_acquire,
                                                  ::cuda::ptx::scope_cluster, barrier, parity)) {
    }
  }
  /// Four floats to where a block has what lies at `to` in this one, counted on its barrier.
  __device__ void send(int rank, float* to, const Vec<4>& value, std::uint64_t* barrier) const {
    asm volatile(
        "{\n.reg .b32 to, barrier;\n"
        "mapa.shared::cluster.u32 to, %0, %6;\nmapa.shared::cluster.u32 barrier, %1, %6;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], {%2, %3, %4, %5}, "
        "[barrier];\n}" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
        "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier))), "f"(value.lane[0]),
        "f"(value.lane[1]), "f"(value.lane[2]), "f"(value.lane[3]), "r"(rank)
        : "memory");
  }
  /// TMA copies what lies here to a block, and counts it on that block's barrier.
  __device__ void copy(int rank, void* memory, std::uint32_t num_bytes,
                       std::uint64_t* barrier) const {
    ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_shared,
                               at(rank, memory), memory, num_bytes, at(rank, barrier));
  }

 private:
  int size_, rank_;
};

/// Barriers that all blocks have at the same place.
class ClusterBarriers {
  static constexpr std::uint32_t kBarrierBytes = sizeof(std::uint64_t);

 public:
  ClusterBarriers() = default;
  /// Called by all threads of a warp.
  __device__ ClusterBarriers(const BlockCluster& cluster, std::uint64_t* first) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane >= cluster.size()) return;
    first_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(cluster.at(lane, first)));
  }
  /// A warp arrives once at every block's, of which each is a lane's business. What it has stored
  /// need not be seen there. (A release for the cluster would wait for stores to global memory.)
  __device__ void arrive(int index) const {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n"
        "@p mbarrier.arrive.shared::cluster.b64 _, [%0];\n}" ::"r"(
            first_ + static_cast<std::uint32_t>(index) * kBarrierBytes),
        "r"(first_)
        : "memory");
  }

 private:
  std::uint32_t first_ = 0;  // 0, where no barrier can be: of lanes that arrive nowhere
};

}  // namespace megaconv::cuda
