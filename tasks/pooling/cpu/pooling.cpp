// SPDX-License-Identifier: Apache-2.0
// Which table of pooling bodies goes with an instruction set.
#include "tasks/pooling/cpu/pooling.hpp"

#include <string>

#include "megaconv/error.hpp"
#include "tasks/cpu/operators.hpp"
#include "tasks/pooling/operator.hpp"

namespace megaconv::cpu {

#if defined(MEGACONV_BODIES_avx512)
namespace avx512 {
extern const PoolKernels kPoolKernels;
}
#endif
#if defined(MEGACONV_BODIES_avx2)
namespace avx2 {
extern const PoolKernels kPoolKernels;
}
#endif
#if defined(MEGACONV_BODIES_portable)
namespace portable {
extern const PoolKernels kPoolKernels;
}
#endif

const PoolKernels& pool_kernels_for(std::string_view isa) {
  const std::string_view name = kernels_for(isa).isa;
#if defined(MEGACONV_BODIES_avx512)
  // Products of narrow numbers, which pooling has none of, make the difference among these.
  if (name.starts_with("avx512")) return avx512::kPoolKernels;
#endif
#if defined(MEGACONV_BODIES_avx2)
  if (name == "avx2") return avx2::kPoolKernels;
#endif
#if defined(MEGACONV_BODIES_portable)
  if (name == "portable") return portable::kPoolKernels;
#endif
  throw Error(Status::internal, "no pooling for instruction set " + std::string(name));
}

NodeTasks node_tasks(const PoolCut& cut, const Kernels& kernels) {
  const PoolFunction body = pool_kernels_for(kernels.isa).run(cut.problem.dtype);
  NodeTasks tasks;
  tasks.run = [&cut, body](const TaskArgs& pointers, const Task& task, std::byte* scratch) {
    body({.cut = &cut, .x = pointers.x, .y = pointers.y}, task.group, task.block, scratch);
  };
  return tasks;
}

}  // namespace megaconv::cpu
