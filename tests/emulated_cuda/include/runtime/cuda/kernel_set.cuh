// SPDX-License-Identifier: Apache-2.0
// In the place of the one that instantiates kernels: the "kernels" of a set are functions that run
// one task as one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "runtime/cuda/device_sync.cuh"
#include "runtime/cuda/kernels.hpp"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// What KernelSet::stage points to.
using EmulatedTask = void (*)(const TaskArgs& args, const Task& task, std::byte* shared);

/// The same of a stage whose blocks take tasks in turn.
using EmulatedTurns = void (*)(const TaskArgs& args, const Task* tasks, std::uint32_t num_tasks,
                               std::byte* shared);

template <class Tasks>
void replace_direct_stage(KernelSet& set, int shared_bytes) {
  constexpr int kIndex = static_cast<int>(TaskKind::direct);
  const EmulatedTurns run = [](const TaskArgs& args, const Task* tasks, std::uint32_t num_tasks,
                               std::byte* shared) {
    Tasks::run(args, tasks, num_tasks, shared, [] {});
  };
  set.stage[kIndex] = reinterpret_cast<const void*>(run);
  set.streams[kIndex] = true;
  set.shared_bytes[kIndex] = shared_bytes;
  set.most_shared_bytes = std::max(set.most_shared_bytes, shared_bytes);
}

template <TaskKind... kKinds>
struct Stage {
  template <class Kernel>
  static void add_to(KernelSet& set) {
    (add<Kernel, kKinds>(set), ...);
  }

 private:
  template <class Kernel, TaskKind kKind>
  static void add(KernelSet& set) {
    const EmulatedTask run = [](const TaskArgs& args, const Task& task, std::byte* shared) {
      Kernel::template run<kKind>(args, task, shared);
    };
    const int bytes = Kernel::shared_bytes(kKind);
    set.stage[static_cast<int>(kKind)] = reinterpret_cast<const void*>(run);
    set.shared_bytes[static_cast<int>(kKind)] = bytes;
    set.most_shared_bytes = std::max(set.most_shared_bytes, bytes);
  }
};

template <class Owner, TaskKind... kKinds>
struct SharedStage {
  template <class Kernel>
  static void add_to(KernelSet& set) {
    Stage<kKinds...>::template add_to<Owner>(set);
  }
};

template <class Kernel, class... Stages>
KernelSet make_kernel_set(std::string name) {
  KernelSet set{};
  set.name = std::move(name);
  set.num_threads = Kernel::kThreads;
  (Stages::template add_to<Kernel>(set), ...);
  return set;
}

}  // namespace megaconv::cuda
