// SPDX-License-Identifier: Apache-2.0
// Options whose value is a number: nothing but digits, a point and a minus, and within its range.
// What the command line's own conversion takes besides (a minus for 64 bits without sign, 0x10, +3,
// what is too large) is refused.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "mapping/text.hpp"

namespace megaconv::cli {

/// For CLI::Option::check: the value is a Number from `least` to `most`.
template <class Number>
CLI::Validator number_from(Number least, Number most = std::numeric_limits<Number>::max()) {
  const auto check = [least, most](std::string& text) {
    Number value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) {
      return std::string();
    }
    return fmt::format("{}, must be a number from {} to {}", excerpt(text), least, most);
  };
  return CLI::Validator(check, "");
}

/// Any value that a member of the options can have.
template <class Number>
CLI::Validator number_for(const Number&) {
  return number_from<Number>(0);
}
template <class Number>
CLI::Validator number_for(const std::optional<Number>&) {
  return number_from<Number>(0);
}

/// For CLI::Option::transform: bytes, a whole number or one with KiB, MiB or GiB behind it, which
/// the text then is without.
CLI::Validator bytes();

}  // namespace megaconv::cli
