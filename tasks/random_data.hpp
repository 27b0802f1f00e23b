// SPDX-License-Identifier: Apache-2.0
// Seeded numbers by their place: the same with every compiler, on a CPU and on a GPU, in any order.
#pragma once

#include <cstdint>

#include "mapping/split_mix.hpp"

namespace megaconv {

/// The i-th number of the SplitMix64 sequence that belongs to `seed`.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t i) {
  return split_mix(seed + (i + 1) * kSplitMixStep);
}

/// What a tensor is filled with.
struct Filling {
  enum class Kind {
    normal,       ///< N(0, 1)
    relu_normal,  ///< max(0, N(0, 1)): what a convolution sees after a ReLU
    integers,     ///< one of -2, -1, 1, 2 with probability `density`, else 0
  };
  Kind kind = Kind::normal;
  double density = 1;
  float multiple = 1;  ///< of every number

  /// The i-th number.
  constexpr float at(std::uint64_t seed, std::uint64_t i) const {
    if (kind == Kind::integers) {
      const std::uint64_t bits = random_bits(seed, i);
      const bool zero = static_cast<double>(bits >> 11) * 0x1p-53 >= density;
      const int choice = static_cast<int>(bits & 3);  // -2, -1, 1 or 2
      return zero ? 0 : multiple * static_cast<float>(choice - 2 + choice / 2);
    }
    // Six uniform numbers have variance 1/2 and mean 3. Every step but the last product is exact.
    std::uint64_t sum = 0;
    for (std::uint64_t part = 0; part < 3; ++part) {
      const std::uint64_t bits = random_bits(seed, 3 * i + part);
      sum += (bits >> 32) + (bits & 0xffffffffu);
    }
    const auto value =
        static_cast<float>((static_cast<double>(sum) * 0x1p-32 - 3) * 1.4142135623730951);
    return kind == Kind::relu_normal && value < 0 ? 0 : multiple * value;
  }
};

}  // namespace megaconv
