// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megaconv {

/// What says of a workspace that it holds the counters of another plan of this process: even, of
/// one key for all plans of the process, and unlike what memory holds by chance.
std::uint64_t new_plan_word();

/// The key of a word, which may be odd. Its upper half depends on the lower one: memory that was a
/// workspace before may have kept one half, and hold any number in the place of the other.
constexpr std::uint32_t key_of(std::uint64_t word) {
  const auto plan = static_cast<std::uint32_t>(word) & ~std::uint32_t{1};
  return static_cast<std::uint32_t>(word >> 32) ^ plan * 0x9e3779b1u;
}
/// `plan`: even.
constexpr std::uint64_t plan_word(std::uint32_t key, std::uint32_t plan) {
  return std::uint64_t{key ^ key_of(plan)} << 32 | plan;
}

}  // namespace megaconv
