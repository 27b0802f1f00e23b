// SPDX-License-Identifier: Apache-2.0
// A group of direct tasks has a rectangle of output pixels of one image.
#include <algorithm>

#include "tasks/conv_graph.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

Region rectangle_of_group(const ConvProblem& problem, const DirectCut& cut, std::uint64_t group) {
  const std::uint64_t p = u64(problem.p()), q = u64(problem.q());
  const std::uint64_t rows = cut.rows_per_group, cols = cut.cols_per_group;
  const std::uint64_t row_chunks = ceil_div(p, rows), col_chunks = ceil_div(q, cols);
  const std::uint64_t image = group / (row_chunks * col_chunks);
  const std::uint64_t row = group / col_chunks % row_chunks * rows;
  const std::uint64_t col = group % col_chunks * cols;
  return {.rows = {image * p + row, image * p + std::min(row + rows, p)},
          .cols = {col, std::min(col + cols, q)}};
}

}  // namespace

AccessFunction direct_accesses(const Tiling& tiling, const NodeBuffers& buffers) {
  return [tiling, cut = std::get<DirectCut>(tiling.cut), buffers](
             Role role, std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) {
    if (role == Role::prepare) {
      return append_filter_task(tiling, buffers, block, accesses);
    }
    accesses.push_back({buffers.u, Mode::read, u_extent(tiling)});
    const std::uint64_t first = std::uint64_t{block} * cut.filter_blocks_per_gemm_task;
    const std::uint64_t last =
        std::min<std::uint64_t>(first + cut.filter_blocks_per_gemm_task, tiling.filter_blocks());
    append_pixels(tiling, buffers, {rectangle_of_group(tiling.problem, cut, group)},
                  channels_of_filter_blocks(tiling, first, last), accesses);
  };
}

}  // namespace megaconv
