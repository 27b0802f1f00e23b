// SPDX-License-Identifier: Apache-2.0
// Products of a tensor core.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace megaconv::test {

/// FP16 numbers by their bits; a table, since compilers convert one by a function call.
inline const std::vector<float> kFloatOfHalf = [] {
  std::vector<float> floats(1 << 16);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const auto pattern = static_cast<std::uint16_t>(i);
    _Float16 half;
    std::memcpy(&half, &pattern, sizeof half);
    floats[i] = static_cast<float>(half);
  }
  return floats;
}();
inline float float_of_half(std::uint16_t bits) { return kFloatOfHalf[bits]; }

/// sum + a . b as a tensor core makes it of FP16 products: they and the sum are cut off to two bits
/// more than FP32 has of the largest among them, added up, and cut off to FP32. With that three
/// products of F(4x4, 3x3) err by 2.6e-6 at 512 channels and those of F(2x2, 3x3) by 1.9e-6; an
/// H200 was measured to err by 2.4e-6 and 1.8e-6 (docs/performance.md).
float add_products(float sum, const std::array<float, 16>& a, const std::array<float, 16>& b);

}  // namespace megaconv::test
