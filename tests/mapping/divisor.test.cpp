// SPDX-License-Identifier: Apache-2.0
#include "tasks/divisor.hpp"

#include <cstdint>
#include <limits>
#include <random>

#include "tests/catch.hpp"

namespace megaconv {
namespace {

void check(std::int32_t n, std::int32_t d) {
  const Divisor divisor(d);
  CAPTURE(n, d);
  REQUIRE(n / divisor == n / d);
  REQUIRE(n % divisor == n % d);
}

}  // namespace

TEST_CASE("Divisors divide as divisions do") {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (std::int32_t d = 1; d < 300; ++d) {
    for (std::int32_t n = 0; n < 300; ++n) check(n, d);
    // Beside multiples, quotients are nearest to the next one.
    const std::int32_t most = kMost / d * d;
    for (const std::int32_t n : {most - 1, most, kMost - 1, kMost}) check(n, d);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = [&] { return static_cast<std::int32_t>(random() >> (1 + random() % 31)); };
    const std::int32_t d = bits() | 1 << random() % 31, n = bits();
    check(n, d);
    check(n / d * d, d);
    if (n >= d) check(n / d * d - 1, d);
  }
  CHECK(static_cast<std::int32_t>(Divisor(57)) == 57);
}

}  // namespace megaconv
