// SPDX-License-Identifier: Apache-2.0
// What the convolutions of a plan multiply x by before it becomes FP16. A run whose guess was wrong
// computes twice (redo.cuh). It leaves the scale that was right here, and runs that are enqueued
// later take it. Page-locked memory: a kernel writes it while the host may read it.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>

#include "runtime/cuda/error.hpp"

namespace megaconv::cuda {

class RightScales {
 public:
  explicit RightScales(std::size_t count) {
    if (count == 0) return;
    check(cudaHostAlloc(reinterpret_cast<void**>(&scales_), count * sizeof(float),
                        cudaHostAllocPortable),
          "page-locked memory for scales");
  }
  ~RightScales() {
    if (scales_ != nullptr) cudaFreeHost(scales_);
  }
  RightScales(const RightScales&) = delete;
  RightScales& operator=(const RightScales&) = delete;
  /// Of the index-th convolution.
  float* of(std::size_t index) const { return scales_ + index; }

 private:
  float* scales_ = nullptr;
};

/// A scale that a kernel may be writing.
inline float load_scale(float* scale) {
  return std::atomic_ref<float>(*scale).load(std::memory_order_relaxed);
}

}  // namespace megaconv::cuda
