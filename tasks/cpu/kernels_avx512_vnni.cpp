// SPDX-License-Identifier: Apache-2.0
// The task that is another where AVX-512 has products of INT8 quads; dispatch.cpp takes the rest
// from kernels_avx512.cpp.
#define MEGACONV_ISA avx512_vnni
#define MEGACONV_LANES 16
#include "tasks/direct/cpu/direct.inl"

namespace megaconv::cpu::MEGACONV_ISA {

extern const TaskFunction kDirect;
const TaskFunction kDirect = direct_convolution<Int8>;

}  // namespace megaconv::cpu::MEGACONV_ISA
