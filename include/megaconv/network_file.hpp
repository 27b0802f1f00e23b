// SPDX-License-Identifier: Apache-2.0
// Networks as files: weights as safetensors, and everything else as JSON in their header.
#pragma once

#include <string>
#include <string_view>

#include "megaconv/network.hpp"

namespace megaconv {

/// The bytes of a safetensors file. Every tensor is one of the network's, "conv1.w", as FP32; the
/// entry "megaconv_network" of the header's "__metadata__" is a JSON text with inputs, operators
/// and outputs. docs/networks.md describes it. Throws what validate() throws.
std::string export_network(const Network& network);

/// Reads such a file; it reads as it was written. `name` is what errors call it. Throws
/// Error(invalid_argument) naming operator and value for a file that is cut off, has a value or a
/// tensor that is wrong, or is no network of validate()'s.
Network import_network(std::string_view file, const std::string& name = "network");

}  // namespace megaconv
