// SPDX-License-Identifier: Apache-2.0
// In the place of CUDA's.
#pragma once

#include <cstddef>
#include <cstdint>

/// What a tensor map says: how many numbers a tensor has in each dimension, how many bytes from one
/// to the next, and how many a box has.
struct CUtensorMap {
  const std::byte* tensor;
  std::int64_t sizes[4], strides[4];
  std::int32_t box[4];
};
