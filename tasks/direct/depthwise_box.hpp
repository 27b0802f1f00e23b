// SPDX-License-Identifier: Apache-2.0
// Depthwise tasks on CUDA whose x TMA loads, a box for each
// (tasks/direct/cuda/depthwise_boxes.cuh): which problems are for them, and how a block cuts its
// shared memory. For host and device code.
#pragma once

#include <cstdint>

#include "tasks/direct/direct_shapes.hpp"

namespace megaconv {

/// What a task reads of x, borders included. Shared memory of a block: its mbarriers, then stages
/// of a box each.
struct DepthwiseBox {
  static constexpr int kMostStages = 4, kLeastStages = 2, kBarrierBytes = 128;
  /// Of a block, where four or two share a multiprocessor.
  static constexpr int kQuarterBytes = 56 * 1024, kHalfBytes = 112 * 1024;

  int rows, cols, channels;
  int bytes, stage_bytes;
  int stages;  ///< none: there is no room

  constexpr int shared_bytes() const { return kBarrierBytes + stages * stage_bytes; }
  constexpr int blocks_per_sm() const {
    constexpr int kMost = 4, kSharedBytes = 228 * 1024, kOfBlock = 1024;
    const int blocks = kSharedBytes / (shared_bytes() + kOfBlock);
    return blocks < kMost ? blocks : kMost;
  }
};

/// Of square filters of `taps` rows, and tasks of so many rows and columns of y. Threads read what
/// whole tiles do.
constexpr DepthwiseBox depthwise_box(int taps, int stride, int rows, int cols, int channels,
                                     int element_bytes) {
  constexpr int kLine = 128, kMostExtent = 256;  // of TMA
  constexpr DirectShape kTile = depthwise_shape(Layout::nhwc);
  const auto extent = [=](int outputs, std::uint32_t tile) {
    const int whole = ceil_div(outputs, static_cast<int>(tile)) * static_cast<int>(tile);
    return (whole - 1) * stride + taps;
  };
  DepthwiseBox box{};
  box.rows = extent(rows, kTile.h_tile);
  box.cols = extent(cols, kTile.w_tile);
  box.channels = channels;
  box.bytes = box.rows * box.cols * channels * element_bytes;
  box.stage_bytes = (box.bytes + kLine - 1) / kLine * kLine;
  if (box.rows > kMostExtent || box.cols > kMostExtent || channels > kMostExtent) return box;
  for (const int room : {DepthwiseBox::kQuarterBytes, DepthwiseBox::kHalfBytes}) {
    const int fitting = (room - DepthwiseBox::kBarrierBytes) / box.stage_bytes;
    if (fitting < DepthwiseBox::kLeastStages) continue;
    box.stages = fitting < DepthwiseBox::kMostStages ? fitting : DepthwiseBox::kMostStages;
    break;
  }
  return box;
}

/// Of tasks of a problem that loads boxes.
inline DepthwiseBox depthwise_box(const ConvProblem& a, const DirectCut& cut) {
  const auto as_int = [](auto value) { return static_cast<int>(value); };
  return depthwise_box(
      as_int(a.r), as_int(a.stride_h), as_int(cut.rows_per_group), as_int(cut.cols_per_group),
      as_int(cut.filter_blocks_per_gemm_task * Tiling::kLaneBlock), as_int(size_of(a.dtype)));
}

/// Whether TMA can load boxes of x, and there are kernels for the filters.
inline bool loads_boxes(const ConvProblem& a) {
  constexpr std::int64_t kVector = 16;
  const bool square =
      a.r == a.s && a.stride_h == a.stride_w && a.dilation_h == 1 && a.dilation_w == 1;
  const bool compiled = (a.r == 3 || a.r == 5 || a.r == 7) && a.stride_h <= 2;
  return a.layout == Layout::nhwc && a.depthwise() && a.dtype != DataType::i8 && square &&
         compiled && a.c * static_cast<std::int64_t>(size_of(a.dtype)) % kVector == 0;
}

/// Tasks of a problem that loads boxes: those that are done soonest, and when, in microseconds.
struct BoxTasks {
  DirectCut cut;
  double us;
};
BoxTasks choose_boxes(const ConvProblem& problem, const Target& target);

}  // namespace megaconv
