// SPDX-License-Identifier: Apache-2.0
// How a convolution is computed, and how exactly.
#pragma once

#include <cstdint>

namespace megaconv {

/// How the sums are computed.
enum class Algorithm : std::uint8_t {
  automatic,
  direct,
  winograd,
  opencnn,         ///< fused F(2x2,3x3), FP32, CUDA only; Castro et al., Mathematics 2021, 9, 2033
  fused_winograd,  ///< a task takes a group through all three stages; CPU only
  implicit_gemm,   ///< direct convolution on tensor cores; CUDA on compute capability 9.0
  small_gemm,      ///< the same in small tiles: layers of few images; CUDA from 8.0 on, in nhwc
};

/// What is asked of the arithmetic on f32 tensors: errors no worse than those of the same algorithm
/// when it multiplies in the format and sums in FP32. (Winograd multiplies transformed numbers, and
/// its error is greater than that of a direct sum in the same format.) A permission: where only
/// more accurate arithmetic runs, or that is faster, it is used. Tensors of f16 and bf16 always
/// permit what has their own precision or more.
enum class Precision : std::uint8_t { f32, tf32, f16, bf16 };

const char* to_string(Precision precision) noexcept;  ///< "f32", "tf32", "f16", "bf16"

}  // namespace megaconv
