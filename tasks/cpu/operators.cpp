// SPDX-License-Identifier: Apache-2.0
#include "tasks/cpu/operators.hpp"

#include <string>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/cpu/extents.hpp"
#include "tasks/elementwise/cpu/elementwise.hpp"
#include "tasks/pixelwise/cpu/pixelwise.hpp"
#include "tasks/pooling/cpu/pooling.hpp"
#include "tasks/rearrangement/cpu/rearrangement.hpp"
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

NodeTasks make(const Tiling& tiling, const Kernels& kernels) {
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

NodeTasks make(const PoolCut& cut, const Kernels& kernels) {
  const PoolFunction body = pool_kernels_for(kernels.isa).run(cut.problem.dtype);
  NodeTasks tasks;
  tasks.run = [&cut, body](const TaskArgs& pointers, const Task& task, std::byte* scratch) {
    body({.cut = &cut, .x = pointers.x, .y = pointers.y}, task.group, task.block, scratch);
  };
  return tasks;
}

NodeTasks make(const ElementwiseCut& cut, const Kernels& kernels) {
  const ElementwiseFunction body = elementwise_kernels_for(kernels.isa).run(cut.problem.dtype);
  NodeTasks tasks;
  tasks.run = [&cut, body](const TaskArgs& pointers, const Task& task, std::byte*) {
    body({.cut = &cut,
          .x = pointers.inputs,
          .residual = pointers.residual,
          .scale = static_cast<const float*>(pointers.scale),
          .bias = static_cast<const float*>(pointers.bias),
          .y = pointers.y},
         task.group);
  };
  return tasks;
}

NodeTasks make(const PixelwiseCut& cut, const Kernels&) {
  NodeTasks tasks;
  tasks.run = [&cut](const TaskArgs& pointers, const Task& task, std::byte*) {
    run_pixelwise({.cut = &cut, .x = pointers.x, .b = pointers.residual, .y = pointers.y},
                  task.group);
  };
  return tasks;
}

NodeTasks make(const RearrangementCut& cut, const Kernels&) {
  NodeTasks tasks;
  tasks.run = [&cut](const TaskArgs& pointers, const Task& task, std::byte*) {
    run_rearrangement({.cut = &cut, .x = pointers.x, .y = pointers.y}, task.group);
  };
  return tasks;
}

NodeTasks make(const SmallGemmCut& cut, const Kernels&) {
  throw Error(Status::unsupported,
              "small-tile implicit GEMM of " + to_string(cut.problem) + ": must run on CUDA");
}

}  // namespace

NodeTasks make_node_tasks(const Cut& cut, const Kernels& kernels) {
  return std::visit([&](const auto& of_room) { return make(of_room, kernels); }, cut);
}

}  // namespace megaconv::cpu
