// SPDX-License-Identifier: Apache-2.0
// How the tasks of a node run on a CPU: the one thing that an executor needs of a room.
#pragma once

#include <cstddef>
#include <functional>

#include "megaconv/lowering.hpp"
#include "tasks/cpu/kernels.hpp"

namespace megaconv::cpu {

/// Bytes that the node's buffers take in this back end's layout, where they are not tensors.
struct NodeBytes {
  std::size_t u = 0, v = 0, m = 0;
  std::size_t scratch = 0;  ///< of every worker
};

/// The tasks of one node. `args` has the pointers of a run; args.tiling is not read.
struct NodeTasks {
  NodeBytes bytes;
  std::function<void(const TaskArgs& args, const Task& task, std::byte* scratch)> run;
};

/// The tasks of a node that is cut so. `cut` must outlive the result. Throws Error(unsupported) for
/// what has no tasks on a CPU.
NodeTasks make_node_tasks(const Cut& cut, const Kernels& kernels);

}  // namespace megaconv::cpu
