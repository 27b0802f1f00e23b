// SPDX-License-Identifier: Apache-2.0
#include "tasks/elementwise/cuda/elementwise_args.hpp"

#include <algorithm>

#include "tasks/elementwise/elementwise.hpp"
#include "tasks/row_bands.hpp"

namespace megaconv::cuda {

ElementwiseArgs make_elementwise_args(const ElementwiseCut& cut) {
  ElementwiseCut counted = cut;
  derive_counts(counted);
  const ElementwiseProblem& a = counted.problem;
  check_cuda_image("elementwise", a.layout, a.h * a.w * a.c());
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const auto vector = static_cast<std::int64_t>(16 / size_of(a.dtype));
  ElementwiseArgs args{};
  args.num_inputs = i32(static_cast<std::int64_t>(a.channels.size()));
  args.h = i32(a.h);
  args.w = i32(a.w);
  args.c = i32(a.c());
  args.rows_per_group = i32(cut.rows_per_group);
  args.least = a.least;
  args.most = a.most;
  args.vectors = std::all_of(a.channels.begin(), a.channels.end(),
                             [&](std::int64_t channels) { return channels % vector == 0; });
  return args;
}

std::vector<ElementwiseInput> make_elementwise_inputs(const ElementwiseCut& cut) {
  std::vector<ElementwiseInput> inputs;
  std::int32_t first = 0;
  for (const std::int64_t channels : cut.problem.channels) {
    inputs.push_back(
        {.x = 0, .first_channel = first, .channels = static_cast<std::int32_t>(channels)});
    first += inputs.back().channels;
  }
  return inputs;
}

}  // namespace megaconv::cuda
