// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tasks/fuse.hpp"

namespace megaconv {

/// The operators by how many must have run before each. So they stand behind those that they read,
/// which need not be so before, and side by side with those that they do not depend on. Of these
/// the ones of the longest chain come first.
FusedNetwork longest_chain_first(FusedNetwork network);

}  // namespace megaconv
