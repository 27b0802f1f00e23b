// SPDX-License-Identifier: Apache-2.0
// Convolutions that make x of a 1x1 convolution, computed by its tasks, as in the blocks of
// MobileNet: what the first ones make is stored nowhere.
//
//   x --expand, 1x1--> e --depthwise--> x of the convolution --its own filters, 1x1--> y
//
// Without `expand` the tasks read e. All that a K block needs stands with its filters in U:
//
//   its own filters | those of `expand` | vectors, floats of its channels
//
// There is a vector for each tap of the depthwise convolution, one for its bias, then for `expand`
// the bias and the inverse scales of its filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "megaconv/small_gemm.hpp"
#include "tasks/small_gemm/small_gemm.hpp"

namespace megaconv {

/// Whether tasks of `reader` can compute what that depthwise convolution makes.
bool can_compute_input(const ConvProblem& depthwise, const ConvProblem& reader);
/// Whether they can also compute what that 1x1 convolution makes of which `depthwise` reads.
bool can_expand(const ConvProblem& expand, const ConvProblem& depthwise);

/// What the tasks read: x of the first of these convolutions.
const ConvProblem& first_problem(const SmallGemmCut& cut);

/// Channels of e in eights, as matrix instructions have them, and steps of its sums.
inline constexpr std::int64_t kExpandTile = 8;
std::int64_t expand_steps(const ConvProblem& expand);
/// Pixels of e under a tile are fewer (quotient.cuh).
inline constexpr std::int64_t kMostExpandPixels = 1 << 10;
/// Of a K block: [channels in eights][step][part][lane of a warp][8 numbers]. Lane l has channel
/// l / 4 and the quarter l % 4 of the step's numbers.
std::int64_t expand_filter_bytes(const SmallGemmCut& cut, const SumSteps& steps);

/// Vectors of a K block, and their bytes; none where x is read.
std::int64_t num_input_vectors(const SmallGemmCut& cut);
std::int64_t input_vector_bytes(const SmallGemmCut& cut, const SumSteps& steps);

/// What `expand` needs of a task's shared memory, behind other things; bytes.
struct ComputedInputMemory {
  std::int64_t magnitudes = 0;            ///< of x, by warp
  std::int64_t in_rows = 0, in_cols = 0;  ///< pixels of e under the tile
  std::int64_t inside = 0;                ///< whether they exist, a byte each
  std::int64_t x_pitch = 0, x_part = 0;   ///< of a pixel, of a part of x
  std::int64_t x = 0;                     ///< all channels of these, as they are multiplied
  std::int64_t e_pitch = 0;               ///< of a pixel
  std::int64_t e = 0;                     ///< a K block's channels, as they would be stored
  std::int64_t pixels() const { return in_rows * in_cols; }
  std::int64_t bytes() const { return magnitudes + inside + x + e; }
};
ComputedInputMemory computed_input_memory(const SmallGemmCut& cut, const SumSteps& steps);

/// Filters and bias of a convolution, in its storage type; bias may be null.
struct ConvNumbers {
  const std::byte* w = nullptr;
  const std::byte* bias = nullptr;
};
/// Puts them into packed filters, which pack_filters() has made. `expand` only if there is one.
void pack_computed_input(const SmallGemmCut& cut, const ConvNumbers& depthwise,
                         const ConvNumbers& expand, std::byte* u);

/// Appends a node without tasks, which has no more than its name and a y of no bytes.
NodeBuffers add_in_reader(TaskGraph& graph, const std::string& name, const InReaderCut& cut,
                          const NodeBuffers& read);

}  // namespace megaconv
