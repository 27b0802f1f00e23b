// SPDX-License-Identifier: Apache-2.0
// A shared cache as a list of regions by last use. It holds as many of their bytes as fit, writes
// back what was written when it drops it, and does not fetch what is only written.
#pragma once

#include <cstdint>
#include <vector>

namespace megaconv::sim {

class Cache {
 public:
  Cache(double capacity, std::vector<double> region_bytes);

  struct Traffic {
    double hit_bytes = 0;  ///< of a read
    double hbm_bytes = 0;  ///< fetched, and written back to make room
  };

  /// `bytes` of the region are read, or written. A read finds the share of them that the cache has
  /// of the whole region.
  Traffic touch(std::uint32_t region, double bytes, bool write);

 private:
  struct Entry {
    double resident = 0, dirty = 0;        // bytes
    std::uint32_t previous = 0, next = 0;  // towards the most and the least recently used
    bool listed = false;
  };
  void move_to_front(std::uint32_t region);
  void unlink(std::uint32_t region);
  double make_room(std::uint32_t keep);

  double capacity_, used_ = 0;
  std::vector<double> region_bytes_;
  std::vector<Entry> entries_;  // by region; the last one is the ends of the list
};

}  // namespace megaconv::sim
