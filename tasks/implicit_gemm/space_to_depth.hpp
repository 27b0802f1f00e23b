// SPDX-License-Identifier: Apache-2.0
// Space to depth: strided layers of few channels as layers without strides.
//
// Under one tap a K block would hold an image's three channels and zeros. So input tasks copy x:
// what lies in one step of the strides, stride_h x stride_w pixels, becomes the channels of one
// pixel. Padding is copied, too. Filter tasks do the same with w. A 7x7 filter of stride 2 on 3
// channels becomes a 4x4 filter of stride 1 on 12, stored as 16:
//
//   V   [n][P + R' - 1][Q + S' - 1][C']   R' = ceil(R / stride_h), S' = ceil(S / stride_w)
//   V[.][i][j][(v stride_w + u) C + c] = x[.][i stride_h - pad_h + v][j stride_w - pad_w + u][c]
//
// zero beside x and past the last channel; C' is in whole lane blocks. Where TMA loads V and C'
// channels are less than a row of a K block, neighbouring taps of a filter's row are channels, too:
// they lie side by side, so a pixel of 2 C' channels begins every C' numbers. Its taps are 2 apart.
//
// What is added are zeros. But zero times infinity is NaN: an infinity or a NaN in x may reach
// outputs whose filters end before it, by less than a step.
#pragma once

#include "megaconv/tiling.hpp"

namespace megaconv {

/// Whether implicit GEMM has these copies: in NHWC, of fewer channels than a lane block, where
/// filters are no smaller than a step.
bool has_space_to_depth(const ConvProblem& problem);

/// How x is copied, and w.
struct SpaceToDepth {
  std::int64_t rows, cols, channels;  ///< of V
  std::int64_t taps_h, taps_w;        ///< R', S'
};
SpaceToDepth space_to_depth(const ConvProblem& problem);

/// The load path of V at this arithmetic.
Operands operands_in_depth(const ConvProblem& problem, Arithmetic arithmetic);

/// What the tasks of a problem multiply, with this load path: another problem that has the same y,
/// whose x is the copy; or the same one.
ConvProblem multiplied_problem(const ConvProblem& problem, Operands operands);
/// The same tiling of that problem.
Tiling multiplied(const Tiling& tiling);

}  // namespace megaconv
