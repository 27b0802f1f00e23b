// SPDX-License-Identifier: Apache-2.0
// Operators and the values between them: what runs as one task graph.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "megaconv/pixelwise.hpp"
#include "megaconv/pooling.hpp"
#include "megaconv/problem.hpp"
#include "megaconv/rearrangement.hpp"

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

/// Extents of a value: batch, channels, height, width.
struct Shape {
  std::int64_t n = 1, c = 1, h = 1, w = 1;
  std::int64_t size() const { return n * c * h * w; }
  bool operator==(const Shape&) const = default;
};
std::string to_string(const Shape& shape);  ///< "n1c64h56w56"

// --- Operators. Extents that follow from what they read are not given.

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

/// Max or average pooling, as PoolProblem has it. Reads x.
struct Pooling {
  PoolMode mode = PoolMode::max;
  std::int64_t r = 2, s = 2;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
};

/// The average of each channel: y has height and width 1. Reads x.
struct GlobalAveragePooling {};

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

/// One operator of a network, and the value that it makes.
struct Operator {
  std::string name;  ///< of the value, too; for messages, pictures and traces: "conv1"
  std::variant<Convolution, Pooling, GlobalAveragePooling, BatchNorm, Add, Concatenation,
               FullyConnected, Clamp, Pixelwise, Rearrangement>
      does;
  std::vector<std::string> reads{};  ///< names of inputs of the network, or of operators before it
};

struct NetworkInput {
  std::string name;
  Shape shape;
};

/// A directed graph without cycles. A plain value.
struct Network {
  std::vector<NetworkInput> inputs{};
  std::vector<Operator> operators{};   ///< each behind those that it reads
  std::vector<std::string> outputs{};  ///< names of operators
  DataType dtype = DataType::f32;      ///< of all values between operators; f32, f16 or bf16
  Layout layout = Layout::nhwc;        ///< of all values; nchw or nhwc
};

/// "convolution", "max pooling", "batch norm", ...
const char* kind_of(const Operator& op) noexcept;

/// The shapes of all inputs and operators, by name. Throws what validate() throws.
std::map<std::string, Shape> shapes_of(const Network& network);

/// Throws Error(invalid_argument) naming the operator, the value and what is allowed: a name that
/// is empty or given twice, a value that nobody makes or that a later operator makes (so also a
/// cycle), shapes that do not fit, weights that are missing or of another size. Throws
/// Error(unsupported) for a storage type or layout that operators do not have.
void validate(const Network& network);

/// A built-in network with seeded weights, as its usual implementation has it: names of operators,
/// strides and all.
struct NetworkOptions {
  std::int64_t batch = 1;
  std::int64_t image = 0;    ///< height and width; 0: the usual, 224 to 416
  std::int64_t classes = 0;  ///< numbers, or filters, of the last layer; 0: the usual
  std::uint64_t seed = 1;
  DataType dtype = DataType::f32;
  Layout layout = Layout::nhwc;
};
/// "resnet18", "resnet50", "vgg16", ...
std::vector<std::string> network_names();
/// Throws Error(invalid_argument) listing the names allowed, or for an image that is too small.
Network make_network(const std::string& name, const NetworkOptions& options = {});

}  // namespace megaconv
