// SPDX-License-Identifier: Apache-2.0
// Which table of elementwise bodies goes with an instruction set.
#include "tasks/elementwise/cpu/elementwise.hpp"

#include "tasks/cpu/kernels.hpp"

namespace megaconv::cpu {

#if defined(__x86_64__)
namespace avx512 {
extern const ElementwiseKernels kElementwiseKernels;
}
namespace avx2 {
extern const ElementwiseKernels kElementwiseKernels;
}
#endif
namespace portable {
extern const ElementwiseKernels kElementwiseKernels;
}

const ElementwiseKernels& elementwise_kernels_for(std::string_view isa) {
  [[maybe_unused]] const std::string_view name = kernels_for(isa).isa;
#if defined(__x86_64__)
  // Products of narrow numbers, which there are none of, make the difference among these.
  if (name.starts_with("avx512")) return avx512::kElementwiseKernels;
  if (name == "avx2") return avx2::kElementwiseKernels;
#endif
  return portable::kElementwiseKernels;
}

}  // namespace megaconv::cpu
