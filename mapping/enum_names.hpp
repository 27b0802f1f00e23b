// SPDX-License-Identifier: Apache-2.0
// Enumerations whose values have names: an array of (value, name) pairs, and what is read from it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace megaconv {

template <class Enum, std::size_t kCount>
using EnumNames = std::pair<Enum, const char*>[kCount];

/// "unknown" for a value without a name.
template <class Enum, std::size_t kCount>
constexpr const char* name_of(const EnumNames<Enum, kCount>& names, Enum value) noexcept {
  for (const auto& [known, text] : names) {
    if (known == value) return text;
  }
  return "unknown";
}

template <class Enum, std::size_t kCount>
constexpr std::optional<Enum> value_of(const EnumNames<Enum, kCount>& names,
                                       std::string_view name) noexcept {
  for (const auto& [value, text] : names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

/// "interleaved, staged, ...", for error messages.
template <class Enum, std::size_t kCount>
std::string list_names(const EnumNames<Enum, kCount>& names) {
  std::string list;
  for (const auto& [value, text] : names) list += (list.empty() ? "" : ", ") + std::string(text);
  return list;
}

}  // namespace megaconv
