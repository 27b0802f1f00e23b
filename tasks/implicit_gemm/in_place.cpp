// SPDX-License-Identifier: Apache-2.0
// Tiles of implicit GEMM whose operands TMA loads, and what they keep of them in shared memory.
#include <algorithm>

#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv {
namespace {

// Of images abreast: whole rows.
std::int32_t input_abreast(const Stripes& stripes, std::int32_t tile_places) {
  return ceil_div(tile_places + stripes.reach, stripes.row()) * stripes.row();
}

}  // namespace

InputOfTile input_of_tile(const ConvProblem& problem, const Stripes& stripes,
                          std::int32_t tile_places, Operands operands) {
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  if (stripes.by_taps) return {1, 1, tile_places};
  const std::int32_t cols = i32(problem.s);
  if (stripes.images > 1) {
    return {i32(problem.r), cols, input_abreast(stripes, tile_places)};
  }
  if (stripes.reach <= most_reach_in_place(tile_places, operands)) {
    return {i32(problem.r), cols, tile_places + stripes.reach};
  }
  return {1, cols, tile_places + i32(problem.filter_extent_w() - 1)};
}

std::int32_t tile_places_in_place(std::int64_t places_per_group, const Stripes& stripes,
                                  Operands operands, std::int64_t channels) {
  constexpr std::int32_t kMostOfRows = 384;
  const auto dividing = [=](std::int64_t tiles) {
    const std::int64_t places = ceil_div(places_per_group, tiles);
    const std::int32_t step =
        tile_step_in_place(static_cast<std::int32_t>(std::min(places, std::int64_t{kMostOfRows})));
    return static_cast<std::int32_t>(ceil_div(places, std::int64_t{step})) * step;
  };
  if (are_tall(operands)) return kTallPlaces;
  if (stripes.images > 1) {
    for (std::int64_t tiles = 1; places_per_group % stripes.row() == 0; ++tiles) {
      const std::int32_t tile = dividing(tiles);
      const bool fits = (tiles == 1 || tile % stripes.row() == 0) &&
                        tile <= most_places_in_place(operands) &&
                        has_room_in_place(tile, input_abreast(stripes, tile), operands);
      if (fits) return tile;
      if (tile == tile_step_in_place(tile)) break;
    }
    return 0;
  }
  const std::int32_t reach = stripes.reach;
  // Floats, rather than rows one by one, have narrower tiles, as long as K blocks are the same and
  // less input is loaded.
  const std::int32_t least = have_16_bits(operands)            ? most_places_in_place(operands)
                             : operands == Operands::converted ? 224
                                                               : 288;
  const auto widest = [=](int input_stages) {
    std::int32_t most = most_places_in_place(operands);
    while (most > least && reach > most_reach_in_place(most, operands, input_stages)) {
      most -= tile_step_in_place(most);
    }
    return most;
  };
  const bool converts_k_blocks =
      operands == Operands::converted && channels > k_block_channels_in_place(least, operands);
  constexpr int kStagesOfKBlocks = 3;
  std::int32_t most = widest(converts_k_blocks ? kStagesOfKBlocks : 2);
  if (converts_k_blocks && reach > most_reach_in_place(most, operands, kStagesOfKBlocks)) {
    most = widest(2);
  }
  if (reach > most_reach_in_place(most, operands)) most = kMostOfRows;
  return dividing(ceil_div(places_per_group, std::int64_t{most}));
}

namespace {

// Of wide and tall tiles: a pipeline stage of x is for one tap, and so is one of filters.
void cut_for_taps(MemoryInPlace& memory, std::int32_t tile_places, std::int32_t filters,
                  Operands operands, std::int32_t taps, bool has_residual) {
  const std::int32_t number_bytes = have_16_bits(operands) ? 2 : 4;
  const std::int32_t columns = are_wide(operands) ? tile_places : filters;
  const bool in_parts = may_leave_in_parts(operands, columns) && !has_residual;
  const std::int32_t at_once = in_parts ? kColumnsOfPart : columns;
  const std::int32_t output_bytes = are_wide(operands)
                                        ? at_once * filters * number_bytes
                                        : tile_places * output_pitch_of_tall(at_once, number_bytes);
  memory.output_stages = in_parts ? kLeastOutputStages : 1;
  const std::int32_t room = kSharedBytesInPlace - kBarrierBytesInPlace;
  // All filters, if enough stages of x are left, or as many as of x.
  constexpr std::int32_t kEnough = 5;
  const std::int32_t left = room - memory.output_stages * output_bytes;
  const std::int32_t beside_all = (left - taps * memory.tap_bytes) / memory.input_bytes;
  const bool keeps = are_tall(operands) && taps <= kMostFilterStages && beside_all >= kEnough;
  memory.input_stages =
      std::min(most_input_stages(operands),
               keeps ? beside_all : left / (memory.input_bytes + memory.tap_bytes));
  memory.filter_stages = keeps ? taps : memory.input_stages;
  // What is left may have room for more stages of one of them: of filters, beside floats that are
  // converted, else of x.
  if (!keeps) {
    const std::int32_t unused =
        left - memory.input_stages * (memory.input_bytes + memory.tap_bytes);
    if (operands == Operands::converted_tall) {
      memory.filter_stages =
          std::min(memory.filter_stages + unused / memory.tap_bytes, kMostFilterStages);
    } else {
      memory.input_stages =
          std::min(memory.input_stages + unused / memory.input_bytes, most_input_stages(operands));
    }
  }
  const std::int32_t stages_bytes =
      memory.input_stages * memory.input_bytes + memory.filter_stages * memory.tap_bytes;
  if (in_parts) {
    memory.output_stages = std::min(kMostOutputStages, (room - stages_bytes) / output_bytes);
  }
  memory.pieces = memory.partial_sums = memory.input = memory.output_stages * output_bytes;
  memory.filters = memory.input + memory.input_stages * memory.input_bytes;
}

}  // namespace

MemoryInPlace memory_in_place(std::int32_t tile_places, std::int32_t filters,
                              const InputOfTile& input, Operands operands, std::int32_t taps,
                              bool has_residual, std::int32_t cluster_blocks,
                              std::int32_t channel_shares) {
  constexpr std::int32_t kSpan = 1024;  // of TMA's permutations
  const auto whole_spans = [](std::int32_t bytes) { return ceil_div(bytes, kSpan) * kSpan; };
  MemoryInPlace memory{};
  const std::int32_t row_bytes = k_block_bytes_in_place(tile_places, operands);
  memory.tap_bytes = filters * row_bytes;
  memory.input_bytes = whole_spans(input_bytes_in_place(input.places, row_bytes, operands));
  if (!have_narrow_tiles(operands)) {
    cut_for_taps(memory, tile_places, filters, operands, taps, has_residual);
    return memory;
  }
  const bool converts = operands == Operands::converted;
  memory.output_stages = 1;
  memory.pieces = whole_spans(tile_places * filters * (have_16_bits(operands) ? 2 : 4));
  memory.num_pieces = converts ? pieces_of(cluster_blocks) : 0;
  memory.partial_sums = memory.pieces + memory.num_pieces * kPieceBytes;
  const std::int32_t sum_bytes = tile_places * filters * static_cast<std::int32_t>(sizeof(float));
  memory.input = memory.partial_sums + (channel_shares - 1) * sum_bytes;
  const std::int32_t room = kSharedBytesInPlace - kBarrierBytesInPlace - memory.input;
  const std::int32_t most_input = most_input_stages(operands);
  const auto stages_beside = [&](std::int64_t filter_bytes) {
    return (room - filter_bytes) / memory.input_bytes;
  };
  const std::int64_t with_all = stages_beside(std::int64_t{taps} * memory.tap_bytes);
  const std::int64_t with_few = stages_beside(least_filter_bytes_in_place(tile_places, operands));
  // A stage of x that is for few taps is multiplied sooner than the next one comes: with two the
  // products wait for every load (H100, FP16, n32c512h28k256r1p0: 25.7 us, with more 17.9;
  // n45c352h66k48r1s3p0x1 91.4 and 65.1).
  constexpr std::int32_t kFewTaps = 3;
  const std::int64_t least =
      input.filter_rows * input.filter_cols <= kFewTaps ? 3 : kLeastInputStages;
  const std::int64_t stages = with_all >= least ? with_all : std::max(with_all, with_few);
  memory.input_stages =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(stages, kLeastInputStages, most_input));
  memory.filters = memory.input + memory.input_stages * memory.input_bytes;
  memory.filter_stages = std::min(
      kMostFilterStages, (room - memory.input_stages * memory.input_bytes) / memory.tap_bytes);
  return memory;
}

std::int32_t output_cols_in_place(const ConvProblem& problem, std::int32_t stripe_cols) {
  constexpr std::int32_t kMost = 32;
  if (stripe_cols >= problem.q()) return std::min(stripe_cols, kMost);
  std::int32_t cols = std::min(stripe_cols, kMost);
  while (stripe_cols % cols != 0) --cols;
  return cols;
}

}  // namespace megaconv
