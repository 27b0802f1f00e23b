// SPDX-License-Identifier: Apache-2.0
// In the place of the one that instantiates the kernel: a function that runs it as one thread.
#pragma once

#include "runtime/cuda/redo.cuh"

namespace megaconv::cuda {

/// What KernelSet::redo points to.
using EmulatedRedo = void (*)(const TaskArgs& args, const Task* tasks, std::uint32_t num_tasks,
                              std::uint32_t num_groups, std::byte* shared);

template <class Kernel>
void redo_kernel(const TaskArgs& args, const Task* tasks, std::uint32_t num_tasks,
                 std::uint32_t num_groups, std::byte* shared) {
  check_and_redo<Kernel>(args, tasks, num_tasks, num_groups, shared);
}

}  // namespace megaconv::cuda
