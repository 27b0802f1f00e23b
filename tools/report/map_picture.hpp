// SPDX-License-Identifier: Apache-2.0
// A mapping as text: what stands where in the array.
#pragma once

#include <string>

#include "megaconv/lowering.hpp"

namespace megaconv::cli {

/// One row a task kind, positions from left to right; the darker a character, the more of its
/// positions hold that kind (" .:-=+*#%@"). `width` columns in all.
///
///   F @@
///   I   @@@@@%%%%%===
///   G        :::::===@@
///   O             ===  @@
///     0             1,023
std::string mapping_picture(const Lowering& lowering, int width, bool color);

}  // namespace megaconv::cli
