// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's stripes and tilings, without a GPU.
#include "tasks/implicit_gemm/implicit_gemm.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "mapping/consumers.hpp"
#include "mapping/needs.hpp"
#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/implicit_gemm_tilings.hpp"

using namespace megaconv;
using megaconv::test::check_order_and_file, megaconv::test::cut_of, megaconv::test::error_of;
using megaconv::test::tiling_of;

namespace {

std::string error(const char* text, const TilingOptions& asked = {}) {
  try {
    tiling_of(text, asked);
  } catch (const Error& caught) {
    return caught.what();
  }
  return "";
}

// What lies at a padded pixel of a stripe, before padding is taken off: -1 where there is no image.
Stripes::Position at(const ConvProblem& a, const Stripes& stripes, std::int32_t stripe,
                     std::int32_t place) {
  auto [image, row, col] = stripes.position(place);
  stripes.images > 1 ? image += stripe* stripes.images : col += stripe * stripes.cols;
  return {image < a.n ? image : -1, row, col};
}

}  // namespace

TEST_CASE("three products of split numbers are chosen where they err no more than multiply-adds") {
  const Target hopper{
      .backend = Backend::cuda, .workers = 264, .split_f16 = true, .multiprocessors = 132};
  const auto arithmetic_of = [&](const char* problem) {
    TilingOptions winograd;
    winograd.algorithm = Algorithm::winograd;
    return make_tiling(parse_problem(problem), winograd, hopper).arithmetic;
  };
  for (const char* problem : {"n1c16h28k64", "n64c31h14k512"}) {
    CHECK(arithmetic_of(problem) == Arithmetic::fma);
    CHECK(make_tiling(parse_problem(problem), {}, hopper).algorithm() == Algorithm::implicit_gemm);
  }
  for (const char* problem : {"n1c32h28k64", "n1c1920h32k640"}) {
    CHECK(arithmetic_of(problem) == Arithmetic::split_f16);
  }
}

TEST_CASE("Positions of padded pixels add up as padded pixels do") {
  for (const Stripes& stripes :
       {Stripes{1, 1, 1, 0}, Stripes{3, 5, 1, 0}, Stripes{4, 4, 3, 0}, Stripes{7, 8, 9, 0}}) {
    for (std::int32_t a = 0; a < 300; ++a) {
      for (const std::int32_t b : {0, 1, 2, 7, 8, 71, 72, 73, 128, 256}) {
        const Stripes::Position sum = stripes.sum(stripes.position(a), stripes.position(b));
        const Stripes::Position truth = stripes.position(a + b);
        CAPTURE(stripes.pitch, stripes.period, a, b);
        REQUIRE(sum.image == truth.image);
        REQUIRE(sum.row == truth.row);
        REQUIRE(sum.col == truth.col);
      }
    }
  }
}

TEST_CASE("Every output has one padded pixel, and under every tap of it lies its input or zero") {
  for (const char* text : {"n2c1h5w7k1", "n3c1h4k1p0", "n2c1h6w9k1p2", "n2c1h5k1r1p0",
                           "n2c1h9w8k1r5", "n2c1h9w11k1d2", "n2c1h7w6k1r2s4p1", "n3c1h1w1k1"}) {
    const ConvProblem a = parse_problem(text);
    std::vector<std::int64_t> all_cols;
    for (std::int64_t cols = 1; cols <= a.q(); ++cols) all_cols.push_back(cols);
    for (std::int64_t images = 2; images <= 3; ++images) all_cols.push_back(images * a.q());
    for (const std::int64_t cols : all_cols) {
      const Stripes stripes = make_stripes(a, static_cast<std::int32_t>(cols));
      const std::int64_t places = places_of_stripe(a, stripes);
      std::vector<int> seen(static_cast<std::size_t>(a.n * a.p() * a.q()));
      for (std::int32_t stripe = 0; stripe < num_stripes(a, stripes); ++stripe) {
        const std::int64_t first_col = stripes.images > 1 ? 0 : stripe * cols;
        for (std::int32_t place = 0; place < places; ++place) {
          const Stripes::Position out = at(a, stripes, stripe, place);
          const bool exists =
              out.image >= 0 && out.row < a.p() && out.col < a.q() && out.col - first_col < cols;
          if (!exists) continue;
          ++seen[static_cast<std::size_t>((out.image * a.p() + out.row) * a.q() + out.col)];
          for (std::int64_t r = 0; r < a.r; ++r) {
            for (std::int64_t s = 0; s < a.s; ++s) {
              const auto offset =
                  static_cast<std::int32_t>(r * a.dilation_h * stripes.row() + s * a.dilation_w);
              REQUIRE(offset <= stripes.reach);
              const Stripes::Position in = at(a, stripes, stripe, place + offset);
              const std::int64_t row = out.row + r * a.dilation_h - a.pad_h;
              const std::int64_t col = out.col + s * a.dilation_w - a.pad_w;
              const auto inside = [&](std::int64_t h, std::int64_t w) {
                return h >= 0 && h < a.h && w >= 0 && w < a.w;
              };
              const bool found = in.image >= 0 && inside(in.row - a.pad_h, in.col - a.pad_w);
              CAPTURE(text, cols, stripe, place, r, s);
              REQUIRE(found == inside(row, col));
              if (found) {
                REQUIRE(in.image == out.image);
                REQUIRE(in.row - a.pad_h == row);
                REQUIRE(in.col - a.pad_w == col);
              }
            }
          }
        }
      }
      for (const int count : seen) REQUIRE(count == 1);
    }
  }
}

TEST_CASE(
    "Under strides the padded pixels of a stripe are its outputs, whose taps are loaded one by "
    "one") {
  for (const char* text : {"n2c16h9w14k1u2", "n3c16h8w11k1r1p0u2x3", "n2c16h17w19k1r5u3d2"}) {
    const ConvProblem a = parse_problem(text);
    for (std::int32_t cols = 1; cols <= a.q(); ++cols) {
      const Stripes stripes = make_stripes(a, cols);
      CAPTURE(text, cols);
      CHECK(stripes.by_taps);
      CHECK(stripes.reach == 0);
      CHECK(places_of_stripe(a, stripes) == a.n * a.p() * cols);
      CHECK(num_stripes(a, stripes) == (a.q() + cols - 1) / cols);
      const std::int32_t last = static_cast<std::int32_t>(places_of_stripe(a, stripes)) - 1;
      const Stripes::Position position = stripes.position(last);
      CHECK(position.image == a.n - 1);
      CHECK(position.row == a.p() - 1);
      CHECK(position.col == cols - 1);
      const InputOfTile input = input_of_tile(a, stripes, 96, Operands::in_copy);
      CHECK(input.filter_rows == 1);
      CHECK(input.filter_cols == 1);
      CHECK(input.places == 96);
    }
  }
}

TEST_CASE("Implicit GEMM's tilings suit the kernel, and its graphs are valid") {
  for (const char* text :
       {"c1h1k1", "n64c64h56k64", "n64c512h7k512", "n1c64h960k64", "n64c32h208k64",
        "n2c24h9k31r1p0", "n1c16h300k16r7", "n64c192h28k48", "n1c9h40k20d2", "n2c64h57k48u2",
        "n1c256h56k512r1p0u2", "n3c20h41w30k40r5u3x2"}) {
    const Tiling tiling = tiling_of(text);
    CAPTURE(text, to_string(tiling));
    CHECK(tiling.arithmetic == Arithmetic::split_f16);
    CHECK(cut_of(tiling).filter_blocks_per_gemm_task * Tiling::kLaneBlock <= 128);
    CHECK(make_stripes(tiling.problem, static_cast<std::int32_t>(cut_of(tiling).cols_per_group))
              .reach <= kMostReach);
    check_order_and_file(tiling);
  }
}

TEST_CASE("What the proof looks at grows with the tasks of implicit GEMM, not faster") {
  // One padded pixel a group, and a task that converts each. Counted are the lists of accesses that
  // the proof asks for, the edges, and the groups that it looks up for each consumer.
  const auto steps_a_task = [](int height) {
    TilingOptions options;
    options.filters = FilterMode::prepared;
    options.arithmetic = Arithmetic::f16;
    const std::string problem = "n1c16h" + std::to_string(height) + "k16+nhwc";
    Tiling tiling = tiling_of(problem.c_str(), options);
    tiling.cut = ImplicitGemmCut{.operands = Operands::in_copy,
                                 .cols_per_group = static_cast<std::uint32_t>(height),
                                 .places_per_group = 1,
                                 .channel_blocks_per_input_task = 1,
                                 .filter_blocks_per_gemm_task = 1};
    derive_counts(tiling);
    Lowering lowering = cut(tiling);
    lowering.mapping = make_mapping(lowering.graph, {.policy = "staged"});
    std::uint64_t steps = 0;
    AccessFunction& accesses = lowering.graph.accesses.front();
    accesses = [&steps, inner = accesses](Role role, std::uint32_t group, std::uint32_t block,
                                          std::vector<Access>& found) {
      ++steps;
      inner(role, group, block, found);
    };
    CHECK_FALSE(validate(lowering.graph, lowering.mapping));
    const Needs needs = find_needs(lowering.graph);
    steps += needs.edges.size();
    const Edge* const all = needs.edges.data();
    for (const Consumer& consumer : find_consumers(all, all + needs.edges.size())) {
      for (const Edge* edge : consumer.edges) steps += edge->producer.groups.size();
    }
    CHECK(lowering.graph.stages.size() == 2);
    return static_cast<double>(steps) / static_cast<double>(lowering.graph.tasks.size());
  };
  const double small = steps_a_task(30), large = steps_a_task(120);
  CAPTURE(small, large);
  CHECK(large < 1.1 * small);
}

TEST_CASE("Implicit GEMM reads 16-bit tensors of whole octets in place, in one stripe") {
  for (const char* text : {"n64c64h56k64", "n1c8h1w1k8", "n1c64h960k64", "n1c512h7k512+bias",
                           "n2c24h31k16r1p0", "n1c16h300k16r7", "n1c8h40k24d2"}) {
    for (const char* type : {"+nhwc+f16", "+nhwc+bf16"}) {
      const Tiling tiling = tiling_of((std::string(text) + type).c_str());
      CAPTURE(text, to_string(tiling));
      REQUIRE(operands_in_tensor(tiling.problem));
      CHECK(algorithm_of(tiling).count_filter_tasks(tiling) == 0);
      CHECK(cut_of(tiling).cols_per_group == tiling.problem.q());
      CHECK(cut_of(tiling).filter_blocks_per_gemm_task * Tiling::kLaneBlock <= 64);
      check_order_and_file(tiling);
    }
  }
  for (const char* text :
       {"c64h28k64+nhwc", "c64h28k64+f16", "c60h28k64+nhwc+f16", "c64h28k60+nhwc+bf16+residual"}) {
    CAPTURE(text);
    CHECK_FALSE(operands_in_tensor(parse_problem(text)));
  }
  CHECK(operands_in_tensor(parse_problem("c64h28k64+nhwc+f16+residual")));
  CHECK(operands_in_tensor(parse_problem("c64h28k61+nhwc+f16+bias")));
}

TEST_CASE("At the precision of TF32 implicit GEMM copies large operands in stages, in NHWC") {
  TilingOptions options;
  options.precision = Precision::tf32;
  CHECK_FALSE(has_input_tasks(tiling_of("n64c256h14k256+nhwc", options)));  // no room for a copy
  options.whole_tensors = true;
  for (const char* text : {"n64c256h14k256+nhwc", "n64c512h28k512+nhwc", "n64c70h56k100+nhwc",
                           "n64c256h14k256+nhwc+residual"}) {
    const Tiling tiling = tiling_of(text, options);
    CAPTURE(text, to_string(tiling));
    REQUIRE(has_input_tasks(tiling));
    CHECK(cut_of(tiling).operands == Operands::in_copy);
    const std::uint64_t pixels =
        static_cast<std::uint64_t>(tiling.problem.n * tiling.problem.h * tiling.problem.w);
    const std::uint64_t tasks = std::uint64_t{tiling.num_groups} * tiling.input_tasks;
    CHECK(tasks * kPixelsOfInputTask * cut_of(tiling).channel_blocks_per_input_task >=
          pixels * tiling.channel_blocks());
    CHECK(input_copy_bytes(tiling) >= pixels * static_cast<std::uint64_t>(tiling.problem.c) * 2);
    check_order_and_file(tiling, {.policy = "staged"});
  }
  for (const char* text : {"n64c256h56k256", "n64c256h56k254+nhwc+residual"}) {
    CHECK_FALSE(has_input_tasks(tiling_of(text, options)));
  }
  options.precision = Precision::f32;
  CHECK_FALSE(has_input_tasks(tiling_of("n64c256h56k256+nhwc", options)));
}

TEST_CASE("At the precision of TF32 tasks of implicit GEMM convert x where filters are few") {
  TilingOptions options;
  options.precision = Precision::tf32;
  for (const bool whole : {false, true}) {
    options.whole_tensors = whole;
    for (const char* text : {"n128c64h56k64+nhwc", "n64c32h208k64+nhwc", "n64c128h112k128+nhwc"}) {
      const Tiling tiling = tiling_of(text, options);
      CAPTURE(text, whole, to_string(tiling));
      REQUIRE(cut_of(tiling).operands == Operands::converted);
      CHECK(input_copy_bytes(tiling) == 0);
      // Filters reach no further than a tile has room for.
      const Stripes stripes =
          make_stripes(tiling.problem, static_cast<std::int32_t>(cut_of(tiling).cols_per_group));
      const std::int32_t places = tile_places_in_place(cut_of(tiling).places_per_group, stripes,
                                                       Operands::converted, tiling.problem.c);
      CHECK(stripes.reach <= most_reach_in_place(places, Operands::converted));
      check_order_and_file(tiling);
    }
  }
  for (const char* text : {"n64c66h56k64+nhwc", "n64c64h56k64", "n64c64h56k66+nhwc+residual"}) {
    CAPTURE(text);
    CHECK(cut_of(tiling_of(text, options)).operands != Operands::converted);
  }
}

TEST_CASE(
    "At the precision of TF32 small problems in NHWC are read in place, without a workspace") {
  TilingOptions options;
  options.precision = Precision::tf32;
  for (const bool whole : {false, true}) {
    options.whole_tensors = whole;
    for (const char* text : {"n64c192h14k48+nhwc", "n1c64h56k64+nhwc", "n1c64h224k64+nhwc",
                             "n1c64h56k64+nhwc+residual"}) {
      const Tiling tiling = tiling_of(text, options);
      CAPTURE(text, whole, to_string(tiling));
      REQUIRE(tiling.arithmetic == Arithmetic::tf32);
      CHECK(cut_of(tiling).operands == Operands::in_float_tensor);
      CHECK(algorithm_of(tiling).count_filter_tasks(tiling) == 0);
      CHECK(cut_of(tiling).cols_per_group == tiling.problem.q());
      check_order_and_file(tiling);
    }
  }
  // Whoever names the arithmetic gets it, or hears what it needs.
  options.arithmetic = Arithmetic::tf32;
  CHECK(tiling_of("n64c256h56k256+nhwc", options).arithmetic == Arithmetic::tf32);
  for (const char* text :
       {"n64c64h56k64", "n64c66h56k64+nhwc", "n64c64h56k66+nhwc+residual", "c64h56k64+nhwc+f16"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(tiling_of(text, options),
                      ContainsSubstring("must be f32 tensors in nhwc, channels in whole fours"));
  }
  options.arithmetic = Arithmetic::f16;
  CHECK(tiling_of("n64c192h14k48+nhwc", options).arithmetic == Arithmetic::f16);
}

TEST_CASE("Two blocks of a cluster convert x for each other where blocks of filters are even") {
  TilingOptions options;
  options.precision = Precision::tf32;
  options.whole_tensors = true;
  const auto blocks_of = [&](const char* text) {
    const Tiling tiling = tiling_of(text, options);
    CAPTURE(text, to_string(tiling));
    REQUIRE(cut_of(tiling).operands == Operands::converted);
    return cluster_blocks(tiling);
  };
  CHECK(blocks_of("n128c64h56k64+nhwc") == 1);
  CHECK(blocks_of("n64c128h112k128+nhwc") == 2);
  CHECK(blocks_of("n64c256h56k256+nhwc") == 2);
  CHECK(cluster_blocks(tiling_of("n64c512h28k512+nhwc", options)) == 1);  // copies
  CHECK(cluster_blocks(tiling_of("n64c512h28k512")) == 1);
}

TEST_CASE(
    "Tasks on tensors that the L2 has no room for are a tile each, if memory is what they wait "
    "for") {
  TilingOptions options;
  options.precision = Precision::tf32;
  options.whole_tensors = true;
  const auto tiles_of = [&](const char* text) {
    const Tiling tiling = tiling_of(text, options);
    const ImplicitGemmCut& cut = cut_of(tiling);
    const Stripes stripes =
        make_stripes(tiling.problem, static_cast<std::int32_t>(cut.cols_per_group));
    return ceil_div(
        static_cast<std::int32_t>(cut.places_per_group),
        tile_places_in_place(cut.places_per_group, stripes, cut.operands, tiling.problem.c));
  };
  CHECK(tiles_of("n32c64h56k256r1p0+nhwc") == 1);
  CHECK(tiles_of("n32c128h28k512r1p0+nhwc") == 1);
  // A residual is read, too.
  CHECK(tiles_of("n8c64h56k256r1p0+nhwc+residual") == 1);
  CHECK(tiles_of("n8c64h56k256r1p0+nhwc") > 1);
  // Here products take longer.
  CHECK(tiles_of("n123c512h22k528r1p0+nhwc") > 1);
}

TEST_CASE("Rows of operands that are no whole lines are thought to take longer") {
  TilingOptions options;
  options.arithmetic = Arithmetic::tf32;
  options.whole_tensors = true;
  const Target hopper{
      .backend = Backend::cuda, .workers = 264, .split_f16 = true, .multiprocessors = 132};
  // K blocks of 32 channels: as many for each of these.
  const auto us = [&](const char* text) {
    return implicit_gemm_us(tiling_of(text, options), hopper, true);
  };
  const double of_lines = us("n2c512h23k480r1s3p0x1+nhwc");
  CHECK(us("n2c504h23k480r1s3p0x1+nhwc") > 1.1 * of_lines);  // of two lines
  CHECK(us("n2c508h23k480r1s3p0x1+nhwc") > 1.1 * of_lines);  // amid a sector
}

TEST_CASE("Stripes of converted operands are few, and stored in boxes that divide them") {
  const ConvProblem problem = parse_problem("n2c64h30w250k64+nhwc");
  CHECK(stripes_can_be_converted(problem, 250));
  CHECK(stripes_can_be_converted(problem, 32));
  CHECK_FALSE(stripes_can_be_converted(problem, 31));   // nine of them
  CHECK_FALSE(stripes_can_be_converted(problem, 200));  // the last one lacks 150 columns
  CHECK_FALSE(stripes_can_be_converted(problem, 0));
  CHECK(output_cols_in_place(problem, 250) == 32);  // cut at the row's end
  CHECK(output_cols_in_place(problem, 64) == 32);
  CHECK(output_cols_in_place(problem, 60) == 30);
  CHECK(output_cols_in_place(problem, 37) == 1);
}

TEST_CASE("Implicit GEMM refuses copies of operands that it has no tasks for") {
  TilingOptions options;
  options.precision = Precision::tf32;
  options.arithmetic = Arithmetic::f16;
  const auto refused = [&](std::uint32_t blocks, Operands operands) {
    Tiling tiling = tiling_of("n4c64h28k64+nhwc", options);
    auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
    cut.operands = operands;
    cut.channel_blocks_per_input_task = blocks;
    return error_of([&] { derive_counts(tiling); });
  };
  CHECK(refused(5, Operands::in_copy) ==
        "channel_blocks_per_input_task = 5 with operands = in_copy: must be 1 to 4");
  CHECK(refused(0, Operands::in_copy) ==
        "channel_blocks_per_input_task = 0 with operands = in_copy: must be 1 to 4");
  CHECK(refused(4, Operands::converted) ==
        "channel_blocks_per_input_task = 4 with operands = converted: must be 0");
  CHECK(refused(4, Operands::in_copy) == "");
}

TEST_CASE("A load path that tensors, arithmetic or stripes do not have is refused by name") {
  const auto refused = [&](const char* text, Operands operands, Arithmetic arithmetic,
                           std::uint32_t cols = 0) {
    TilingOptions options;
    options.arithmetic = arithmetic;
    Tiling tiling = tiling_of(text, options);
    auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
    cut.operands = operands;
    cut.channel_blocks_per_input_task = operands == Operands::in_copy ? 1 : 0;
    cut.filter_blocks_per_gemm_task = 1;
    cut.cols_per_group = cols != 0 ? cols : static_cast<std::uint32_t>(tiling.problem.q());
    return error_of([&] { derive_counts(tiling); });
  };
  constexpr Arithmetic kF16 = Arithmetic::f16, kTf32 = Arithmetic::tf32;
  constexpr Arithmetic kSplit = Arithmetic::split_f16;
  const std::string in_tensor =
      "tensors must be f16 or bf16 in nhwc, channels in whole eights, with a residual filters, too";
  const std::string in_copy =
      "arithmetic must be f16, tensors f32 in nhwc, with a residual filters in whole fours";
  const std::string converted =
      "arithmetic must be f16, tensors f32 in nhwc, channels in whole fours, and filters with a "
      "residual";
  CHECK(refused("n4c64h28k64+nhwc", Operands::loaded, kTf32) ==
        "operands = loaded, cols_per_group = 28, for " +
            to_string(parse_problem("n4c64h28k64+nhwc")) +
            " with arithmetic tf32: arithmetic must not be tf32");
  const auto ends = [](const std::string& text, const std::string& end) {
    return !end.empty() && text.ends_with(": " + end);
  };
  for (const char* text : {"n4c64h28k64+nhwc", "n4c64h28k64+f16", "n4c60h28k64+nhwc+f16",
                           "n4c64h28k60+nhwc+f16+residual"}) {
    CAPTURE(text);
    CHECK(ends(refused(text, Operands::in_tensor, kF16), in_tensor));
  }
  CHECK(ends(refused("n4c64h28k64+nhwc", Operands::in_float_tensor, kF16),
             "arithmetic must be tf32"));
  for (const Operands operands : {Operands::in_copy, Operands::converted}) {
    const std::string& must = operands == Operands::in_copy ? in_copy : converted;
    for (const char* text : {"n4c64h28k64", "n4c64h28k66+nhwc+residual", "n4c64h28k64+nhwc+f16"}) {
      CAPTURE(text, to_string(operands));
      CHECK(ends(refused(text, operands, kF16), must));
    }
    CHECK(ends(refused("n4c64h28k64+nhwc", operands, kSplit), must));
    CHECK(ends(refused("n4c64h28k64+nhwc", operands, kTf32), must));
    CHECK(refused("n4c64h28k64+nhwc", operands, kF16) == "");
  }
  CHECK(ends(refused("n4c62h28k64+nhwc", Operands::converted, kF16), converted));
  CHECK(ends(refused("n4c64h28k64+nhwc", Operands::converted, kF16, 3),
             "cols_per_group must cut y into 8 stripes at most, the last one nearly full"));
  // Threads load whatever it is.
  for (const char* text : {"n4c64h28k64+nhwc", "n4c64h28k64+nhwc+f16", "n4c3h28k5"}) {
    CHECK(refused(text, Operands::loaded, kF16) == "");
  }
}

TEST_CASE("Tasks pool y in tiles of pairs of rows, or are refused by name") {
  const auto of = [](const char* text, std::uint32_t places, TilingOptions options = {}) {
    Tiling tiling = tiling_of(text, options);
    auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
    cut.pools = true;
    cut.places_per_group = places;
    return error_of([&] { derive_counts(tiling); });
  };
  const char* const image = "n1c64h28k64r3s3p1+nhwc+f16";  // rows of 29 padded pixels
  CHECK(of(image, 58) == "");
  CHECK(of(image, 8 * 58) == "");
  for (const std::uint32_t places : {29u, 64u, 87u, 9 * 58u}) {  // these are two tiles
    CAPTURE(places);
    CHECK(of(image, places) == "a pooling of y: places_per_group = " + std::to_string(places) +
                                   ": must be a tile of pairs of rows of 29");
  }
  for (const char* const text :
       {"n2c64h28k64r3s3p1+nhwc+f16", "n1c64h28k60r3s3p1+nhwc+f16", "n1c64h27w28k64r3s3p1+nhwc+f16",
        "n1c64h28w27k64r3s3p1+nhwc+f16", "n1c64h28k64r3s3p1+nhwc+f16+residual"}) {
    CHECK(of(text, 58) == "a pooling of y: " + to_string(parse_problem(text)) +
                              ": must be one image, without residual, of whole eights of filters "
                              "and even outputs");
  }
  CHECK(of("n1c256h28k256r1s1p0+nhwc+f16", 56, {.filter_blocks_per_gemm_task = 8}) ==
        "a pooling of y: operands = in_tensor_wide: must be in_tensor or in_float_tensor");
}

TEST_CASE("A pooling is stored by the groups that have its windows") {
  const Tiling plain = tiling_of("n1c64h28k128r3s3p1+nhwc+f16");
  const PoolProblem pool{
      .c = 128, .h = 28, .w = 28, .dtype = DataType::f16, .layout = Layout::nhwc};
  const Target target{
      .backend = Backend::cuda, .workers = 264, .split_f16 = true, .multiprocessors = 132};
  const std::optional<Tiling> pooled = pooled_tiling(plain, pool, target);
  REQUIRE(pooled);
  NodeBuffers buffers{.x = 0, .y = 2, .u = 1, .second = 3};
  std::vector<std::uint32_t> times(14 * 14 * 128);
  const AccessFunction list = implicit_gemm_accesses(*pooled, buffers);
  for (std::uint32_t group = 0; group < pooled->num_groups; ++group) {
    for (std::uint32_t block = 0; block < pooled->gemm_tasks; ++block) {
      std::vector<Access> accesses;
      list(Role::product, group, block, accesses);
      for (const Access& access : accesses) {
        if (access.mode != Mode::write) continue;
        CHECK(access.buffer == 3);
        const Region& y = access.region;
        for (std::uint64_t row = y.rows.begin; row < y.rows.end; ++row) {
          for (std::uint64_t col = y.cols.begin; col < y.cols.end; ++col) {
            for (std::uint64_t k = y.channels.begin; k < y.channels.end; ++k) {
              ++times[(row * 14 + col) * 128 + k];
            }
          }
        }
      }
    }
  }
  CHECK(std::all_of(times.begin(), times.end(), [](std::uint32_t n) { return n == 1; }));
  PoolProblem other = pool;
  other.mode = PoolMode::average;
  CHECK_FALSE(pooled_tiling(plain, other, target));
  other = pool;
  other.r = 3;
  CHECK_FALSE(pooled_tiling(plain, other, target));
}

TEST_CASE("A direct task waits for all copies of operands") {
  TilingOptions options;
  options.precision = Precision::tf32;
  options.whole_tensors = true;
  const TaskGraph graph = build_graph(tiling_of("n64c512h28k512+nhwc", options));
  TaskMapping mapping = make_mapping(graph, {.policy = "staged"});
  REQUIRE_FALSE(validate(graph, mapping));
  const std::uint32_t last_input = graph.find(0, Role::product)->first - 1;
  REQUIRE(kind_of(graph.tasks[last_input]) == TaskKind::input_transform);
  auto& order = mapping.order;
  const auto from = std::find(order.begin(), order.end(), last_input);
  std::rotate(from, from + 1, order.end());  // last of all
  CHECK(validate(graph, mapping));
}

TEST_CASE("All policies order copies of operands before the direct tasks that read them") {
  TilingOptions options;
  options.precision = Precision::tf32;
  options.whole_tensors = true;
  for (const char* text : {"n64c70h56k128+nhwc", "n64c512h28k512+nhwc"}) {
    const Tiling tiling = tiling_of(text, options);
    const TaskGraph graph = build_graph(tiling);
    REQUIRE(has_input_tasks(tiling));
    for (const std::string& policy : policy_names()) {
      for (const std::uint32_t dig : {1u, 50u}) {
        CAPTURE(text, policy, dig);
        CHECK_FALSE(validate(graph, make_mapping(graph, {.policy = policy, .dig = dig})));
      }
    }
  }
}

TEST_CASE("Implicit GEMM multiplies as the precision allows, and tensors of 16 bits as they are") {
  TilingOptions options;
  CHECK(tiling_of("c64h28k64", options).arithmetic == Arithmetic::split_f16);
  for (const Precision precision : {Precision::tf32, Precision::f16, Precision::bf16}) {
    options.precision = precision;
    CHECK(tiling_of("c64h28k64", options).arithmetic == Arithmetic::f16);
    CHECK(tiling_of("c64h28k64+f16", options).arithmetic == Arithmetic::f16);
    CHECK(tiling_of("c64h28k64+bf16", options).arithmetic == Arithmetic::bf16);
  }
  options.arithmetic = Arithmetic::split_f16;  // whoever names the arithmetic, gets it
  CHECK(tiling_of("c64h28k64", options).arithmetic == Arithmetic::split_f16);
  CHECK(error("c64h28k64+f16", options).ends_with("must be f32 tensors"));
  options.arithmetic = Arithmetic::bf16;
  CHECK(error("c64h28k64", options).ends_with("must be bf16 tensors"));
  options.arithmetic = Arithmetic::f16;
  CHECK(error("c64h28k64+bf16", options).ends_with("must be f32 or f16 tensors"));
}

TEST_CASE("On CUDA, tensors of 16 bits are for tensor cores whatever their size") {
  const auto chosen = [](const char* text, const TilingOptions& options = {}) {
    return tiling_of(text, options, Algorithm::automatic).algorithm();
  };
  CHECK(chosen("c3h5k2+f16") == Algorithm::implicit_gemm);
  CHECK(chosen("n64c64h56k64+bf16") == Algorithm::implicit_gemm);
  CHECK(chosen("n64c512h56k512+bf16") == Algorithm::winograd);
  CHECK(chosen("c3h5k2") == Algorithm::direct);
  CHECK(chosen("c3h5k2", {.arithmetic = Arithmetic::f16}) == Algorithm::implicit_gemm);
  CHECK(chosen("c64h28k64u2+f16") == Algorithm::implicit_gemm);
  CHECK(chosen("c64h28k64g2+f16") == Algorithm::implicit_gemm);
  CHECK(chosen("c64h28k64g64+f16") == Algorithm::direct);
  CHECK(chosen("c3h28k64r7u2+f16") == Algorithm::direct);
}

TEST_CASE("Few channels are for tensor cores where they were measured to be faster") {
  const auto chosen = [](const char* text) {
    return tiling_of(text, {}, Algorithm::automatic).algorithm();
  };
  for (const char* text :
       {"c3h28k64+nhwc", "c8h28k8+nhwc", "c5h28k32+nhwc", "c26h28k8r1p0+nhwc",
        "c24h28k8r1p0u2+nhwc", "n16c16h112k64r1p0+nhwc+f16", "c80h28k24r1p0+nhwc+bf16"}) {
    CAPTURE(text);
    CHECK(chosen(text) == Algorithm::implicit_gemm);
  }
  for (const char* text :
       {"c3h28k32+nhwc", "c3h28k32+nhwc+f16", "c8h28k7r1p0+nhwc", "c3h28k64", "c24h28k800r1p0+nhwc",
        "c8h28k8r1p0+nhwc", "c3h28k32r1p0+nhwc+f16", "c8h28k24r1p0+nhwc+f16",
        "c16h28k16r1p0+nhwc+f16", "c13h28k20r1p0+nhwc+bf16", "c16h28k24r1p0+nhwc+f16",
        "c24h28k20r1p0+nhwc+bf16"}) {
    CAPTURE(text);
    CHECK(chosen(text) == Algorithm::direct);
  }
  // Rounded to TF32, channels in fours are.
  const auto chosen_at_tf32 = [](const char* text) {
    return tiling_of(text, {.precision = Precision::tf32}, Algorithm::automatic).algorithm();
  };
  CHECK(chosen_at_tf32("c24h28k800r1p0+nhwc") == Algorithm::implicit_gemm);
  CHECK(chosen_at_tf32("n16c16h56k320r1p0+nhwc") == Algorithm::implicit_gemm);
  for (const char* text : {"c7h28k800r1p0+nhwc", "c4h28k800r1p0+nhwc", "c8h28k800r1p0+nhwc",
                           "c16h28k50r1p0+nhwc", "c16h28k20r1p0+nhwc", "c16h28k16r1p0+nhwc"}) {
    CAPTURE(text);
    CHECK(chosen_at_tf32(text) == Algorithm::direct);
  }
}

TEST_CASE("Tiles of one product are larger where groups are") {
  CHECK(implicit_gemm_tile(8, 512, Arithmetic::f16).places == 256);
  CHECK(implicit_gemm_tile(8, 192, Arithmetic::f16).places == 192);
  CHECK(implicit_gemm_tile(8, 128, Arithmetic::f16).places == 128);
  CHECK(implicit_gemm_tile(8, 512, Arithmetic::split_f16).places == 128);
  CHECK(implicit_gemm_tile(4, 512, Arithmetic::split_f16).places == 256);
}

TEST_CASE(
    "Tiles share a group of padded pixels evenly, in whole steps, and have at least half of the "
    "most") {
  struct Case {
    std::uint32_t filter_blocks, most, step;
    Arithmetic arithmetic;
  };
  for (const Case& of : {Case{8, 128, 8, Arithmetic::split_f16},
                         {4, 256, 16, Arithmetic::split_f16},
                         {4, 256, 64, Arithmetic::f16},
                         {4, 256, 64, Arithmetic::bf16}}) {
    for (std::uint64_t places = 1; places <= 1200; ++places) {
      const ImplicitGemmTile tile = implicit_gemm_tile(of.filter_blocks, places, of.arithmetic);
      const std::uint64_t tiles = (places + tile.places - 1) / tile.places;
      CAPTURE(of.most, places, tile.places);
      CHECK(tile.filters == of.filter_blocks * Tiling::kLaneBlock);
      CHECK(tile.places % of.step == 0);
      CHECK(tile.places >= of.most / 2);
      CHECK(tile.places <= of.most);
      CHECK(tiles == (places + of.most - 1) / of.most);
      CHECK((tile.places == of.most / 2 || tiles * (tile.places - of.step) < places));
    }
  }
}

// The problem's padded pixels, shared out to 132 multiprocessors, are most of what the one with the
// most tasks computes. Tiles of 128 alone would leave it 64 x 29 x 29 / (4 x 132 x 128), four
// fifths.
TEST_CASE("Groups of padded pixels are as large as evens out the multiprocessors' work") {
  for (const char* text : {"n64c128h28k128", "n64c64h56k64", "n32c256h14k256", "n64c512h14k512"}) {
    for (const Precision precision : {Precision::f32, Precision::tf32}) {
      TilingOptions options;
      options.precision = precision;
      const Tiling tiling = tiling_of(text, options);
      const ImplicitGemmCut cut = cut_of(tiling);
      const Stripes stripes =
          make_stripes(tiling.problem, static_cast<std::int32_t>(cut.cols_per_group));
      const double all = static_cast<double>(places_of_stripe(tiling.problem, stripes) *
                                             num_stripes(tiling.problem, stripes));
      const double most = ceil_div(tiling.num_groups * tiling.gemm_tasks, 132u) *
                          static_cast<double>(cut.places_per_group) / tiling.gemm_tasks;
      CAPTURE(text, to_string(tiling));
      CHECK(all / 132 > 0.9 * most);
    }
  }
}

TEST_CASE("Wide images are cut into few stripes of whole sectors, narrow ones share their gaps") {
  for (const char* text : {"n64c64h56k64", "n64c64h224k64", "n64c32h208k64", "n1c64h150k64"}) {
    const ConvProblem problem = parse_problem(text);
    const std::int64_t cols = cut_of(tiling_of(text)).cols_per_group;
    const std::int64_t stripes = ceil_div(problem.q(), cols);
    CAPTURE(text, cols);
    if (problem.q() % 8 == 0) CHECK(cols % 8 == 0);
    if (stripes == 1) continue;  // fewer would be too wide
    const auto wider = static_cast<std::int32_t>(ceil_div(problem.q(), stripes - 1));
    CHECK(make_stripes(problem, wider).reach > kMostReach);
  }
  CHECK(cut_of(tiling_of("n64c64h56k64")).cols_per_group == 56);  // whole rows
  CHECK(make_stripes(parse_problem("n64c64h56k64"), 56).pitch == 57);
  CHECK(make_stripes(parse_problem("n64c64h224k64"), 56).pitch == 58);
}

TEST_CASE("What implicit GEMM cannot compute is refused by name") {
  CHECK(error("c8h9k8p3") == "implicit_gemm: padding 3x3, must be less than the filter");
  TilingOptions multiply_adds;
  multiply_adds.arithmetic = Arithmetic::fma;
  CHECK(error("c16h9k16", multiply_adds) ==
        "implicit_gemm: arithmetic fma, must be one of tensor cores");
  TilingOptions abreast;  // x may then be read in place
  abreast.cols_per_group = 10;
  CHECK(
      error("n2c16h9k8u2+nhwc+f16", abreast) ==
      "cols_per_group = 10: must be all 5 columns of y, since each tap reads x in place by itself");
  TilingOptions wide;
  wide.cols_per_group = 100;
  CHECK(error("c8h100k8", wide) ==
        "cols_per_group = 100: a filter reaches 204 padded pixels, must be at most 128");
}
