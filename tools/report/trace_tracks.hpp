// SPDX-License-Identifier: Apache-2.0
// Where a picture of a trace shows each task.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/trace.hpp"

namespace megaconv::cli {

/// The version of trace files; grows when their content changes its meaning.
inline constexpr int kTraceFileVersion = 1;

/// Position -> track. A worker has one track; an SM that runs several blocks has as many as were
/// busy at once, up to 64: each task takes the first that is free, or shares the last.
class Tracks {
 public:
  explicit Tracks(const Trace& trace);

  std::uint32_t of(std::uint32_t position) const { return of_position_[position]; }
  const std::vector<std::uint32_t>& all() const { return all_; }
  static std::uint32_t worker(std::uint32_t track) { return track / kMostSlots; }

 private:
  static constexpr std::uint32_t kMostSlots = 64;  // resident blocks of an SM are fewer
  std::vector<std::uint32_t> of_position_, all_;
};

}  // namespace megaconv::cli
