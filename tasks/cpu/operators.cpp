// SPDX-License-Identifier: Apache-2.0
#include "tasks/cpu/operators.hpp"

#include <string>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/cpu/extents.hpp"
#include "tasks/operators.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::cpu {
namespace {

void check(const Tiling& tiling) {
  if (!algorithm_of(tiling).runs_on(Backend::cpu)) {
    throw Error(Status::unsupported,
                std::string(to_string(tiling.algorithm())) + ": backend cpu, must be cuda");
  }
  if (tiling.arithmetic != Arithmetic::fma) {
    throw Error(Status::unsupported, std::string("arithmetic ") + to_string(tiling.arithmetic) +
                                         ": backend cpu, must be cuda");
  }
}

}  // namespace

NodeTasks node_tasks(const Tiling& tiling, const Kernels& kernels) {
  check(tiling);
  const Extents extents(tiling);
  NodeTasks tasks;
  tasks.bytes.u = kernels.u_bytes(tiling);
  if (const Window* const window = tiling.window()) {  // else in scratch, or nowhere
    tasks.bytes.v = window->v_slots * extents.v_slot_bytes();
    tasks.bytes.m = window->m_slots * extents.m_slot_bytes();
  }
  tasks.bytes.scratch = kernels.scratch_bytes(tiling);
  tasks.run = [&tiling, &kernels](const TaskArgs& pointers, const Task& task, std::byte* scratch) {
    TaskArgs args = pointers;
    args.tiling = &tiling;
    kernels.run(tiling.problem.dtype, kind_of(task))(args, task.group, task.block, scratch);
  };
  return tasks;
}

NodeTasks node_tasks(const SmallGemmCut& cut, const Kernels&) {
  throw Error(Status::unsupported,
              "small-tile implicit GEMM of " + to_string(cut.problem) + ": must run on CUDA");
}
NodeTasks node_tasks(const InReaderCut& cut, const Kernels&) {
  throw Error(Status::unsupported,
              to_string(cut.problem) + " in the tasks that read it: must run on CUDA");
}

NodeTasks make_node_tasks(const Cut& cut, const Kernels& kernels) {
  return std::visit([&](const auto& of_room) { return node_tasks(of_room, kernels); }, cut);
}

}  // namespace megaconv::cpu
