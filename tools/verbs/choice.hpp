// SPDX-License-Identifier: Apache-2.0
// An option whose value is one of a few words.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv::cli {

template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;

/// Values by their own names.
template <class Value>
Choices<Value> named(std::initializer_list<Value> values) {
  Choices<Value> choices;
  for (const Value value : values) choices.emplace_back(to_string(value), value);
  return choices;
}

/// The value that belongs to `word`. Throws Error(invalid_argument): "--tile 5, must be 2, 4 or 6".
template <class Value>
Value choose(const char* option, std::string_view word, const Choices<Value>& choices) {
  std::string allowed;
  std::size_t left = choices.size();
  for (const auto& [name, value] : choices) {
    if (word == name) return value;
    --left;
    allowed += name;
    allowed += left == 0 ? "" : left == 1 ? " or " : ", ";
  }
  throw Error(Status::invalid_argument,
              std::string(option) + ' ' + excerpt(word) + ", must be " + allowed);
}

}  // namespace megaconv::cli
