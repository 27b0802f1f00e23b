// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/number.hpp"

#include <cstddef>
#include <utility>

namespace megaconv::cli {

CLI::Validator bytes() {
  const auto check = [](std::string& text) {
    constexpr std::pair<const char*, unsigned> kUnits[] = {
        {"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    std::size_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    for (const auto& [unit, shift] : kUnits) {
      const bool fits = value <= std::numeric_limits<std::size_t>::max() >> shift;
      if (error == std::errc() && std::string(stop, end) == unit && fits) {
        text = std::to_string(value << shift);
        return std::string();
      }
    }
    return excerpt(text) + ", must be bytes: 1000000, 512KiB, 1MiB or 2GiB";
  };
  return CLI::Validator(check, "");
}

}  // namespace megaconv::cli
