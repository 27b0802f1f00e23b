// SPDX-License-Identifier: Apache-2.0
// The arithmetic of epochs. Orders are Relacy's business (counters.relacy.cpp) and TSan's.
#include "runtime/counters.hpp"

#include "tests/catch.hpp"

using namespace megaconv;
using Counters = DependencyCounters<HostSync>;

namespace {
constexpr std::uint32_t kNumTasks = 5, kNumWorkers = 2;
Task consumer(std::uint32_t counter, std::uint32_t count) {
  Task task;
  task.wait_counter = counter;
  task.wait_count = count;
  return task;
}
Task producer(std::uint32_t first, std::uint32_t count, std::uint32_t release = kNoCounter) {
  Task task;
  task.signal_first = first;
  task.signal_count = count;
  task.release_counter = release;
  return task;
}
}  // namespace

TEST_CASE("a task without a counter is always ready") {
  std::uint32_t ticket = 0;
  CHECK(Counters(&ticket, nullptr, 0, kNumTasks, kNumWorkers).is_ready(Task{}));
}

TEST_CASE(
    "a task is ready exactly when its counter has all signals, in every epoch, through "
    "wrap-around") {
  const std::uint32_t total = 3;
  for (const std::uint32_t epoch : {0u, 1u, 7u, 0x55555555u, 0xfffffffeu, 0xffffffffu}) {
    std::uint32_t ticket = epoch * (kNumTasks + kNumWorkers);
    std::uint32_t cells[2] = {epoch * total, epoch * total};
    Counters counters(&ticket, cells, epoch, kNumTasks, kNumWorkers);
    for (std::uint32_t signal = 0; signal < total; ++signal) {
      CHECK_FALSE(counters.is_ready(consumer(1, total)));
      CHECK(counters.received(1, total) == signal);
      counters.signal(producer(1, 1));
    }
    CHECK(counters.is_ready(consumer(1, total)));
    CHECK_FALSE(counters.is_ready(consumer(0, total)));
    CHECK(cells[1] == (epoch + 1) * total);
  }
}

TEST_CASE("a task signals its whole range and the slot that it releases") {
  std::uint32_t ticket = 0;
  std::uint32_t cells[6] = {};
  Counters(&ticket, cells, 0, kNumTasks, kNumWorkers).signal(producer(1, 3, 5));
  const std::uint32_t expected[6] = {0, 1, 1, 1, 0, 1};
  for (int c = 0; c < 6; ++c) CHECK(cells[c] == expected[c]);
}

TEST_CASE("positions count from 0 in every epoch, overshoot included, through wrap-around") {
  std::uint32_t ticket = 0xfffffffeu * (kNumTasks + kNumWorkers);
  for (const std::uint32_t epoch : {0xfffffffeu, 0xffffffffu, 0u, 1u}) {
    Counters counters(&ticket, nullptr, epoch, kNumTasks, kNumWorkers);
    for (std::uint32_t expected = 0; expected < kNumTasks + kNumWorkers; ++expected) {
      CHECK(counters.positions_taken() == expected);
      CHECK(counters.take_position() == expected);
    }
  }
}
