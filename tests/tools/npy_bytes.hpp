// SPDX-License-Identifier: Apache-2.0
// Hand-made .npy files, right and wrong, byte by byte as numpy.save writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megaconv::cli {

inline std::string npy_bytes(const std::string& dictionary, std::size_t data_bytes, int major = 1) {
  const std::string header = dictionary + '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(major), '\0'};
  const int length_bytes = major == 1 ? 2 : 4;
  for (int i = 0; i < length_bytes; ++i) {
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i)
    bytes += static_cast<char>(i % 4 == 2 ? 0x80 : i % 4 == 3 ? 0x3f : 0);
  return bytes;  // every element is 1.0f
}

/// {'descr': '<f4', 'fortran_order': False, 'shape': SHAPE, }
inline std::string npy_dictionary(const std::string& shape) {
  return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
}

/// A right file of ones.
inline std::string npy_ones(const std::vector<std::int64_t>& extents) {
  std::string shape = "(";
  std::size_t elements = 1;
  for (const std::int64_t extent : extents) {
    shape += std::to_string(extent) + ", ";
    elements *= static_cast<std::size_t>(extent);
  }
  return npy_bytes(npy_dictionary(shape + ")"), 4 * elements);
}

}  // namespace megaconv::cli
