// SPDX-License-Identifier: Apache-2.0
// What a tensor core makes of FP16 products: they and the sum are cut off to two bits more than
// FP32 has of the largest among them, added up, and cut off to FP32. With that three products of
// F(4x4, 3x3) err by 2.6e-6 at 512 channels and those of F(2x2, 3x3) by 1.9e-6; an H200 was
// measured to err by 2.4e-6 and 1.8e-6 (docs/performance.md).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace megaconv::test {

/// The FP16 number with these bits; a table, since compilers convert one by a function call.
inline float float_of_half(std::uint16_t bits) {
  static const std::vector<float> table = [] {
    std::vector<float> floats(1 << 16);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const auto pattern = static_cast<std::uint16_t>(i);
      _Float16 half;
      std::memcpy(&half, &pattern, sizeof half);
      floats[i] = static_cast<float>(half);
    }
    return floats;
  }();
  return table[bits];
}

inline float add_products(float sum, const std::array<float, 16>& a,
                          const std::array<float, 16>& b) {
  std::array<float, 16> product;  // exact, of two numbers of 11 bits
  float most = std::fabs(sum), plain = sum;
  for (std::size_t i = 0; i < 16; ++i) {
    product[i] = a[i] * b[i];
    most = std::fmax(most, std::fabs(product[i]));
    plain += product[i];
  }
  if (most == 0.0f || !std::isfinite(plain)) return plain;
  constexpr int kBits = 23 + 2;
  const double scale = std::ldexp(1.0, kBits - std::ilogb(most));
  auto total = static_cast<std::int64_t>(sum * scale);
  for (const float value : product) total += static_cast<std::int64_t>(value * scale);
  const double exact = static_cast<double>(total) / scale;
  const auto nearest = static_cast<float>(exact);
  return std::fabs(nearest) > std::fabs(exact) ? std::nextafter(nearest, 0.0f) : nearest;
}

}  // namespace megaconv::test
