// SPDX-License-Identifier: Apache-2.0
// Values of a network from and to .npy files. These are [N][C][H][W], whatever the network's
// layout.
#pragma once

#include <string>
#include <vector>

#include "megaconv/network.hpp"

namespace megaconv::cli {

/// The files of values with these names, in their order: of texts "FILE", where there is one value,
/// or "NAME=FILE". Values without a file have an empty one. Throws Error(invalid_argument) naming
/// `option` for a name that is none or is there twice.
std::vector<std::string> files_of(const char* option, const std::vector<std::string>& texts,
                                  const std::vector<std::string>& names);

/// Reads an array of `shape` into a tensor of the network's storage type and layout; numbers of
/// another floating-point type are rounded. Throws what read_npy() throws, and
/// Error(invalid_argument) for another shape.
void read_value(const std::string& path, const Network& network, const Shape& shape, void* tensor);

/// Writes a tensor of the network's storage type and layout. Throws what write_npy() throws.
void write_value(const std::string& path, const Network& network, const Shape& shape,
                 const void* tensor);

}  // namespace megaconv::cli
