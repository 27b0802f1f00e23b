// SPDX-License-Identifier: Apache-2.0
#include "tools/report/trace_tracks.hpp"

#include <algorithm>
#include <numeric>

namespace megaconv::cli {

Tracks::Tracks(const Trace& trace) : of_position_(trace.records.size()) {
  std::vector<std::uint32_t> by_time(trace.records.size());
  std::iota(by_time.begin(), by_time.end(), 0u);
  std::sort(by_time.begin(), by_time.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.records[a].fetch_ns < trace.records[b].fetch_ns;
  });
  std::vector<std::vector<std::uint64_t>> free_at(trace.num_workers);
  for (const std::uint32_t position : by_time) {
    const TraceRecord& record = trace.records[position];
    std::vector<std::uint64_t>& slots = free_at[record.worker];
    auto slot = std::find_if(slots.begin(), slots.end(),
                             [&](std::uint64_t end) { return end <= record.fetch_ns; });
    if (slot == slots.end()) {
      slot = slots.size() < kMostSlots ? slots.insert(slots.end(), 0) : slots.end() - 1;
    }
    *slot = record.end_ns;
    of_position_[position] =
        record.worker * kMostSlots + static_cast<std::uint32_t>(slot - slots.begin());
  }
  for (std::uint32_t worker = 0; worker < free_at.size(); ++worker) {
    for (std::uint32_t slot = 0; slot < free_at[worker].size(); ++slot) {
      all_.push_back(worker * kMostSlots + slot);
    }
  }
}

}  // namespace megaconv::cli
