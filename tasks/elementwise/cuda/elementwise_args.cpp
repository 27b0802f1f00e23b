// SPDX-License-Identifier: Apache-2.0
#include "tasks/elementwise/cuda/elementwise_args.hpp"

#include <algorithm>

#include "tasks/elementwise/elementwise.hpp"
#include "tasks/row_bands.hpp"

namespace megaconv::cuda {

ElementwiseArgs node_args(const ElementwiseCut& cut, const NodePlaces& places) {
  ElementwiseCut counted = cut;
  derive_counts(counted);
  const ElementwiseProblem& a = counted.problem;
  check_cuda_image("elementwise", a.layout, a.h * a.w * a.c());
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const auto vector = static_cast<std::int64_t>(16 / size_of(a.dtype));
  ElementwiseArgs args{};
  args.residual = places.residual;
  args.y = places.y;
  args.scale = places.scale;
  args.bias = places.bias;
  args.inputs = static_cast<const ElementwiseInput*>(places.table);
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

std::vector<ElementwiseInput> node_table(const ElementwiseCut& cut, const NodePlaces& places) {
  std::vector<ElementwiseInput> inputs;
  std::int32_t first = 0;
  for (const std::int64_t number : cut.problem.channels) {
    const auto channels = static_cast<std::int32_t>(number);
    inputs.push_back({places.inputs[inputs.size()], first, channels});
    first += channels;
  }
  return inputs;
}

}  // namespace megaconv::cuda
