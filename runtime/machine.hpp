// SPDX-License-Identifier: Apache-2.0
// What this process may use of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace megaconv {

inline constexpr std::uint32_t kMaxWorkers = 1024;

/// CPUs in this process's affinity mask, or those that its control group's quota pays for if these
/// are fewer; at least 1.
std::uint32_t available_cpus() noexcept;

/// CPUs that a quota pays for, rounded up: `cpu_max` is the content of a control group's cpu.max,
/// "200000 100000" or "max 100000". kMaxWorkers when there is no quota, or no such file.
std::uint32_t quota_cpus(std::string_view cpu_max) noexcept;

/// Worker count for a request of 0: MEGACONV_NUM_THREADS when set, else available_cpus().
/// Throws Error(invalid_argument) when the variable or the request is not in 1..kMaxWorkers.
std::uint32_t resolve_workers(std::uint32_t requested);

/// "AMD EPYC 9B45", "unknown CPU"
std::string cpu_name();

/// Bytes of the level-2 cache, 1 MiB when the system does not say.
std::size_t level2_cache_bytes() noexcept;

/// Bytes of a level-3 cache that cores reach over a mesh; 0 where they do not. Of Intel's
/// processors those with products of FP16 count, from Sapphire Rapids on. (AMX says nothing:
/// virtual machines may hide it.)
std::size_t mesh_cache_bytes() noexcept;

}  // namespace megaconv
