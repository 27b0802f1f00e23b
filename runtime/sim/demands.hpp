// SPDX-License-Identifier: Apache-2.0
// What a task asks of a machine: operations, bytes, and the pieces of buffers that it touches, from
// the costs of the graph's stages. A piece is what the cache model keeps or drops as a whole.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/machine.hpp"

namespace megaconv::sim {

/// How long a worker is at a task, in nanoseconds, traffic of caches and memory aside.
struct Work {
  double prepare_ns = 0;  ///< before its wait
  double alone_ns = 0;    ///< behind it, if no other worker of its unit works
  double unit_ns = 0;     ///< of its unit's time, which the unit's workers share
  double after_ns = 0;    ///< then
};

/// Which of the paper's types of reuse (section 5.4) a touch is.
enum class ReuseType : std::uint8_t { none, input_rows, filters, products };
inline constexpr std::size_t kNumReuseTypes = 4;

struct Touch {
  std::uint32_t piece = 0;
  bool write = false;
  ReuseType reuse = ReuseType::none;
  double bytes = 0;
};

/// The machine, with what it has for networks if there are tasks whose time is known.
MachineModel machine_for(const TaskGraph& graph, const MachineModel& machine);

class Demands {
 public:
  explicit Demands(const TaskGraph& graph);

  /// What is known of the task's time, or what its operations take on that machine.
  Work work(std::uint32_t id, const MachineModel& machine) const;
  /// Bytes between the worker and the shared cache.
  double l2_bytes(std::uint32_t id) const;
  /// Pieces that the task reads and writes, in that order. `touches` is overwritten.
  void list_touches(std::uint32_t id, std::vector<Touch>& touches) const;
  /// Bytes of each piece.
  const std::vector<double>& piece_bytes() const { return piece_bytes_; }
  /// What a run moves to and from memory at the least: buffers that are given, but for prepared
  /// filters, and those that nobody reads.
  double compulsory_bytes() const { return compulsory_bytes_; }

 private:
  struct Pieces {
    std::uint32_t first = 0, count = 0;
  };
  void make_pieces();
  /// Operations that the task executes (KindModel says what counts).
  double operations(std::uint32_t id) const;
  double share_of(std::uint32_t id, const Stage& stage) const;
  ReuseType reuse_of(const Stage& stage, const Traffic& traffic) const;
  void touch_evenly(const Stage& stage, const Traffic& traffic, const Task& task,
                    std::vector<Touch>& touches) const;

  const TaskGraph& graph_;
  std::vector<Pieces> pieces_;                     // by buffer
  std::vector<bool> written_, read_, is_filters_;  // by buffer
  std::vector<std::uint64_t> full_size_;  // by stage: elements that its largest task writes
  std::vector<double> piece_bytes_;
  double compulsory_bytes_ = 0;
};

}  // namespace megaconv::sim
