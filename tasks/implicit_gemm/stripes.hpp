// SPDX-License-Identifier: Apache-2.0
// How implicit GEMM numbers output pixels, for host and device code.
//
// The outputs are cut into stripes of `cols` columns. A stripe runs through all images, one below
// the other, and its places are numbered row by row with the columns and rows between that filters
// reach into: `pitch` places a row, `period` rows an image. Tap (r, s) of the output at place f is
// then the input at place f + r dilation_h pitch + s dilation_w, whatever f is, so that any run of
// neighbouring places is a matrix in the order of memory for every tap. Places in the gaps compute
// sums that nobody stores; where a gap is all padding, neighbours share it:
//
//   pitch    cols + padding, when one stripe has all columns; else cols + extent_w - 1
//   period   h + padding
//
// Of small images the gaps are many. So several may stand abreast in a stripe, which then has no
// others: its places go through a row of all of them before the next row, and filters reach into
// rows above and below the images that are no places.
#pragma once

#include <cstdint>

#include "megaconv/problem.hpp"

namespace megaconv {

struct Stripes {
  std::int32_t cols;        ///< output columns of a stripe; the last may have fewer
  std::int32_t pitch;       ///< places of a row of an image
  std::int32_t period;      ///< rows of an image
  std::int32_t reach;       ///< from a place to its farthest tap
  std::int32_t images = 1;  ///< abreast

  /// From a place to the one below it.
  constexpr std::int32_t row() const { return images * pitch; }
  /// What a place stands for: image, row and column of a stripe, those of the gaps included. Of
  /// images abreast the first is 0.
  struct Position {
    std::int32_t image, row, col;
  };
  constexpr Position position(std::int32_t place) const {
    const std::int32_t line = place / pitch;
    if (images > 1) return {line % images, line / images, place % pitch};
    return {line / period, line % period, place % pitch};
  }
  /// The position of place a + b, from those of a and b, of images one below the other: without
  /// divisions.
  constexpr Position sum(Position a, const Position& b) const {
    a.col += b.col;
    if (a.col >= pitch) a.col -= pitch, ++a.row;
    a.row += b.row;
    if (a.row >= period) a.row -= period, ++a.image;
    a.image += b.image;
    return a;
  }
};

/// Those of a problem, in stripes of `cols` columns: of an image, or all of several abreast.
Stripes make_stripes(const ConvProblem& problem, std::int32_t cols);

/// How many there are.
std::int64_t num_stripes(const ConvProblem& problem, const Stripes& stripes);
/// Places of one stripe.
std::int64_t places_of_stripe(const ConvProblem& problem, const Stripes& stripes);

/// Largest reach that tasks keep input for.
inline constexpr std::int32_t kMostReach = 128;

/// Tiles are compiled in several widths: half of the widest and, in steps of so many places, up to
/// the widest. With split numbers, which take longest, there are more than with others.
constexpr std::int32_t tile_step(std::int32_t most_places, bool split) {
  return most_places / (split ? 16 : 4);
}

/// How direct tasks come by x as matrix instructions take it.
enum class Operands : std::uint8_t {
  loaded,     ///< their threads load it, whatever the tensor, and store it in shared memory
  in_tensor,  ///< 16-bit numbers in NHWC, in whole octets of channels and filters, are operands
  in_float_tensor,  ///< so are floats in NHWC, which the copy engine rounds to TF32
  in_copy,          ///< of floats in NHWC, input tasks make a copy
  converted         ///< of floats in NHWC, in shared memory, where the copy engine has brought them
};

/// Whether they need nothing made of the tensors.
constexpr bool are_tensors(Operands operands) {
  return operands == Operands::in_tensor || operands == Operands::in_float_tensor;
}

// Operands that the copy engine brings, in place of threads:

/// Whether the tensors are operands of 16 bits.
bool operands_in_tensor(const ConvProblem& problem);
/// Whether copies of them can be.
bool operands_can_be_copied(const ConvProblem& problem);
/// Whether the copy engine can bring floats: pixels are whole vectors of 16 bytes.
bool floats_can_be_brought(const ConvProblem& problem);
/// Whether it can for threads that convert them, in stripes of so many columns: of these there are
/// few, and the last one does not lack many.
bool stripes_can_be_converted(const ConvProblem& problem, std::int64_t cols);
inline constexpr int kMostConvertedStripes = 8;
/// Places of a group come in as many.
inline constexpr std::int32_t kPlaceStepInPlace = 16;
/// Places of a tile come in as many, from the tile before to the one of so many,
constexpr std::int32_t tile_step_in_place(std::int32_t tile_places) {
  return tile_places > 192 ? 16 : 32;
}
/// and are at most as many.
/// Outputs of floats take more room; so does converting these.
constexpr std::int32_t most_places_in_place(Operands operands) {
  return operands == Operands::in_tensor ? 512 : operands == Operands::converted ? 384 : 448;
}
/// Bytes of a row of operands: a place or a filter, in a slab of channels. The copy engine takes as
/// long for 64 as for 128, and narrow tiles have little else to wait for; but floats that are to be
/// converted need the room.
constexpr int slab_bytes_in_place(std::int32_t tile_places, Operands operands) {
  return tile_places <= (operands == Operands::converted ? 128 : 256) ? 128 : 64;
}
constexpr int operand_bytes(Operands operands) {
  return operands == Operands::in_float_tensor ? 4 : 2;
}
/// Channels of a slab.
constexpr std::int32_t slab_channels_in_place(std::int32_t tile_places, Operands operands) {
  return slab_bytes_in_place(tile_places, operands) / operand_bytes(operands);
}
inline constexpr int kSharedBytesInPlace = 226 * 1024;  ///< of a task
/// Of these filters have at least so many.
constexpr int least_filter_bytes_in_place(std::int32_t tile_places, Operands operands) {
  if (operands == Operands::in_tensor) return 64 * 1024;
  constexpr int kFilters = 64, kLeastTaps = 6;  // that are multiplied or waited for
  constexpr int kMostSlabBytes = 128;
  const bool converts = operands == Operands::converted;
  return kLeastTaps * kFilters *
         (converts ? slab_bytes_in_place(tile_places, operands) : kMostSlabBytes);
}
/// Floats on their way to where they are converted: pieces of so many places and channels; fewer at
/// a time where the blocks of a cluster share them out.
inline constexpr int kPieces = 4, kPiecePlaces = 64, kPieceChannels = 32;
constexpr int pieces_of(int cluster_blocks) { return cluster_blocks > 1 ? kPieces - 1 : kPieces; }
inline constexpr int kPieceBytes = kPiecePlaces * kPieceChannels * 4;
/// Largest reach that a task keeps input for. If all rows of the filters reach further, it takes
/// them one by one. Floats, as outputs and as inputs, leave less room for so many stages of input.
inline constexpr std::int32_t kMostReachInPlace = 456;
constexpr std::int32_t most_reach_in_place(std::int32_t tile_places, Operands operands,
                                           int input_stages = 2) {
  const int slab_bytes = slab_bytes_in_place(tile_places, operands);
  if (operands == Operands::in_tensor) return slab_bytes == 128 ? 320 : kMostReachInPlace;
  constexpr std::int32_t kFilters = 64, kOtherBytes = 5 * 1024;
  const std::int32_t bytes = kSharedBytesInPlace -
                             least_filter_bytes_in_place(tile_places, operands) -
                             (operands == Operands::converted ? kPieces * kPieceBytes : 0) -
                             kOtherBytes - tile_places * kFilters * 4;
  const std::int32_t most = bytes / (input_stages * slab_bytes) - tile_places;
  return most < kMostReachInPlace ? most : kMostReachInPlace;
}
/// How a block cuts its shared memory: bytes from where its barriers end on, and what lies there.
struct MemoryInPlace {
  std::int32_t pieces, num_pieces;  ///< behind outputs; of x, if it is to be converted
  std::int32_t partial_sums;        ///< of other blocks that share the channels
  std::int32_t input, input_stages, input_bytes;   ///< of a stage
  std::int32_t filters, filter_stages, tap_bytes;  ///< of a stage
};
inline constexpr int kBarrierBytesInPlace = 2 * 1024;  ///< with what is lost to alignment
inline constexpr std::int32_t kLeastInputStages = 2, kMostFilterStages = 24;
constexpr std::int32_t most_input_stages(Operands operands) {
  return operands == Operands::converted ? 3 : 4;
}
/// Of a block that multiplies so many taps of slabs, or some of several tiles.
MemoryInPlace memory_in_place(std::int32_t tile_places, std::int32_t input_places,
                              Operands operands, std::int32_t taps, std::int32_t cluster_blocks,
                              std::int32_t channel_shares);
/// Taps of filters that there is room for, beside two stages of so many places of input.
constexpr int filter_stages_in_place(std::int32_t tile_places, std::int32_t input_places,
                                     Operands operands) {
  constexpr int kStages = 2, kFilters = 64, kOtherBytes = 5 * 1024;
  const int slab_bytes = slab_bytes_in_place(tile_places, operands);
  const int output_bytes = operands == Operands::in_tensor ? 2 : 4;
  const int room = kSharedBytesInPlace - kStages * input_places * slab_bytes -
                   tile_places * kFilters * output_bytes - kOtherBytes;
  return room / (kFilters * slab_bytes);
}
constexpr bool has_room_in_place(std::int32_t tile_places, std::int32_t input_places,
                                 Operands operands) {
  constexpr int kLeastTaps = 6;  // that are multiplied or waited for
  return filter_stages_in_place(tile_places, input_places, operands) >= kLeastTaps;
}
/// Places of the tiles that divide a group evenly, with so many channels. Rows one by one are
/// brought more often, for which more of them should be on their way; stages of several slabs that
/// are being converted should be three. Of images abreast whole rows are brought, for tiles that
/// begin with one: groups and tiles have whole rows, or a group is a tile; 0 if none has room.
std::int32_t tile_places_in_place(std::int64_t places_per_group, const Stripes& stripes,
                                  Operands operands, std::int64_t channels);
/// Rows of a filter that tiles keep input for at a time, and its places.
struct InputOfTile {
  std::int32_t filter_rows, places;
};
InputOfTile input_of_tile(const ConvProblem& problem, const Stripes& stripes,
                          std::int32_t tile_places, Operands operands);
/// Places of the largest tiles whose channels are shared out.
inline constexpr std::int32_t kMostSharedPlaces = 64;
/// Columns of a row of y that the copy engine stores at a time. It cuts at the row's end, but not
/// where a stripe ends amid a row.
std::int32_t output_cols_in_place(const ConvProblem& problem, std::int32_t stripe_cols);
/// Pixels of x, and lane blocks of their channels, that an input task copies at most.
inline constexpr int kPixelsOfInputTask = 128, kMostBlocksOfInputTask = 4;

}  // namespace megaconv
