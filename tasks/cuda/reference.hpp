// SPDX-License-Identifier: Apache-2.0
// What tasks/reference.hpp has, for tensors in device memory: without it, comparing a layer of 60
// GFLOP in double would take minutes on the host. Everything runs on the default stream and has
// ended when a function returns. Throws Error(device_error).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tasks/reference.hpp"

namespace megaconv::cuda {

/// Element by element what the host's fill() gives.
void fill(DataType dtype, void* values, std::int64_t count, const Filling& filling,
          std::uint64_t seed);

/// Sums in the order of C, R, S; magnitude must not be null.
void reference_convolution(const ConvProblem& problem, const Tensors& tensors, double* y,
                           double* magnitude);

ErrorReport compare(const Tiling& tiling, const void* y, const double* reference,
                    const double* magnitude);

/// How many y differ from the reference, not a number included, and the first.
Mismatch mismatch(DataType dtype, const void* y, const double* reference, std::int64_t count);

/// Images, channels and pixels of a tensor.
struct Extents {
  std::int64_t images, channels, pixels;
};
/// Copies a tensor from one memory order into another.
void reorder(DataType dtype, const Extents& extents, const void* from, const Strides& from_strides,
             void* to, const Strides& to_strides);

bool same_bytes(const void* a, const void* b, std::size_t bytes);
bool all_bytes_are(const void* memory, std::byte value, std::size_t bytes);

}  // namespace megaconv::cuda
