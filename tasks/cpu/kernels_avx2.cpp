// SPDX-License-Identifier: Apache-2.0
#define MEGACONV_ISA avx2
#define MEGACONV_LANES 8
#include "tasks/cpu/kernels.inl"
