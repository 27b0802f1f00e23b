// SPDX-License-Identifier: Apache-2.0
// How a worker waits for a task's producers, and how a run is given up.
//
//   a worker without patience              others that wait         caller
//   -------------------------              ----------------         ------
//   exchange(given_up, 1) == 0: report
//   return false                           load(given_up) != 0
//                                          return false             all have returned: read report
//
// One exchange finds zero, so one worker writes the report. The flag itself orders nothing and is
// relaxed: what a worker wrote reaches the caller as it returns (runtime/worker_calls.hpp). A
// worker that is told false runs no more tasks, so consumers of what is missing never run.
//
// `Sync` supplies the flag and its operations, and pause() between two polls. The same text runs on
// std::atomic and under a model checker (tests/runtime/give_up.relacy.cpp).
#pragma once

namespace megaconv {

template <class Sync>
class GiveUp {
 public:
  /// True when `is_ready()` has become so, false when this or another worker has given up the run.
  /// `is_over()`: called after every `polls` polls; whether to wait no longer. The polls behind it
  /// decide: a worker gives up only if the task was not ready after is_over() was first true.
  /// `report()`: called by the one worker that is the first to give up.
  template <class IsReady, class IsOver, class Report>
  bool wait(int polls, IsReady is_ready, IsOver is_over, Report report) {
    for (bool over = false;; over = is_over()) {
      for (int poll = 0; poll < polls; ++poll) {
        if (is_ready()) return true;
        Sync::pause();
      }
      if (Sync::load_relaxed(given_up_) != 0) return false;
      if (over) {
        if (Sync::exchange_relaxed(given_up_, 1) == 0) report();
        return false;
      }
    }
  }

 private:
  typename Sync::Cell given_up_{0};
};

}  // namespace megaconv
