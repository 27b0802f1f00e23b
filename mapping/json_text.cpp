// SPDX-License-Identifier: Apache-2.0
#include "mapping/json_text.hpp"

#include <algorithm>
#include <string>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

[[noreturn]] void reject(const char* what, const std::string& message) {
  throw Error(Status::invalid_argument, std::string(what) + ": " + message);
}

}  // namespace

void check_json(std::string_view text, const JsonLimits& limits, const char* what) {
  if (text.size() > limits.bytes) {
    reject(what,
           std::to_string(text.size()) + " bytes, must be at most " + std::to_string(limits.bytes));
  }
  // No more values than what opens or separates them. What is no JSON at all is the parser's.
  std::size_t depth = 0, values = 1;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char ch = text[at];
    if (in_string) {
      if (ch == '\\') ++at;
      in_string = ch != '"';
      continue;
    }
    if (ch == '"') in_string = true;
    if (ch == '[' || ch == '{') {
      ++depth;
      ++values;
    } else if (ch == ',') {
      ++values;
    } else if ((ch == ']' || ch == '}') && depth > 0) {
      --depth;
    }
    if (depth > kMostJsonDepth) {
      reject(what, "arrays and objects nested more than " + std::to_string(kMostJsonDepth) +
                       " deep, at byte " + std::to_string(at));
    }
    if (values > limits.values) {
      reject(what, "more than " + std::to_string(limits.values) + " values, at byte " +
                       std::to_string(at));
    }
  }
}

void reject_json(const char* what, std::string_view library_message) {
  // "[json.exception.parse_error.101] parse error at line 3, column 5: ..."
  const std::size_t end = library_message.find("] ");
  if (end != std::string_view::npos) library_message.remove_prefix(end + 2);
  reject(what, excerpt(library_message, 160));
}

}  // namespace megaconv
