// SPDX-License-Identifier: Apache-2.0
// The emulated thread block: that it can tell right from wrong.
#include "tests/emulated_cuda/simt.hpp"

#include <stdexcept>
#include <vector>

#include "tests/catch.hpp"

using namespace megaconv::test;

namespace {
constexpr ThreadOrder kOrders[] = {ThreadOrder::forward, ThreadOrder::backward,
                                   ThreadOrder::shuffled};
}

TEST_CASE("emulated CUDA: a barrier lets nobody pass before all are there") {
  for (const ThreadOrder order : kOrders) {
    std::vector<unsigned> seen(96);
    unsigned arrived = 0;
    run_block(96, order, [&] {
      ++arrived;
      __syncthreads();
      seen[threadIdx.x] = arrived;
    });
    CHECK(seen == std::vector<unsigned>(96, 96));
  }
}

TEST_CASE("emulated CUDA: without a barrier the order of threads shows") {
  const auto first = [](ThreadOrder order) {
    unsigned thread = 1000;
    run_block(64, order, [&] { thread = thread == 1000 ? threadIdx.x : thread; });
    return thread;
  };
  CHECK(first(ThreadOrder::forward) == 0);
  CHECK(first(ThreadOrder::backward) == 63);
}

TEST_CASE("emulated CUDA: lanes of a warp exchange what they hold, and other warps do not") {
  for (const ThreadOrder order : kOrders) {
    std::vector<unsigned> received(64);
    run_block(64, order, [&] {
      received[threadIdx.x] =
          __shfl_sync(0xffffffffu, threadIdx.x, static_cast<int>(threadIdx.x % 32) ^ 5);
    });
    for (unsigned thread = 0; thread < 64; ++thread) CHECK(received[thread] == (thread ^ 5u));
  }
}

TEST_CASE(
    "emulated CUDA: threads that have returned are not waited for; to wait for ever is an error") {
  run_block(64, ThreadOrder::forward, [] {
    if (threadIdx.x < 40) __syncthreads();
  });
  CHECK_THROWS_AS(run_block(64, ThreadOrder::forward,
                            [] { threadIdx.x < 40 ? __syncthreads() : __syncwarp(); }),
                  std::runtime_error);
}
