// SPDX-License-Identifier: Apache-2.0
// In the place of CUDA's: copies are made at once, or as late as they may be.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/emulated_cuda/simt.hpp"

namespace megaconv::test {

struct AsyncCopy {
  void* to;
  const void* from;
  std::size_t num_bytes, num_zeros;
  void make() const {
    std::memcpy(to, from, num_bytes - num_zeros);
    std::memset(static_cast<char*>(to) + num_bytes - num_zeros, 0, num_zeros);
  }
};
// Of every thread of a cluster: committed groups of copies on their way, and the open one.
inline std::vector<std::vector<AsyncCopy>> async_groups[1024];
inline std::vector<AsyncCopy> open_group[1024];

}  // namespace megaconv::test

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t num_bytes,
                                    std::size_t num_zeros = 0) {
  const megaconv::test::AsyncCopy copy{to, from, num_bytes, num_zeros};
  if (!megaconv::test::copies_are_late()) return copy.make();
  megaconv::test::open_group[megaconv::test::thread_of_cluster()].push_back(copy);
}
inline void __pipeline_commit() {
  megaconv::test::async_groups[megaconv::test::thread_of_cluster()].push_back(
      std::exchange(megaconv::test::open_group[megaconv::test::thread_of_cluster()], {}));
}
inline void __pipeline_wait_prior(std::size_t most_pending) {
  auto& groups = megaconv::test::async_groups[megaconv::test::thread_of_cluster()];
  while (groups.size() > most_pending) {
    for (const megaconv::test::AsyncCopy& copy : groups.front()) copy.make();
    groups.erase(groups.begin());
  }
}
