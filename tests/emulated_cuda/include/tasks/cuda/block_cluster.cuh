// SPDX-License-Identifier: Apache-2.0
// In the place of tasks/cuda/block_cluster.cuh: the blocks of run_cluster(), whose dynamic shared
// memory lies side by side. What is sent comes at once, or when it is waited for.
#pragma once

#include <cuda/ptx>
#include <deque>

#include "tasks/cuda/vec.cuh"
#include "tests/emulated_cuda/simt.hpp"

namespace megaconv::cuda {

class BlockCluster {
 public:
  BlockCluster(int size, int rank) : size_(size), rank_(rank) {}
  int size() const { return size_; }
  int rank() const { return rank_; }
  void arrive_relaxed() const { test::arrive_at_cluster(); }
  void wait() const { test::wait_for_cluster(); }
  void wait(std::uint64_t* barrier, std::uint32_t parity) const {
    while (!::cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {
    }
  }
  void send(int rank, float* to, const Vec<4>& value, std::uint64_t* barrier) const {
    if (::cuda::ptx::loads.empty()) sent_.clear();
    sent_.push_back(value);
    ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, at(rank, to),
                               &sent_.back(), sizeof value, at(rank, barrier));
  }

 private:
  template <class T>
  T* at(int rank, T* own) const {
    const std::ptrdiff_t blocks = rank - rank_;
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(own) +
                                blocks * static_cast<std::ptrdiff_t>(test::kClusterSharedBytes));
  }

  static inline std::deque<Vec<4>> sent_;  // as far as they are on their way
  int size_, rank_;
};

}  // namespace megaconv::cuda
