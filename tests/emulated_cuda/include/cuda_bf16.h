// SPDX-License-Identifier: Apache-2.0
// In the place of CUDA's.
#pragma once

#include "tasks/storage.hpp"

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) : stored(megaconv::from_float<megaconv::Bfloat16>(value)) {}
  explicit operator float() const { return megaconv::to_float(stored); }
  megaconv::Bfloat16 stored;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
