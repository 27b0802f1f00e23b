// SPDX-License-Identifier: Apache-2.0
#include "tasks/rearrangement/cuda/rearrangement_args.hpp"

#include <algorithm>
#include <bit>

#include "tasks/checks.hpp"
#include "tasks/rearrangement/rearrangement.hpp"
#include "tasks/row_bands.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv::cuda {
namespace {

std::uint32_t fill_bits(DataType dtype, float fill) {
  return with_storage(dtype, [&](auto number) -> std::uint32_t {
    using T = decltype(number);
    if constexpr (sizeof(T) == 4) {
      return std::bit_cast<std::uint32_t>(fill);
    } else if constexpr (sizeof(T) == 2) {
      return std::uint32_t{std::bit_cast<std::uint16_t>(from_float<T>(fill))} * 0x10001u;
    }
    return 0;  // refused by derive_counts()
  });
}

}  // namespace

RearrangementArgs node_args(const RearrangementCut& cut, const NodePlaces& places) {
  RearrangementCut counted = cut;
  derive_counts(counted);
  const RearrangementProblem& a = counted.problem;
  check_cuda_image("rearrangement", Layout::nhwc, std::max(a.c * a.h * a.w, a.k() * a.p() * a.q()));
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const Strides in = strides_of(a.layout, a.n, a.c, a.h * a.w);
  const Strides out = strides_of(a.y_layout(), a.n, a.k(), a.p() * a.q());
  const auto vector = static_cast<std::int64_t>(16 / size_of(a.dtype));
  RearrangementArgs args{};
  args.x = places.x;
  args.y = places.y;
  args.h = i32(a.h);
  args.w = i32(a.w);
  args.k = i32(a.k());
  args.p = i32(a.p());
  args.q = i32(a.q());
  args.first_channel = i32(a.does.first_channel);
  args.groups = i32(a.does.groups);
  args.repeat_h = i32(a.does.repeat_h);
  args.repeat_w = i32(a.does.repeat_w);
  args.top = i32(a.does.top);
  args.left = i32(a.does.left);
  args.rows_per_group = i32(counted.rows_per_group);
  args.fill = fill_bits(a.dtype, a.does.fill);
  args.x_image = in.image;
  args.y_image = out.image;
  args.x_channel = i32(in.channel);
  args.x_pixel = i32(in.pixel);
  args.y_channel = i32(out.channel);
  args.y_pixel = i32(out.pixel);
  args.vectors = a.layout == Layout::nhwc && !a.transposes && a.does.groups == 1 &&
                 a.c % vector == 0 && a.k() % vector == 0 && a.does.first_channel % vector == 0;
  return args;
}

}  // namespace megaconv::cuda
