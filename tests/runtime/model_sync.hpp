// SPDX-License-Identifier: Apache-2.0
// The `Sync` policies of the runtime's protocols for Relacy, and copies with one fault each: what a
// model of a protocol must catch.
#pragma once

#include <cstdint>
#include <relacy/relacy.hpp>

enum class Fault {
  none,
  // DependencyCounters
  relaxed_load,
  relaxed_signal,
  signal_by_load_and_store,
  // GiveUp
  give_up_by_load_and_store,
  deaf,
  // WorkerCalls
  relaxed_call,
  relaxed_finish,
  early_notice,
  no_notice,
  careless_sleep,
  claim_by_load_and_store,
  // Lease
  relaxed_take,
  take_by_load_and_store,
  relaxed_return,
  // Not of a policy: for the model itself.
  wrong_use,
};

/// For DependencyCounters and GiveUp.
template <Fault kFault>
struct ModelSync {
  using Cell = rl::atomic<std::uint32_t>;
  static std::uint32_t load_relaxed(Cell& cell) {
    return kFault == Fault::deaf ? 0 : cell.load(rl::mo_relaxed, $);
  }
  static std::uint32_t load_acquire(Cell& cell) {
    return cell.load(kFault == Fault::relaxed_load ? rl::mo_relaxed : rl::mo_acquire, $);
  }
  static void add_release(Cell& cell, std::uint32_t value) {
    if (kFault == Fault::signal_by_load_and_store) {
      cell.store(cell.load(rl::mo_relaxed, $) + value, rl::mo_release, $);
    } else {
      cell.fetch_add(value, kFault == Fault::relaxed_signal ? rl::mo_relaxed : rl::mo_release, $);
    }
  }
  static std::uint32_t fetch_add_relaxed(Cell& cell, std::uint32_t value) {
    return cell.fetch_add(value, rl::mo_relaxed, $);
  }
  static std::uint32_t exchange_relaxed(Cell& cell, std::uint32_t value) {
    if (kFault != Fault::give_up_by_load_and_store) return cell.exchange(value, rl::mo_relaxed, $);
    const std::uint32_t old = cell.load(rl::mo_relaxed, $);
    cell.store(value, rl::mo_relaxed, $);
    return old;
  }
  static void pause() { rl::yield(1, $); }
};

/// For WorkerCalls.
template <Fault kFault>
struct ModelPoolSync {
  // The lock is that of a futex: it is held from the read of the value to the sleep.
  struct Cell {
    explicit Cell(std::uint32_t begin) : value(begin) {}
    rl::atomic<std::uint32_t> value;
    rl::mutex lock;
    rl::condition_variable sleepers;
  };
  template <class T>
  using Plain = rl::var<T>;

  template <class T>
  static T read(rl::var<T>& value) {
    return value($);
  }
  template <class T>
  static void write(rl::var<T>& target, T value) {
    target($) = value;
  }
  static void store_relaxed(Cell& cell, std::uint32_t value) {
    cell.value.store(value, rl::mo_relaxed, $);
  }
  static std::uint32_t load_acquire(Cell& cell) { return cell.value.load(rl::mo_acquire, $); }
  static void add_release(Cell& cell, std::uint32_t value) {
    if (kFault == Fault::early_notice) wake(cell);
    cell.value.fetch_add(value, kFault == Fault::relaxed_call ? rl::mo_relaxed : rl::mo_release, $);
  }
  static bool claim(Cell& cell, std::uint32_t call) {
    if (kFault == Fault::claim_by_load_and_store) {
      const bool open = cell.value.load(rl::mo_acquire, $) == call;
      if (open) cell.value.store(call + 1, rl::mo_relaxed, $);
      return open;
    }
    return cell.value.compare_exchange_strong(call, call + 1, rl::mo_acquire, $, rl::mo_relaxed, $);
  }
  static std::uint32_t subtract(Cell& cell, std::uint32_t value) {
    return cell.value.fetch_sub(
        value, kFault == Fault::relaxed_finish ? rl::mo_relaxed : rl::mo_acq_rel, $);
  }
  static void notify(Cell& cell) {
    if (kFault != Fault::no_notice && kFault != Fault::early_notice) wake(cell);
  }
  static void wait(Cell& cell, std::uint32_t old) {
    if (cell.value.load(rl::mo_relaxed, $) != old) return;  // while it spins
    cell.lock.lock($);
    if (kFault == Fault::careless_sleep) {
      cell.sleepers.wait(cell.lock, $);
    } else {
      while (cell.value.load(rl::mo_relaxed, $) == old) cell.sleepers.wait(cell.lock, $);
    }
    cell.lock.unlock($);
  }

 private:
  static void wake(Cell& cell) {
    cell.lock.lock($);
    cell.sleepers.notify_all($);
    cell.lock.unlock($);
  }
};

/// For Lease. `NumberType`: a variable, whose data races are caught; or an atomic, where the same
/// cells are counters, too.
template <Fault kFault, class NumberType = rl::var<std::uint32_t>>
struct ModelLeaseSync {
  using Word = rl::atomic<std::uint64_t>;
  using Number = NumberType;

  static std::uint64_t load_relaxed(Word& word) { return word.load(rl::mo_relaxed, $); }
  static bool compare_exchange(Word& word, std::uint64_t& seen, std::uint64_t value) {
    if (kFault == Fault::take_by_load_and_store) {
      const std::uint64_t now = word.load(rl::mo_acquire, $);
      if (now == seen) word.store(value, rl::mo_relaxed, $);
      return now == seen || (seen = now, false);
    }
    return word.compare_exchange_weak(
        seen, value, kFault == Fault::relaxed_take ? rl::mo_relaxed : rl::mo_acquire, $,
        rl::mo_relaxed, $);
  }
  static void store_release(Word& word, std::uint64_t value) {
    word.store(value, kFault == Fault::relaxed_return ? rl::mo_relaxed : rl::mo_release, $);
  }
  static std::uint32_t read(const rl::var<std::uint32_t>& number) {
    return const_cast<rl::var<std::uint32_t>&>(number)($);
  }
  static void write(rl::var<std::uint32_t>& number, std::uint32_t value) { number($) = value; }
  static std::uint32_t read(const rl::atomic<std::uint32_t>& number) {
    return number.load(rl::mo_relaxed, $);
  }
  static void write(rl::atomic<std::uint32_t>& number, std::uint32_t value) {
    number.store(value, rl::mo_relaxed, $);
  }
};
