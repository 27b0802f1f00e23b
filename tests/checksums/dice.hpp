// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same with every compiler and library, today and in ten years: the
// lists of tests/checksums are compared across versions of the whole tree, so nothing here may
// change.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace megaconv::checksums {

/// splitmix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(mixed(seed ^ 0x6d656761636f6e76u)) {}
  std::uint64_t bits() { return mixed(state_ += 0x9e3779b97f4a7c15u); }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return *(values.begin() + between(0, static_cast<std::int64_t>(values.size()) - 1));
  }
  /// 1 to `most`; a third of the time all of it, so that whole tensors are as likely as parts.
  std::int64_t part_of(std::int64_t most) { return chance(33) ? most : between(1, most); }

 private:
  std::uint64_t state_;
};

}  // namespace megaconv::checksums
