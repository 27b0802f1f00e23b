// SPDX-License-Identifier: Apache-2.0
// Threads that outlive runs, so that a run costs a wake-up and not a thread creation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace megaconv {

/// Calls one function on several threads at once. The calling thread is worker 0; the pool adds the
/// rest and grows when asked for more than before. Runs of different callers take turns.
class WorkerPool {
 public:
  using Body = std::function<void(std::uint32_t worker)>;

  /// The pool that all plans of the process share.
  static WorkerPool& shared();

  WorkerPool() = default;
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Calls body(0) ... body(num_workers - 1) at the same time and returns when all have. `body`
  /// must not throw. Throws Error(out_of_memory) when a thread cannot be started; nothing has run
  /// then.
  void run(std::uint32_t num_workers, const Body& body);

 private:
  /// The life of one thread; `seen` is the generation at its creation.
  void serve(std::uint32_t worker, std::uint32_t seen);
  void grow_to(std::uint32_t num_workers);

  std::mutex run_mutex_;              // one run at a time
  std::vector<std::thread> threads_;  // threads_[i] is worker i + 1
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint32_t> busy_{0};  // threads that have not finished this generation
  std::uint32_t num_workers_ = 0;
  const Body* body_ = nullptr;  // null: stop
};

}  // namespace megaconv
