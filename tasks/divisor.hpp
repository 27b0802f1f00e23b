// SPDX-License-Identifier: Apache-2.0
// Division by a number that is known before it is needed. For host and device code.
#pragma once

#include <bit>
#include <cstdint>

namespace megaconv {

/// A number d > 0, by which n / d and n % d of 0 <= n < 2^31 take a product and a shift instead of
/// some 30 instructions on a GPU. Elsewhere it is d itself.
///
/// With 2^(k-1) < d <= 2^k, factor = ceil(2^(31+k) / d) is less than 2^32, and more than the
/// fraction by less than 1. So n * factor / 2^(31+k) is more than n / d by less than
/// n / 2^(31+k) < 1 / 2^k <= 1 / d, and has the same whole part.
class Divisor {
 public:
  Divisor() = default;
  constexpr Divisor(std::int32_t d)  // NOLINT(google-explicit-constructor): it is d
      : d_(d),
        shift_(31 + std::bit_width(static_cast<std::uint32_t>(d - 1))),
        factor_(static_cast<std::uint32_t>(
            ((std::uint64_t{1} << shift_) - 1) / static_cast<std::uint32_t>(d) + 1)) {}
  constexpr operator std::int32_t() const { return d_; }  // NOLINT(google-explicit-constructor)

  friend constexpr std::int32_t operator/(std::int32_t n, const Divisor& by) {
    const std::uint64_t product = std::uint64_t{static_cast<std::uint32_t>(n)} * by.factor_;
    return static_cast<std::int32_t>(product >> by.shift_);
  }
  friend constexpr std::int32_t operator%(std::int32_t n, const Divisor& by) {
    return n - n / by * by.d_;
  }

 private:
  std::int32_t d_ = 0;
  std::int32_t shift_ = 0;
  std::uint32_t factor_ = 0;
};

}  // namespace megaconv
