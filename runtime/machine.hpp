// SPDX-License-Identifier: Apache-2.0
// What this process may use of the machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace megaconv {

/// CPUs in this process's affinity mask; at least 1.
std::uint32_t available_cpus() noexcept;

/// Worker count for a request of 0: MEGACONV_NUM_THREADS when set, else available_cpus().
/// Throws Error(invalid_argument) when the variable or the request is not in 1..kMaxWorkers.
std::uint32_t resolve_workers(std::uint32_t requested);
inline constexpr std::uint32_t kMaxWorkers = 1024;

/// Bytes of the level-2 cache, 1 MiB when the system does not say.
std::size_t level2_cache_bytes() noexcept;

}  // namespace megaconv
