// SPDX-License-Identifier: Apache-2.0
// The operators of networks, and the registry: an operator of a new room has a line in each of the
// lists at the end. What its room must define is said in tasks/operators.hpp.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "megaconv/elementwise.hpp"
#include "megaconv/pixelwise.hpp"
#include "megaconv/pooling.hpp"
#include "megaconv/problem.hpp"
#include "megaconv/rearrangement.hpp"
#include "megaconv/small_gemm.hpp"
#include "megaconv/tiling.hpp"

namespace megaconv {

/// Numbers of an operator, FP32, which all copies of a network share. They must not change.
struct Weights {
  std::shared_ptr<const float[]> data{};
  std::int64_t size = 0;
  std::span<const float> values() const { return {data.get(), static_cast<std::size_t>(size)}; }
};

/// Takes the numbers.
Weights make_weights(std::vector<float> values);
/// Numbers that the caller keeps, as long as there is a network or a plan that has them.
Weights view_weights(std::span<const float> values);

// --- Operators that become convolutions and elementwise operations. Extents that follow from what
// they read are not given.

/// y = relu(convolution + bias[k] + residual), as ConvProblem has it; bias, residual and ReLU are
/// optional. Reads x and, with a residual, a second value of y's shape.
struct Convolution {
  std::int64_t k = 1;         ///< filters
  std::int64_t r = 1, s = 1;  ///< filter height and width
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  Weights w{};     ///< [K][C/groups][R][S], whatever the network's layout
  Weights bias{};  ///< [K], or none
  bool relu = false;
};

/// y = gamma[c] (x - mean[c]) / sqrt(variance[c] + epsilon) + beta[c]. Reads x.
struct BatchNorm {
  Weights gamma{}, beta{}, mean{}, variance{};  ///< [C]
  double epsilon = 1e-5;
};

/// y = a + b. Reads two values of one shape.
struct Add {};

/// The channels of all that it reads, one behind the other.
struct Concatenation {};

/// y[k] = sum of w[k] x + bias[k] over all of an image; y has height and width 1. Reads x.
struct FullyConnected {
  std::int64_t k = 1;
  Weights w{};     ///< [K][C][H][W]
  Weights bias{};  ///< [K], or none
};

/// y = x, but least for what is less and most for what is more: ReLU as it stands, ReLU6 with
/// most = 6. NaN stays NaN. Reads x.
struct Clamp {
  float least = 0, most = std::numeric_limits<float>::infinity();
};

// Pixelwise: softmax, local response norm, activations; reads x. `multiply` reads two values of one
// shape; the second one may have height and width 1. A convolution takes activations, and
// x sigmoid(x) as SiLU, into its epilogue.
//
// Rearrangement: padding, cutting off, upsampling, slices of channels, channel shuffle. Reads x.

// --- The registry.

/// What an operator of a network does.
using AnyOperator = std::variant<Convolution, Pooling, GlobalAveragePooling, BatchNorm, Add,
                                 Concatenation, FullyConnected, Clamp, Pixelwise, Rearrangement>;
/// Names of these in files, in the same order.
inline constexpr const char* kOperatorNames[] = {
    "convolution", "pooling",       "global_average_pooling", "batch_norm",
    "add",         "concatenation", "fully_connected",        "clamp",
    "pixelwise",   "rearrangement"};
static_assert(std::size(kOperatorNames) == std::variant_size_v<AnyOperator>);

/// What is computed of operators of a network, with all extents.
using AnyProblem = std::variant<ConvProblem, PoolProblem, ElementwiseProblem, PixelwiseProblem,
                                RearrangementProblem>;

/// How one of these is cut into tasks.
using Cut = std::variant<Tiling, PoolCut, ElementwiseCut, SmallGemmCut, InReaderCut, PixelwiseCut,
                         RearrangementCut>;

}  // namespace megaconv
