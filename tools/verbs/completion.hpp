// SPDX-License-Identifier: Apache-2.0
// What shells and `man` know of the command, made from the same definitions as --help.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace megaconv::cli {

/// A script that completes verbs, options and file names. `shell`: "bash", "zsh" or "fish". Throws
/// Error(invalid_argument) for another.
std::string completion_script(const CLI::App& app, const std::string& shell);

/// The manual page megaconv(1), for man.
std::string manual_page(const CLI::App& app);

}  // namespace megaconv::cli
