// SPDX-License-Identifier: Apache-2.0
// The network that a word of the command line names: a built-in one, an ONNX model, our own file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "megaconv/network.hpp"

namespace megaconv::cli {

/// What the options of `megaconv net` say. What is not given is as the network has it.
struct NetworkChoice {
  std::optional<std::int64_t> batch{}, image{}, classes{};
  std::optional<DataType> dtype{};
  std::optional<Layout> layout{};
  std::uint64_t seed = 1;
};

/// "resnet50", "model.onnx", "network.safetensors". Throws what make_network(), read_onnx(),
/// import_network() and read_file() throw, and Error(invalid_argument) for an option that the
/// network does not have.
Network network_of(const std::string& word, const NetworkChoice& choice);

}  // namespace megaconv::cli
