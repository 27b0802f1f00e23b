// SPDX-License-Identifier: Apache-2.0
// What tasks are told of one run's tensors: where they lie, and by which tensor maps TMA reads and
// writes them.
#pragma once

#include "megaconv/plan.hpp"
#include "runtime/cuda/device_workspace.hpp"
#include "runtime/cuda/kernels.hpp"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// Adds pointers to `args`: those of the tensors, and of the parts of the workspace.
void add_pointers(TaskArgs& args, const Tensors& tensors, std::byte* workspace,
                  const DeviceWorkspace& layout);

/// Adds tensor maps, for kernels whose operands are not `loaded`. The pointers are there. Throws
/// Error(invalid_argument) for a tensor that is not aligned to 16 bytes.
void add_tensor_maps(TaskArgs& args, const Tensors& tensors, const ConvProblem& problem,
                     const KernelSet& kernels);

/// Adds that of x for kernels that load boxes (KernelSet), if it is aligned to 16 bytes; tasks load
/// another one themselves.
void add_box_map(TaskArgs& args, const ConvProblem& problem);

}  // namespace megaconv::cuda
