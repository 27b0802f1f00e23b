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
Task producer(std::uint32_t first_signal, std::uint32_t num_signals) {
  Task task;
  task.first_signal = first_signal;
  task.num_signals = num_signals;
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
  const SignalRange signals[] = {{1, 1}};
  for (const std::uint32_t epoch : {0u, 1u, 7u, 0x55555555u, 0xfffffffeu, 0xffffffffu}) {
    std::uint32_t ticket = epoch * (kNumTasks + kNumWorkers);
    std::uint32_t cells[2] = {epoch * total, epoch * total};
    Counters counters(&ticket, cells, epoch, kNumTasks, kNumWorkers);
    for (std::uint32_t signal = 0; signal < total; ++signal) {
      CHECK_FALSE(counters.is_ready(consumer(1, total)));
      CHECK(counters.received(1, total) == signal);
      counters.signal(producer(0, 1), signals);
    }
    CHECK(counters.is_ready(consumer(1, total)));
    CHECK_FALSE(counters.is_ready(consumer(0, total)));
    CHECK(cells[1] == (epoch + 1) * total);
  }
}

TEST_CASE("a task signals all counters of its own ranges once, whoever shares the work") {
  // Ranges of another task stand in front of its own and behind them.
  const SignalRange signals[] = {{0, 6}, {1, 3}, {5, 1}, {0, 6}};
  const std::uint32_t expected[6] = {0, 1, 1, 1, 0, 1};
  for (const std::uint32_t num_threads : {1u, 2u, 3u, 32u}) {
    CAPTURE(num_threads);
    std::uint32_t ticket = 0;
    std::uint32_t cells[6] = {};
    Counters counters(&ticket, cells, 0, kNumTasks, kNumWorkers);
    for (std::uint32_t thread = 0; thread < num_threads; ++thread) {
      counters.signal(producer(1, 2), signals, thread, num_threads);
    }
    for (int c = 0; c < 6; ++c) CHECK(cells[c] == expected[c]);
  }
}

TEST_CASE("a task without ranges signals nothing") {
  std::uint32_t ticket = 0, cell = 0;
  const SignalRange signals[] = {{0, 1}};
  Counters(&ticket, &cell, 0, kNumTasks, kNumWorkers).signal(producer(1, 0), signals);
  CHECK(cell == 0);
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
