// SPDX-License-Identifier: Apache-2.0
// What MEGACONV_VERBOSE=1 shows on stderr: one line for each plan that is made and each run.
#pragma once

#include <string>

namespace megaconv {

/// Whether the variable is 1. Throws Error(invalid_argument) unless it is 0, 1 or unset.
bool resolve_verbose();

/// Writes "megaconv: ", the text and an end of line, at once: lines of several threads do not mix.
void say(const std::string& text) noexcept;

}  // namespace megaconv
