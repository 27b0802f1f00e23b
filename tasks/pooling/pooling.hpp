// SPDX-License-Identifier: Apache-2.0
// The room of pooling: how it is cut into tasks, and what these read and write.
//
//   PoolProblem --cut_pooling--> PoolCut --add_pooling--> a node of a TaskGraph
#pragma once

#include <cstdint>
#include <string>

#include "megaconv/graph.hpp"
#include "megaconv/pooling.hpp"
#include "megaconv/tiling.hpp"
#include "tasks/regions.hpp"

namespace megaconv {

/// Kind of a pooling task: "pooling", letter 'P'.
inline constexpr KindId kPoolingKind = id_of(TaskKind::pooling);

/// Chooses a cut. Groups are whole rows. Where these are too few for `workers`, they are single
/// rows whose channels are split, and then their columns. Throws as validate() does, and
/// Error(invalid_argument) without workers.
PoolCut cut_pooling(const PoolProblem& problem, std::uint32_t workers);
/// The same in no more tasks than blocks that run at a time, if there are not more images.
PoolCut cut_pooling_at_once(const PoolProblem& problem, std::uint32_t blocks);

/// Checks the fields of a cut that are chosen, and computes those that follow from them. Throws as
/// validate() does, Error(invalid_argument) for a field out of range, Error(unsupported) past 2^31
/// tasks.
void derive_counts(PoolCut& cut);

/// What one task computes: output pixels of one image, and channels. A plain value.
struct PoolTask {
  std::int64_t image, row, col, rows, cols;
  std::int64_t first_channel, num_channels;
  std::int64_t p, q;  ///< of the problem
};

/// Not inline: task bodies of every instruction set call it.
PoolTask task_of(const PoolCut& cut, std::uint32_t group, std::uint32_t block);

/// Windows over rows and columns, as for a convolution; all of x and of y.
WindowAxis rows_of(const PoolProblem& problem);
WindowAxis cols_of(const PoolProblem& problem);
Region x_extent(const PoolProblem& problem);
Region y_extent(const PoolProblem& problem);

/// y of a node of that name, as a buffer: rows n p, columns q, channels c.
Buffer y_buffer(const PoolProblem& problem, const std::string& name);

/// Appends a node: its name, its buffer y ("pool1.y") unless it is given, what its tasks read and
/// write, and its one stage. Returns the id of y. `x` is a buffer of the graph: rows n h, columns
/// w, channels c. Throws as derive_counts() and add_stage() do, and Error(invalid_argument) naming
/// node, buffer and axis where x does not fit; the graph is then as it was.
BufferId add_pooling(TaskGraph& graph, const std::string& name, const PoolCut& cut, BufferId x,
                     BufferId y = kNoBuffer);

}  // namespace megaconv
