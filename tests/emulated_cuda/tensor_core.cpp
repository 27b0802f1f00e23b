// SPDX-License-Identifier: Apache-2.0
// What emulated products spend most of their time in: optimised, whatever other tests are.
#include "tests/emulated_cuda/tensor_core.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace megaconv::test {
namespace {

// 2^exponent, of a normal number; std::ldexp takes longer than all else here.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

}  // namespace

float add_products(float sum, const std::array<float, 16>& a, const std::array<float, 16>& b) {
  const auto magnitude = [](float value) { return std::bit_cast<std::uint32_t>(value) << 1 >> 1; };
  std::array<float, 16> product;  // exact, of two numbers of 11 bits
  std::uint32_t most = 0;
  float plain = sum;
  for (std::size_t i = 0; i < 16; ++i) {
    product[i] = a[i] * b[i];
    most = std::max(most, magnitude(product[i]));
    plain += product[i];
  }
  if (most == 0 || !std::isfinite(plain)) return plain;
  most = std::max(most, magnitude(sum));
  constexpr int kBits = 23 + 2;
  const int exponent =
      most >> 23 != 0 ? static_cast<int>(most >> 23) - 127 : std::ilogb(std::bit_cast<float>(most));
  const double scale = power_of_two(kBits - exponent);
  auto total = static_cast<std::int64_t>(sum * scale);
  for (const float value : product) total += static_cast<std::int64_t>(value * scale);
  const double exact = static_cast<double>(total) * power_of_two(exponent - kBits);
  const auto nearest = static_cast<float>(exact);
  if (std::fabs(nearest) <= std::fabs(exact)) return nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) - 1);  // the next nearer to 0
}

}  // namespace megaconv::test
