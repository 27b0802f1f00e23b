// SPDX-License-Identifier: Apache-2.0
// Two families of tasks compute a convolution of a network on a GPU: small tiles, which all
// convolutions share one kernel for and one launch can run, and those of a convolution by itself,
// large tiles that need a kernel of their own for every stage.
#pragma once

#include <optional>
#include <string>

#include "megaconv/lowering.hpp"

namespace megaconv {

/// Whether convolutions of networks may have kernels of their own unasked: it is known how long
/// these take. On other GPUs stages do not start early either.
bool has_own_kernels(const Target& target);

/// Microseconds that a convolution takes in a chain of stages, roughly.
double small_tiles_us(const SmallGemmCut& cut, const Target& target);
/// `tiling`: of whole tensors and prepared filters.
double own_kernels_us(const Tiling& tiling, const Target& target);

/// Microseconds of one that runs by itself, again and again.
double small_tiles_alone_us(const SmallGemmCut& cut, const Target& target);
double own_kernels_alone_us(const Tiling& tiling, const Target& target);
/// Small tiles for a convolution by itself, if they are faster than `own` and `options` leave the
/// choice. A kernel a stage runs them.
std::optional<Tiling> faster_small_tiles(const Tiling& own, const TilingOptions& options,
                                         const Target& target);

/// "17 us"
std::string us_text(double us);

/// A cut, and why: "estimated 17 us, by small tiles 74 us".
struct FamilyChoice {
  Cut cut;
  std::string reason;
  double us = 0;             ///< in a chain of stages
  double one_launch_us = 0;  ///< as part of one launch, by small tiles
};
/// The faster of the two. `own`: empty where the problem has none.
FamilyChoice choose_family(const SmallGemmCut& small, const std::optional<Tiling>& own,
                           const Target& target);

}  // namespace megaconv
