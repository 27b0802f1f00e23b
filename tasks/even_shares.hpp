// SPDX-License-Identifier: Apache-2.0
// How work is shared out among a CPU's workers: evenly, in register tiles, within their caches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tasks/tiling.hpp"

namespace megaconv {

/// The CPU's GEMM and direct kernels keep 14 tiles (or output pixels) x 2 lane blocks in registers.
inline constexpr std::uint64_t kRegisterRows = 14;
/// Enough tasks for the last ones of a stage to even out between the workers.
inline constexpr std::uint64_t kTasksPerWorker = 4;

inline std::uint64_t cache_share(const Target& target, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(target.cache_bytes_per_worker) * share);
}

/// Size of the shares when `total` rows are shared out in parts of at most about `most`: the
/// largest multiple of the register tile that leaves the last part nearly whole, else parts of one
/// size.
///   196 rows, most 60: 7 x 28, not 4 x 42 + 28
inline std::uint64_t even_share(std::uint64_t total, std::uint64_t most) {
  for (std::uint64_t share = most / kRegisterRows * kRegisterRows; share > 0;
       share -= kRegisterRows) {
    if (ceil_div(total, share) * share - total <= total / 8) return std::min(share, total);
  }
  const std::uint64_t parts =
      std::min(ceil_div(total, most), std::max<std::uint64_t>(1, total / kRegisterRows));
  return ceil_div(total, parts);
}

/// Lane blocks of one task: at most `most`, fewer when `groups` task groups of such tasks would be
/// fewer than `wanted` in all, and even among the tasks.
inline std::uint32_t even_blocks(std::uint64_t blocks, std::uint64_t most, std::uint64_t groups,
                                 std::uint64_t wanted) {
  const std::uint64_t size = std::clamp<std::uint64_t>(blocks * groups / wanted, 1, most);
  return u32(ceil_div(blocks, ceil_div(blocks, size)));
}

/// Takes the place of what was chosen, if the caller fixed it.
inline void set_if_asked(std::uint32_t& chosen, std::uint32_t asked) {
  if (asked != 0) chosen = asked;
}

}  // namespace megaconv
