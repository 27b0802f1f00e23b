// SPDX-License-Identifier: Apache-2.0
#include "runtime/workspace.hpp"

#include <random>

#include "megaconv/error.hpp"

namespace megaconv {
namespace {

// The upper half of every owner word of this process, so that memory with an arbitrary or an older
// content is not mistaken for a workspace with counters.
std::uint64_t process_key() {
  static const std::uint64_t key = [] {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) | 1) << 32;
  }();
  return key;
}

}  // namespace

WorkspaceLease::WorkspaceLease(void* workspace, const WorkspaceLayout& layout,
                               std::uint32_t plan_id, std::span<const std::uint32_t> counter_totals)
    : lease_(*static_cast<WorkspaceHeader*>(workspace),
             process_key() | static_cast<std::uint64_t>(plan_id) << 1) {
  auto* const counters =
      reinterpret_cast<HostSync::Cell*>(static_cast<std::byte*>(workspace) + layout.counters);
  if (!lease_.take(counters, counter_totals)) {
    throw Error(Status::invalid_argument,
                "workspace is in use by another run; every concurrent run needs its own");
  }
}

}  // namespace megaconv
