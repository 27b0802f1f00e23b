// SPDX-License-Identifier: Apache-2.0
#include "tasks/rearrangement/reference.hpp"

#include "tasks/rearrangement/operator.hpp"

namespace megaconv {
namespace {

using Plane = std::vector<double>;

/// Every row and column as often as asked.
Plane upsample(const RearrangementProblem& a, std::span<const double> plane) {
  Plane y;
  for (std::int64_t h = 0; h < a.h; ++h) {
    for (std::int64_t down = 0; down < a.does.repeat_h; ++down) {
      for (std::int64_t w = 0; w < a.w; ++w) {
        y.insert(y.end(), static_cast<std::size_t>(a.does.repeat_w),
                 plane[static_cast<std::size_t>(h * a.w + w)]);
      }
    }
  }
  return y;
}

Plane pad(const RearrangementProblem& a, const Plane& plane) {
  const std::int64_t h = a.h * a.does.repeat_h, w = a.w * a.does.repeat_w;
  Plane y;
  for (std::int64_t row = -a.does.top; row < h + a.does.bottom; ++row) {
    for (std::int64_t col = -a.does.left; col < w + a.does.right; ++col) {
      const bool inside = row >= 0 && row < h && col >= 0 && col < w;
      y.push_back(inside ? plane[static_cast<std::size_t>(row * w + col)] : double{a.does.fill});
    }
  }
  return y;
}

}  // namespace

std::vector<double> reference_rearrangement(const RearrangementProblem& problem,
                                            std::span<const double> x) {
  const RearrangementProblem& a = problem;
  const std::int64_t groups = a.does.groups, each = a.k() / groups, size = a.h * a.w;
  std::vector<double> y;
  for (std::int64_t image = 0; image < a.n; ++image) {
    for (std::int64_t of_group = 0; of_group < each; ++of_group) {
      for (std::int64_t group = 0; group < groups; ++group) {
        const std::int64_t c = a.does.first_channel + group * each + of_group;
        const auto first = static_cast<std::size_t>((image * a.c + c) * size);
        const Plane plane = pad(a, upsample(a, x.subspan(first, static_cast<std::size_t>(size))));
        y.insert(y.end(), plane.begin(), plane.end());
      }
    }
  }
  return y;
}

OperatorTruth truth_of(const RearrangementProblem& a, const FusedOperator&,
                       const ReadNumbers& read) {
  std::vector<double> y = reference_rearrangement(a, read(0, {a.n, a.c, a.h, a.w}));
  return {.y = y, .magnitude = std::vector<double>(y.size())};
}

}  // namespace megaconv
