// SPDX-License-Identifier: Apache-2.0
// JSON from outside. A parser takes memory for every value, and what walks its result recurses into
// every level; so a text is measured before a parser sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace megaconv {

/// Nested arrays and objects of any file; our formats have at most 6.
inline constexpr std::size_t kMostJsonDepth = 32;

struct JsonLimits {
  std::size_t bytes, values;
};
/// Machine models, and single measurements with all their samples.
inline constexpr JsonLimits kSmallJson{std::size_t{1} << 20, std::size_t{1} << 16};
/// Mappings and traces of a million tasks and more.
inline constexpr JsonLimits kLargeJson{std::size_t{1} << 30, std::size_t{1} << 26};

/// Throws Error(invalid_argument), "WHAT: ...", that names the limit which the text exceeds.
void check_json(std::string_view text, const JsonLimits& limits, const char* what);

/// Throws Error(invalid_argument), "WHAT: ...", with what a parser or a value's type said.
[[noreturn]] void reject_json(const char* what, std::string_view library_message);

/// check_json(), then the value.
template <class Json>
Json parse_json(std::string_view text, const JsonLimits& limits, const char* what) {
  check_json(text, limits, what);
  try {
    return Json::parse(text);
  } catch (const typename Json::exception& error) {
    reject_json(what, error.what());
  }
}

/// The value, if it is a whole number from 0 to `most`. The library's own get<>() wraps around.
template <class Json>
std::optional<std::uint64_t> whole_number(const Json& value, std::uint64_t most) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.template get<std::uint64_t>();
  return number <= most ? std::optional(number) : std::nullopt;
}

}  // namespace megaconv
