// SPDX-License-Identifier: Apache-2.0
// What a task asks of a machine: operations, bytes, and the regions of memory that it touches.
//
// Everything follows from the tiling's counts, not from what a kernel does. Regions are the pieces
// that tasks share; the cache model keeps or drops each as a whole:
//
//   U   one a GEMM block (SG)       written by F, read by the G (or D) of every group
//   V   one a slot (v_slots)        written by I, read by G
//   M   one a slot (m_slots)        written by G, read by O
//   x   one an input task (NG SI)   read by I, whose border rows neighbours read too
//   y   one an output task (NG SO)  written by O
//   w   one a filter task (NF)      read by F
//
// In a direct graph x has one region a group and y one a direct task.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/mapping.hpp"

namespace megaconv::sim {

/// Which of the paper's types of reuse (section 5.4) a touch is.
enum class ReuseType : std::uint8_t { none, input_rows, filters, products };
inline constexpr std::size_t kNumReuseTypes = 4;

struct Touch {
  std::uint32_t region = 0;
  bool write = false;
  ReuseType reuse = ReuseType::none;
  double bytes = 0;
};

class Demands {
 public:
  explicit Demands(const TaskGraph& graph);

  /// Operations that the task executes (KindModel says what counts).
  double operations(const Task& task) const;
  /// Bytes between the worker and the shared cache.
  double l2_bytes(const Task& task) const;
  /// Regions that the task reads and writes, in that order. `touches` is overwritten.
  void list_touches(const Task& task, std::vector<Touch>& touches) const;
  /// Bytes of each region.
  const std::vector<double>& region_bytes() const { return region_bytes_; }
  /// Bytes of x, w and y: what a run moves to and from memory at the least.
  double compulsory_bytes() const { return compulsory_bytes_; }

 private:
  struct Range {
    std::uint32_t first = 0, count = 0;
    std::uint32_t operator[](std::uint32_t index) const { return first + index; }
  };
  Range add_regions(std::uint32_t count, double bytes);
  void set_up_winograd();
  void set_up_direct();
  double group_share(std::uint32_t group) const;
  void touch_filters(const Task& task, std::vector<Touch>& touches) const;
  void touch_input(const Task& task, std::vector<Touch>& touches) const;

  const Tiling& tiling_;
  Range u_, v_, m_, x_, y_, w_;
  std::vector<double> region_bytes_;
  double operations_[kNumTaskKinds] = {};
  double l2_bytes_[kNumTaskKinds] = {};
  double u_part_ = 0;  // of one GEMM block
  double v_read_ = 0;  // by one GEMM task
  double v_part_ = 0, m_written_ = 0, m_read_ = 0;
  double x_part_ = 0, x_border_ = 0;  // by one input (or direct) task: its own; from neighbours
  double y_part_ = 0, w_part_ = 0;
  std::uint32_t neighbour_ = 1;  // groups from one to the next that shares rows with it
  double compulsory_bytes_ = 0;
};

}  // namespace megaconv::sim
