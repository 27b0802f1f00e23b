// SPDX-License-Identifier: Apache-2.0
// Whether the convolutions of a network hand floats to each other in pairs.
#pragma once

#include <optional>
#include <vector>

#include "megaconv/lowering.hpp"
#include "megaconv/small_gemm.hpp"
#include "tasks/fuse.hpp"

namespace megaconv {

/// Of a network of convolutions with small tiles in TF32, and of poolings that they compute, too:
/// by operator. A kernel that finds floats as well is slower, so all of them take pairs or none
/// does. Empty: none can.
std::optional<std::vector<PairTensors>> choose_pair_tensors(const FusedNetwork& network);

/// Whether a lowering has them: values between its operators, which as outputs have other bits.
bool has_pairs(const Lowering& lowering);

}  // namespace megaconv
