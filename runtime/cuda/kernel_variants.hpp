// SPDX-License-Identifier: Apache-2.0
// All variants of CUDA kernels, a line each.
//
//   name       compiled in <name>.cu, which defines <name>_kernels() (kernels.hpp)
//   algorithm  \ of the tilings that it runs
//   layout     /
//   isa        the least instructions that it needs; it is not used where there is one that needs
//   more condition  what else is true of a tiling `t` that it runs; no two of the same instructions
//   share
//              a tiling. kernels.cpp has the functions.
#pragma once

#define MEGACONV_CUDA_VARIANTS(VARIANT)                                                      \
  VARIANT(winograd_2_nchw, winograd, nchw, fma, multiplies_floats(t, 2))                     \
  VARIANT(winograd_2_nhwc, winograd, nhwc, fma, multiplies_floats(t, 2))                     \
  VARIANT(winograd_4_nchw, winograd, nchw, fma, multiplies_floats(t, 4))                     \
  VARIANT(winograd_4_nhwc, winograd, nhwc, fma, multiplies_floats(t, 4))                     \
  VARIANT(winograd_mma_nchw, winograd, nchw, mma, t.arithmetic != Arithmetic::fma)           \
  VARIANT(winograd_mma_nhwc, winograd, nhwc, mma, t.arithmetic != Arithmetic::fma)           \
  VARIANT(winograd_split_2_nchw, winograd, nchw, wgmma, uses(t, Arithmetic::split_f16, 2))   \
  VARIANT(winograd_split_2_nhwc, winograd, nhwc, wgmma, uses(t, Arithmetic::split_f16, 2))   \
  VARIANT(winograd_split_4_nchw, winograd, nchw, wgmma, uses(t, Arithmetic::split_f16, 4))   \
  VARIANT(winograd_split_4_nhwc, winograd, nhwc, wgmma, uses(t, Arithmetic::split_f16, 4))   \
  VARIANT(winograd_f16_4_nchw, winograd, nchw, wgmma, uses(t, Arithmetic::f16, 4))           \
  VARIANT(winograd_f16_4_nhwc, winograd, nhwc, wgmma, uses(t, Arithmetic::f16, 4))           \
  VARIANT(direct_nchw, direct, nchw, fma, adds_products(t, DataType::f32))                   \
  VARIANT(direct_nhwc, direct, nhwc, fma, adds_products(t, DataType::f32))                   \
  VARIANT(direct_f16_nchw, direct, nchw, fma, adds_products(t, DataType::f16))               \
  VARIANT(direct_f16_nhwc, direct, nhwc, fma, adds_products(t, DataType::f16))               \
  VARIANT(direct_bf16_nchw, direct, nchw, fma, adds_products(t, DataType::bf16))             \
  VARIANT(direct_bf16_nhwc, direct, nhwc, fma, adds_products(t, DataType::bf16))             \
  VARIANT(depthwise_f32, direct, nhwc, wgmma, has_boxes(t, DataType::f32))                   \
  VARIANT(depthwise_f16, direct, nhwc, wgmma, has_boxes(t, DataType::f16))                   \
  VARIANT(depthwise_bf16, direct, nhwc, wgmma, has_boxes(t, DataType::bf16))                 \
  VARIANT(direct_mma_tf32, direct, nhwc, mma, t.arithmetic == Arithmetic::tf32)              \
  VARIANT(direct_mma_f16, direct, nhwc, mma, t.arithmetic == Arithmetic::f16)                \
  VARIANT(direct_mma_bf16, direct, nhwc, mma, t.arithmetic == Arithmetic::bf16)              \
  VARIANT(opencnn_nchw, opencnn, nchw, fma, true)                                            \
  VARIANT(opencnn_nhwc, opencnn, nhwc, fma, true)                                            \
  VARIANT(opencnn_chwn, opencnn, chwn, fma, true)                                            \
  VARIANT(implicit_gemm_split_64_nchw, implicit_gemm, nchw, wgmma, splits(t, 64))            \
  VARIANT(implicit_gemm_split_128_nchw, implicit_gemm, nchw, wgmma, splits(t, 128))          \
  VARIANT(implicit_gemm_rounded_nchw, implicit_gemm, nchw, wgmma, rounds(t))                 \
  VARIANT(implicit_gemm_split_64_nhwc, implicit_gemm, nhwc, wgmma, splits(t, 64))            \
  VARIANT(implicit_gemm_split_128_nhwc, implicit_gemm, nhwc, wgmma, splits(t, 128))          \
  VARIANT(implicit_gemm_rounded_nhwc, implicit_gemm, nhwc, wgmma, rounds(t))                 \
  VARIANT(implicit_gemm_f16_nchw, implicit_gemm, nchw, wgmma, loads(t, DataType::f16))       \
  VARIANT(implicit_gemm_f16_nhwc, implicit_gemm, nhwc, wgmma, loads(t, DataType::f16))       \
  VARIANT(implicit_gemm_bf16_nchw, implicit_gemm, nchw, wgmma, loads(t, DataType::bf16))     \
  VARIANT(implicit_gemm_bf16_nhwc, implicit_gemm, nhwc, wgmma, loads(t, DataType::bf16))     \
  VARIANT(implicit_gemm_f16_in_place, implicit_gemm, nhwc, wgmma, reads(t, DataType::f16))   \
  VARIANT(implicit_gemm_bf16_in_place, implicit_gemm, nhwc, wgmma, reads(t, DataType::bf16)) \
  VARIANT(implicit_gemm_f16_wide_in_place, implicit_gemm, nhwc, wgmma,                       \
          reads(t, DataType::f16, Operands::in_tensor_wide))                                 \
  VARIANT(implicit_gemm_bf16_wide_in_place, implicit_gemm, nhwc, wgmma,                      \
          reads(t, DataType::bf16, Operands::in_tensor_wide))                                \
  VARIANT(implicit_gemm_f16_tall_in_place, implicit_gemm, nhwc, wgmma,                       \
          reads(t, DataType::f16, Operands::in_tensor_tall))                                 \
  VARIANT(implicit_gemm_bf16_tall_in_place, implicit_gemm, nhwc, wgmma,                      \
          reads(t, DataType::bf16, Operands::in_tensor_tall))                                \
  VARIANT(implicit_gemm_tf32_in_place, implicit_gemm, nhwc, wgmma,                           \
          operands_of(t) == Operands::in_float_tensor)                                       \
  VARIANT(implicit_gemm_tf32_wide_in_place, implicit_gemm, nhwc, wgmma,                      \
          operands_of(t) == Operands::in_float_tensor_wide)                                  \
  VARIANT(implicit_gemm_tf32_tall_in_place, implicit_gemm, nhwc, wgmma,                      \
          operands_of(t) == Operands::in_float_tensor_tall)                                  \
  VARIANT(implicit_gemm_rounded_in_place, implicit_gemm, nhwc, wgmma,                        \
          operands_of(t) == Operands::in_copy)                                               \
  VARIANT(implicit_gemm_converted_in_place, implicit_gemm, nhwc, wgmma,                      \
          operands_of(t) == Operands::converted)                                             \
  VARIANT(implicit_gemm_converted_tall_in_place, implicit_gemm, nhwc, wgmma,                 \
          operands_of(t) == Operands::converted_tall)                                        \
  VARIANT(implicit_gemm_split_tall_in_place, implicit_gemm, nhwc, wgmma,                     \
          operands_of(t) == Operands::split_tall)                                            \
  VARIANT(small_gemm_f32, small_gemm, nhwc, mma, multiplies(t, Precision::f32))              \
  VARIANT(small_gemm_tf32, small_gemm, nhwc, mma, multiplies(t, Precision::tf32))            \
  VARIANT(small_gemm_f16, small_gemm, nhwc, mma, multiplies(t, Precision::f16))              \
  VARIANT(small_gemm_bf16, small_gemm, nhwc, mma, multiplies(t, Precision::bf16))
