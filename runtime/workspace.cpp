// SPDX-License-Identifier: Apache-2.0
#include "runtime/workspace.hpp"

#include "megaconv/error.hpp"

namespace megaconv {

WorkspaceLease::WorkspaceLease(void* workspace, const WorkspaceLayout& layout,
                               std::uint64_t plan_word,
                               std::span<const std::uint32_t> counter_totals)
    : lease_(*static_cast<WorkspaceHeader*>(workspace), plan_word) {
  auto* const counters =
      reinterpret_cast<HostSync::Cell*>(static_cast<std::byte*>(workspace) + layout.counters);
  if (!lease_.take(counters, counter_totals)) {
    throw Error(Status::invalid_argument,
                "workspace is in use by another run; every concurrent run needs its own");
  }
}

}  // namespace megaconv
