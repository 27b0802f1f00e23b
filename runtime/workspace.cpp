// SPDX-License-Identifier: Apache-2.0
#include "runtime/workspace.hpp"

#include <algorithm>
#include <atomic>
#include <random>

#include "megaconv/error.hpp"

namespace megaconv {
namespace {

constexpr std::uint64_t kInUse = 1;
constexpr std::uint64_t kKeyMask = ~std::uint64_t{0} << 32;

// The upper half of every owner word of this process, so that memory with an arbitrary or an older
// content is not mistaken for a workspace with counters.
std::uint64_t process_key() {
  static const std::uint64_t key = [] {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) | 1) << 32;
  }();
  return key;
}

// Whether each counter has had its signals in each of `epoch` runs, and no other.
bool hold_epoch(const HostSync::Cell* counters, std::span<const std::uint32_t> totals,
                std::uint32_t epoch) {
  std::uint32_t difference = 0;  // no early exit: the loop is a few vector operations
  for (std::size_t i = 0; i < totals.size(); ++i) difference |= counters[i] ^ (epoch * totals[i]);
  return difference == 0;
}

}  // namespace

WorkspaceLease::WorkspaceLease(void* workspace, const WorkspaceLayout& layout,
                               std::uint32_t plan_id, std::span<const std::uint32_t> counter_totals)
    : header_(static_cast<WorkspaceHeader*>(workspace)),
      idle_word_(process_key() | static_cast<std::uint64_t>(plan_id) << 1) {
  std::atomic_ref owner(header_->owner);
  std::uint64_t seen = owner.load(std::memory_order_acquire);
  do {
    if ((seen & kKeyMask) == process_key() && (seen & kInUse) != 0) {
      throw Error(Status::invalid_argument,
                  "workspace is in use by another run; every concurrent run needs its own");
    }
  } while (!owner.compare_exchange_weak(seen, idle_word_ | kInUse, std::memory_order_acq_rel,
                                        std::memory_order_acquire));
  auto* const counters =
      reinterpret_cast<HostSync::Cell*>(static_cast<std::byte*>(workspace) + layout.counters);
  if (seen != idle_word_ || !hold_epoch(counters, counter_totals, header_->epoch)) {
    header_->epoch = 0;
    std::fill_n(counters, counter_totals.size(), HostSync::Cell{0});
  }
}

WorkspaceLease::~WorkspaceLease() {
  if (completed_) ++header_->epoch;
  std::atomic_ref(header_->owner).store(completed_ ? idle_word_ : 0, std::memory_order_release);
}

}  // namespace megaconv
