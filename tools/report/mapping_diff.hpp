// SPDX-License-Identifier: Apache-2.0
// What tells two mappings apart.
#pragma once

#include <string>

#include "megaconv/lowering.hpp"

namespace megaconv::cli {

/// Lines for people: properties that differ ("-" first, "+" second), then the first position that
/// differs and how many tasks stand elsewhere. Empty when the mappings are the same.
std::string mapping_diff(const Lowering& first, const Lowering& second);

}  // namespace megaconv::cli
