// SPDX-License-Identifier: Apache-2.0
// The CUDA device that a plan is made for, and checks of what its caller hands over.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/cuda/isa.hpp"

namespace megaconv::cuda {

struct Device {
  int id = 0;
  int num_sms = 0;
  int capability = 0;  ///< 90 for sm_90
  Isa isa = Isa::fma;  ///< that plans use
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes = 0;  ///< most that a block may ask for
  int sm_shared_bytes = 0;       ///< of all blocks of an SM
  std::string name;
};

/// The calling thread's current device. Throws Error(device_error) if there is none, if the driver
/// cannot be reached, or if an earlier CUDA call of the caller failed; Error(unsupported) for one
/// older than compute capability 7.5.
Device current_device();

/// Throws Error(invalid_argument) unless `device` is the calling thread's current one,
/// Error(device_error) if an earlier CUDA call of the caller failed.
void check_is_current(const Device& device);

/// Throws Error(invalid_argument), with the argument's name, for a pointer to memory of the host or
/// of another device. Null and managed memory pass.
void check_device_pointer(const char* name, const void* pointer, const Device& device);

}  // namespace megaconv::cuda
