// SPDX-License-Identifier: Apache-2.0
// Random cuts of operators that have one task a group, for tests of every back end's bodies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tasks/elementwise/elementwise.hpp"
#include "tasks/pixelwise/pixelwise.hpp"
#include "tasks/rearrangement/rearrangement.hpp"
#include "tests/dice.hpp"

namespace megaconv::test {

inline ElementwiseCut random_elementwise_cut(std::uint64_t seed) {
  ElementwiseProblem a;
  const auto one_in = [&](std::uint64_t i, std::int64_t count) {
    return between(seed, i, 1, count) == 1;
  };
  a.n = between(seed, 0, 1, 3);
  a.h = between(seed, 1, 1, 9);
  a.w = between(seed, 2, 1, 20);
  a.channels.resize(static_cast<std::size_t>(one_in(3, 2) ? 1 : between(seed, 4, 2, 5)));
  for (std::size_t i = 0; i < a.channels.size(); ++i) a.channels[i] = between(seed, 20 + i, 1, 40);
  a.affine = one_in(5, 2);
  a.residual = one_in(6, 2);
  if (one_in(7, 2)) a.least = 0;
  if (one_in(8, 3)) a.most = 0.75f;
  a.dtype = static_cast<DataType>(between(seed, 9, 0, 2));
  a.layout = one_in(10, 2) ? Layout::nchw : Layout::nhwc;
  ElementwiseCut cut{.problem = a};
  cut.rows_per_group = static_cast<std::uint32_t>(between(seed, 11, 1, a.h));
  cut.channels_per_task =
      static_cast<std::uint32_t>(one_in(12, 3) ? a.c() : between(seed, 13, 1, a.c()));
  derive_counts(cut);
  return cut;
}

inline PixelwiseCut random_pixelwise_cut(std::uint64_t seed) {
  PixelwiseProblem a;
  a.does.function = static_cast<PixelFunction>(seed % kNumPixelFunctions);
  a.does.alpha = static_cast<float>(between(seed, 0, 1, 8)) / 8;
  a.does.beta = seed % 3 == 0 ? 0.75f : static_cast<float>(between(seed, 1, 1, 8)) / 8;
  a.does.bias = static_cast<float>(between(seed, 2, 1, 3));
  a.does.size = between(seed, 3, 1, 6);
  a.n = between(seed, 4, 1, 3);
  a.c = between(seed, 5, 1, 40);
  a.h = between(seed, 6, 1, 9);
  a.w = between(seed, 7, 1, 20);
  a.per_channel = a.does.function == PixelFunction::multiply && seed % 16 < 8;
  a.dtype = static_cast<DataType>(between(seed, 8, 0, 2));
  a.layout = between(seed, 9, 0, 1) == 0 ? Layout::nchw : Layout::nhwc;
  PixelwiseCut cut{.problem = a};
  cut.rows_per_group = static_cast<std::uint32_t>(between(seed, 10, 1, a.h));
  derive_counts(cut);
  return cut;
}

inline RearrangementCut random_rearrangement_cut(std::uint64_t seed) {
  RearrangementProblem a;
  a.n = between(seed, 0, 1, 3);
  a.h = between(seed, 1, 1, 9);
  a.w = between(seed, 2, 1, 20);
  const auto one_in = [&](std::uint64_t i, std::int64_t count) {
    return between(seed, i, 1, count) == 1;
  };
  a.does.groups = one_in(3, 3) ? between(seed, 4, 1, 5) : 1;
  const std::int64_t kept = a.does.groups * between(seed, 5, 1, 8);
  a.does.first_channel = one_in(6, 2) ? between(seed, 7, 0, 9) : 0;
  a.c = kept + a.does.first_channel + (one_in(8, 2) ? between(seed, 9, 0, 9) : 0);
  a.does.channels = kept;
  if (one_in(10, 2)) a.does.repeat_h = between(seed, 11, 1, 3);
  if (one_in(12, 2)) a.does.repeat_w = between(seed, 13, 1, 3);
  const auto sides = [&](std::uint64_t i, std::int64_t extent, std::int64_t& before,
                         std::int64_t& behind) {
    if (!one_in(i, 2)) return;
    before = between(seed, i + 1, 1 - extent, 3);
    behind = between(seed, i + 2, std::min<std::int64_t>(3, 1 - extent - before), 3);
  };
  sides(14, a.h * a.does.repeat_h, a.does.top, a.does.bottom);
  sides(17, a.w * a.does.repeat_w, a.does.left, a.does.right);
  if (a.does.bottom <= -a.h * a.does.repeat_h) a.does.bottom = 0;
  if (a.does.right <= -a.w * a.does.repeat_w) a.does.right = 0;
  if (a.p() < 1) a.does.top = a.does.bottom = 0;
  if (a.q() < 1) a.does.left = a.does.right = 0;
  a.does.fill = one_in(20, 3) ? -std::numeric_limits<float>::infinity() : 0.5f;
  a.dtype = static_cast<DataType>(between(seed, 21, 0, 2));
  a.layout = one_in(22, 2) ? Layout::nchw : Layout::nhwc;
  a.transposes = one_in(24, 4);
  RearrangementCut cut{.problem = a};
  cut.rows_per_group = static_cast<std::uint32_t>(between(seed, 23, 1, a.p()));
  derive_counts(cut);
  return cut;
}

}  // namespace megaconv::test
