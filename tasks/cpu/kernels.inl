// SPDX-License-Identifier: Apache-2.0
// The task bodies of one instruction set, as a table. kernels_<isa>.cpp defines MEGACONV_ISA and
// MEGACONV_LANES and includes this.
#pragma once

#include "tasks/cpu/filter_transform.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/direct/cpu/direct.inl"
#include "tasks/elementwise/cpu/elementwise.inl"
#include "tasks/pooling/cpu/pooling.inl"
#include "tasks/winograd/cpu/gemm.inl"
#include "tasks/winograd/cpu/input_transform.inl"
#include "tasks/winograd/cpu/output_transform.inl"

#define MEGACONV_TEXT(name) #name
#define MEGACONV_NAME_OF(macro) MEGACONV_TEXT(macro)

namespace megaconv::cpu::MEGACONV_ISA {

extern const Kernels kKernels;
const Kernels kKernels = {
    .isa = MEGACONV_NAME_OF(MEGACONV_ISA),
    .scratch_bytes = scratch_bytes,
    .u_bytes = u_bytes,
    .by_kind = {{filter_transform<float>, input_transform<float>, gemm, output_transform<float>,
                 direct<float>},
                {filter_transform<Float16>, input_transform<Float16>, gemm,
                 output_transform<Float16>, direct<Float16>},
                {filter_transform<Bfloat16>, input_transform<Bfloat16>, gemm,
                 output_transform<Bfloat16>, direct<Bfloat16>},
                // Winograd's transforms would not be exact.
                {filter_packing<Int8>, nullptr, nullptr, nullptr, direct_convolution<Int8>}},
};

}  // namespace megaconv::cpu::MEGACONV_ISA
