// SPDX-License-Identifier: Apache-2.0
// Random choices that a seed decides with every standard library: the standard fixes the numbers of
// mt19937_64, but not those of its distributions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace megaconv::cli {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    const auto choices = static_cast<std::uint64_t>(most - least + 1);
    return least + static_cast<std::int64_t>(random_() % choices);
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return *(values.begin() + between(0, static_cast<std::int64_t>(values.size()) - 1));
  }
  std::uint32_t small(std::uint32_t most) { return static_cast<std::uint32_t>(between(1, most)); }

 private:
  std::mt19937_64 random_;
};

}  // namespace megaconv::cli
