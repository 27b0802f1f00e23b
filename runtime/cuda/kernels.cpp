// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/kernels.hpp"

#include "mapping/stripes.hpp"
#include "mapping/tiling.hpp"
#include "megaconv/error.hpp"

namespace megaconv::cuda {

namespace {

// The least that its products need.
Isa needed_isa(const Tiling& tiling) {
  if (tiling.algorithm == Algorithm::implicit_gemm) return Isa::wgmma;
  const bool tensor_cores =
      tiling.algorithm == Algorithm::winograd && tiling.arithmetic != Arithmetic::fma;
  return tensor_cores ? Isa::mma : Isa::fma;
}

}  // namespace

KernelSet kernels_for(const Tiling& tiling, Isa isa) {
  const Isa needed = needed_isa(tiling);
  if (isa < needed) {
    throw Error(Status::unsupported,
                std::string(to_string(tiling.algorithm)) + ", arithmetic " +
                    to_string(tiling.arithmetic) + ": instruction set " + to_string(isa) +
                    ", must be " + (needed == Isa::mma ? "mma (compute capability 8.0) or " : "") +
                    "wgmma (compute capability 9.0); MEGACONV_CUDA_ISA chooses");
  }
  const bool nchw = tiling.problem.layout == Layout::nchw;
  if (tiling.algorithm == Algorithm::direct) {
    return nchw ? direct_nchw_kernels(tiling) : direct_nhwc_kernels(tiling);
  }
  if (tiling.algorithm == Algorithm::implicit_gemm) {
    const DataType dtype = tiling.problem.dtype;
    switch (operands_of(tiling)) {
      case Operands::in_tensor:
        return dtype == DataType::f16 ? implicit_gemm_f16_in_place_kernels(tiling)
                                      : implicit_gemm_bf16_in_place_kernels(tiling);
      case Operands::in_float_tensor:
        return implicit_gemm_tf32_in_place_kernels(tiling);
      case Operands::in_copy:
        return implicit_gemm_rounded_in_place_kernels(tiling);
      case Operands::converted:
        return implicit_gemm_converted_in_place_kernels(tiling);
      case Operands::loaded:
        break;
    }
    switch (dtype) {
      case DataType::f16:
        return nchw ? implicit_gemm_f16_nchw_kernels(tiling)
                    : implicit_gemm_f16_nhwc_kernels(tiling);
      case DataType::bf16:
        return nchw ? implicit_gemm_bf16_nchw_kernels(tiling)
                    : implicit_gemm_bf16_nhwc_kernels(tiling);
      default:
        return nchw ? implicit_gemm_nchw_kernels(tiling) : implicit_gemm_nhwc_kernels(tiling);
    }
  }
  if (tiling.algorithm == Algorithm::fused_winograd) {
    throw Error(Status::unsupported, "fused_winograd: backend cuda, must be cpu");
  }
  if (tiling.algorithm == Algorithm::opencnn) {
    switch (tiling.problem.layout) {
      case Layout::nchw:
        return opencnn_nchw_kernels(tiling);
      case Layout::nhwc:
        return opencnn_nhwc_kernels(tiling);
      case Layout::chwn:
        return opencnn_chwn_kernels(tiling);
    }
  }
  if (needed == Isa::mma && isa == Isa::mma) {
    return nchw ? winograd_mma_nchw_kernels(tiling) : winograd_mma_nhwc_kernels(tiling);
  }
  if (tiling.arithmetic == Arithmetic::f16) {
    return nchw ? winograd_f16_4_nchw_kernels(tiling) : winograd_f16_4_nhwc_kernels(tiling);
  }
  if (tiling.arithmetic == Arithmetic::split_f16) {
    if (tiling.m == 2) {
      return nchw ? winograd_split_2_nchw_kernels(tiling) : winograd_split_2_nhwc_kernels(tiling);
    }
    return nchw ? winograd_split_4_nchw_kernels(tiling) : winograd_split_4_nhwc_kernels(tiling);
  }
  switch (tiling.m) {
    case 2:
      return nchw ? winograd_2_nchw_kernels(tiling) : winograd_2_nhwc_kernels(tiling);
    case 4:
      return nchw ? winograd_4_nchw_kernels(tiling) : winograd_4_nhwc_kernels(tiling);
    default:
      return nchw ? winograd_6_nchw_kernels(tiling) : winograd_6_nhwc_kernels(tiling);
  }
}

}  // namespace megaconv::cuda
