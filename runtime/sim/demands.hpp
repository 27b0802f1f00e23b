// SPDX-License-Identifier: Apache-2.0
// What a task asks of a machine: operations, bytes, and the pieces of buffers that it touches, from
// the costs of the graph's stages. A piece is what the cache model keeps or drops as a whole.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/graph.hpp"

namespace megaconv::sim {

/// Which of the paper's types of reuse (section 5.4) a touch is.
enum class ReuseType : std::uint8_t { none, input_rows, filters, products };
inline constexpr std::size_t kNumReuseTypes = 4;

struct Touch {
  std::uint32_t piece = 0;
  bool write = false;
  ReuseType reuse = ReuseType::none;
  double bytes = 0;
};

class Demands {
 public:
  explicit Demands(const TaskGraph& graph);

  /// Operations that the task executes (KindModel says what counts).
  double operations(std::uint32_t id) const;
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
