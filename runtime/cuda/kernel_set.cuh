// SPDX-License-Identifier: Apache-2.0
// Instantiates the kernels of one variant.
#pragma once

#include <algorithm>
#include <string>

#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/megakernel.cuh"

namespace megaconv::cuda {

/// `kKinds`: the task kinds that Kernel has.
template <class Kernel, TaskKind... kKinds>
KernelSet make_kernel_set(std::string name) {
  KernelSet set{};
  set.name = std::move(name);
  set.num_threads = Kernel::kThreads;
  set.megakernel = reinterpret_cast<const void*>(&megakernel<Kernel>);
  ((set.stage[static_cast<int>(kKinds)] =
        reinterpret_cast<const void*>(&stage_kernel<Kernel, kKinds>),
    set.shared_bytes[static_cast<int>(kKinds)] = Kernel::shared_bytes(kKinds)),
   ...);
  set.most_shared_bytes = std::max({Kernel::shared_bytes(kKinds)...});
  return set;
}

}  // namespace megaconv::cuda
