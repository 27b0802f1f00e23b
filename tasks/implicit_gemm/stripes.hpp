// SPDX-License-Identifier: Apache-2.0
// How implicit GEMM numbers output pixels, and what its tiles keep in shared memory. For host and
// device code.
//
// The outputs are cut into stripes of `cols` columns. A stripe goes through all images, one below
// the other. Its pixels are numbered row by row, together with the columns and rows in the gaps
// that filters reach into. These numbers are padded pixels; in names: place.
// A row of an image has `pitch` padded pixels, an image has `period` rows:
//
//   pitch    cols + padding if one stripe has all columns; else cols + extent_w - 1
//   period   h + padding
//
//   image of 3 columns, padding 1      padded pixels of a stripe: pitch 4, period 3
//
//     y00 y01 y02                      0   1   2   3      3, 7: gaps between rows
//     y10 y11 y12                      4   5   6   7
//                                      8   9  10  11      8 to 11: gap between images
//   next image                        12  13  14  15
//
// Tap (r, s) of padded pixel f reads input f + r dilation_h pitch + s dilation_w, for every f. So
// under every tap, neighbouring padded pixels read neighbouring inputs: a run of padded pixels is a
// matrix that lies in memory as the matrix instructions need it. Padded pixels in gaps are
// multiplied, too, but never stored. Where a gap is all padding, neighbours share it.
//
// Small images have many gaps. Several of them may then stand abreast. There is one stripe, which
// goes through row 0 of all these images, then row 1 of all, and so on. It has no rows of gaps:
// what filters reach above and below the images has no number.
//
// Under strides, neighbouring outputs do not read neighbouring inputs. Then every tap's input is
// loaded by itself, and padded pixels are the outputs alone: pitch and period have no gaps. So it
// is where a filter reaches too far, as dilated ones may, and where it has one column and rows are
// long.
#pragma once

#include <cstdint>

#include "megaconv/tiling.hpp"
#include "tasks/divisor.hpp"

namespace megaconv {

struct Stripes {
  std::int32_t cols;        ///< output columns of a stripe; the last stripe may have fewer
  Divisor pitch;            ///< padded pixels of a row of one image
  Divisor period;           ///< rows of an image, gap included
  std::int32_t reach;       ///< the halo: padded pixels from an output to its farthest tap
  std::int32_t images = 1;  ///< images abreast; 1: one below the other
  bool by_taps = false;     ///< every tap's input is loaded by itself

  /// Whether no two taps share what they read: there is one tap, or each is loaded by itself.
  constexpr bool taps_have_own_inputs() const { return reach == 0; }
  /// Padded pixels from one to the one below it.
  constexpr std::int32_t row() const { return images * pitch; }
  /// A padded pixel as image, row and column of its stripe. Rows and columns may be those of gaps.
  /// `image` counts within a row of images if they stand abreast.
  struct Position {
    std::int32_t image, row, col;
  };
  constexpr Position position(std::int32_t place) const {
    if (images == 1) return position_below(place);
    const std::int32_t line = place / pitch;
    return {line % images, line / images, place % pitch};
  }
  /// The same of images one below the other, and so is this: the position of padded pixel a + b,
  /// from the positions of a and b, without divisions.
  constexpr Position position_below(std::int32_t place) const {
    const std::int32_t line = place / pitch;
    return {line / period, line % period, place % pitch};
  }
  constexpr Position sum(Position a, const Position& b) const {
    a.col += b.col;
    if (a.col >= pitch) a.col -= pitch, ++a.row;
    a.row += b.row;
    if (a.row >= period) a.row -= period, ++a.image;
    a.image += b.image;
    return a;
  }
};

/// Stripes of `cols` columns of a problem's outputs. `cols` is at most the columns of an image, or
/// all columns of several images abreast (without strides).
Stripes make_stripes(const ConvProblem& problem, std::int32_t cols);

/// Number of stripes of a problem.
std::int64_t num_stripes(const ConvProblem& problem, const Stripes& stripes);
/// Padded pixels of one stripe.
std::int64_t places_of_stripe(const ConvProblem& problem, const Stripes& stripes);

/// Whether padded pixels are the pixels of y, one after the other: there are no gaps.
bool outputs_in_order(const ConvProblem& problem, const Stripes& stripes);

/// Largest halo that a task keeps in shared memory where its threads load x.
inline constexpr std::int32_t kMostReach = 128;
/// Threads of a block that load x then.
inline constexpr std::int32_t kLoadingThreads = 224;

/// Threads load x: tile widths are compiled from half of the widest to the widest, in steps of so
/// many padded pixels. Split numbers take longest, and have more widths than others.
constexpr std::int32_t tile_step(std::int32_t most_places, bool split) {
  return most_places / (split ? 16 : 4);
}

/// Whether operands are tensors of 16 bits, or of floats that TMA rounds.
constexpr bool have_16_bits(Operands operands) {
  return operands == Operands::in_tensor || operands == Operands::in_tensor_wide ||
         operands == Operands::in_tensor_tall;
}
constexpr bool have_floats(Operands operands) {
  return operands == Operands::in_float_tensor || operands == Operands::in_float_tensor_wide ||
         operands == Operands::in_float_tensor_tall;
}
/// Whether TMA loads floats, which become FP16 numbers behind it.
constexpr bool are_converted(Operands operands) {
  return operands == Operands::converted || operands == Operands::converted_tall ||
         operands == Operands::split_tall;
}
/// Whether TMA loads x and w as they are: neither filter tasks nor input tasks.
constexpr bool are_tensors(Operands operands) {
  return have_16_bits(operands) || have_floats(operands);
}

// The rest is for load paths on which TMA loads x ("in place").

/// Whether tiles have 128 filters.
constexpr bool are_wide(Operands operands) {
  return operands == Operands::in_tensor_wide || operands == Operands::in_float_tensor_wide;
}
/// Whether tiles have kTallPlaces padded pixels, and up to most_filters_in_place() filters.
constexpr bool are_tall(Operands operands) {
  return operands == Operands::in_tensor_tall || operands == Operands::in_float_tensor_tall ||
         operands == Operands::converted_tall || operands == Operands::split_tall;
}
/// Whether they are neither. (Of tensors.)
constexpr bool have_narrow_tiles(Operands operands) {
  return !are_wide(operands) && !are_tall(operands);
}
/// Whether blocks of a cluster may load x for each other (cluster_blocks()).
constexpr bool may_load_together(Operands operands) { return !have_narrow_tiles(operands); }
/// Whether blocks of a cluster may share the channels of a task (channel_shares()).
constexpr bool may_share_channels(Operands operands) {
  return have_narrow_tiles(operands) && (are_tensors(operands) || operands == Operands::in_copy);
}
/// Whether `in_tensor` is possible.
bool operands_in_tensor(const ConvProblem& problem);
/// Whether tiles of tensors may be wide or tall: every tap has an input of its own, or there is
/// one. (Then padded pixels are the pixels of y in order.)
bool operands_in_wide_tiles(const ConvProblem& problem);
/// Whether `converted_tall` is possible, and `split_tall`.
bool converts_in_tall_tiles(const ConvProblem& problem);
/// Whether it is the load path of tasks in stages that multiply floats as FP16 numbers, of so many
/// lane blocks of filters; 0: they are to be chosen. Of several taps, few filters are the name of
/// copies.
bool converts_in_tall_tiles(const ConvProblem& problem, std::uint32_t filter_blocks);
/// Whether `in_copy` is possible.
bool operands_can_be_copied(const ConvProblem& problem);
/// Whether TMA can load f32 tensors: NHWC, and a pixel is a multiple of 16 bytes.
bool floats_can_be_brought(const ConvProblem& problem);
/// Whether `converted` is possible with stripes of `cols` columns. There may be few stripes
/// (kMostConvertedStripes), and the last one must be nearly full.
bool stripes_can_be_converted(const ConvProblem& problem, std::int64_t cols);
inline constexpr int kMostConvertedStripes = 8;
/// Padded pixels of a tall tile. Its filters come in any number of sixteens.
inline constexpr std::int32_t kTallPlaces = 128;
/// Most filters of a tile: two warpgroups have 64 each, or the same 64 and half of its padded
/// pixels each, or all filters of half of a tall tile's. Wide and tall tiles load less for as many
/// products, where a tap has an input of its own. Outputs of floats leave room for fewer.
constexpr std::int32_t most_filters_in_place(Operands operands) {
  return operands == Operands::in_tensor_tall         ? 256
         : operands == Operands::converted_tall       ? 176
         : operands == Operands::in_float_tensor_tall ? 192
         : operands == Operands::split_tall           ? 128
         : are_wide(operands)                         ? 128
                                                      : 64;
}
/// Filters of the tiles of tasks that have so many lane blocks of them.
constexpr std::int32_t filters_in_place(Operands operands, std::uint32_t filter_blocks) {
  return are_tall(operands) ? static_cast<std::int32_t>(filter_blocks * Tiling::kLaneBlock)
                            : most_filters_in_place(operands);
}
/// Warpgroups that share out a tile's padded pixels.
constexpr std::int32_t groups_of_places(Operands operands) { return are_wide(operands) ? 1 : 2; }
/// Bytes from a padded pixel's outputs to the next one's in shared memory, of tall tiles: threads
/// that write eight of them, or read one, meet all banks once.
constexpr std::int32_t output_pitch_of_tall(std::int32_t filters, std::int32_t number_bytes) {
  return filters * number_bytes + 8 * number_bytes;
}
/// The outputs of a tile leave together, or those of so many columns of matrix instructions at
/// once: padded pixels of a wide tile, filters of a tall one. So do floats where a tile is so large
/// that its outputs together would leave room for three pipeline stages of loads.
inline constexpr std::int32_t kColumnsOfPart = 32;
constexpr bool may_leave_in_parts(Operands operands, std::int32_t columns) {
  return operands == Operands::in_float_tensor_wide   ? columns > 160
         : operands == Operands::in_float_tensor_tall ? columns > 144
         : operands == Operands::converted_tall       ? columns > 112
         : operands == Operands::split_tall           ? columns > 112
                                                      : false;
}
/// The padded pixels of a task group are a multiple of this.
inline constexpr std::int32_t kPlaceStepInPlace = 16;
/// Step between the tile widths that are compiled, up to a tile of `tile_places`.
constexpr std::int32_t tile_step_in_place(std::int32_t tile_places) {
  return tile_places > 192 ? 16 : 32;
}
/// Most padded pixels of a tile. f32 outputs need more shared memory than 16-bit ones, and
/// conversion needs some as well, so these tiles are narrower.
constexpr std::int32_t most_places_in_place(Operands operands) {
  return operands == Operands::in_tensor              ? 512
         : operands == Operands::in_tensor_wide       ? 256
         : operands == Operands::in_float_tensor_wide ? 192
         : are_tall(operands)                         ? kTallPlaces
         : operands == Operands::converted            ? 384
                                                      : 448;
}
/// Bytes of one padded pixel, or of one filter, in a K block. TMA
/// takes as long for a row of 64 bytes as for one of 128. Narrow tiles wait for TMA, so they have
/// 128. Where x is converted, shared memory allows that for the narrowest tiles only.
constexpr int k_block_bytes_in_place(std::int32_t tile_places, Operands operands) {
  return tile_places <= (operands == Operands::converted ? 128 : 256) ? 128 : 64;
}
/// Bytes of so many padded pixels in a pipeline stage of x, of whose operands rows have so many:
/// twice as many, if x is floats until it is in registers.
constexpr int input_bytes_in_place(int places, int row_bytes, Operands operands) {
  return (operands == Operands::converted_tall ? 2 : 1) * places * row_bytes;
}
/// Of what is multiplied in the place of a number.
constexpr int operand_bytes(Operands operands) {
  return have_floats(operands) || operands == Operands::split_tall ? 4 : 2;
}
/// Channels of a K block.
constexpr std::int32_t k_block_channels_in_place(std::int32_t tile_places, Operands operands) {
  return k_block_bytes_in_place(tile_places, operands) / operand_bytes(operands);
}
inline constexpr int kSharedBytesInPlace = 226 * 1024;  ///< of a block
/// Bytes of it that are kept for the pipeline stages of filters, at least.
constexpr int least_filter_bytes_in_place(std::int32_t tile_places, Operands operands) {
  if (have_16_bits(operands)) return 64 * 1024;
  constexpr int kFilters = 64, kLeastTaps = 6;  // in use or on their way
  constexpr int kMostKBlockBytes = 128;
  const bool converts = operands == Operands::converted;
  return kLeastTaps * kFilters *
         (converts ? k_block_bytes_in_place(tile_places, operands) : kMostKBlockBytes);
}
/// `converted`: TMA loads floats in pieces of 64 padded pixels x 32 channels, kPieces at a time.
/// Blocks of a cluster that convert for each other have one less under way.
inline constexpr int kPieces = 4, kPiecePlaces = 64, kPieceChannels = 32;
constexpr int pieces_of(int cluster_blocks) { return cluster_blocks > 1 ? kPieces - 1 : kPieces; }
inline constexpr int kPieceBytes = kPiecePlaces * kPieceChannels * 4;
/// Largest halo that a block has shared memory for, with so many pipeline stages of x. If the whole
/// filter reaches further, tiles take its rows one by one. f32 outputs, and floats that are being
/// converted, leave less room.
inline constexpr std::int32_t kMostReachInPlace = 456;
constexpr std::int32_t most_reach_in_place(std::int32_t tile_places, Operands operands,
                                           int input_stages = 2) {
  const int k_block_bytes = k_block_bytes_in_place(tile_places, operands);
  if (are_wide(operands)) return 0;
  if (operands == Operands::in_tensor) return k_block_bytes == 128 ? 320 : kMostReachInPlace;
  constexpr std::int32_t kFilters = 64, kOtherBytes = 5 * 1024;
  const std::int32_t bytes = kSharedBytesInPlace -
                             least_filter_bytes_in_place(tile_places, operands) -
                             (operands == Operands::converted ? kPieces * kPieceBytes : 0) -
                             kOtherBytes - tile_places * kFilters * 4;
  const std::int32_t most = bytes / (input_stages * k_block_bytes) - tile_places;
  return most < kMostReachInPlace ? most : kMostReachInPlace;
}
/// How a block cuts its shared memory. mbarriers come first, then a tile of outputs, then these.
/// Offsets are in bytes from the end of the mbarriers; `_bytes` are those of one pipeline stage.
struct MemoryInPlace {
  std::int32_t pieces, num_pieces;                 ///< floats of x that are to be converted
  std::int32_t partial_sums;                       ///< from blocks that share the channels
  std::int32_t input, input_stages, input_bytes;   ///< x
  std::int32_t filters, filter_stages, tap_bytes;  ///< w: a stage is one tap of a K block
  std::int32_t output_stages;                      ///< of y: parts of a tile; 1: all of it
};
inline constexpr int kBarrierBytesInPlace = 2 * 1024;  ///< mbarriers
inline constexpr std::int32_t kLeastInputStages = 2, kMostFilterStages = 24;
inline constexpr std::int32_t kLeastOutputStages = 3, kMostOutputStages = 4;  ///< of parts
constexpr std::int32_t most_input_stages(Operands operands) {
  return operands == Operands::converted ? 3 : are_wide(operands) ? 6 : are_tall(operands) ? 8 : 4;
}
/// Pipeline stages of filters that fit beside two of x; each is one tap of a K block. (Not of tall
/// tiles.)
constexpr int filter_stages_in_place(std::int32_t tile_places, std::int32_t input_places,
                                     Operands operands) {
  constexpr int kStages = 2, kOtherBytes = 5 * 1024;
  const int k_block_bytes = k_block_bytes_in_place(tile_places, operands);
  const int filters = most_filters_in_place(operands),
            output_bytes = have_16_bits(operands) ? 2 : 4;
  const int room = kSharedBytesInPlace - kStages * input_places * k_block_bytes -
                   tile_places * filters * output_bytes - kOtherBytes;
  return room / (filters * k_block_bytes);
}
constexpr bool has_room_in_place(std::int32_t tile_places, std::int32_t input_places,
                                 Operands operands) {
  constexpr int kLeastTaps = 6;  // in use or on their way
  return filter_stages_in_place(tile_places, input_places, operands) >= kLeastTaps;
}
/// Width of the tiles that divide a task group evenly, in padded pixels. 0: no width has room.
/// - Filters taken row by row load x more often. Their tiles leave room for more pipeline stages.
/// - Where x is converted and a tile has several K blocks, there should be three stages of x.
/// - Of images abreast, TMA loads whole rows. Tiles begin with a row, so groups and tiles are whole
///   rows, or a group is one tile.
std::int32_t tile_places_in_place(std::int64_t places_per_group, const Stripes& stripes,
                                  Operands operands, std::int64_t channels);
/// What a pipeline stage of x holds: the padded pixels (halo included) for so many rows and columns
/// of the filter: all, a row, or a tap.
struct InputOfTile {
  std::int32_t filter_rows, filter_cols, places;
};
InputOfTile input_of_tile(const ConvProblem& problem, const Stripes& stripes,
                          std::int32_t tile_places, Operands operands);
/// The cut for tiles of so many padded pixels and filters. `taps` counts those of all K blocks of a
/// tile. If their filters all fit, what is left goes to stages of x. Outputs never leave in parts
/// beside a residual: it is loaded to where they will be.
MemoryInPlace memory_in_place(std::int32_t tile_places, std::int32_t filters,
                              const InputOfTile& input, Operands operands, std::int32_t taps,
                              bool has_residual, std::int32_t cluster_blocks,
                              std::int32_t channel_shares);
/// Widest tile, in padded pixels, whose channels several blocks of a cluster share.
inline constexpr std::int32_t kMostSharedPlaces = 160;
/// Most blocks for which the first one has room: a filter's outputs and the others' sums have so
/// many bytes there.
constexpr std::int64_t most_channel_shares(std::int64_t tile_places, Operands operands) {
  constexpr std::int64_t kMostBytes = 1600, kSumBytes = 4;
  const std::int64_t output_bytes = have_16_bits(operands) ? 2 : 4;
  return 1 + (kMostBytes / tile_places - output_bytes) / kSumBytes;
}
/// Columns of a row of y in one TMA store. TMA cuts the box at the end of the row of y, but not
/// where a stripe ends amid a row.
std::int32_t output_cols_in_place(const ConvProblem& problem, std::int32_t stripe_cols);
/// Most pixels of x that an input task copies, and most lane blocks of their channels.
inline constexpr int kPixelsOfInputTask = 128, kMostBlocksOfInputTask = 4;
/// Pixels of V of an input task from space to depth.
inline constexpr int kPixelsOfDepthTask = 512;

}  // namespace megaconv
