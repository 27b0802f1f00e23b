// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_pool.hpp"

#include <pthread.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cfenv>
#include <memory>
#include <string>
#include <system_error>

#include "megaconv/error.hpp"
#include "runtime/spin.hpp"

namespace megaconv {
namespace {

// A thread polls this often for the next run (about 20 us) before it sleeps in the kernel:
// back-to-back runs start without a wake-up, and an idle pool uses no CPU.
constexpr int kSpinsBeforeSleep = 500;

// Rounding to nearest, denormal numbers, and no traps; what the caller had comes back.
class DefaultArithmetic {
 public:
#if defined(__x86_64__)
  // Floats and doubles are those of the vector registers. fesetenv() takes 0.1 us for the others.
  DefaultArithmetic() { _mm_setcsr(kDefaultCsr); }
  ~DefaultArithmetic() { _mm_setcsr(callers_); }
#else
  DefaultArithmetic() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&callers_); }
#endif
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kDefaultCsr = 0x1f80;
  unsigned callers_ = _mm_getcsr();
#else
  std::fenv_t callers_;
#endif
};

}  // namespace

void PoolSync::wait(const Cell& cell, std::uint32_t old) {
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    if (cell.load(std::memory_order_relaxed) != old) return;
    spin_pause();
  }
  cell.wait(old, std::memory_order_relaxed);
}

WorkerPool& WorkerPool::shared() {
  static std::atomic<WorkerPool*> current{nullptr};
  struct Life {
    // A child has its parent's memory, but none of its threads, and locks that nobody will open. It
    // leaves that pool alone.
    Life() {
      if (pthread_atfork(nullptr, nullptr, [] { current = nullptr; }) != 0) throw std::bad_alloc();
    }
    // The pool itself stays: other threads may go on executing for as long as exit() takes.
    ~Life() {
      WorkerPool* const pool = current;
      if (pool == nullptr) return;
      const std::unique_lock lock(pool->run_mutex_, std::try_to_lock);
      if (lock.owns_lock()) pool->stop();
    }
  };
  static const Life life;
  WorkerPool* pool = current;
  if (pool == nullptr) {
    auto made = std::make_unique<WorkerPool>(resolve_binding());
    if (current.compare_exchange_strong(pool, made.get())) pool = made.release();
  }
  return *pool;
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  calls_.begin(nullptr, 0);
  for (Thread& thread : threads_) calls_.call(thread.runs);
  for (Thread& thread : threads_) thread.thread.join();
  handles_.clear();
  threads_.clear();
}

void WorkerPool::grow_to(std::uint32_t num_workers) {
  handles_.reserve(num_workers - 1);  // nothing may fail behind a thread's start
  while (threads_.size() + 1 < num_workers) {
    const auto worker = static_cast<std::uint32_t>(threads_.size() + 1);
    try {
      handles_.push_back(threads_.emplace_back(*this, worker).thread.native_handle());
    } catch (const std::system_error& error) {
      throw Error(Status::out_of_memory, "cannot start worker thread " + std::to_string(worker) +
                                             " of " + std::to_string(num_workers - 1) + ": " +
                                             error.code().message());
    }
  }
}

void WorkerPool::run(std::uint32_t num_workers, const Body& body, bool withdraws) {
  const std::lock_guard lock(run_mutex_);
  grow_to(num_workers);
  places_.keep(handles_);
  calls_.begin(&body, num_workers - 1);
  for (std::uint32_t worker = 1; worker < num_workers; ++worker) {
    calls_.call(threads_[worker - 1].runs);
  }
  {
    const DefaultArithmetic arithmetic;
    body(0);
  }
  for (std::uint32_t worker = 1; withdraws && worker < num_workers; ++worker) {
    calls_.withdraw(threads_[worker - 1].runs);
  }
  calls_.wait_for_all();
}

namespace {

// A run on threads of the caller's own. A call that is one too many does nothing.
class OwnThreads {
 public:
  OwnThreads(std::uint32_t num_workers, const WorkerPool::Body& body)
      : body_(body), called_(num_workers) {}

  void run(const WorkerThreads& threads) {
    const auto num_workers = static_cast<std::uint32_t>(called_.size());
    threads.run(
        threads.context, num_workers,
        [](void* state, std::uint32_t worker) { static_cast<OwnThreads*>(state)->call(worker); },
        this);
    const auto missing = std::find_if(called_.begin(), called_.end(),
                                      [](const Flag& flag) { return !flag.load(kRelaxed); });
    if (missing != called_.end()) fail("did not call", missing - called_.begin());
    if (surplus_.load(kRelaxed) != kNone) fail("called once too often", surplus_.load(kRelaxed));
  }

 private:
  using Flag = std::atomic<bool>;
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  static constexpr std::int64_t kNone = -1;

  void call(std::uint32_t worker) {
    if (worker >= called_.size() || called_[worker].exchange(true, kRelaxed)) {
      surplus_.store(worker, kRelaxed);
      return;
    }
    const DefaultArithmetic arithmetic;
    body_(worker);
  }

  [[noreturn]] void fail(const char* what, std::int64_t worker) const {
    throw Error(Status::invalid_argument, std::string("the caller's threads ") + what + " worker " +
                                              std::to_string(worker) + ", must call 0 to " +
                                              std::to_string(called_.size() - 1) + " once each");
  }

  const WorkerPool::Body& body_;
  std::vector<Flag> called_;  // by worker
  std::atomic<std::int64_t> surplus_{kNone};
};

}  // namespace

void run_workers(const WorkerThreads& threads, std::uint32_t num_workers,
                 const WorkerPool::Body& body) {
  if (threads.run == nullptr) return WorkerPool::shared().share(num_workers, body);
  OwnThreads(num_workers, body).run(threads);
}

void WorkerPool::serve(std::uint32_t worker, PoolSync::Cell& runs) {
  std::fesetenv(FE_DFL_ENV);  // threads begin with that of whoever starts them
  std::uint32_t seen = 0;
  while (const Body* const body = calls_.wait_for_call(runs, seen)) {
    (*body)(worker);
    calls_.finish();
  }
}

}  // namespace megaconv
