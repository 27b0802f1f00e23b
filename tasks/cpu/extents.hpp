// SPDX-License-Identifier: Apache-2.0
// The numbers that CPU task bodies need of a tiling, and where their scratch memory goes.
//
// Computed out of line, in code compiled for the base instruction set: task bodies must not
// instantiate the inline functions of ConvProblem and Tiling (simd.hpp says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaconv/tiling.hpp"

namespace megaconv::cpu {

/// Columns of the input or output strip that a transform holds in scratch at a time: with six or
/// eight rows of 64-byte pixels, about a first-level cache.
inline constexpr std::ptrdiff_t kStripCols = 64;

/// Lane blocks that a micro-kernel multiplies at once.
inline constexpr std::ptrdiff_t kMaxKernelBlocks = 2;

/// Sums that a kernel of columns has in registers at most.
inline constexpr std::ptrdiff_t kMaxColumnSums = 384;

/// Rows of V and M that lie side by side for each position, at most. Emerald Rapids, beside 14:
/// 1.00 to 1.03 times the speed.
inline constexpr std::ptrdiff_t kMostPanelTiles = 56;

/// Extents are counted in elements; block counts in lane blocks of Tiling::kLaneBlock.
struct Extents {
  explicit Extents(const Tiling& tiling);

  std::ptrdiff_t p, q;      ///< output height and width
  std::ptrdiff_t channels;  ///< C of one conv group
  std::ptrdiff_t filters;   ///< K of one conv group; all K of a depthwise problem
  std::ptrdiff_t channel_blocks, filter_blocks;
  std::ptrdiff_t filter_blocks_per_conv_group;
  bool depthwise;
  bool columns;   ///< lanes of direct tasks are columns
  bool in_place;  ///< direct tasks read x where it lies (in_place.inl)

  // Winograd: the rows of V and M are cut into panels of equally many, kMostPanelTiles at most.
  std::ptrdiff_t num_positions;
  std::ptrdiff_t panel_tiles;
  std::ptrdiff_t m_blocks;  ///< filter blocks of a slot of M: fused tasks hold some at a time
  // Floats between the positions and between the lane blocks of a panel; between panels of V, of M;
  // and of a group's V, M.
  std::ptrdiff_t position_stride, block_stride, v_panel_stride, m_panel_stride, v_slot, m_slot;
  std::size_t v_slot_bytes() const { return static_cast<std::size_t>(v_slot) * sizeof(float); }
  std::size_t m_slot_bytes() const { return static_cast<std::size_t>(m_slot) * sizeof(float); }

  // Direct: the input patch under a rectangle of output pixels, columns sorted by their remainder
  // ("phase") modulo the stride so that neighbouring output pixels read neighbouring patch pixels:
  //   [channel block][row][phase][column / stride_w][lane]
  std::ptrdiff_t extent_h, extent_w;      ///< of the dilated filter
  std::ptrdiff_t phase_cols;              ///< columns of one phase
  std::ptrdiff_t patch_row, patch_block;  ///< floats between rows, and between channel blocks
  // Direct tasks whose lanes are columns (columns.inl): the same input, channel by channel.
  std::ptrdiff_t phase_plane;     ///< floats of one phase of rows and columns
  std::ptrdiff_t plane;           ///< floats between channels
  std::ptrdiff_t plane_channels;  ///< of which a task has copies at the same time

  // Scratch of one worker, in bytes from its start.
  std::size_t panels_at;               ///< GEMM and direct: Panel[], Run[] of those in place
  std::size_t copies_at, segments_at;  ///< lanes are columns: RowCopy[] and Segment[]
  std::size_t v_at, m_at;              ///< fused Winograd: V and M of one group
  std::size_t pixels_at;               ///< direct: output pixels of one row before the epilogue
  std::size_t scratch_bytes;
};

/// Pixels that a register of AMX has at most.
inline constexpr std::ptrdiff_t kAmxPixels = 16;

/// Whether tasks of a tiling multiply words of several channels where the machine has products of
/// them: direct tasks on BF16 or INT8 numbers that are not depthwise.
bool multiplies_words(const Tiling& tiling);

/// Direct tasks whose products are AMX's (direct/cpu/amx.inl): sums over the taps of a filter, and
/// over the steps of a tap, which are up to 16 words of 32 bits of each pixel.
struct AmxExtents {
  explicit AmxExtents(const Tiling& tiling);

  /// The taps of a row of the filter are channels of one tap: they are neighbours in x, and all of
  /// them fit one step.
  bool joined;
  bool in_place;            ///< x is read where it lies, else copied into a patch
  std::ptrdiff_t channels;  ///< of a tap, in one conv group
  std::ptrdiff_t taps_h, taps_w;
  std::ptrdiff_t steps, step_words;  ///< of a tap; its words are padded with zeros
  std::ptrdiff_t filter_block;       ///< floats of a lane block of U, [step][tap][word][16]

  // The patch, [step][row % stride_h][row / stride_h][col][16]: rows of outputs are as far apart as
  // a whole number of outputs, so that all outputs of a task lie at one distance. What is computed
  // between rows is dropped.
  std::ptrdiff_t col_step;     ///< columns of the patch between outputs
  std::ptrdiff_t row_outputs;  ///< outputs between rows of them
  std::ptrdiff_t patch_cols, patch_rows;
  std::ptrdiff_t shared_cols;  ///< padding that is both a row's last columns and the next's first
  std::ptrdiff_t patch_phase, patch_step;  ///< floats between phases of rows, and between steps

  std::size_t steps_at, tiles_at, scratch_bytes;  ///< AmxStep[] and AmxTile[], bytes of scratch
};

/// A step of a sum: where its words are.
struct AmxStep {
  std::ptrdiff_t x;  ///< in bytes, from the pixel that tap (0, 0) reads
  std::ptrdiff_t u;  ///< in floats, in a filter block
};

/// Outputs that a register of AMX has, neighbours in a line.
struct AmxTile {
  std::ptrdiff_t x;         ///< in bytes: what the first of them reads
  std::ptrdiff_t skip;      ///< of them, those that another register has
  std::ptrdiff_t row, col;  ///< of the next, in the task's rectangle; a column behind the last, too
};

/// The cut of a tiling, which must be one of this room.
const DirectCut& direct_cut(const Tiling& tiling);
const WinogradCut& winograd_cut(const Tiling& tiling);

/// Winograd tiles of a task group: [first, first + count), image-major.
struct TileRange {
  TileRange(const WinogradTiles& tiles, std::uint32_t group);
  std::ptrdiff_t first, count;
};

/// Output pixels of a direct task group.
struct PixelRect {
  PixelRect(const DirectCut& cut, const Extents& extents, std::uint32_t group);
  std::ptrdiff_t image, row, col, rows, cols;
};

/// Lane blocks (or tiles) [first, last) of the `chunk`-th task, when tasks take `per_task` of
/// `total`.
struct BlockRange {
  BlockRange(std::ptrdiff_t begin, std::ptrdiff_t end) : first(begin), last(end) {}
  BlockRange(std::ptrdiff_t chunk, std::ptrdiff_t per_task, std::ptrdiff_t total);
  std::ptrdiff_t first, last;
};

/// One step of a micro-kernel's sum: up to 16 words of one channel or more.
struct Panel {
  std::ptrdiff_t offset;  ///< of the first row's first word, in words
  std::ptrdiff_t words;   ///< 1 to 16
};

/// Direct tasks that read x in place: what of a sum follows each other in U, and lies in x in
/// blocks at equal distances.
struct Run {
  std::ptrdiff_t x;      ///< of the pixel of tap (0, 0), in floats from it
  std::ptrdiff_t pixel;  ///< floats between neighbouring pixels of x
  std::ptrdiff_t u;      ///< in a filter block
  std::ptrdiff_t words;  ///< of a block, neighbours in x
  std::ptrdiff_t blocks;
  std::ptrdiff_t distance;  ///< floats of x between blocks
};

/// A row of one channel's input, or the columns of a row that are of one phase, in elements.
struct RowCopy {
  std::ptrdiff_t from, to, count;
};

/// Lanes [first, last) of a vector of sums, and where lane 0 goes in y.
struct Segment {
  std::ptrdiff_t y;
  std::int32_t vec;
  std::int16_t first, last;
};

std::size_t scratch_bytes(const Tiling& tiling);

/// Bytes of U; when direct tasks multiply pairs of BF16 channels; and with AMX.
std::size_t u_bytes(const Tiling& tiling);
std::size_t u_bytes_with_pairs(const Tiling& tiling);
std::size_t u_bytes_with_amx(const Tiling& tiling);
std::size_t scratch_bytes_with_amx(const Tiling& tiling);

}  // namespace megaconv::cpu
