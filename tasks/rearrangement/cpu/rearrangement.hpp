// SPDX-License-Identifier: Apache-2.0
// The CPU body of tasks of a rearrangement, the same for all instruction sets: it moves numbers.
#pragma once

#include <cstdint>

#include "megaconv/rearrangement.hpp"

namespace megaconv::cpu {

/// What a task may touch: tensors in the layout and storage type of cut->problem.
struct RearrangementArgs {
  const RearrangementCut* cut = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
};

/// Runs one task. It needs no scratch memory.
void run_rearrangement(const RearrangementArgs& args, std::uint32_t group);

}  // namespace megaconv::cpu
