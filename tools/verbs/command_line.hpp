// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace megaconv::cli {

/// What `megaconv` does with its arguments; returns the exit status (exit_code.hpp).
int run_megaconv(int argc, char** argv);

}  // namespace megaconv::cli
