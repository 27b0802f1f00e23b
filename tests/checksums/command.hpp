// SPDX-License-Identifier: Apache-2.0
// What both programs do with their arguments: print one line for each case,
//
//   problem configuration isa hash-of-y
//
// where the hash is "refused:STATUS" if the library says that it cannot do that.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/checksums/case.hpp"

namespace megaconv::checksums {

struct Program {
  const char* name;
  std::uint64_t count;  ///< of cases, if the command line does not say
  std::string isa;      ///< "cpu/avx2"
  std::function<Case(std::uint64_t seed, std::uint64_t index)> draw;
  /// The hash of y. May throw Error.
  std::function<std::uint64_t(const ConvProblem& problem, const Case& item)> run;
};

/// Exit status: 0 all printed, 1 something broke, 2 usage.
int run_program(const Program& program, int argc, char** argv);

}  // namespace megaconv::checksums
