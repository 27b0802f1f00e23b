// SPDX-License-Identifier: Apache-2.0
// What the tasks of a tiling are told, and the memory that they share.
#pragma once

#include <cstddef>

#include "runtime/cuda/kernels.hpp"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// The numbers for these kernels' tasks; pointers and tensor maps are left out.
TaskArgs make_task_args(const Tiling& tiling, const KernelSet& kernels);

/// Numbers of an OperandFooter in front of its magnitudes.
inline constexpr std::size_t kFooterNumbers = 3;

/// What tasks leave to others, each in one piece.
struct TaskMemory {
  std::size_t u_bytes = 0;       ///< transformed or packed filters, their footer included
  std::size_t v_bytes = 0;       ///< all slots; of implicit GEMM, copies of x
  std::size_t m_bytes = 0;       ///< all slots
  std::size_t footer_bytes = 0;  ///< OperandFooter of x; 0 if nothing is guessed
};

/// For these arguments; num_filter_tasks also counts those that prepare filters ahead.
TaskMemory memory_of_tasks(const Tiling& tiling, const KernelSet& kernels, const TaskArgs& args,
                           std::size_t num_filter_tasks);

}  // namespace megaconv::cuda
