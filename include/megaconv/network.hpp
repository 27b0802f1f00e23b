// SPDX-License-Identifier: Apache-2.0
// Operators and the values between them: what runs as one task graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megaconv/operators.hpp"
#include "megaconv/problem.hpp"

namespace megaconv {

/// Extents of a value: batch, channels, height, width.
struct Shape {
  std::int64_t n = 1, c = 1, h = 1, w = 1;
  std::int64_t size() const { return n * c * h * w; }
  bool operator==(const Shape&) const = default;
};
std::string to_string(const Shape& shape);  ///< "n1c64h56w56"

/// One operator of a network, and the value that it makes.
struct Operator {
  std::string name;  ///< of the value, too; for messages, pictures and traces: "conv1"
  AnyOperator does;
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
