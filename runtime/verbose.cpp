// SPDX-License-Identifier: Apache-2.0
#include "runtime/verbose.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {

bool resolve_verbose() {
  const char* const variable = std::getenv("MEGACONV_VERBOSE");
  const std::string_view text = variable == nullptr ? "" : variable;
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  throw Error(Status::invalid_argument, "MEGACONV_VERBOSE=" + excerpt(text) + ", must be 0 or 1");
}

void say(const std::string& text) noexcept {
  try {
    const std::string line = "megaconv: " + text + '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (const std::exception&) {  // no memory for a line: the run goes on without it
  }
}

}  // namespace megaconv
