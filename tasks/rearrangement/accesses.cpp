// SPDX-License-Identifier: Apache-2.0
// A task of a rearrangement has rows of y, and reads those rows of x that they come from.
#include <algorithm>

#include "tasks/checks.hpp"
#include "tasks/rearrangement/rearrangement.hpp"
#include "tasks/row_bands.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

AccessFunction accesses_of(const RearrangementCut& cut, BufferId x, BufferId y) {
  return [=](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& accesses) {
    const RearrangementProblem& a = cut.problem;
    const RowBand band = band_of(a.p(), cut.rows_per_group, group);
    const auto rows = [](std::int64_t image, std::int64_t height, std::int64_t first,
                         std::int64_t end) {
      return Interval{u64(image * height + first), u64(image * height + end)};
    };
    const std::int64_t first = std::max<std::int64_t>(source_row(a, band.row), 0);
    const std::int64_t end = std::min(source_row(a, band.row + band.rows - 1) + 1, a.h);
    const std::int64_t left = std::max<std::int64_t>(source_col(a, 0), 0);
    const std::int64_t right = std::min(source_col(a, a.q() - 1) + 1, a.w);
    if (first < end && left < right) {  // else y is padding here
      const std::int64_t channel = a.does.first_channel;
      accesses.push_back({x,
                          Mode::read,
                          {.rows = rows(band.image, a.h, first, end),
                           .cols = {u64(left), u64(right)},
                           .channels = {u64(channel), u64(channel + a.k())}}});
    }
    Region written = tensor_extent(a.n, a.k(), a.p(), a.q());
    written.rows = rows(band.image, a.p(), band.row, band.row + band.rows);
    accesses.push_back({y, Mode::write, written});
  };
}

}  // namespace

BufferId add_rearrangement(TaskGraph& graph, const std::string& name, const RearrangementCut& cut,
                           BufferId x) {
  RearrangementCut counted = cut;
  derive_counts(counted);
  const RearrangementProblem& a = counted.problem;
  check_buffer(graph, name, x, tensor_extent(a.n, a.c, a.h, a.w));
  const std::uint64_t element = size_of(a.dtype);
  const double read = static_cast<double>(std::min(a.n * a.k() * a.h * a.w, a.y_size())) *
                      static_cast<double>(element);
  return add_bands(graph, name, counted.num_groups, tensor_extent(a.n, a.k(), a.p(), a.q()),
                   u64(a.y_size()) * element, static_cast<double>(a.y_size()), {{x, read}},
                   [&](BufferId y) { return accesses_of(counted, x, y); });
}

}  // namespace megaconv
