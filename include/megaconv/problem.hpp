// SPDX-License-Identifier: Apache-2.0
// What is to be computed: one forward convolution with its epilogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "megaconv/activation.hpp"

namespace megaconv {

/// Storage type of x, w, residual and y; also of scale and bias, but for i8, which has those in
/// f32.
///
/// f32, f16, bf16: IEEE 754 binary32 and binary16, and the upper half of binary32. Sums are FP32.
/// Products are FP32 on a CPU and of CUDA's multiply-adds; on tensor cores they are of numbers
/// that Arithmetic (tiling.hpp) names. y is rounded once, to nearest, ties to even. f16 ends at
/// 65504: a greater output becomes infinite. Where direct tasks multiply pairs of bf16 numbers,
/// those too small to be normal (2^-126) count as zero.
///
/// i8: two's complement, zero is 0 (symmetric quantisation). Sums of products are exact, in 32
/// bits, which is why C/groups R S must be less than 2^17. The rest is FP32, the same bits
/// everywhere: fma(scale[k], float(sum), bias[k]) with one rounding, the residual added with
/// another, the activation, then to nearest, ties to even, and saturated to [-128, 127]; NaN gives
/// -128.
/// Direct convolution on a CPU only.
enum class DataType : std::uint8_t { f32, f16, bf16, i8 };
inline constexpr std::uint32_t kNumDataTypes = 4;

/// Memory order of the activations; it also fixes the filter's:
///   nchw: x [N][C][H][W], w [K][C/groups][R][S], y and residual [N][K][P][Q]
///   nhwc: x [N][H][W][C], w [K][R][S][C/groups], y and residual [N][P][Q][K]
///   chwn: x [C][H][W][N], w [C/groups][R][S][K], y and residual [K][P][Q][N]
///   nchw16c: x [N][ceil(C/16)][H][W][16], w [K][C/groups][R][S], y and residual
///            [N][ceil(K/16)][P][Q][16]; the last block has the channels that are left, C % 16 of
///            them, side by side. Up to 16 channels it is nhwc.
/// All tensors are dense: none has elements between or behind these. (PyTorch's channels_last
/// tensors have the nhwc orders in memory.) nchw16c is for f32 on a CPU. Conv groups that are not
/// depthwise have multiples of 16 filters there.
enum class Layout : std::uint8_t { nchw, nhwc, chwn, nchw16c };
inline constexpr std::int64_t kChannelBlock = 16;  ///< channels side by side in nchw16c

/// What happens to a sum before it is stored: y = activation(scale[k] * sum + bias[k] + residual),
/// each part optional. (Quantised: scale[k] = x's step * w's step of filter k / y's step.)
struct Epilogue {
  bool scale = false;     ///< scale [K]
  bool bias = false;      ///< bias [K]
  bool residual = false;  ///< residual, shape and layout of y
  Activation activation{};
  bool operator==(const Epilogue&) const = default;
};

/// One convolution, in the field's letters. A plain value; check it with validate().
struct ConvProblem {
  std::int64_t n = 1;      ///< batch
  std::int64_t c = 1;      ///< input channels
  std::int64_t h = 1;      ///< input height
  std::int64_t w = 1;      ///< input width
  std::int64_t k = 1;      ///< filters (output channels)
  std::int64_t r = 3;      ///< filter height
  std::int64_t s = 3;      ///< filter width
  std::int64_t pad_h = 1;  ///< zero rows above and below
  std::int64_t pad_w = 1;  ///< zero columns left and right
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t groups = 1;  ///< channel groups; divides c and k
  DataType dtype = DataType::f32;
  Layout layout = Layout::nchw;
  Epilogue epilogue;

  /// Rows and columns that one dilated filter covers.
  std::int64_t filter_extent_h() const { return (r - 1) * dilation_h + 1; }
  std::int64_t filter_extent_w() const { return (s - 1) * dilation_w + 1; }
  /// Output height P and width Q.
  std::int64_t p() const { return (h + 2 * pad_h - filter_extent_h()) / stride_h + 1; }
  std::int64_t q() const { return (w + 2 * pad_w - filter_extent_w()) / stride_w + 1; }
  /// Elements of each tensor.
  std::int64_t x_size() const { return n * c * h * w; }
  std::int64_t w_size() const { return k * (c / groups) * r * s; }
  std::int64_t y_size() const { return n * k * p() * q(); }
  /// Floating-point operations of the direct algorithm, 2 N K P Q (C/groups) R S; every effective
  /// FLOP/s figure of the project divides this by a time, whatever the algorithm.
  double flops() const;

  /// Storage type of scale and bias.
  DataType vector_type() const { return dtype == DataType::i8 ? DataType::f32 : dtype; }

  /// One filter per channel: C == K == groups. Lanes then hold channels, not filters.
  bool depthwise() const { return groups == c && groups == k; }

  bool operator==(const ConvProblem&) const = default;
};

/// Throws Error(invalid_argument) for the first extent out of range, a filter larger than the
/// padded input, groups that do not divide, a tensor of more than 2^40 elements, or sums of i8
/// products that do not fit 32 bits.
void validate(const ConvProblem& problem);

/// Reads "n64c128h28w28k128r3s3p1u1d1g1": batch, channels, height, width, filters, filter height
/// and width, padding, stride, dilation, groups, in any order. c, h and k must be given; w defaults
/// to h, r to 3, s to r, p to "same" (d (r-1) / 2), the rest to 1. p, u and d take "AxB" for
/// different vertical and horizontal values.
/// Suffixes in any order: "+nhwc", "+nchw", "+chwn", "+nchw16c", "+f16", "+bf16", "+i8", "+f32",
/// "+scale", "+bias", "+residual", and an activation: "+relu", "+clamp:0:6", ... The result has
/// passed validate(). Throws Error(invalid_argument) naming the offending part.
ConvProblem parse_problem(std::string_view text);

/// The canonical problem string; parse_problem(to_string(p)) == p.
std::string to_string(const ConvProblem& problem);

const char* to_string(DataType dtype) noexcept;  ///< "f32", "f16", "bf16", "i8"
const char* to_string(Layout layout) noexcept;   ///< "nchw", "nhwc", "chwn", "nchw16c"
std::size_t size_of(DataType dtype) noexcept;    ///< bytes of one element

}  // namespace megaconv
