// SPDX-License-Identifier: Apache-2.0
// What the command's exit status says.
#pragma once

#include "megaconv/error.hpp"

namespace megaconv::cli {

enum class ExitCode : int {
  ok = 0,             ///< everything asked for was done and is right
  different = 1,      ///< a result is wrong, or two mappings differ
  usage = 2,          ///< a value that is never allowed
  unsupported = 3,    ///< a valid request that this build or machine cannot serve
  environment = 4,    ///< a file, the memory or a device refused
  timeout = 5,        ///< a run exceeded its wait budget
  internal = 6,       ///< a bug in megaconv
  interrupted = 130,  ///< by Ctrl-C; what was done is kept
};

constexpr ExitCode exit_code(Status status) noexcept {
  switch (status) {
    case Status::invalid_argument:
      return ExitCode::usage;
    case Status::unsupported:
      return ExitCode::unsupported;
    case Status::out_of_memory:
    case Status::device_error:
      return ExitCode::environment;
    case Status::timeout:
      return ExitCode::timeout;
    case Status::internal:
      break;
  }
  return ExitCode::internal;
}

}  // namespace megaconv::cli
