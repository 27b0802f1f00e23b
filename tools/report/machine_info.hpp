// SPDX-License-Identifier: Apache-2.0
// What a result was measured with.
#pragma once

#include <string>
#include <vector>

namespace megaconv::cli {

/// "L1 data 32K", "L2 1024K", "L3 32M", of the first CPU.
std::vector<std::string> cpu_caches();

/// "g++ 12.2.0"
std::string compiler();

/// What `git describe` said when the build was configured; empty outside of a repository.
std::string git_describe();

}  // namespace megaconv::cli
