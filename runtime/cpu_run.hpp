// SPDX-License-Identifier: Apache-2.0
// Runs a task array on CPU workers. Knows tasks and counters, nothing about convolutions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

#include "megaconv/plan.hpp"
#include "megaconv/trace.hpp"
#include "runtime/counters.hpp"

namespace megaconv {

/// One cache line per worker: what it holds, for reports, and the next position of its share.
struct alignas(64) CpuWorker {
  static constexpr std::uint32_t kIdle = 0xffffffffu;
  std::atomic<std::uint32_t> position{kIdle};
  std::atomic<std::uint32_t> next{0};
};

/// Memory that one run after the other uses, and that no two runs use at once.
struct CpuRunState {
  HostSync::Cell* counters = nullptr;  ///< one per counter of the graph
  std::uint32_t epoch = 0;             ///< number of completed runs, modulo 2^32
  CpuWorker* workers = nullptr;        ///< room for one per worker, whatever it holds
};

/// Computes one task. Called by several workers at once, for different tasks; must not throw.
using TaskBody = std::function<void(const Task& task, std::uint32_t worker)>;

/// Runs `tasks`, those of the graph by position, in order on `num_workers` workers and returns when
/// all are done. `threads`: as PlanOptions::threads. Throws what run_workers() throws, and
/// Error(timeout) when a task has waited for `wait_budget`: the text names the task, its counter,
/// signals seen and expected, and the producers that are missing. The counters are then spent: zero
/// them and start again at epoch 0.
void run_on_cpu(const TaskGraph& graph, std::span<const Task> tasks, std::uint32_t num_workers,
                const CpuRunState& state, std::chrono::milliseconds wait_budget,
                const TaskBody& body, Trace* trace = nullptr, const WorkerThreads& threads = {});

}  // namespace megaconv
