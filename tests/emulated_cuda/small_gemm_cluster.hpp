// SPDX-License-Identifier: Apache-2.0
// Runs the tasks of small tiles that share sums as the blocks of a cluster, without a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tasks/random_data.hpp"
#include "tasks/small_gemm/cuda/small_gemm.cuh"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/simt.hpp"

namespace megaconv::test {

/// Random numbers of a tensor, whole ones or normal ones times a factor.
template <class T>
std::vector<T> filled(std::int64_t size, std::uint64_t seed, bool integers, float factor = 1) {
  std::vector<T> tensor(static_cast<std::size_t>(size));
  const Filling filling{.kind = integers ? Filling::Kind::integers : Filling::Kind::normal};
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    tensor[i] = from_float<T>(filling.at(seed, i) * factor);
  }
  return tensor;
}

/// Shared memory of a cluster's blocks. Nothing of one task is there for the next.
class SmallGemmCluster {
 public:
  explicit SmallGemmCluster(const SmallGemmCut& cut)
      : cut_(cut),
        bytes_(static_cast<std::size_t>(memory_of(cut).bytes)),
        shared_(cut.shares * kClusterSharedBytes) {
    REQUIRE(bytes_ <= cut.shared_bytes);
    set_shared_memory(shared_.data());
  }

  /// The tasks of these shares. Finds NaN in shared memory, and leaves what is not its own.
  template <class Task, class Wait>
  void run(const cuda::SmallGemmArgs& args, const std::vector<cuda::SmallGemmShare>& shares,
           ThreadOrder order, Wait wait) {
    std::fill(shared_.begin(), shared_.end(), std::byte{0xff});  // NaN
    std::vector<cuda::FilterStages::Shared> arrivals(cut_.shares);
    run_cluster(static_cast<int>(cut_.shares), cuda::kSmallGemmThreads, order, [&] {
      const std::size_t rank = blockIdx.x;
      std::byte* const own = shared_.data() + rank * kClusterSharedBytes;
      cuda::FilterStages filters(arrivals[rank]);
      const cuda::SumExchange exchange(*reinterpret_cast<cuda::SumExchange::Shared*>(own + kWork));
      __syncthreads();
      Task::run(
          args, shares[rank], reinterpret_cast<char*>(own), filters, exchange,
          [](const void* tensor) { return tensor; }, wait, [](TaskPhase) {});
    });
    for (std::uint32_t rank = 0; rank < cut_.shares; ++rank) {
      const auto begin = shared_.begin() + static_cast<std::ptrdiff_t>(rank * kClusterSharedBytes);
      const std::span guard(begin + static_cast<std::ptrdiff_t>(bytes_), begin + kWork);
      REQUIRE(std::count(guard.begin(), guard.end(), std::byte{0xff}) == std::ssize(guard));
    }
  }

 private:
  static constexpr std::ptrdiff_t kWork = kClusterSharedBytes - sizeof(cuda::SumExchange::Shared);

  const SmallGemmCut& cut_;
  const std::size_t bytes_;
  std::vector<std::byte> shared_;
};

}  // namespace megaconv::test
