// SPDX-License-Identifier: Apache-2.0
// Which table of elementwise bodies goes with an instruction set.
#include "tasks/elementwise/cpu/elementwise.hpp"

#include <string>

#include "megaconv/error.hpp"
#include "tasks/cpu/kernels.hpp"

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

}  // namespace megaconv::cpu
