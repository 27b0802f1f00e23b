// SPDX-License-Identifier: Apache-2.0
// The room of elementwise operations: how they are cut into tasks, and what these read and write.
//
//   ElementwiseProblem --cut_elementwise--> ElementwiseCut --add_elementwise--> a node of a
//   TaskGraph
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "megaconv/elementwise.hpp"
#include "megaconv/graph.hpp"

namespace megaconv {

struct NodeBuffers;  // lowering.hpp, which bodies do without

/// Chooses a cut: tasks enough for `workers`, none of them tiny. Where there are fewer bands of
/// rows than workers, the last tensor of x has tasks of its own. Throws as validate() does, and
/// Error(invalid_argument) without workers.
ElementwiseCut cut_elementwise(const ElementwiseProblem& problem, std::uint32_t workers);

/// Checks the fields of a cut that are chosen, and computes those that follow from them. Throws as
/// validate() does, Error(invalid_argument) for a field out of range, Error(unsupported) past 2^31
/// tasks.
void derive_counts(ElementwiseCut& cut);

/// What one task computes. A plain value, for bodies of every instruction set.
struct ElementwiseTask {
  std::ptrdiff_t image, row, rows;
  std::ptrdiff_t first_channel, end_channel;  ///< of y
  std::ptrdiff_t h, w, c;                     ///< of y
  const std::int64_t* channels;               ///< of each of the tensors x
  std::ptrdiff_t num_inputs;
  float least, most;
  bool nhwc, affine, residual;
};

/// Not inline: task bodies of every instruction set call it.
ElementwiseTask task_of(const ElementwiseCut& cut, std::uint32_t group);

/// The cut where the makers of so many tensors, the last ones, write their part of y.
ElementwiseCut with_makers_writing(ElementwiseCut cut, std::uint32_t tensors);

/// Channels of y that tasks take from older tensors, and from them alone: all but the last one, or
/// all but those whose makers write y. 0: no such tasks.
std::int64_t older_channels(const ElementwiseCut& cut);
std::size_t older_tensors(const ElementwiseCut& cut);
/// Tasks that these channels are, and the others, of the same rows.
std::uint32_t older_chunks(const ElementwiseCut& cut);
std::uint32_t last_chunks(const ElementwiseCut& cut);

/// The i-th tensor of x; all of y.
Region x_extent(const ElementwiseProblem& problem, std::size_t i);
Region y_extent(const ElementwiseProblem& problem);

/// y of a node of that name, as a buffer.
Buffer y_buffer(const ElementwiseProblem& problem, const std::string& name);

/// Appends a node that reads the buffers read.inputs, and read.residual if the problem has one: its
/// name, its buffer y unless read has it, what its tasks read and write, and its one stage, if it
/// has tasks. Returns read with y.
/// Throws as derive_counts() and add_stage() do, and Error(invalid_argument) naming node and buffer
/// where a buffer does not fit.
NodeBuffers add_elementwise(TaskGraph& graph, const std::string& name, const ElementwiseCut& cut,
                            const NodeBuffers& read);

}  // namespace megaconv
