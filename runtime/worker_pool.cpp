// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_pool.hpp"

#include <string>
#include <system_error>

#include "megaconv/error.hpp"
#include "runtime/spin.hpp"

namespace megaconv {
namespace {

// A thread looks this often for the next run (about 20 us) before it sleeps in the kernel:
// back-to-back runs start without a wake-up, and an idle pool uses no CPU.
constexpr int kSpinsBeforeSleep = 500;

void wait_while(std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    spin_pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

WorkerPool& WorkerPool::shared() {
  static WorkerPool pool(resolve_binding());
  return pool;
}

WorkerPool::~WorkerPool() {
  body_ = nullptr;
  for (Thread& thread : threads_) call(thread);
  for (Thread& thread : threads_) thread.thread.join();
}

void WorkerPool::call(Thread& thread) {
  thread.runs.fetch_add(1, std::memory_order_release);
  thread.runs.notify_one();
}

void WorkerPool::grow_to(std::uint32_t num_workers) {
  while (threads_.size() + 1 < num_workers) {
    const auto worker = static_cast<std::uint32_t>(threads_.size() + 1);
    Thread& added = threads_.emplace_back();
    try {
      added.thread = std::thread([this, worker, &added] { serve(worker, added.runs); });
    } catch (const std::system_error&) {
      threads_.pop_back();
      throw Error(Status::out_of_memory, "cannot start worker thread " + std::to_string(worker) +
                                             " of " + std::to_string(num_workers));
    }
    handles_.push_back(added.thread.native_handle());
  }
}

void WorkerPool::run(std::uint32_t num_workers, const Body& body) {
  const std::lock_guard lock(run_mutex_);
  grow_to(num_workers);
  places_.keep(handles_);
  body_ = &body;
  busy_.store(num_workers - 1, std::memory_order_relaxed);
  for (std::uint32_t worker = 1; worker < num_workers; ++worker) call(threads_[worker - 1]);
  body(0);
  for (std::uint32_t left; (left = busy_.load(std::memory_order_acquire)) != 0;) {
    wait_while(busy_, left);
  }
}

void WorkerPool::serve(std::uint32_t worker, std::atomic<std::uint32_t>& runs) {
  for (std::uint32_t seen = 0;;) {
    wait_while(runs, seen);
    seen = runs.load(std::memory_order_acquire);
    if (body_ == nullptr) return;
    (*body_)(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace megaconv
