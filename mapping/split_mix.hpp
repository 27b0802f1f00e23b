// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same with every compiler and processor: SplitMix64 (Steele, Lea,
// Flood 2014). It adds a constant to its state for every number, so that the i-th needs none of
// those before it.
#pragma once

#include <cstdint>

namespace megaconv {

inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

/// A hash whose bits are as good as random ones.
constexpr std::uint64_t split_mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// The sequence that belongs to a seed.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return split_mix(state_ += kSplitMixStep); }

 private:
  std::uint64_t state_;
};

}  // namespace megaconv
