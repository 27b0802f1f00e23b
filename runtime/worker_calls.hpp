// SPDX-License-Identifier: Apache-2.0
// How the caller of a run and the threads of a pool meet.
//
//   caller                                          thread
//   ------                                          ------
//   write work; busy = number of threads
//   add_release(runs, 1), notify(runs)   -- wakes --> wait(runs, seen), load_acquire(runs)
//                                                   claim(runs), read work; null: end
//   its own share                                   its share
//   perhaps claim(runs), subtract(busy, 1)
//   wait(busy, left), load_acquire(busy) <-- wakes -- subtract(busy, 1); the last: notify(busy)
//
// An odd number in `runs` is an open call. To claim it is to make it even: the thread does so
// to answer it, the caller to withdraw it when nothing is left to do. So a thread that does not
// get a CPU holds nobody up. The next run begins when `busy` is zero. Subtractions are
// read-modify-writes: the caller that sees zero sees what all threads have written.
//
// `Sync` supplies the cell, its operations, and wait() and notify() as of a futex: a wait begins
// only while the cell holds the old value, and a notification ends all that have begun. The same
// text runs on std::atomic and under a model checker (tests/runtime/pool.relacy.cpp).
#pragma once

#include <cstdint>

namespace megaconv {

/// One pool's meetings. `Work`: a pointer to what threads do.
template <class Sync, class Work>
class WorkerCalls {
 public:
  using Cell = typename Sync::Cell;

  /// Caller: begins a run of so many threads, or with null the end of all of them.
  void begin(Work work, std::uint32_t num_threads) {
    Sync::write(work_, work);
    Sync::store_relaxed(busy_, num_threads);
  }
  /// Caller: calls one thread. `runs`: the thread's own cell, zero at first.
  static void call(Cell& runs) {
    Sync::add_release(runs, 1);
    Sync::notify(runs);
  }
  /// Caller: takes a call back that its thread has not answered.
  void withdraw(Cell& runs) {
    const std::uint32_t call = Sync::load_acquire(runs);
    if (call % 2 != 0 && Sync::claim(runs, call)) Sync::subtract(busy_, 1);
  }
  /// Caller: returns when all threads have finished.
  void wait_for_all() {
    for (std::uint32_t left; (left = Sync::load_acquire(busy_)) != 0;) Sync::wait(busy_, left);
  }

  /// Thread: what it is called to do. `seen`: zero at first.
  Work wait_for_call(Cell& runs, std::uint32_t& seen) {
    for (;;) {
      Sync::wait(runs, seen);
      seen = Sync::load_acquire(runs);
      if (seen % 2 == 0) continue;
      if (Sync::claim(runs, seen++)) return Sync::read(work_);
    }
  }
  /// Thread: has done it.
  void finish() {
    if (Sync::subtract(busy_, 1) == 1) Sync::notify(busy_);
  }

 private:
  Cell busy_{0};  // threads that have not finished this run
  typename Sync::template Plain<Work> work_{};
};

}  // namespace megaconv
