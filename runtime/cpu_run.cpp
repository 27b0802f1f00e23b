// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_run.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "megaconv/error.hpp"
#include "runtime/give_up.hpp"
#include "runtime/report.hpp"
#include "runtime/spin.hpp"
#include "runtime/worker_pool.hpp"

namespace megaconv {
namespace {

using Clock = std::chrono::steady_clock;
using Counters = DependencyCounters<HostSync>;

// A waiting worker reads its counter this often between two readings of the clock, about 4 us;
// after kRoundsBeforeYield rounds it offers its core to others, for machines with fewer cores than
// workers.
constexpr int kPollsPerRound = 100;
constexpr int kRoundsBeforeYield = 5;
// A wait takes more rounds than this before it is given up: a round that takes longer than its part
// of the budget is one in which the worker was stopped.
constexpr int kRoundsInBudget = 4;

struct RunSync {
  using Cell = std::atomic<std::uint32_t>;
  static std::uint32_t load_relaxed(const Cell& cell) {
    return cell.load(std::memory_order_relaxed);
  }
  static std::uint32_t exchange_relaxed(Cell& cell, std::uint32_t value) {
    return cell.exchange(value, std::memory_order_relaxed);
  }
  static void pause() { spin_pause(); }
};

// Everything the workers of one run share.
class Run {
 public:
  Run(const TaskGraph& graph, std::span<const Task> tasks, std::uint32_t num_workers,
      const CpuRunState& state, std::chrono::milliseconds wait_budget, const TaskBody& body,
      Trace* trace)
      : graph_(graph),
        tasks_(tasks),
        counters_(&ticket_, state.counters, state.epoch, static_cast<std::uint32_t>(tasks.size()),
                  num_workers),
        wait_budget_(wait_budget),
        body_(body),
        trace_(trace),
        workers_(state.workers, num_workers) {
    ticket_ = counters_.first_ticket();
    if (trace != nullptr) begin_ = Clock::now();
    independent_ = std::none_of(tasks.begin(), tasks.end(),
                                [](const Task& task) { return task.wait_counter != kNoCounter; });
    for (std::uint32_t w = 0; w < num_workers; ++w) {
      std::construct_at(&workers_[w])->next = share_begin(w);
    }
  }

  void work(std::uint32_t worker) { independent_ ? work_by_shares(worker) : work_in_order(worker); }

  /// Empty, or why the run was given up.
  const std::string& report() const { return report_; }

 private:
  void work_in_order(std::uint32_t worker) {
    Counters counters = counters_;
    for (std::uint32_t position; (position = counters.take_position()) < tasks_.size();) {
      if (!run(counters, position, worker)) return;
    }
  }

  // Where no task waits for another, every worker has a share of the tasks, the same in every run,
  // so that it finds its parts of x and y again in its own caches and on its own NUMA node; then it
  // helps the others. Where all workers share one L3 (Zen 4, two cores) it makes no difference.
  void work_by_shares(std::uint32_t worker) {
    Counters counters = counters_;
    const auto num_workers = static_cast<std::uint32_t>(workers_.size());
    for (std::uint32_t i = 0; i < num_workers; ++i) {
      const std::uint32_t share = (worker + i) % num_workers, end = share_begin(share + 1);
      std::atomic<std::uint32_t>& next = workers_[share].next;
      for (std::uint32_t position;
           (position = next.fetch_add(1, std::memory_order_relaxed)) < end;) {
        run(counters, position, worker);
      }
    }
  }

  std::uint32_t share_begin(std::uint32_t share) const {
    return static_cast<std::uint32_t>(tasks_.size() * share / workers_.size());
  }

  // False when the run was given up.
  bool run(Counters& counters, std::uint32_t position, std::uint32_t worker) {
    const Task& task = tasks_[position];
    workers_[worker].position.store(position, std::memory_order_relaxed);
    const std::uint64_t fetch_ns = now_ns();
    if (!counters.is_ready(task) && !wait(counters, task, position)) return false;
    const std::uint64_t ready_ns = now_ns();
    body_(task, worker);
    counters.signal(task, graph_.signals.data());
    workers_[worker].position.store(CpuWorker::kIdle, std::memory_order_relaxed);
    if (trace_ != nullptr) {
      trace_->records[position] = {position, worker, fetch_ns, ready_ns, now_ns()};
    }
    return true;
  }

  std::uint64_t now_ns() const {
    if (trace_ == nullptr) return 0;
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count());
  }

  // True when the task became ready, false when the run was given up. What counts is time in which
  // this worker ran: of a round that took long, because the process was stopped, only a part
  // counts.
  bool wait(Counters& counters, const Task& task, std::uint32_t position) {
    const Clock::duration longest_round = wait_budget_ / kRoundsInBudget;
    Clock::duration waited{0};
    Clock::time_point begin = Clock::now();
    int round = 0;
    const auto is_over = [&] {
      if (round++ >= kRoundsBeforeYield) std::this_thread::yield();
      const Clock::time_point now = Clock::now();
      waited += std::min(now - begin, longest_round);
      begin = now;
      return waited > wait_budget_;
    };
    return give_up_.wait(
        kPollsPerRound, [&] { return counters.is_ready(task); }, is_over,
        [&] { write_report(counters, task, position); });
  }

  void write_report(Counters& counters, const Task& task, std::uint32_t position) {
    // A producer is missing while a worker holds it or nobody has taken its position.
    const std::uint32_t taken = counters.positions_taken();
    report_ = timeout_report(
        graph_, tasks_, position, counters.received(task.wait_counter, task.wait_count),
        wait_budget_,
        [&](std::uint32_t p) { return p >= taken ? "not started" : holder_state(p); });
  }

  const char* holder_state(std::uint32_t position) const {
    for (const CpuWorker& worker : workers_) {
      if (worker.position.load(std::memory_order_relaxed) == position) return "waiting or running";
    }
    return nullptr;
  }

  const TaskGraph& graph_;
  std::span<const Task> tasks_;
  Counters counters_;
  std::chrono::milliseconds wait_budget_;
  const TaskBody& body_;
  Trace* trace_;
  std::span<CpuWorker> workers_;
  alignas(64) HostSync::Cell ticket_;  // on a cache line of its own: every worker writes it
  bool independent_ = false;
  Clock::time_point begin_;  // of a trace
  GiveUp<RunSync> give_up_;
  std::string report_;  // written by the one worker that gives up, read after all have returned
};

}  // namespace

void run_on_cpu(const TaskGraph& graph, std::span<const Task> tasks, std::uint32_t num_workers,
                const CpuRunState& state, std::chrono::milliseconds wait_budget,
                const TaskBody& body, Trace* trace, const WorkerThreads& threads) {
  if (trace != nullptr) {
    trace->records.assign(tasks.size(), {});
    trace->num_workers = num_workers;
  }
  Run run(graph, tasks, num_workers, state, wait_budget, body, trace);
  run_workers(threads, num_workers, [&run](std::uint32_t worker) { run.work(worker); });
  if (!run.report().empty()) throw Error(Status::timeout, run.report());
}

}  // namespace megaconv
