// SPDX-License-Identifier: Apache-2.0
// megaconv: one executable. All of it is a library, so that tests can use its parts.
#include "tools/verbs/command_line.hpp"

int main(int argc, char** argv) { return megaconv::cli::run_megaconv(argc, argv); }
