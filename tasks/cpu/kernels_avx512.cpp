// SPDX-License-Identifier: Apache-2.0
#define MEGACONV_ISA avx512
#define MEGACONV_LANES 16
#include "tasks/cpu/kernels.inl"
