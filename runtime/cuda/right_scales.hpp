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
  /// Of so many convolutions. Memory is taken when the first of them asks for its scale.
  explicit RightScales(std::size_t count) : count_(count) {}
  ~RightScales() {
    if (scales_ != nullptr) cudaFreeHost(scales_);
  }
  RightScales(const RightScales&) = delete;
  RightScales& operator=(const RightScales&) = delete;
  /// Of the index-th convolution.
  float* of(std::size_t index) {
    if (scales_ == nullptr) {
      check(cudaHostAlloc(reinterpret_cast<void**>(&scales_), count_ * sizeof(float),
                          cudaHostAllocPortable),
            "page-locked memory for scales");
    }
    return scales_ + index;
  }

 private:
  const std::size_t count_;
  float* scales_ = nullptr;
};

/// A scale that a kernel may be writing.
inline float load_scale(float* scale) {
  return std::atomic_ref<float>(*scale).load(std::memory_order_relaxed);
}

}  // namespace megaconv::cuda
