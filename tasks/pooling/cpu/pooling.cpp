// SPDX-License-Identifier: Apache-2.0
// Which table of pooling bodies goes with an instruction set.
#include "tasks/pooling/cpu/pooling.hpp"

#include "tasks/cpu/kernels.hpp"

namespace megaconv::cpu {

#if defined(__x86_64__)
namespace avx512 {
extern const PoolKernels kPoolKernels;
}
namespace avx2 {
extern const PoolKernels kPoolKernels;
}
#endif
namespace portable {
extern const PoolKernels kPoolKernels;
}

const PoolKernels& pool_kernels_for(std::string_view isa) {
  [[maybe_unused]] const std::string_view name = kernels_for(isa).isa;
#if defined(__x86_64__)
  // Products of narrow numbers, which pooling has none of, make the difference among these.
  if (name.starts_with("avx512")) return avx512::kPoolKernels;
  if (name == "avx2") return avx2::kPoolKernels;
#endif
  return portable::kPoolKernels;
}

}  // namespace megaconv::cpu
