// SPDX-License-Identifier: Apache-2.0
// What lies where in the workspace of a CUDA run.
//
//   DeviceHeader | counters | positions given up | footer of V | V | M | U
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/arena.hpp"
#include "runtime/cuda/task_arguments.hpp"

namespace megaconv::cuda {

/// Offsets in bytes, and the size of all. The header is at 0.
struct DeviceWorkspace {
  std::size_t counters = 0;  ///< [num_counters] uint32
  std::size_t waiting = 0;   ///< [workers] uint32, DeviceRun::waiting
  std::size_t footer = 0, v = 0, m = 0, u = 0;
  std::size_t total = 0;
  std::uint32_t num_counters = 0;
};

/// Places the footer, V, M and, if asked for, U: what tasks leave to others.
void place_parts(DeviceWorkspace& layout, const TaskMemory& memory, bool keeps_u, Arena& arena);

/// For so many workers. `keeps_u`: U is in the workspace, not in prepared filters.
DeviceWorkspace lay_out_workspace(const TaskMemory& memory, std::uint32_t num_counters,
                                  std::uint32_t num_workers, bool keeps_u);

}  // namespace megaconv::cuda
