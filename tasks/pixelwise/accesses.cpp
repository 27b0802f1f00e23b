// SPDX-License-Identifier: Apache-2.0
// A pixelwise task reads and writes the same rows of its tensors. What it costs, too.
#include "tasks/checks.hpp"
#include "tasks/pixelwise/pixelwise.hpp"
#include "tasks/row_bands.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

Region b_extent(const PixelwiseProblem& a) {
  return a.per_channel ? tensor_extent(a.n, a.c, 1, 1) : tensor_extent(a.n, a.c, a.h, a.w);
}

AccessFunction accesses_of(const PixelwiseCut& cut, BufferId x, BufferId b, BufferId y) {
  return [=](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& accesses) {
    const PixelwiseProblem& a = cut.problem;
    const RowBand band = band_of(a.h, cut.rows_per_group, group);
    Region region = tensor_extent(a.n, a.c, a.h, a.w);
    region.rows = {u64(band.image * a.h + band.row), u64(band.image * a.h + band.row + band.rows)};
    accesses.push_back({x, Mode::read, region});
    if (a.does.function == PixelFunction::multiply) {
      Region second = region;
      if (a.per_channel) {
        second = b_extent(a);
        second.rows = {u64(band.image), u64(band.image + 1)};
      }
      accesses.push_back({b, Mode::read, second});
    }
    accesses.push_back({y, Mode::write, region});
  };
}

/// Operations for a number of y: an exponential or a root counts as eight.
double operations_of(const Pixelwise& does) {
  switch (does.function) {
    case PixelFunction::multiply:
    case PixelFunction::leaky_relu:
      return 1;
    case PixelFunction::hard_sigmoid:
    case PixelFunction::hard_swish:
      return 4;
    case PixelFunction::local_response_norm:
      return 10 + 2 * static_cast<double>(does.size);
    default:
      return 10;
  }
}

}  // namespace

BufferId add_pixelwise(TaskGraph& graph, const std::string& name, const PixelwiseCut& cut,
                       BufferId x, BufferId b) {
  PixelwiseCut counted = cut;
  derive_counts(counted);
  const PixelwiseProblem& a = counted.problem;
  const Region extent = tensor_extent(a.n, a.c, a.h, a.w);
  const double bytes = static_cast<double>(a.y_size()) * static_cast<double>(size_of(a.dtype));
  check_buffer(graph, name, x, extent);
  std::vector<BandRead> reads{{x, bytes}};
  if (a.does.function == PixelFunction::multiply) {
    check_buffer(graph, name, b, b_extent(a));
    reads.push_back({b, a.per_channel ? bytes / static_cast<double>(a.h * a.w) : bytes});
  }
  return add_bands(graph, name, counted.num_groups, extent, u64(a.y_size()) * size_of(a.dtype),
                   static_cast<double>(a.y_size()) * operations_of(a.does), reads,
                   [&](BufferId y) { return accesses_of(counted, x, b, y); });
}

}  // namespace megaconv
