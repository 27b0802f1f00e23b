// SPDX-License-Identifier: Apache-2.0
#include "tasks/cpu/extents.hpp"

#include <algorithm>

#include "tasks/direct/lanes.hpp"
#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv::cpu {
namespace {

constexpr std::ptrdiff_t kBlock = Tiling::kLaneBlock;
constexpr std::size_t kLineBytes = 64;
constexpr std::ptrdiff_t kLeastLanes = 4;  // of a vector, on any instruction set

std::size_t lines(std::size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

/// Whether direct tasks multiply words of several channels, where they do so with `dtype`.
bool multiplies_words(const Tiling& tiling, DataType dtype) {
  return tiling.algorithm() == Algorithm::direct && tiling.problem.dtype == dtype &&
         !tiling.problem.depthwise();
}

// A row of an AMX tile is one cache line.
constexpr std::ptrdiff_t kStepWords = kLineBytes / sizeof(float);

}  // namespace

bool multiplies_words(const Tiling& tiling) {
  return multiplies_words(tiling, DataType::bf16) || multiplies_words(tiling, DataType::i8);
}

Extents::Extents(const Tiling& tiling)
    : p(tiling.problem.p()),
      q(tiling.problem.q()),
      channels(tiling.problem.c / tiling.problem.groups),
      filters(tiling.problem.depthwise() ? tiling.problem.k
                                         : tiling.problem.k / tiling.problem.groups),
      channel_blocks(tiling.channel_blocks()),
      filter_blocks(tiling.filter_blocks()),
      filter_blocks_per_conv_group(ceil_div(filters, kBlock)),
      depthwise(tiling.problem.depthwise()),
      columns(lanes_are_columns(tiling.problem)),
      in_place(reads_x_in_place(tiling.problem)),
      num_positions(0),
      panel_tiles(0),
      m_blocks(0),
      position_stride(0),
      block_stride(0),
      v_panel_stride(0),
      m_panel_stride(0),
      v_slot(0),
      m_slot(0),
      extent_h(tiling.problem.filter_extent_h()),
      extent_w(tiling.problem.filter_extent_w()),
      phase_cols(0),
      patch_row(0),
      patch_block(0),
      phase_plane(0),
      plane(0),
      plane_channels(0),
      panels_at(0),
      copies_at(0),
      segments_at(0),
      v_at(0),
      m_at(0),
      pixels_at(0),
      scratch_bytes(0) {
  const ConvProblem& problem = tiling.problem;
  std::size_t num_panels = static_cast<std::size_t>(channel_blocks);
  if (const WinogradTiles* const tiles = tiling.tiles()) {
    num_positions = tiles->num_positions();
    const std::ptrdiff_t num_panel_strides =
        ceil_div<std::ptrdiff_t>(tiles->group_tiles, kMostPanelTiles);
    panel_tiles = ceil_div<std::ptrdiff_t>(tiles->group_tiles, num_panel_strides);
    position_stride = (panel_tiles | 1) * kBlock;  // an odd number of cache lines
    block_stride = num_positions * position_stride;
    v_panel_stride = channel_blocks * block_stride;
    const bool fused = tiling.algorithm() == Algorithm::fused_winograd;
    m_blocks = fused ? fused_filter_blocks(tiling) : filter_blocks;
    m_panel_stride = m_blocks * block_stride;
    v_slot = num_panel_strides * v_panel_stride;
    m_slot = num_panel_strides * m_panel_stride;
    // No task needs both a strip and panels.
    const std::ptrdiff_t more_cols = tiles->alpha_w() - tiles->cols() * tiles->stride;
    const std::ptrdiff_t strip_pixels = tiles->alpha_h() * (kStripCols + more_cols);
    scratch_bytes = std::max(static_cast<std::size_t>(strip_pixels * kBlock) * sizeof(float),
                             lines(num_panels * sizeof(Panel)));
    if (fused) {
      v_at = scratch_bytes;
      m_at = v_at + v_slot_bytes();
      scratch_bytes = m_at + m_slot_bytes();
    }
  } else {
    const DirectCut& cut = direct_cut(tiling);
    const std::ptrdiff_t cols = cut.cols_per_group, rows = cut.rows_per_group;
    phase_cols = ceil_div((cols - 1) * problem.stride_w + extent_w, problem.stride_w);
    patch_row = problem.stride_w * phase_cols * kBlock;
    patch_block = ((rows - 1) * problem.stride_h + extent_h) * patch_row;
    const auto word_blocks = ceil_div(static_cast<std::ptrdiff_t>(channel_words(tiling)), kBlock);
    num_panels = static_cast<std::size_t>(word_blocks * problem.r * problem.s);
    // An odd number of cache lines, so that channels do not share cache sets; and behind the last
    // channel, what a kernel reads past the last column.
    const std::ptrdiff_t input_rows = (rows - 1) * problem.stride_h + extent_h;
    phase_plane = ceil_div(input_rows, problem.stride_h) * phase_cols;
    plane = (ceil_div(problem.stride_h * problem.stride_w * phase_plane, kBlock) | 1) * kBlock;
    constexpr std::ptrdiff_t kFloats = kDepthwiseBytes / sizeof(float);
    plane_channels = depthwise ? std::clamp<std::ptrdiff_t>(kFloats / plane, 1, kBlock) : channels;
    const std::ptrdiff_t input = columns                 ? plane_channels * plane + kMaxColumnSums
                                 : depthwise || in_place ? 0
                                                         : word_blocks * patch_block;
    const std::ptrdiff_t sums = std::max(kMaxKernelBlocks * cols * kBlock, kMaxColumnSums);
    // A run has no more columns than whole lane blocks for every row; a row ends a segment.
    const std::ptrdiff_t segments =
        rows * (ceil_div(cols, kBlock) * (kBlock / kLeastLanes) + 1) + 1;
    const auto place = [this](std::size_t bytes) {
      const std::size_t at = scratch_bytes;
      scratch_bytes += lines(bytes);
      return at;
    };
    scratch_bytes = lines(static_cast<std::size_t>(input) * sizeof(float));
    // A conv group may begin and end within a channel block.
    const auto num_runs = static_cast<std::size_t>((channel_blocks + 1) * problem.r * problem.s);
    panels_at = place(std::max(num_panels * sizeof(Panel), in_place ? num_runs * sizeof(Run) : 0));
    copies_at = place(static_cast<std::size_t>(input_rows * problem.stride_w) * sizeof(RowCopy));
    segments_at = place(static_cast<std::size_t>(segments) * sizeof(Segment));
    pixels_at = place(static_cast<std::size_t>(sums) * sizeof(float));
  }
}

AmxExtents::AmxExtents(const Tiling& tiling) {
  const ConvProblem& a = tiling.problem;
  const DirectCut& cut = direct_cut(tiling);
  const auto element = static_cast<std::ptrdiff_t>(size_of(a.dtype));
  const std::ptrdiff_t word_channels = static_cast<std::ptrdiff_t>(sizeof(float)) / element;
  const bool nhwc = a.layout == Layout::nhwc;
  channels = a.c / a.groups;
  joined = nhwc && a.groups == 1 && a.s > 1 && a.dilation_w == 1 &&
           a.s * channels <= kStepWords * word_channels;
  if (joined) channels *= a.s;
  taps_h = a.r;
  taps_w = joined ? 1 : a.s;
  const std::ptrdiff_t words = ceil_div(channels, word_channels);
  steps = ceil_div(words, kStepWords);
  step_words = ceil_div(words, steps);
  filter_block = taps_h * taps_w * steps * step_words * kBlock;
  in_place = nhwc && !joined && a.pad_h == 0 && a.pad_w == 0 &&
             channels == steps * step_words * word_channels;

  const std::ptrdiff_t extent_w = joined ? 1 : a.filter_extent_w();
  const std::ptrdiff_t rows = cut.rows_per_group, cols = cut.cols_per_group;
  // Of single columns those between outputs are left out.
  col_step = joined || (extent_w == 1 && a.stride_w == 2) ? 1 : a.stride_w;
  const bool shares = col_step == 1 && !joined && a.stride_w == 1 && a.pad_w < extent_w;
  shared_cols = shares && cols == a.q() ? a.pad_w : 0;
  row_outputs = ceil_div((cols - 1) * col_step + extent_w - shared_cols, col_step);
  patch_cols = row_outputs * col_step;
  patch_rows = ceil_div((rows - 1) * a.stride_h + a.filter_extent_h(), a.stride_h);
  patch_phase = (patch_rows * patch_cols + shared_cols) * kBlock;
  patch_step = std::min(a.stride_h, a.filter_extent_h()) * patch_phase;
  const auto patch = static_cast<std::size_t>(in_place ? 0 : steps * patch_step);
  const std::ptrdiff_t tiles_of_row = ceil_div(std::max(cols, row_outputs), kAmxPixels) + 1;
  steps_at = patch * sizeof(float);
  tiles_at = steps_at + lines(static_cast<std::size_t>(taps_h * taps_w * steps) * sizeof(AmxStep));
  scratch_bytes =
      tiles_at + lines(static_cast<std::size_t>(rows * tiles_of_row + 1) * sizeof(AmxTile));
}

const DirectCut& direct_cut(const Tiling& tiling) { return std::get<DirectCut>(tiling.cut); }
const WinogradCut& winograd_cut(const Tiling& tiling) { return std::get<WinogradCut>(tiling.cut); }

TileRange::TileRange(const WinogradTiles& tiles, std::uint32_t group)
    : first(static_cast<std::ptrdiff_t>(group) * tiles.group_tiles),
      count(std::min<std::ptrdiff_t>(tiles.group_tiles,
                                     static_cast<std::ptrdiff_t>(tiles.num_tiles) - first)) {}

PixelRect::PixelRect(const DirectCut& cut, const Extents& extents, std::uint32_t group) {
  const std::ptrdiff_t row_chunks = ceil_div<std::ptrdiff_t>(extents.p, cut.rows_per_group);
  const std::ptrdiff_t col_chunks = ceil_div<std::ptrdiff_t>(extents.q, cut.cols_per_group);
  image = group / (row_chunks * col_chunks);
  row = group / col_chunks % row_chunks * cut.rows_per_group;
  col = group % col_chunks * cut.cols_per_group;
  rows = std::min<std::ptrdiff_t>(cut.rows_per_group, extents.p - row);
  cols = std::min<std::ptrdiff_t>(cut.cols_per_group, extents.q - col);
}

BlockRange::BlockRange(std::ptrdiff_t chunk, std::ptrdiff_t per_task, std::ptrdiff_t total)
    : first(chunk * per_task), last(std::min(first + per_task, total)) {}

std::size_t scratch_bytes(const Tiling& tiling) { return Extents(tiling).scratch_bytes; }

std::size_t u_bytes(const Tiling& tiling) {
  const bool heads = multiplies_words(tiling, DataType::i8);
  return static_cast<std::size_t>(tiling.u_bytes() +
                                  (heads ? tiling.filter_blocks() * kBlockBytes : 0));
}

std::size_t u_bytes_with_pairs(const Tiling& tiling) {
  if (!multiplies_words(tiling, DataType::bf16)) return u_bytes(tiling);
  const ConvProblem& problem = tiling.problem;
  const std::ptrdiff_t pairs = ceil_div<std::ptrdiff_t>(problem.c / problem.groups, 2);
  return static_cast<std::size_t>(problem.r * problem.s * pairs * tiling.filter_blocks()) *
         kBlockBytes;
}

std::size_t u_bytes_with_amx(const Tiling& tiling) {
  if (!multiplies_words(tiling)) return u_bytes(tiling);
  const auto floats = static_cast<std::size_t>(AmxExtents(tiling).filter_block);
  return tiling.filter_blocks() * floats * sizeof(float);
}

std::size_t scratch_bytes_with_amx(const Tiling& tiling) {
  return multiplies_words(tiling) ? AmxExtents(tiling).scratch_bytes : scratch_bytes(tiling);
}

}  // namespace megaconv::cpu
