// SPDX-License-Identifier: Apache-2.0
#include "tasks/pixelwise/cuda/pixelwise_args.hpp"

#include <algorithm>

#include "tasks/checks.hpp"
#include "tasks/pixelwise/pixelwise.hpp"
#include "tasks/row_bands.hpp"

namespace megaconv::cuda {

PixelwiseArgs node_args(const PixelwiseCut& cut, const NodePlaces& places) {
  PixelwiseCut counted = cut;
  derive_counts(counted);
  const PixelwiseProblem& a = counted.problem;
  check_cuda_image("pixelwise", a.layout, a.c * a.h * a.w);
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  PixelwiseArgs args{};
  args.x = places.x;
  args.b = places.residual;
  args.y = places.y;
  args.c = i32(a.c);
  args.h = i32(a.h);
  args.w = i32(a.w);
  args.rows_per_group = i32(counted.rows_per_group);
  args.before = i32((a.does.size - 1) / 2);
  args.behind = i32(std::min(a.does.size / 2, a.c));
  args.alpha = a.does.alpha;
  if (a.does.function == PixelFunction::local_response_norm) {
    args.alpha = static_cast<float>(double{a.does.alpha} / static_cast<double>(a.does.size));
  }
  args.beta = a.does.beta;
  args.bias = a.does.bias;
  args.function = a.does.function;
  args.per_channel = a.per_channel;
  args.vectors = a.c % static_cast<std::int64_t>(16 / size_of(a.dtype)) == 0;
  return args;
}

}  // namespace megaconv::cuda
