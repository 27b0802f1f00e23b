// SPDX-License-Identifier: Apache-2.0
// How tasks of implicit GEMM walk through padded pixels and taps.
#pragma once

#include <cstdint>

#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// From a padded pixel to the input under its taps, one tap after the other; padded pixels are
/// place_size apart.
class TapOffsets {
 public:
  __device__ TapOffsets(const TaskArgs& a, int place_size)
      : cols_(a.s),
        step_(a.dilation_w * place_size),
        to_next_row_(a.dilation_h * a.stripes.row() * place_size - a.s * step_) {}
  __device__ void restart() { offset_ = col_ = 0; }
  __device__ int next() {
    const int offset = offset_;
    offset_ += step_;
    if (++col_ == cols_) col_ = 0, offset_ += to_next_row_;
    return offset;
  }

 private:
  const int cols_, step_, to_next_row_;
  int offset_ = 0, col_ = 0;
};

}  // namespace megaconv::cuda
