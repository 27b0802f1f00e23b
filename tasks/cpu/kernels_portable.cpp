// SPDX-License-Identifier: Apache-2.0
#define MEGACONV_ISA portable
#define MEGACONV_LANES 4
#include "tasks/cpu/kernels.inl"
