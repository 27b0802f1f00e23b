// SPDX-License-Identifier: Apache-2.0
// Who uses a workspace, and whose counters it holds.
//
//   run                                                    next run
//   ---                                                    --------
//   compare_exchange(owner, any -> mine, in use)
//   counters as the epoch says, or zero at epoch 0
//   tasks
//   epoch + 1; store_release(owner, mine)  -- then -->     compare_exchange(owner, ...)
//
// The owner word is (key of the process, id of the plan, in-use bit). A workspace is raw memory, so
// the word may hold anything; only a word with this process's key, which depends on all its bits,
// says that a run is using it. A run that was given up leaves nobody's word. A plan that finds its
// own word still compares all counters with the epoch: the caller may have overwritten a part of
// the memory in between.
//
// Only the owner word is atomic. A run that took it has epoch and counters to itself: the
// exchange acquires what the release of the run before it published.
//
// `Sync` supplies the word, its operations, and reads and writes of plain numbers. The same text
// runs on std::atomic_ref and under a model checker (tests/runtime/lease.relacy.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/plan_word.hpp"

namespace megaconv {

/// What begins a workspace.
template <class Sync>
struct LeaseHeader {
  alignas(64) typename Sync::Word owner;
  typename Sync::Number epoch;  // completed runs, modulo 2^32
};

/// Exclusive use of one workspace for one run.
template <class Sync>
class Lease {
 public:
  using Number = typename Sync::Number;
  static constexpr std::uint64_t kInUse = 1;

  /// `idle_word`: new_plan_word(), of which the lowest bit is that of use.
  Lease(LeaseHeader<Sync>& header, std::uint64_t idle_word)
      : header_(header), idle_word_(idle_word) {}

  /// False when another run is using the workspace. `counters`: one per total; zero at epoch 0
  /// unless they are as this plan's last run left them.
  bool take(Number* counters, std::span<const std::uint32_t> totals) {
    std::uint64_t seen = Sync::load_relaxed(header_.owner);
    do {
      if (key_of(seen) == key_of(idle_word_) && (seen & kInUse) != 0) return false;
    } while (!Sync::compare_exchange(header_.owner, seen, idle_word_ | kInUse));
    if (seen != idle_word_ || !hold_epoch(counters, totals)) {
      Sync::write(header_.epoch, 0);
      for (std::size_t i = 0; i < totals.size(); ++i) Sync::write(counters[i], 0);
    }
    return true;
  }

  std::uint32_t epoch() const { return Sync::read(header_.epoch); }

  /// `completed`: each counter has had all its signals.
  void give_back(bool completed) {
    if (completed) Sync::write(header_.epoch, Sync::read(header_.epoch) + 1);
    Sync::store_release(header_.owner, completed ? idle_word_ : 0);
  }

 private:
  // Whether each counter has had its signals in each run so far, and no other.
  bool hold_epoch(const Number* counters, std::span<const std::uint32_t> totals) const {
    const std::uint32_t epoch = this->epoch();
    std::uint32_t difference = 0;  // no early exit: the loop is a few vector operations
    for (std::size_t i = 0; i < totals.size(); ++i) {
      difference |= Sync::read(counters[i]) ^ (epoch * totals[i]);
    }
    return difference == 0;
  }

  LeaseHeader<Sync>& header_;
  std::uint64_t idle_word_;
};

}  // namespace megaconv
