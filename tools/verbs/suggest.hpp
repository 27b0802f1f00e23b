// SPDX-License-Identifier: Apache-2.0
// Words of the command line that nobody knows, and those that may have been meant.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace megaconv::cli {

/// The message for the first verb or option that is none: "run has no option --therads, did you
/// mean
/// --threads?". nullopt when all are known.
std::optional<std::string> unknown_word(const CLI::App& app, int argc, const char* const* argv);

}  // namespace megaconv::cli
