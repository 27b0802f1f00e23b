// SPDX-License-Identifier: Apache-2.0
// The CPU body of pixelwise tasks, the same for all instruction sets: what it does is short beside
// the convolutions around it, and no bit of its results depends on the machine's vectors.
#pragma once

#include <cstdint>

#include "megaconv/pixelwise.hpp"

namespace megaconv::cpu {

/// What a pixelwise task may touch: tensors in the layout and storage type of cut->problem.
struct PixelwiseArgs {
  const PixelwiseCut* cut = nullptr;
  const void* x = nullptr;
  const void* b = nullptr;  ///< to multiply: as x, or [N][C]
  void* y = nullptr;
};

/// Runs one task. It needs no scratch memory.
void run_pixelwise(const PixelwiseArgs& args, std::uint32_t group);

}  // namespace megaconv::cpu
