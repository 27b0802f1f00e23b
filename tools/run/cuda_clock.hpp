// SPDX-License-Identifier: Apache-2.0
// Times on a CUDA device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tools/run/device.hpp"

namespace megaconv::cli {

/// Repeats `work` as a CUDA graph; every sample is the time between two events around one replay,
/// by the number of runs in it. Work that cannot be captured is enqueued as often instead.
class CudaClock {
 public:
  /// `sweep`: memory to overwrite before every sample, of `sweep_bytes`; null leaves the caches
  /// hot.
  CudaClock(Work work, void* sweep, std::size_t sweep_bytes);
  ~CudaClock();
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  /// Milliseconds of one run.
  double sample_ms();

 private:
  void enqueue_runs();
  void capture();

  Work work_;
  void* sweep_;
  std::size_t sweep_bytes_;
  int runs_ = 1;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;  // of runs_ runs; null: cannot be captured
};

}  // namespace megaconv::cli
