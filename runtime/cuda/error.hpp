// SPDX-License-Identifier: Apache-2.0
// CUDA return codes as megaconv errors.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "megaconv/error.hpp"

namespace megaconv::cuda {

/// Throws Error(out_of_memory) or Error(device_error) with what was being done and CUDA's own
/// words. The error is taken off the runtime's record, so that the context stays usable where CUDA
/// leaves it so.
inline void check(cudaError_t code, const std::string& doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw Error(code == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::device_error,
              doing + ": " + cudaGetErrorString(code));
}

/// Throws when the caller's earlier CUDA calls failed, so that their failure is not taken for ours.
inline void check_nothing_left() {
  const cudaError_t code = cudaPeekAtLastError();
  if (code != cudaSuccess) {
    throw Error(Status::device_error, std::string("an earlier CUDA call of the caller failed: ") +
                                          cudaGetErrorString(code));
  }
}

}  // namespace megaconv::cuda
