// SPDX-License-Identifier: Apache-2.0
// Which instructions a device has to multiply matrices, and the choice among them.
#pragma once

#include <cstdint>
#include <vector>

namespace megaconv::cuda {

/// fma: FP32 multiply-adds; mma: also tensor cores, by the instruction of a warp; wgmma: also
/// Hopper's of a warpgroup, in the place of that one.
enum class Isa : std::uint8_t { fma, mma, wgmma };
const char* to_string(Isa isa) noexcept;  ///< "fma", "mma", "wgmma"

/// Those that a device of this compute capability (90 for 9.0) runs.
std::vector<Isa> available_isas(int capability);

/// wgmma on 9.0, fma elsewhere: nobody has measured yet where mma is faster.
Isa default_isa(int capability) noexcept;
/// The one that MEGACONV_CUDA_ISA names, or the default. Throws Error(unsupported) for a name that
/// is not among the available ones.
Isa choose_isa(int capability);

}  // namespace megaconv::cuda
