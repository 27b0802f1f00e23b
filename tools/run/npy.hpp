// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, as numpy.save writes them, in C order only: <f4, <f2, |i1, and for bfloat16,
// which NumPy does not have, <V2 or |V2: pairs of bytes, which is how it saves those of ml_dtypes.
// Source: numpy/lib/format.py, "Format Version 1.0" to "3.0".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/run/buffer.hpp"

namespace megaconv::cli {

struct NpyArray {
  std::vector<std::int64_t> shape;
  DataType dtype = DataType::f32;
  Buffer data;  ///< C order, in host memory
};

/// Reads an array of `rank` dimensions. Throws Error(device_error) when the file cannot be read,
/// Error(invalid_argument) when it is not what it says or not what is allowed; every text starts
/// with the file's name.
NpyArray read_npy(const std::string& path, std::size_t rank);

/// Writes the file whole or not at all. Throws Error(device_error).
void write_npy(const std::string& path, const std::vector<std::int64_t>& shape, DataType dtype,
               const void* data);

/// "2x3x4x4"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace megaconv::cli
