// SPDX-License-Identifier: Apache-2.0
// Networks from ONNX models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "megaconv/network.hpp"

namespace megaconv {

struct OnnxOptions {
  std::int64_t batch = 0;  ///< images; 0: as the model says, 1 where it leaves that open
  std::int64_t image = 0;  ///< height and width where the model leaves them open; 0: it must not
  DataType dtype = DataType::f32;  ///< of all values of the network; f32, f16 or bf16
  Layout layout = Layout::nhwc;    ///< of all values; nchw or nhwc
  /// Most numbers of all weights together. A small file can ask for any number of equal ones.
  std::int64_t most_weights = std::int64_t{1} << 29;
};

/// Whether this build reads ONNX models: it does if it was made where protobuf is.
bool reads_onnx() noexcept;

/// The network of an ONNX model, operator sets 7 and newer. Inputs and outputs have the names of
/// the model's; operators those of the values that they make, shortened past 80 characters. Weights
/// are read as FP32. A matrix is a value of height and width 1. External data must lie in the
/// folder of the model or below.
///
/// Throws Error(device_error) when a file cannot be read; Error(invalid_argument) for one that is
/// not what it says, naming node, value and what is allowed; Error(unsupported) for an operator or
/// an attribute that networks do not have, naming the node, and in a build without protobuf.
Network read_onnx(const std::string& path, const OnnxOptions& options = {});

/// The same of a model in memory. External data is refused.
Network parse_onnx(std::string_view model, const OnnxOptions& options = {});

}  // namespace megaconv
