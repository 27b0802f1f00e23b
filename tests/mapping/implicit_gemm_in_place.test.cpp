// SPDX-License-Identifier: Apache-2.0
// Tiles of implicit GEMM whose operands TMA loads: how large they are, what they keep in shared
// memory, and which are chosen.
#include <algorithm>
#include <set>
#include <tuple>

#include "tests/mapping/implicit_gemm_tilings.hpp"

using namespace megaconv;
using megaconv::test::check_order_and_file, megaconv::test::cut_of, megaconv::test::tiling_of;

namespace {

// Stripes whose filters reach so far.
Stripes reaching(std::int32_t reach) { return {1, 1, 1, reach}; }

}  // namespace

TEST_CASE("Tiles of tensors in place share a group evenly, in whole steps") {
  for (const Operands operands :
       {Operands::in_tensor, Operands::in_float_tensor, Operands::in_copy, Operands::converted}) {
    const std::int64_t most = most_places_in_place(operands);
    for (std::int64_t places = 1; places <= 3000; ++places) {
      const std::int32_t tile = tile_places_in_place(places, reaching(30), operands, 32);
      CAPTURE(static_cast<int>(operands), places, tile);
      const std::int32_t step = tile_step_in_place(tile);
      CHECK(tile % step == 0);
      CHECK(tile <= most);
      const std::int64_t tiles = (places + tile - 1) / tile;
      CHECK(tiles == (places + most - 1) / most);
      CHECK(tiles * (tile - step) < places);
      CHECK(tile_places_in_place(places, reaching(kMostReachInPlace + 1), operands, 32) <= 384);
    }
  }
}

TEST_CASE("Tiles of several K blocks to be converted leave room for three stages of input") {
  const Operands operands = Operands::converted;
  for (std::int32_t reach = 0; reach <= most_reach_in_place(224, operands, 3); ++reach) {
    const std::int32_t places = tile_places_in_place(100'000, reaching(reach), operands, 64);
    const auto bytes = [=](std::int32_t tile) {
      return tile * 64 * 4 + 3 * (tile + reach) * k_block_bytes_in_place(tile, operands) +
             kPieces * kPieceBytes + least_filter_bytes_in_place(tile, operands);
    };
    CAPTURE(reach, places);
    CHECK(bytes(places) < kSharedBytesInPlace);
    CHECK(bytes(places + 2 * kPlaceStepInPlace) > kSharedBytesInPlace);
  }
}

TEST_CASE("Tiles of floats are as wide as their outputs and input leave room for") {
  for (const Operands operands :
       {Operands::in_float_tensor, Operands::in_copy, Operands::converted}) {
    const auto bytes = [operands](std::int32_t places, std::int32_t reach) {
      const int row_bytes = k_block_bytes_in_place(places, operands);
      const int pieces = operands == Operands::converted ? kPieces * kPieceBytes : 0;
      return places * 64 * 4 + 2 * (places + reach) * row_bytes + pieces +
             least_filter_bytes_in_place(places, operands);
    };
    for (std::int32_t reach = 0; reach <= kMostReachInPlace; ++reach) {
      const std::int32_t places = tile_places_in_place(100'000, reaching(reach), operands, 32);
      CAPTURE(static_cast<int>(operands), reach, places);
      REQUIRE(reach <= most_reach_in_place(places, operands));
      CHECK(bytes(places, reach) < kSharedBytesInPlace);
      const bool is_widest = places == most_places_in_place(operands);
      CHECK((is_widest || bytes(places + 2 * kPlaceStepInPlace, reach) > kSharedBytesInPlace));
    }
  }
}

TEST_CASE("Small images that are read in place stand abreast, with no gaps below them") {
  TilingOptions options;
  options.whole_tensors = true;
  options.precision = Precision::tf32;
  for (const char* text :
       {"n128c512h7k512+nhwc+f16", "n64c512h7k512+nhwc+bf16", "n128c512h7k512+nhwc"}) {
    const Tiling tiling = tiling_of(text, options);
    const Stripes stripes =
        make_stripes(tiling.problem, static_cast<std::int32_t>(cut_of(tiling).cols_per_group));
    CAPTURE(text, to_string(tiling));
    CHECK(stripes.images > 1);
    CHECK(cut_of(tiling).cols_per_group == 7u * static_cast<std::uint32_t>(stripes.images));
    CHECK(places_of_stripe(tiling.problem, stripes) == 7 * 8 * stripes.images);
    check_order_and_file(tiling, {.policy = "staged"});
  }
  for (const char* text : {"n64c64h56k64+nhwc+f16", "n1c512h7k512+nhwc+f16"}) {
    const Tiling tiling = tiling_of(text, options);
    CHECK(cut_of(tiling).cols_per_group == tiling.problem.q());
  }
}

TEST_CASE("Blocks cut their shared memory into all that tiles in place need") {
  for (const Operands operands :
       {Operands::in_tensor, Operands::in_float_tensor, Operands::in_copy, Operands::converted}) {
    for (std::int32_t reach = 0; reach <= kMostReachInPlace; reach += 19) {
      for (std::int32_t group = 1; group <= 600; group += 7) {
        const std::int32_t tile = tile_places_in_place(group, reaching(reach), operands, 64);
        // Filters that reach further are taken row by row.
        const bool has_all_rows = reach <= most_reach_in_place(tile, operands);
        const InputOfTile input{has_all_rows ? 3 : 1, 3, tile + (has_all_rows ? reach : 2)};
        for (const std::int32_t cluster : {1, 2}) {
          for (const std::int32_t shares : {1, 2, 3, 4}) {
            const bool may_share = may_share_channels(operands) && tile <= kMostSharedPlaces &&
                                   reach <= kMostReach &&
                                   shares <= most_channel_shares(tile, operands);
            if (shares > 1 && !may_share) continue;
            for (const std::int32_t taps : {1, 9, 36, 1000, 1'000'000}) {
              const MemoryInPlace memory =
                  memory_in_place(tile, 64, input, operands, taps, false, cluster, shares);
              CAPTURE(static_cast<int>(operands), reach, group, tile, cluster, shares, taps);
              const std::int32_t output_bytes = operands == Operands::in_tensor ? 2 : 4;
              REQUIRE(memory.pieces >= tile * 64 * output_bytes);
              REQUIRE(memory.partial_sums - memory.pieces == memory.num_pieces * kPieceBytes);
              REQUIRE(memory.input - memory.partial_sums == (shares - 1) * tile * 64 * 4);
              REQUIRE(memory.input_bytes >= input.places * k_block_bytes_in_place(tile, operands));
              REQUIRE(memory.input_stages >= 2);
              REQUIRE(memory.filters == memory.input + memory.input_stages * memory.input_bytes);
              // A lead of three and three that are pending.
              REQUIRE(memory.filter_stages >= std::min(taps, 6));
              REQUIRE(memory.filters + memory.filter_stages * memory.tap_bytes +
                          kBarrierBytesInPlace <=
                      kSharedBytesInPlace);
              for (const std::int32_t at : {memory.pieces, memory.input, memory.filters}) {
                REQUIRE(at % 1024 == 0);
              }
            }
          }
        }
      }
    }
  }
}

// `taps`: of a tile. Filters of all taps lie there if there is room, else as many as of x; then
// what is left goes to x, or to filters where x is floats that are converted.
void check_stages_of_taps(const MemoryInPlace& memory, Operands operands, std::int32_t taps,
                          bool has_residual) {
  const std::int32_t left = kSharedBytesInPlace - kBarrierBytesInPlace - memory.filters -
                            memory.filter_stages * memory.tap_bytes;
  if (memory.filter_stages != taps) {
    const bool of_filters = operands == Operands::converted_tall;
    const std::int32_t more = of_filters ? memory.filter_stages - memory.input_stages
                                         : memory.input_stages - memory.filter_stages;
    CHECK(more >= 0);
    CHECK((left < (of_filters ? memory.tap_bytes : memory.input_bytes) ||
           memory.input_stages == most_input_stages(operands)));
  }
  CHECK(memory.filter_stages <=
        (are_wide(operands) ? most_input_stages(operands) : kMostFilterStages));
  CHECK((memory.output_stages == 1 || memory.output_stages >= kLeastOutputStages));
  CHECK(memory.output_stages <= kMostOutputStages);
  if (has_residual) CHECK(memory.output_stages == 1);
  // One is multiplied, one is pending, one is on its way. (What is in registers is not pending.)
  CHECK(memory.input_stages >= (operands == Operands::converted_tall ? 2 : 3));
  CHECK(memory.filters + memory.filter_stages * memory.tap_bytes + kBarrierBytesInPlace <=
        kSharedBytesInPlace);
  for (const std::int32_t at : {memory.pieces, memory.input, memory.filters}) {
    CHECK(at % 1024 == 0);
  }
}

TEST_CASE("Blocks cut their shared memory into all that wide tiles need") {
  for (const Operands operands : {Operands::in_tensor_wide, Operands::in_float_tensor_wide}) {
    for (std::int32_t group = 1; group <= 600; ++group) {
      const std::int32_t tile = tile_places_in_place(group, reaching(0), operands, 64);
      REQUIRE(tile <= most_places_in_place(operands));
      for (const bool has_residual : {false, true}) {
        const MemoryInPlace memory =
            memory_in_place(tile, 128, {1, 1, tile}, operands, 9, has_residual, 1, 1);
        CAPTURE(to_string(operands), group, tile, has_residual);
        const std::int32_t at_once = memory.output_stages == 1 ? tile : kColumnsOfPart;
        CHECK(tile % at_once == 0);
        CHECK(memory.pieces >=
              memory.output_stages * at_once * 128 * (have_floats(operands) ? 4 : 2));
        CHECK(memory.tap_bytes == 128 * k_block_bytes_in_place(tile, operands));
        check_stages_of_taps(memory, operands, 9, has_residual);
      }
    }
  }
}

TEST_CASE("Blocks cut their shared memory into all that tall tiles need") {
  for (const Operands operands : {Operands::in_tensor_tall, Operands::in_float_tensor_tall,
                                  Operands::converted_tall, Operands::split_tall}) {
    for (std::uint32_t blocks = 1; blocks <= filter_blocks_of_tile(operands); ++blocks) {
      for (const std::int32_t taps : {1, 9, 24, 25, 1000, 1'000'000}) {
        for (const bool has_residual : {false, true}) {
          const std::int32_t filters = filters_in_place(operands, blocks);
          const MemoryInPlace memory = memory_in_place(kTallPlaces, filters, {1, 1, kTallPlaces},
                                                       operands, taps, has_residual, 1, 1);
          CAPTURE(to_string(operands), filters, taps, has_residual);
          const std::int32_t at_once = memory.output_stages == 1 ? filters : kColumnsOfPart;
          CHECK(memory.pieces >= memory.output_stages * kTallPlaces *
                                     output_pitch_of_tall(at_once, have_16_bits(operands) ? 2 : 4));
          CHECK(memory.tap_bytes == filters * k_block_bytes_in_place(kTallPlaces, operands));
          CHECK(memory.input_bytes == input_bytes_in_place(kTallPlaces, 128, operands));
          check_stages_of_taps(memory, operands, taps, has_residual);
        }
      }
    }
  }
}

TEST_CASE("Outputs leave in parts where that leaves room for one more stage of x and filters") {
  const auto cut = [](Operands operands, std::int32_t tile, std::int32_t filters,
                      bool has_residual) {
    return memory_in_place(tile, filters, {1, 1, tile}, operands, 1000, has_residual, 1, 1);
  };
  for (const auto& [operands, tile, filters] :
       {std::tuple{Operands::in_float_tensor_wide, 192, 128},
        std::tuple{Operands::in_float_tensor_tall, kTallPlaces, 160},
        std::tuple{Operands::in_float_tensor_tall, kTallPlaces, 176},
        std::tuple{Operands::in_float_tensor_tall, kTallPlaces, 192}}) {
    CAPTURE(to_string(operands), tile, filters);
    const MemoryInPlace parts = cut(operands, tile, filters, false),
                        together = cut(operands, tile, filters, true);
    CHECK(parts.output_stages > 1);
    CHECK(parts.filter_stages == 4);
    CHECK(together.output_stages == 1);
    CHECK(together.filter_stages == 3);
  }
  for (const auto& [operands, tile, filters] :
       {std::tuple{Operands::in_float_tensor_wide, 160, 128},
        std::tuple{Operands::in_float_tensor_tall, kTallPlaces, 144},
        std::tuple{Operands::in_tensor_wide, 256, 128},
        std::tuple{Operands::in_tensor_tall, kTallPlaces, 256}}) {
    CAPTURE(to_string(operands), tile, filters);
    CHECK(cut(operands, tile, filters, false).output_stages == 1);
  }
}

// The permutation of swizzled rows is no longer there to do it.
TEST_CASE("Threads that store outputs of tall tiles meet all banks of shared memory once") {
  constexpr std::int32_t kBanksBytes = 128;
  for (std::int32_t filters = 16; filters <= 256; filters += 16) {
    CAPTURE(filters);
    // 16 bits: 16 bytes of eight neighbouring pixels. Floats: two filters of each quarter of a
    // warp's threads, of four pixels.
    std::set<std::int32_t> rows, quarters;
    for (std::int32_t pixel = 0; pixel < 8; ++pixel) {
      rows.insert(pixel * output_pitch_of_tall(filters, 2) % kBanksBytes / 16);
    }
    for (std::int32_t pixel = 0; pixel < 4; ++pixel) {
      quarters.insert(pixel * output_pitch_of_tall(filters, 4) % kBanksBytes / 32);
    }
    CHECK(rows.size() == 8);
    CHECK(quarters.size() == 4);
  }
}

TEST_CASE("Stages of x for few taps are three at least where there is room") {
  // All filters would leave room for two.
  const auto stages_of = [](const InputOfTile& input, std::int32_t tile, std::int32_t taps) {
    return memory_in_place(tile, 64, input, Operands::in_tensor, taps, false, 1, 1);
  };
  const MemoryInPlace one_tap = stages_of({1, 1, 512}, 512, 20);
  CHECK(one_tap.input_stages >= 3);
  CHECK(one_tap.filter_stages < 20);
  const MemoryInPlace row = stages_of({1, 3, 304 + 2}, 304, 33);
  CHECK(row.input_stages >= 3);
  CHECK(row.filter_stages < 33);
  // For nine taps two are enough, and all filters stay.
  const MemoryInPlace all_taps = stages_of({3, 3, 304 + 2}, 304, 33);
  CHECK(all_taps.input_stages == 2);
  CHECK(all_taps.filter_stages >= 24);
}

TEST_CASE("Wide tiles are for layers of many filters whose taps have inputs of their own") {
  TilingOptions options;
  // So many filters share what is loaded of x.
  for (const char* text : {"n32c1024h14k512r1p0+nhwc+f16", "n32c512h7k2048r1p0+nhwc+bf16",
                           "n32c512h28k1024r1p0u2+nhwc+f16"}) {
    CAPTURE(text);
    const Tiling tiling = tiling_of(text, options);
    CHECK(cut_of(tiling).operands == Operands::in_tensor_wide);
    check_order_and_file(tiling);
  }
  for (const char* text : {"n32c512h7k512+nhwc+f16", "n32c512h14k64r1s3+nhwc+f16"}) {
    CAPTURE(text);
    CHECK(cut_of(tiling_of(text, options)).operands == Operands::in_tensor);
  }
  // Of floats, too, and what one tap reads once is neither copied nor converted.
  options.precision = Precision::tf32;
  options.whole_tensors = true;
  for (const char* text :
       {"n32c512h28k256r1p0+nhwc", "n32c256h28k256u2+nhwc", "n32c512h7k2048r1p0+nhwc"}) {
    CAPTURE(text);
    const Tiling tiling = tiling_of(text, options);
    CHECK(cut_of(tiling).operands == Operands::in_float_tensor_wide);
    CHECK(tiling.arithmetic == Arithmetic::tf32);
    check_order_and_file(tiling);
  }
  options = {};
  options.filter_blocks_per_gemm_task = 8;
  CHECK(cut_of(tiling_of("n1c64h14k512r1p0+nhwc+f16", options)).operands ==
        Operands::in_tensor_wide);
  CHECK_THROWS_WITH(tiling_of("n32c512h7k512+nhwc+f16", options),
                    ContainsSubstring("filters 1x1 or strided"));
}

// `filters`: of a task.
void check_tiles(const char* text, const TilingOptions& options, Operands operands,
                 std::uint32_t filters) {
  CAPTURE(text);
  const Tiling tiling = tiling_of(text, options);
  CHECK(cut_of(tiling).operands == operands);
  CHECK(cut_of(tiling).filter_blocks_per_gemm_task * Tiling::kLaneBlock == filters);
  if (are_tall(operands)) CHECK(cut_of(tiling).places_per_group % kTallPlaces == 0);
  check_order_and_file(tiling);
}

TEST_CASE("Tall tiles are for numbers of filters that leave wide ones half empty") {
  TilingOptions options;
  options.whole_tensors = true;
  check_tiles("n22c448h36w48k904r1p0+nhwc+f16", options, Operands::in_tensor_tall, 240);
  check_tiles("n123c512h22k528r1p0+nhwc+bf16", options, Operands::in_tensor_tall, 176);
  options.precision = Precision::tf32;
  check_tiles("n42c136h136k80u2+nhwc", options, Operands::in_float_tensor_tall, 80);
}

TEST_CASE("Tall tiles whose consumers convert floats are for what waits for products") {
  TilingOptions options;
  options.precision = Precision::tf32;
  options.whole_tensors = true;
  check_tiles("n20c1072h26k288r1p0+nhwc", options, Operands::converted_tall, 144);
  check_tiles("n1c944h150k1016r1p0+nhwc", options, Operands::converted_tall, 176);
  check_tiles("n14c456h46k344u2+nhwc", options, Operands::converted_tall, 176);
  // What waits for memory, or is small, gains nothing.
  check_tiles("n32c256h56k128r1p0+nhwc", options, Operands::in_float_tensor_wide, 128);
  check_tiles("n8c1024h14k512r1p0+nhwc", options, Operands::in_float_tensor_wide, 128);
  // Nor does what taps share in a copy.
  check_tiles("n32c512h14k512u2+nhwc", options, Operands::in_copy, 64);
  // They can be asked for.
  options.arithmetic = Arithmetic::f16;
  check_tiles("n32c256h56k128r1p0+nhwc", options, Operands::converted_tall, 128);
  options.filter_blocks_per_gemm_task = 3;
  check_tiles("n32c256h56k128r1p0+nhwc", options, Operands::converted_tall, 48);
  options.filter_blocks_per_gemm_task = 12;
  CHECK_THROWS_WITH(tiling_of("n32c256h56k512r1p0+nhwc", options),
                    ContainsSubstring("filter_blocks_per_gemm_task = 12: must be 1 to 11"));
}

TEST_CASE("Tall tiles whose consumers split floats are for stages at the accuracy of FP32") {
  TilingOptions options;
  options.whole_tensors = true;
  options.algorithm = Algorithm::implicit_gemm;
  check_tiles("n32c256h56k128r1p0+nhwc", options, Operands::split_tall, 128);
  check_tiles("n32c384h56k192r1p0+nhwc", options, Operands::split_tall, 96);
  check_tiles("n32c512h14k512u2+nhwc", options, Operands::split_tall, 64);
  check_tiles("n32c144h56k24r1p0+nhwc", options, Operands::split_tall, 32);
  // Not where taps share inputs, or TMA cannot load x.
  check_tiles("n32c256h14k256+nhwc", options, Operands::loaded, 128);
  check_tiles("n32c258h56k128r1p0+nhwc", options, Operands::loaded, 128);
  check_tiles("n32c256h56k128r1p0+nchw", options, Operands::loaded, 128);
  options.filter_blocks_per_gemm_task = 9;
  CHECK_THROWS_WITH(tiling_of("n32c256h56k512r1p0+nhwc", options),
                    ContainsSubstring("filter_blocks_per_gemm_task = 9: must be 1 to 8"));
  options.filter_blocks_per_gemm_task = 0;
  options.whole_tensors = false;
  check_tiles("n32c256h56k128r1p0+nhwc", options, Operands::loaded, 128);
}

TEST_CASE("Tall tiles are also for few filters, of which narrow ones would be mostly empty") {
  TilingOptions options;
  options.whole_tensors = true;
  check_tiles("n100c760h13k16r1p0+nhwc+f16", options, Operands::in_tensor_tall, 16);
  check_tiles("n32c144h56k24r1p0+nhwc+bf16", options, Operands::in_tensor_tall, 32);
  // Sums of one K block, every other pixel, taps that share x.
  check_tiles("n92c48h129k40r1p0+nhwc+f16", options, Operands::in_tensor, 64);
  check_tiles("n8c128h100k48r1p0u2+nhwc+f16", options, Operands::in_tensor, 64);
  check_tiles("n16c64h56k32+nhwc+f16", options, Operands::in_tensor, 32);
  options.precision = Precision::tf32;
  check_tiles("n4c720h52k8r1p0+nhwc", options, Operands::in_float_tensor_tall, 16);
  check_tiles("n16c48h96k48u2+nhwc", options, Operands::in_float_tensor_tall, 48);
  // Either can be asked for.
  options.filter_blocks_per_gemm_task = 4;
  check_tiles("n4c720h52k8r1p0+nhwc", options, Operands::in_float_tensor, 64);
  options.filter_blocks_per_gemm_task = 2;
  check_tiles("n4c720h52k500r1p0+nhwc", options, Operands::in_float_tensor_tall, 32);
}

// Of a cluster, in stages; 0 lane blocks of filters: to be chosen.
std::uint32_t blocks_of(const char* text, std::uint32_t filter_blocks = 0) {
  TilingOptions options;
  options.whole_tensors = true;
  options.filter_blocks_per_gemm_task = filter_blocks;
  return cluster_blocks(tiling_of(text, options));
}

TEST_CASE("Blocks load x for each other where its rows come in pieces") {
  CHECK(blocks_of("n7c472h77k936r1p0+nhwc+f16") == 2);
  CHECK(blocks_of("n7c472h77k936r1p0+nhwc+f16", 8) == 2);  // wide tiles, too
  CHECK(blocks_of("n7c472h77k936r1p0+nhwc+f16", 9) == 1);  // seven tasks of filters
  CHECK(blocks_of("n1c472h7k936r1p0+nhwc+f16", 8) == 1);   // little to load
  CHECK(blocks_of("n7c472h77k936+nhwc+f16") == 1);         // neither wide nor tall
}

TEST_CASE("Of 1x1 filters blocks load x for each other where that is much, and lines the more") {
  // Rows of two lines.
  CHECK(blocks_of("n7c480h77k936r1p0+nhwc+f16", 8) == 2);
  CHECK(blocks_of("n32c720h28k192r1p0+nhwc+f16", 6) == 2);
  CHECK(blocks_of("n32c720h14k192r1p0+nhwc+f16", 6) == 1);  // little
  CHECK(blocks_of("n16c720h28k192u2+nhwc+f16", 6) == 1);    // nine taps
  // Of whole lines, in tall tiles of many filters.
  CHECK(blocks_of("n32c768h28k384r1p0+nhwc+f16", 6) == 2);
  CHECK(blocks_of("n32c768h28k384r1p0+nhwc+f16", 3) == 1);
  CHECK(blocks_of("n32c768h28k512r1p0+nhwc+f16", 8) == 1);
  CHECK(blocks_of("n32c384h28k384r1p0+nhwc+f16", 6) == 1);  // little
}

TEST_CASE("Tiles of images abreast have room for all rows that they read") {
  const ConvProblem problem = parse_problem("n64c64h14k64");
  for (const Operands operands :
       {Operands::in_tensor, Operands::in_float_tensor, Operands::in_copy}) {
    bool has_one = false, lacks_one = false;
    for (std::int32_t images = 2; images <= 40; ++images) {
      const Stripes stripes = make_stripes(problem, 14 * images);
      REQUIRE(stripes.images == images);
      for (const std::int32_t rows : {1, 2, 3, 5, 7, 14}) {
        const std::int32_t group = rows * stripes.row();
        const std::int32_t tile = tile_places_in_place(group, stripes, operands, 64);
        (tile == 0 ? lacks_one : has_one) = true;
        if (tile == 0) continue;
        const InputOfTile input = input_of_tile(problem, stripes, tile, operands);
        CAPTURE(static_cast<int>(operands), images, group, tile, input.places);
        CHECK(input.filter_rows == 3);
        CHECK(input.places % stripes.row() == 0);
        CHECK(has_room_in_place(tile, input.places, operands));
        CHECK(tile + stripes.reach <= input.places);
        CHECK((tile >= group || tile % stripes.row() == 0));
      }
    }
    CHECK(has_one);
    CHECK(lacks_one);
    CHECK(tile_places_in_place(451, make_stripes(problem, 28), operands, 64) == 0);  // not whole
  }
}

TEST_CASE("Implicit GEMM in place refuses stripes of some columns, or of too many images") {
  TilingOptions options;
  const auto refused = [&](const char* text, std::uint32_t cols, const char* why) {
    options.cols_per_group = cols;
    CAPTURE(text, cols);
    CHECK_THROWS_WITH(tiling_of(text, options), ContainsSubstring(why));
  };
  refused("n4c64h28k64+nhwc+f16", 14, "cols_per_group = 14: must be all 28 columns of y");
  refused("n4c64h28k64+nhwc+f16", 42, "cols_per_group = 42: must be all 28 columns of y");
  refused("n4c64h28k64+nhwc+f16", 140, "cols_per_group = 140: must be 1 to 112");
  refused("n64c64h28k64+nhwc+f16", 280, "or those of several images that have at most 256");
  refused("n4c64h28k64", 56, "cols_per_group = 56: must be at most the 28 columns of y");
  refused("n16c64h28k64r7+nhwc+f16", 224, "no tile has room for rows of 8 images abreast");
}

TEST_CASE(
    "Few tasks share out their channels, in whole K blocks, no more ways than there are blocks") {
  const auto shares_of = [](const char* text) {
    TilingOptions options;
    options.whole_tensors = true;
    options.precision = Precision::tf32;
    const Tiling tiling = tiling_of(text, options);
    CAPTURE(text, to_string(tiling));
    if (channel_shares(tiling) > 1) {
      CHECK(cut_of(tiling).places_per_group <= kMostSharedPlaces);
      CHECK(tiling.num_groups * tiling.gemm_tasks * channel_shares(tiling) <= 132);
    }
    return channel_shares(tiling);
  };
  CHECK(shares_of("n1c512h7k512+nhwc+f16") == 4);
  CHECK(shares_of("n1c512h7k512+nhwc") == 4);
  CHECK(shares_of("n1c64h7k512+nhwc+f16") == 1);   // a K block
  CHECK(shares_of("n1c328h7k512+nhwc+f16") == 3);  // six K blocks
  CHECK(shares_of("n64c512h7k512+nhwc+f16") == 1);
  CHECK(shares_of("n1c512h7k512") == 1);  // loaded
  // Of wider tiles there are fewer, for clusters of three, and of two.
  CHECK(shares_of("n1c512h13k1024+nhwc+f16") == 3);
  CHECK(shares_of("n1c1280h16k1280+nhwc+f16") == 2);
  CHECK(shares_of("n1c1280h8k1280+nhwc") == 4);  // a copy of floats
}

TEST_CASE("The first block of a cluster has room for the sums of the others") {
  CHECK(most_channel_shares(96, Operands::in_tensor) >= 4);
  CHECK(most_channel_shares(160, Operands::in_tensor) == 3);
  CHECK(most_channel_shares(128, Operands::in_float_tensor) == 3);
  CHECK(most_channel_shares(160, Operands::in_copy) == 2);
}

TEST_CASE("One image has the tiles that were fastest where all run at once") {
  TilingOptions options;
  options.whole_tensors = true;
  check_tiles("n1c512h14k1024r1p0+nhwc+f16", options, Operands::in_tensor_wide, 128);
  check_tiles("n1c256h52k128r1p0+nhwc+f16", options, Operands::in_tensor_wide, 128);
  check_tiles("n1c2048h7k512r1p0+nhwc+f16", options, Operands::in_tensor, 64);
  check_tiles("n1c128h56k128u2+nhwc+f16", options, Operands::in_tensor, 64);
  options.precision = Precision::tf32;
  check_tiles("n1c256h14k1024r1p0+nhwc", options, Operands::in_float_tensor_wide, 128);
}

TEST_CASE("Taps of one column have inputs of their own where rows are long") {
  const auto by_taps = [](const char* text) {
    const ConvProblem problem = parse_problem(std::string(text) + "+nhwc+f16");
    return make_stripes(problem, static_cast<std::int32_t>(problem.q())).taps_have_own_inputs();
  };
  for (const char* text : {"n2c120h199k1176r3s1p1x0", "n1c96h112w128k192r5s1p2x0"}) {
    CAPTURE(text);
    CHECK(by_taps(text));
    CHECK(operands_in_wide_tiles(parse_problem(std::string(text) + "+nhwc+f16")));
  }
  for (const char* text : {"n8c160h50k224r7s1p3x0", "n2c64h199k64", "n2c64h199k64r1s3p0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(by_taps(text));
  }
}

TEST_CASE("TMA loads x of conv groups that have whole tiles of 64 filters together") {
  for (const char* text : {"n8c128h56k128g32+nhwc+f16", "n1c64h33k64g32+nhwc+bf16",
                           "n8c256h14k256g2u2+nhwc+f16", "n2c48h9k128g4+nhwc+f16"}) {
    const Tiling tiling = tiling_of(text);
    CAPTURE(text, tiling.problem.groups);
    CHECK(cut_of(tiling).operands == Operands::in_tensor);
    CHECK(cut_of(tiling).filter_blocks_per_gemm_task == kFilterBlocksInPlace);
    constexpr std::int64_t kBlock = 64;
    CHECK(channel_shares(tiling) <= ceil_div(channels_at_once(tiling.problem), kBlock));
    CHECK(tiling.num_filter_tasks > 0);  // which write the zeros
    check_order_and_file(tiling);
  }
  // In the last one TMA would begin amid a conv group.
  for (const char* text : {"n8c128h56k128g32+nchw+f16", "n8c80h14k80g2+nhwc+f16"}) {
    CAPTURE(text);
    CHECK(cut_of(tiling_of(text)).operands == Operands::loaded);
  }
  TilingOptions options;
  options.precision = Precision::tf32;
  CHECK(cut_of(tiling_of("n64c512h14k512g32+nhwc", options)).operands == Operands::in_float_tensor);
  options.arithmetic = Arithmetic::tf32;
  CHECK(cut_of(tiling_of("n8c128h56k128g32+nhwc", options)).operands == Operands::in_float_tensor);
  CHECK_THROWS_AS(tiling_of("n8c80h14k80g2+nhwc", options), Error);
}
