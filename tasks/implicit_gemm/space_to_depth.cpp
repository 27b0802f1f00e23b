// SPDX-License-Identifier: Apache-2.0
#include "tasks/implicit_gemm/space_to_depth.hpp"

#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv {

bool has_space_to_depth(const ConvProblem& a) {
  return a.layout == Layout::nhwc && a.groups == 1 && has_strides(a) && a.dilation_h == 1 &&
         a.dilation_w == 1 && a.c < std::int64_t{Tiling::kLaneBlock} && a.r >= a.stride_h &&
         a.s >= a.stride_w;
}

SpaceToDepth space_to_depth(const ConvProblem& a) {
  constexpr std::int64_t kBlock = Tiling::kLaneBlock;
  const std::int64_t taps_h = ceil_div(a.r, a.stride_h), taps_w = ceil_div(a.s, a.stride_w);
  return {.rows = a.p() + taps_h - 1,
          .cols = a.q() + taps_w - 1,
          .channels = ceil_div(a.c * a.stride_h * a.stride_w, kBlock) * kBlock,
          .taps_h = taps_h,
          .taps_w = taps_w};
}

namespace {

// Taps of a filter's row that are channels of one pixel: as few as fill a K block's row.
std::int64_t joined_taps(const SpaceToDepth& depth, Operands operands) {
  constexpr std::int64_t kRowBytes = 64;
  const std::int64_t bytes = depth.channels * operand_bytes(operands);
  std::int64_t taps = 1;
  while (taps < depth.taps_w && (depth.taps_w % taps != 0 || taps * bytes < kRowBytes)) ++taps;
  return taps;
}

}  // namespace

Operands operands_in_depth(const ConvProblem& problem, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::tf32) return Operands::in_float_tensor;
  return operands_in_tensor(multiplied_problem(problem, Operands::in_tensor)) ? Operands::in_tensor
                                                                              : Operands::loaded;
}

ConvProblem multiplied_problem(const ConvProblem& problem, Operands operands) {
  if (!has_space_to_depth(problem)) return problem;
  const SpaceToDepth depth = space_to_depth(problem);
  ConvProblem multiplied = problem;
  multiplied.h = depth.rows;
  multiplied.w = depth.cols;
  multiplied.c = depth.channels;
  multiplied.r = depth.taps_h;
  multiplied.s = depth.taps_w;
  multiplied.pad_h = multiplied.pad_w = 0;
  multiplied.stride_h = multiplied.stride_w = 1;
  if (operands == Operands::loaded) return multiplied;
  const std::int64_t joined = joined_taps(depth, operands);
  multiplied.w -= joined - 1;
  multiplied.c *= joined;
  multiplied.s /= joined;
  multiplied.dilation_w = joined;
  return multiplied;
}

Tiling multiplied(const Tiling& tiling) {
  Tiling multiplied = tiling;
  if (const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut)) {
    multiplied.problem = multiplied_problem(tiling.problem, cut->operands);
  }
  return multiplied;
}

}  // namespace megaconv
