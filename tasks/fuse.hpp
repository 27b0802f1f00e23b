// SPDX-License-Identifier: Apache-2.0
// Which operators of a network run as one:
//
//   Network --fuse--> FusedNetwork --lower--> tasks
//
//   convolution, batch norm, addition, clamp,  a convolution with a bias, a residual and an
//   leaky ReLU, sigmoid, SiLU, hardswish, ...  activation
//   concatenation, batch norm, clamp           one elementwise operation
//   fully connected layer                      a convolution whose filter is as large as the image
//
// What is fused into an operator is the only one that reads its value, which is no output. The
// operators of the longest chain come first (operator_order.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "megaconv/network.hpp"

namespace megaconv {

/// Inputs of the network first, then the values of the fused operators, in their order.
using ValueId = std::uint32_t;

struct FusedOperator {
  std::vector<std::string> operators{};  ///< names of those that it runs; the last makes its value
  AnyProblem problem;
  /// x, of an elementwise operation each tensor; then the residual, or what is multiplied by.
  std::vector<ValueId> reads{};
  Weights w{};  ///< of a convolution: [K][C/groups][R][S]
  /// Of a convolution: by what the filters are multiplied (empty: 1) and its bias (empty: none); of
  /// an elementwise operation its scale and bias. Batch norm is in these.
  std::vector<double> scale{}, bias{};

  const std::string& name() const { return operators.front(); }
  const std::string& value() const { return operators.back(); }
};

struct FusedNetwork {
  std::vector<NetworkInput> inputs;
  std::vector<FusedOperator> operators;
  std::vector<ValueId> outputs;
};

/// Throws what validate() throws.
FusedNetwork fuse(const Network& network);

/// A convolution's filters times its scale, in its problem's layout and storage type.
std::vector<std::byte> folded_filters(const FusedOperator& op);
/// Its bias in its problem's storage type.
std::vector<std::byte> folded_bias(const FusedOperator& op);

/// "conv1 + bn1 + relu", or the first and the last of many.
std::string names_text(const FusedOperator& op);

}  // namespace megaconv
