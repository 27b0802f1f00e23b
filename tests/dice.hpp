// SPDX-License-Identifier: Apache-2.0
// Seeded numbers for random cases, the same with every standard library.
#pragma once

#include <cstdint>

#include "tasks/random_data.hpp"

namespace megaconv::test {

/// The i-th number of a seed: `least` to `most`.
inline std::int64_t between(std::uint64_t seed, std::uint64_t i, std::int64_t least,
                            std::int64_t most) {
  return least + static_cast<std::int64_t>(random_bits(seed, i) %
                                           static_cast<std::uint64_t>(most - least + 1));
}

/// The numbers of a seed, one after the other.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return test::between(seed_, next_++, least, most);
  }
  bool one_in(std::int64_t count) { return between(1, count) == 1; }

 private:
  std::uint64_t seed_, next_ = 0;
};

}  // namespace megaconv::test
