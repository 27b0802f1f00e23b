// SPDX-License-Identifier: Apache-2.0
#include "tasks/elementwise/cuda/elementwise_args.hpp"

#include <numeric>

#include "tasks/elementwise/elementwise.hpp"
#include "tasks/row_bands.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::cuda {
namespace {

// The largest: few entries, and one look-up where a search would be several, each behind the last.
std::int64_t channel_step(const ElementwiseProblem& problem) {
  std::int64_t step = 0;
  for (const std::int64_t channels : problem.channels) step = std::gcd(step, channels);
  return step;
}

}  // namespace

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
  args.channel_step = i32(channel_step(a));
  args.h = i32(a.h);
  args.w = i32(a.w);
  args.c = i32(a.c());
  args.rows_per_group = i32(counted.rows_per_group);
  args.channels_per_task = i32(counted.channels_per_task);
  args.older_channels = i32(older_channels(counted));
  args.older_chunks = i32(older_chunks(counted));
  args.last_chunks = i32(last_chunks(counted));
  const std::int64_t bands = a.n * ceil_div(a.h, std::int64_t{counted.rows_per_group});
  args.older_tasks = static_cast<std::uint32_t>(bands) * older_chunks(counted);
  args.least = a.least;
  args.most = a.most;
  args.vectors = channel_step(a) % vector == 0 && counted.channels_per_task % vector == 0;
  return args;
}

SecondOutput second_output(const ElementwiseCut& cut, const NodePlaces& places,
                           std::int64_t first_channel) {
  const ElementwiseProblem& a = cut.problem;
  return {.y = places.y,
          .scale = a.affine ? places.scale + first_channel : nullptr,
          .bias = a.affine ? places.bias + first_channel : nullptr,
          .channels = static_cast<std::int32_t>(a.c()),
          .first_channel = static_cast<std::int32_t>(first_channel),
          .least = a.least,
          .most = a.most,
          .window = {}};
}

std::vector<ElementwiseInput> node_table(const ElementwiseCut& cut, const NodePlaces& places) {
  std::vector<ElementwiseInput> steps;
  const auto step = static_cast<std::int32_t>(channel_step(cut.problem));
  std::int32_t first = 0;
  for (std::size_t i = 0; i < cut.problem.channels.size(); ++i) {
    const auto channels = static_cast<std::int32_t>(cut.problem.channels[i]);
    steps.insert(steps.end(), static_cast<std::size_t>(channels / step),
                 {places.inputs[i], first, channels});
    first += channels;
  }
  return steps;
}

}  // namespace megaconv::cuda
