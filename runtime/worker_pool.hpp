// SPDX-License-Identifier: Apache-2.0
// Threads that outlive runs, so that a run costs a wake-up and not a thread creation.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "megaconv/plan.hpp"
#include "runtime/worker_calls.hpp"
#include "runtime/worker_places.hpp"

namespace megaconv {

/// Cells that threads sleep on (runtime/worker_calls.hpp).
struct PoolSync {
  using Cell = std::atomic<std::uint32_t>;
  template <class T>
  using Plain = T;

  template <class T>
  static T read(const T& value) {
    return value;
  }
  template <class T>
  static void write(T& target, T value) {
    target = value;
  }
  static void store_relaxed(Cell& cell, std::uint32_t value) {
    cell.store(value, std::memory_order_relaxed);
  }
  static std::uint32_t load_acquire(const Cell& cell) {
    return cell.load(std::memory_order_acquire);
  }
  static void add_release(Cell& cell, std::uint32_t value) {
    cell.fetch_add(value, std::memory_order_release);
  }
  /// Whether it made call + 1 of `call`.
  static bool claim(Cell& cell, std::uint32_t call) {
    return cell.compare_exchange_strong(call, call + 1, std::memory_order_acquire,
                                        std::memory_order_relaxed);
  }
  static std::uint32_t subtract(Cell& cell, std::uint32_t value) {
    return cell.fetch_sub(value, std::memory_order_acq_rel);
  }
  static void notify(Cell& cell) { cell.notify_all(); }
  /// Returns when the cell holds something else. Spins for a while before it sleeps.
  static void wait(const Cell& cell, std::uint32_t old);
};

/// Calls one function on several threads at once. The calling thread is worker 0; the pool adds the
/// rest and grows when asked for more than before. Runs of different callers take turns. A thread
/// that has nothing to do sleeps, also while others run. All workers compute in the default
/// floating-point environment: they round to nearest, keep denormal numbers and trap nothing. The
/// caller's own, with its flags, is as before when a run returns.
class WorkerPool {
 public:
  using Body = std::function<void(std::uint32_t worker)>;

  /// The pool that all plans of the process share, bound as resolve_binding() says. A child of
  /// fork() gets one of its own. exit() stops the threads unless a run is using them: it waits for
  /// no run.
  static WorkerPool& shared();

  explicit WorkerPool(Binding binding = Binding::none) : places_(binding) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Calls body(0) ... body(num_workers - 1) at the same time and returns when all have. `body`
  /// must not throw. Throws Error(out_of_memory) when a thread cannot be started, or
  /// std::bad_alloc; nothing has run then, and the pool is as good as before.
  void run(std::uint32_t num_workers, const Body& body) { run(num_workers, body, false); }
  /// The same of work that worker 0 can do alone: threads that have not begun when it returns are
  /// not called any more. One that waits for a CPU holds nobody up.
  void share(std::uint32_t num_workers, const Body& body) { run(num_workers, body, true); }

 private:
  struct alignas(64) Thread {
    Thread(WorkerPool& pool, std::uint32_t worker)
        : thread([this, &pool, worker] { pool.serve(worker, runs); }) {}
    PoolSync::Cell runs{0};  // that it was called to, and that it or the caller claimed
    std::thread thread;
  };

  /// The life of one thread.
  void serve(std::uint32_t worker, PoolSync::Cell& runs);
  void grow_to(std::uint32_t num_workers);
  void run(std::uint32_t num_workers, const Body& body, bool withdraws);
  void stop();

  std::mutex run_mutex_;        // one run at a time
  std::deque<Thread> threads_;  // threads_[i] is worker i + 1
  std::vector<pthread_t> handles_;
  WorkerPlaces places_;
  WorkerCalls<PoolSync, const Body*> calls_;
};

/// Calls body(0) ... body(num_workers - 1) on the caller's own threads where he has given them,
/// else shares on the shared pool. Throws what WorkerPool::run() throws; Error(invalid_argument)
/// when the caller's threads have not called every worker once.
void run_workers(const WorkerThreads& threads, std::uint32_t num_workers,
                 const WorkerPool::Body& body);

}  // namespace megaconv
