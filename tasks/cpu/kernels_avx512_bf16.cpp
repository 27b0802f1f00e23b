// SPDX-License-Identifier: Apache-2.0
// The tasks that are others where AVX-512 has products of BF16 pairs; dispatch.cpp takes the rest
// from kernels_avx512.cpp.
#define MEGACONV_ISA avx512_bf16
#define MEGACONV_LANES 16
#include "tasks/cpu/filter_transform.inl"
#include "tasks/direct/cpu/direct.inl"

namespace megaconv::cpu::MEGACONV_ISA {

extern const TaskFunction kFilterTransform, kDirect;
const TaskFunction kFilterTransform = filter_transform<Bfloat16>;
const TaskFunction kDirect = direct<Bfloat16>;

}  // namespace megaconv::cpu::MEGACONV_ISA
