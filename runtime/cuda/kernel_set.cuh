// SPDX-License-Identifier: Apache-2.0
// Instantiates the kernels of one variant.
#pragma once

#include <algorithm>
#include <string>

#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/megakernel.cuh"

namespace megaconv::cuda {

/// Kinds of task that depend on none of each other, and run side by side in one stage.
template <TaskKind... kKinds>
struct Stage {
  template <class Kernel>
  static void add_to(KernelSet& set) {
    const int shared_bytes = std::max({Kernel::shared_bytes(kKinds)...});
    ((set.stage[static_cast<int>(kKinds)] =
          reinterpret_cast<const void*>(&stage_kernel<Kernel, kKinds...>),
      set.shared_bytes[static_cast<int>(kKinds)] = shared_bytes),
     ...);
    set.most_shared_bytes = std::max(set.most_shared_bytes, shared_bytes);
  }
};

/// A stage whose tasks are the same for several kernels: they share that of `Owner`.
template <class Owner, TaskKind... kKinds>
struct SharedStage {
  template <class Kernel>
  static void add_to(KernelSet& set) {
    static_assert(Kernel::kThreads == Owner::kThreads);
    Stage<kKinds...>::template add_to<Owner>(set);
  }
};

/// Blocks take tasks in turn: Tasks::run() computes those of a block.
template <class Tasks>
__global__ void __launch_bounds__(Tasks::kThreads, Tasks::kBlocksPerSm)
    turns_kernel(const __grid_constant__ TaskArgs args, const Task* tasks,
                 std::uint32_t num_tasks) {
  extern __shared__ __align__(128) std::byte shared[];
  let_next_start();
  Tasks::run(args, tasks, num_tasks, shared, [] { wait_for_kernel_before(); });
}

/// A stage of direct tasks in turn, in the place of the one that a set has.
template <class Tasks>
void replace_direct_stage(KernelSet& set, int shared_bytes) {
  constexpr int kIndex = static_cast<int>(TaskKind::direct);
  set.stage[kIndex] = reinterpret_cast<const void*>(&turns_kernel<Tasks>);
  set.streams[kIndex] = true;
  set.shared_bytes[kIndex] = shared_bytes;
}

/// Kernel, or the variant of it that it has for stages.
template <class Kernel>
struct KernelInStages {
  using Type = Kernel;
};
template <class Kernel>
requires requires { typename Kernel::InStages; }
struct KernelInStages<Kernel> {
  using Type = typename Kernel::InStages;
};

/// With this persistent kernel. `Stages`: those of Kernel's tasks.
template <class Kernel, class... Stages>
KernelSet make_kernel_set(std::string name, const void* persistent) {
  KernelSet set{};
  set.name = std::move(name);
  set.num_threads = Kernel::kThreads;
  set.megakernel = persistent;
  (Stages::template add_to<typename KernelInStages<Kernel>::Type>(set), ...);
  return set;
}
/// With the megakernel.
template <class Kernel, class... Stages>
KernelSet make_kernel_set(std::string name) {
  return make_kernel_set<Kernel, Stages...>(std::move(name),
                                            reinterpret_cast<const void*>(&megakernel<Kernel>));
}

}  // namespace megaconv::cuda
