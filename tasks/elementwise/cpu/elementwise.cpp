// SPDX-License-Identifier: Apache-2.0
// Which table of elementwise bodies goes with an instruction set.
#include "tasks/elementwise/cpu/elementwise.hpp"

#include <string>

#include "megaconv/error.hpp"
#include "tasks/cpu/operators.hpp"
#include "tasks/elementwise/operator.hpp"

namespace megaconv::cpu {

#if defined(MEGACONV_BODIES_avx512)
namespace avx512 {
extern const ElementwiseKernels kElementwiseKernels;
}
#endif
#if defined(MEGACONV_BODIES_avx2)
namespace avx2 {
extern const ElementwiseKernels kElementwiseKernels;
}
#endif
#if defined(MEGACONV_BODIES_portable)
namespace portable {
extern const ElementwiseKernels kElementwiseKernels;
}
#endif

const ElementwiseKernels& elementwise_kernels_for(std::string_view isa) {
  const std::string_view name = kernels_for(isa).isa;
#if defined(MEGACONV_BODIES_avx512)
  // Products of narrow numbers, which there are none of, make the difference among these.
  if (name.starts_with("avx512")) return avx512::kElementwiseKernels;
#endif
#if defined(MEGACONV_BODIES_avx2)
  if (name == "avx2") return avx2::kElementwiseKernels;
#endif
#if defined(MEGACONV_BODIES_portable)
  if (name == "portable") return portable::kElementwiseKernels;
#endif
  throw Error(Status::internal, "no elementwise for instruction set " + std::string(name));
}

NodeTasks node_tasks(const ElementwiseCut& cut, const Kernels& kernels) {
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

}  // namespace megaconv::cpu
