// SPDX-License-Identifier: Apache-2.0
// CUDA's types of numbers, for tests that have tensors of ours.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tasks/storage.hpp"

namespace megaconv::test {

/// The type of the same bits.
template <class T>
struct OnDevice {
  using Type = float;
};
template <>
struct OnDevice<Float16> {
  using Type = __half;
};
template <>
struct OnDevice<Bfloat16> {
  using Type = __nv_bfloat16;
};

}  // namespace megaconv::test
