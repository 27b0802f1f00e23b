// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/cache.hpp"

#include <algorithm>

namespace megaconv::sim {

Cache::Cache(double capacity, std::vector<double> region_bytes)
    : capacity_(capacity),
      region_bytes_(std::move(region_bytes)),
      entries_(region_bytes_.size() + 1) {
  const auto ends = static_cast<std::uint32_t>(region_bytes_.size());
  entries_[ends].previous = entries_[ends].next = ends;
}

Cache::Traffic Cache::touch(std::uint32_t region, double bytes, bool write) {
  Entry& entry = entries_[region];
  const double size = region_bytes_[region];
  Traffic traffic;
  double brought = bytes;
  if (!write && size > 0) {
    traffic.hit_bytes = std::min(bytes, bytes * entry.resident / size);
    brought = bytes - traffic.hit_bytes;
    traffic.hbm_bytes = brought;
  }
  const double resident = std::min(size, entry.resident + brought);
  used_ += resident - entry.resident;
  entry.resident = resident;
  if (write) entry.dirty = std::min(resident, entry.dirty + bytes);
  move_to_front(region);
  traffic.hbm_bytes += make_room(region);
  return traffic;
}

void Cache::move_to_front(std::uint32_t region) {
  const auto ends = static_cast<std::uint32_t>(region_bytes_.size());
  if (entries_[ends].next == region) return;
  if (entries_[region].listed) unlink(region);
  Entry& entry = entries_[region];
  entry.listed = true;
  entry.previous = ends;
  entry.next = entries_[ends].next;
  entries_[entry.next].previous = region;
  entries_[ends].next = region;
}

void Cache::unlink(std::uint32_t region) {
  const Entry& entry = entries_[region];
  entries_[entry.previous].next = entry.next;
  entries_[entry.next].previous = entry.previous;
}

// Drops the least recently used regions but `keep`, the last of them in part, until the rest fits.
// Returns the bytes written back.
double Cache::make_room(std::uint32_t keep) {
  const auto ends = static_cast<std::uint32_t>(region_bytes_.size());
  double written_back = 0;
  while (used_ > capacity_) {
    const std::uint32_t victim = entries_[ends].previous;
    if (victim == ends) break;
    Entry& entry = entries_[victim];
    const double dropped = std::min(entry.resident, used_ - capacity_);
    const double share = entry.resident > 0 ? dropped / entry.resident : 1;
    written_back += entry.dirty * share;
    entry.dirty -= entry.dirty * share;
    entry.resident -= dropped;
    used_ -= dropped;
    if (victim == keep) break;  // larger than the whole cache
    if (entry.resident <= 0) {
      unlink(victim);
      entry = {};
    }
  }
  return written_back;
}

}  // namespace megaconv::sim
