// SPDX-License-Identifier: Apache-2.0
// Graphs of any counts, and what the tests of mappings share.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "mapping/tiling.hpp"
#include "megaconv/error.hpp"
#include "megaconv/mapping.hpp"

namespace megaconv::test {

struct Counts {
  std::uint32_t ng = 1, nf = 1, si = 1, sg = 1, so = 1;
  std::uint32_t v_slots = 0, m_slots = 0;  // 0: whole
};

/// A Winograd tiling with exactly these counts: one tile a group, one channel block an input task,
/// and NF * SG * SO filter blocks, which each kind of task divides as it needs. NF = 0: prepared.
inline Tiling winograd_tiling(const Counts& counts) {
  const std::uint32_t nf = std::max(1u, counts.nf);
  const std::uint32_t filter_blocks = nf * counts.sg * counts.so;
  Tiling tiling;
  tiling.problem.c = 16 * counts.si;
  tiling.problem.k = 16 * filter_blocks;
  tiling.problem.h = 4;
  tiling.problem.w = 4 * counts.ng;
  tiling.algorithm = Algorithm::winograd;
  tiling.filters = counts.nf == 0 ? FilterMode::prepared : FilterMode::every_run;
  tiling.m = 4;
  tiling.group_tiles = tiling.tiles_per_transform_task = 1;
  tiling.channel_blocks_per_input_task = 1;
  tiling.filter_blocks_per_gemm_task = filter_blocks / counts.sg;
  tiling.positions_per_gemm_task = 36;
  tiling.filter_blocks_per_output_task = filter_blocks / counts.so;
  tiling.filter_blocks_per_filter_task = filter_blocks / nf;
  tiling.channel_blocks_per_filter_task = counts.si;
  tiling.v_slots = counts.v_slots;
  tiling.m_slots = counts.m_slots;
  derive_counts(tiling);
  return tiling;
}

/// A direct tiling with NG, NF and SG of `counts`: one output pixel a group.
inline Tiling direct_tiling(const Counts& counts) {
  const std::uint32_t nf = std::max(1u, counts.nf);
  Tiling tiling;
  tiling.problem.k = 16 * nf * counts.sg;
  tiling.problem.w = counts.ng;
  tiling.problem.r = tiling.problem.s = 1;
  tiling.problem.pad_h = tiling.problem.pad_w = 0;
  tiling.filters = counts.nf == 0 ? FilterMode::prepared : FilterMode::every_run;
  tiling.rows_per_group = tiling.cols_per_group = 1;
  tiling.filter_blocks_per_gemm_task = nf;
  tiling.filter_blocks_per_filter_task = counts.sg;
  derive_counts(tiling);
  return tiling;
}

/// "F[0] I[0,0] ..."
inline std::string names(const TaskGraph& graph, const std::vector<std::uint32_t>& order) {
  std::string text;
  for (std::uint32_t id : order) {
    if (!text.empty()) text += ' ';
    text += name(graph.tasks[id]);
  }
  return text;
}

/// Counts with ratios that are whole and not, single groups, no filter tasks.
inline const std::vector<Counts> kOddCounts = {
    {.ng = 1, .nf = 1, .si = 1, .sg = 1, .so = 1},  {.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2},
    {.ng = 5, .nf = 0, .si = 3, .sg = 2, .so = 1},  {.ng = 7, .nf = 3, .si = 1, .sg = 5, .so = 2},
    {.ng = 9, .nf = 2, .si = 4, .sg = 3, .so = 5},  {.ng = 2, .nf = 4, .si = 7, .sg = 1, .so = 3},
    {.ng = 13, .nf = 1, .si = 1, .sg = 4, .so = 1}, {.ng = 31, .nf = 0, .si = 2, .sg = 7, .so = 3},
};

inline const std::vector<Policy> kPolicies = {Policy::interleaved,   Policy::blended,
                                              Policy::staged,        Policy::depth_first,
                                              Policy::critical_path, Policy::random_topological};

/// The message of the megaconv::Error that `call` throws; "" when it throws none. Messages are one
/// line: a line break makes the result say so.
template <typename Call>
std::string error_of(Call call, Status expected = Status::invalid_argument) {
  try {
    call();
  } catch (const Error& error) {
    if (error.status() != expected) return std::string("status ") + to_string(error.status());
    const std::string message = error.what();
    return message.find('\n') == std::string::npos ? message : "more than one line: " + message;
  }
  return {};
}

}  // namespace megaconv::test
