// SPDX-License-Identifier: Apache-2.0
// What is chosen, what may be fixed, what is refused. The numbers that tuning may move are not
// pinned; what every tiling must keep is.
#include "tasks/tiling.hpp"

#include <algorithm>
#include <string>

#include "tasks/conv_graph.hpp"
#include "tasks/winograd/winograd.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/mapping/targets.hpp"

using namespace megaconv;
using megaconv::test::error_of;
using megaconv::test::kAmpere;
using megaconv::test::kHopper;

namespace {

// In tasks of stages or fused.
bool is_winograd(Algorithm algorithm) {
  return algorithm == Algorithm::winograd || algorithm == Algorithm::fused_winograd;
}

Tiling tile(const char* problem, const TilingOptions& options = {}, const Target& target = {}) {
  return make_tiling(parse_problem(problem), options, target);
}

// Every task exists for some work, and all work is in some task.
void check_counts(const Tiling& t) {
  const auto covers = [](std::uint64_t parts, std::uint64_t size, std::uint64_t total) {
    return parts * size >= total && (parts - 1) * size < total;
  };
  const std::uint32_t filter_blocks = t.filter_blocks();
  if (t.num_filter_tasks > 0) {
    const std::uint32_t channel_chunks =
        is_winograd(t.algorithm()) ? ceil_div(t.channel_blocks(), t.channel_blocks_per_filter_task)
                                   : 1;
    CHECK(t.num_filter_tasks % channel_chunks == 0);
    CHECK(covers(t.num_filter_tasks / channel_chunks, t.filter_blocks_per_filter_task,
                 filter_blocks));
  }
  if (const auto* const cut = std::get_if<WinogradCut>(&t.cut)) {
    CHECK(covers(cut->tiles_h, cut->rows(), std::uint64_t(t.problem.p())));
    CHECK(covers(cut->tiles_w, cut->cols(), std::uint64_t(t.problem.q())));
    CHECK(covers(t.num_groups, cut->group_tiles, cut->num_tiles));
    CHECK(covers(cut->tile_chunks(), cut->tiles_per_transform_task, cut->group_tiles));
    CHECK(t.input_tasks % cut->tile_chunks() == 0);
    CHECK(covers(t.input_tasks / cut->tile_chunks(), cut->channel_blocks_per_input_task,
                 t.channel_blocks()));
    CHECK(t.output_tasks % cut->tile_chunks() == 0);
    CHECK(covers(t.output_tasks / cut->tile_chunks(), cut->filter_blocks_per_output_task,
                 filter_blocks));
    CHECK(t.gemm_tasks == ceil_div(filter_blocks, cut->filter_blocks_per_gemm_task) *
                              ceil_div(cut->num_positions(), cut->positions_per_gemm_task));
    CHECK(cut->window.v_slots >= 1);
    CHECK(cut->window.v_slots <= t.num_groups);
    CHECK(cut->window.m_slots >= 1);
    CHECK(cut->window.m_slots <= t.num_groups);
  } else if (t.algorithm() == Algorithm::fused_winograd) {
    CHECK(covers(t.num_groups, t.tiles()->group_tiles, t.tiles()->num_tiles));
    CHECK(num_tasks(t) == t.num_filter_tasks + t.num_groups);
  } else {
    const auto& direct = std::get<DirectCut>(t.cut);
    CHECK(t.num_groups ==
          std::uint64_t(t.problem.n) *
              ceil_div(std::uint64_t(t.problem.p()), std::uint64_t{direct.rows_per_group}) *
              ceil_div(std::uint64_t(t.problem.q()), std::uint64_t{direct.cols_per_group}));
    CHECK(covers(t.gemm_tasks, direct.filter_blocks_per_gemm_task, filter_blocks));
    CHECK(t.input_tasks == 0);
    CHECK(t.output_tasks == 0);
  }
}

}  // namespace

TEST_CASE("every tiling covers its problem, whatever the target") {
  for (const char* problem :
       {"c1h1k1", "c1h1k1r1", "c3h224k64r7u2", "n64c128h28k128", "n4c64h56k64", "c16h5k16",
        "n2c17h13w29k33", "c2048h7k512r1p0", "n2c32h14k32g32", "n2c32h14k64g32", "c48h31w7k96g3d2",
        "n256c512h7k512", "c3h1000w3k5r3s1", "c1h1w100000k1r1s9", "c2000h2k3000", "c64h600k64p0x3",
        "c16h4w52k256", "c1h13k1", "c2147483647h1k1r1s2d2147483647p0x2147483647"}) {
    for (const Target target : {Target{}, Target{.workers = 64, .cache_bytes_per_worker = 1 << 18},
                                Target{.workers = 1, .cache_bytes_per_worker = 1},
                                Target{.workers = 1000, .cache_bytes_per_worker = 1u << 30}}) {
      for (Algorithm algorithm : {Algorithm::direct, Algorithm::winograd, Algorithm::fused_winograd,
                                  Algorithm::automatic}) {
        const ConvProblem parsed = parse_problem(problem);
        if (is_winograd(algorithm) && !winograd_obstacle(algorithm, parsed).empty()) continue;
        for (std::uint32_t m : {0u, 2u, 4u, kWideTile, 6u}) {
          INFO(problem << ", " << target.workers << " workers, m = " << m);
          const Tiling tiling = make_tiling(parsed, {.algorithm = algorithm, .m = m}, target);
          CHECK(tiling.algorithm() != Algorithm::automatic);
          check_counts(tiling);
        }
      }
    }
  }
}

TEST_CASE("A GPU takes F(2x2) where F(4x4) has too few GEMM tasks, unless that is asked for") {
  const auto m = [](const char* problem, TilingOptions options, const Target& target) {
    options.algorithm = Algorithm::winograd;
    return tile(problem, options, target).tiles()->m;
  };
  const TilingOptions fma{.arithmetic = Arithmetic::fma}, asked{.m = 4};
  for (const char* problem : {"c64h56k64", "c128h28k128", "c512h7k512", "n64c192h7k48"}) {
    CAPTURE(problem);
    CHECK(m(problem, fma, kHopper) == 2);
    CHECK(m(problem, {}, kHopper) == 2);
    CHECK(m(problem, {}, kAmpere) == 2);
    CHECK(m(problem, {}, {}) == 4);  // a CPU
    CHECK(m(problem, asked, kHopper) == 4);
    CHECK(m(problem, {.precision = Precision::tf32}, kHopper) == 2);
    CHECK(m(problem, {.arithmetic = Arithmetic::f16}, kHopper) == 4);  // has no other
  }
  CHECK(m("n32c512h7k512", fma, kHopper) == 4);  // tasks of 64 tiles
  CHECK(m("n32c512h7k512", {}, kHopper) == 2);   // of 128
  CHECK(m("n64c512h7k512", {}, kHopper) == 4);
  CHECK(m("n64c64h56k64", {}, kHopper) == 4);
}

TEST_CASE("automatic takes Winograd where it can and pays") {
  CHECK(is_winograd(tile("n4c64h56k64").algorithm()));
  CHECK(tile("n4c64h56k64").tiles()->m == 4);
  CHECK(tile("n64c512h2k512").tiles()->m == 2);  // one 4x4 tile would be three quarters padding
  CHECK(tile("n4c3h224k64").algorithm() == Algorithm::direct);    // 3 channels: transforms dominate
  CHECK(tile("c512h4k512").algorithm() == Algorithm::direct);     // one tile: nothing shares U
  CHECK(tile("n4c64h56k64u2").algorithm() == Algorithm::direct);  // cannot
  CHECK(tile("n4c64h56k64g2").algorithm() == Algorithm::direct);  // cannot
  CHECK(tile("n4c64h56k64r5").algorithm() == Algorithm::direct);  // cannot
  CHECK(tile("n4c64h56k64d2").algorithm() == Algorithm::direct);  // cannot
  CHECK(is_winograd(tile("n4c64h56k64p3").algorithm()));          // any padding
}

TEST_CASE("automatic fuses on a CPU, unless the stages of a group are asked for or tiles are few") {
  const auto chosen = [](const char* problem, const TilingOptions& options = {}) {
    return tile(problem, options, {.workers = 2}).algorithm();
  };
  CHECK(chosen("n4c64h56k64") == Algorithm::fused_winograd);
  CHECK(chosen("n4c64h56k64", {.group_tiles = 14}) == Algorithm::winograd);
  CHECK(chosen("n4c64h56k64", {.v_slots = 4, .m_slots = 4}) == Algorithm::winograd);
  CHECK(chosen("n4c64h56k64", {.whole_tensors = true}) == Algorithm::winograd);
  CHECK(chosen("c512h7k512") == Algorithm::winograd);       // 4 tiles, and 38 MB of U for each task
  CHECK(chosen("c192h7k48") == Algorithm::fused_winograd);  // 4 tiles, and 1.3 MB
  CHECK(chosen("c256h14k256") == Algorithm::fused_winograd);  // 8 tiles a worker, 9 MB
  CHECK(chosen("c512h13k1024") == Algorithm::winograd);       // 8 tiles a worker, 75 MB
  CHECK(tile("n4c64h56k64", {}, {.backend = Backend::cuda, .workers = 528}).algorithm() ==
        Algorithm::winograd);
}

TEST_CASE("where the L3 is behind a mesh strides and few tiles have other algorithms") {
  const auto chosen = [](const char* problem, std::size_t mesh_mib) {
    return tile(
        problem, {},
        {.workers = 2, .cache_bytes_per_worker = 2 << 20, .mesh_cache_bytes = mesh_mib << 20});
  };
  CHECK(chosen("c128h56k128u2", 0).algorithm() == Algorithm::direct);
  CHECK(chosen("c128h56k128u2", 256).algorithm() == Algorithm::fused_winograd);
  CHECK(chosen("n4c128h104k256u2", 256).tiles()->m == 4);
  CHECK(chosen("n4c256h26k512u2", 256).tiles()->m == 2);  // 13 outputs: 16 of F(4x4)
  CHECK(chosen("n4c256h56k256", 256).tiles()->m == kWideTile);
  CHECK(chosen("n4c24h56k256", 256).tiles()->m == 4);  // F(4x6) errs by twice as much
  CHECK(chosen("n4c256h56k256", 0).tiles()->m == 4);
  CHECK(chosen("c512h7k512", 256).algorithm() == Algorithm::winograd);
  CHECK(chosen("c512h7k512", 256).tiles()->m == 2);  // U of F(4x4) is read for 4 tiles alone
  CHECK(chosen("c512h13k1024", 256).tiles()->m == 4);
  CHECK(chosen("n4c512h13k1024", 256).tiles()->m == 4);  // U of F(4x6) has 96 MiB
  CHECK(chosen("c512h13k1024", 100).tiles()->m == 2);    // 75 MB of U do not stay there
}

TEST_CASE("no worker has many more tiles of fused tasks than others while tasks are few") {
  struct Case {
    const char* problem;
    std::uint32_t workers;
  };
  for (const auto& [problem, workers] : {Case{"c192h14k48", 2},
                                         {"n4c192h14k48", 2},
                                         {"n4c128h28k128", 2},
                                         {"n4c128h28k128", 3},
                                         {"n4c64h56k64", 64}}) {
    const Tiling tiling =
        tile(problem, {.algorithm = Algorithm::fused_winograd}, {.workers = workers});
    const WinogradTiles& tiles = *tiling.tiles();
    INFO(problem << ", " << workers << " workers\n" << to_string(tiling));
    CHECK(tiling.num_groups <= 8 * workers);
    const auto most = std::uint64_t{ceil_div(tiling.num_groups, workers)} * tiles.group_tiles;
    CHECK(static_cast<double>(most * workers) < 1.08 * static_cast<double>(tiles.num_tiles));
  }
}

TEST_CASE("groups share the tiles evenly, in whole register tiles where that fits") {
  const TilingOptions options{.algorithm = Algorithm::winograd};
  struct Case {
    const char* problem;
    bool fits;  // V of a group in its worker's cache; otherwise one position of it does
  };
  for (const auto& [problem, fits] : {Case{"n4c128h28k128", true},
                                      {"n4c64h56k64", true},
                                      {"n64c128h28k128", true},
                                      {"n16c256h14k256", false},
                                      {"n64c512h7k512", false}}) {
    const Tiling tiling = tile(problem, options);
    INFO(to_string(tiling));
    CHECK((tiling.v_slot_bytes() <= Target{}.cache_bytes_per_worker) == fits);
    CHECK(tiling.v_slot_bytes() / 36 <= Target{}.cache_bytes_per_worker);
    if (fits) CHECK(tiling.tiles()->group_tiles % 14 == 0);
    CHECK(tiling.num_groups * tiling.tiles()->group_tiles - tiling.tiles()->num_tiles <=
          tiling.tiles()->num_tiles / 8);
  }
}

TEST_CASE("there are tasks for all workers where the problem allows") {
  for (std::uint32_t workers : {1u, 2u, 8u, 32u}) {
    const Tiling tiling =
        tile("n32c128h56k128", {.algorithm = Algorithm::winograd}, {.workers = workers});
    INFO(workers << " workers\n" << to_string(tiling));
    CHECK(tiling.num_groups * tiling.input_tasks >= 4 * workers);
    CHECK(tiling.num_groups * tiling.gemm_tasks >= 4 * workers);
    CHECK(tiling.num_groups * tiling.output_tasks >= 4 * workers);
  }
}

TEST_CASE("two workers have nearly as much of a direct layer each") {
  for (const char* text :
       {"c144h56k144g144", "c576h14k576u2g576", "c96h14k576r1p0", "c256h52k128r1p0",
        "c160h7k960r1p0", "c32h28k192r1p0", "n2c32h9k48", "c960h7k160r1p0"}) {
    const Tiling tiling = tile((std::string(text) + "+nchw16c").c_str(),
                               {.algorithm = Algorithm::direct}, {.workers = 2});
    const auto& cut = std::get<DirectCut>(tiling.cut);
    INFO(to_string(tiling));
    const std::uint64_t p = std::uint64_t(tiling.problem.p()), blocks = tiling.filter_blocks();
    std::uint64_t parts[2] = {};  // rows times filter blocks; each takes a task when it is free
    for (std::uint64_t row = 0; row < p * std::uint64_t(tiling.problem.n);) {
      const std::uint64_t rows = std::min<std::uint64_t>(cut.rows_per_group, p - row % p);
      for (std::uint64_t block = 0; block < blocks; block += cut.filter_blocks_per_gemm_task) {
        parts[parts[1] < parts[0]] +=
            rows * std::min<std::uint64_t>(cut.filter_blocks_per_gemm_task, blocks - block);
      }
      row += rows;
    }
    CHECK(100 * std::max(parts[0], parts[1]) <= 53 * (parts[0] + parts[1]));
  }
}

TEST_CASE("a direct layer of few rows is two tasks of an odd number of filter blocks") {
  const Tiling tiling =
      tile("c960h7k160r1p0+nchw16c", {.algorithm = Algorithm::direct}, {.workers = 2});
  const auto& cut = std::get<DirectCut>(tiling.cut);
  CHECK(cut.rows_per_group == 7);
  CHECK(cut.filter_blocks_per_gemm_task == 5);
}

TEST_CASE("what the caller fixes is kept") {
  const TilingOptions options{.algorithm = Algorithm::winograd,
                              .m = 6,
                              .points = Points::integer,
                              .filters = FilterMode::prepared,
                              .group_tiles = 5,
                              .v_slots = 3,
                              .m_slots = 1000000};
  const Tiling tiling = tile("n4c20h31k20", options);
  CHECK(tiling.tiles()->m == 6);
  CHECK(tiling.tiles()->points == Points::integer);
  CHECK(tiling.num_filter_tasks == 0);
  CHECK(tiling.tiles()->group_tiles == 5);
  CHECK(tiling.tiles()->num_tiles == 4 * 6 * 6);
  CHECK(tiling.num_groups == 29);
  CHECK(tiling.window()->v_slots == 3);
  CHECK(tiling.window()->m_slots == 29);  // as many as there are groups is whole
  CHECK(
      tile("n4c20h31k20", {.algorithm = Algorithm::winograd, .group_tiles = 1u << 31}).num_groups ==
      1);
}

TEST_CASE("sizes follow the layouts of tasks/cpu/kernels.hpp") {
  const Tiling winograd = tile("c17h8k33", {.algorithm = Algorithm::winograd, .m = 2});
  CHECK(winograd.channel_blocks() == 2);
  CHECK(winograd.filter_blocks() == 3);
  CHECK(winograd.v_slot_bytes() == 16u * 2 * winograd.tiles()->group_tiles * 16 * 4);
  CHECK(winograd.m_slot_bytes() == 16u * 3 * winograd.tiles()->group_tiles * 16 * 4);
  CHECK(winograd.u_bytes() == 16u * 3 * 17 * 16 * 4);
  const Tiling grouped = tile("c6h8k40g2r5");  // 20 filters a conv group: 2 blocks each
  CHECK(grouped.filter_blocks() == 4);
  CHECK(grouped.u_bytes() == 4u * 5 * 5 * 3 * 16 * 4);
  CHECK(grouped.v_slot_bytes() == 0);
  const Tiling depthwise = tile("c40h8k40g40");  // lanes hold channels
  CHECK(depthwise.filter_blocks() == 3);
  CHECK(depthwise.u_bytes() == 3u * 9 * 16 * 4);
}

TEST_CASE("what an algorithm cannot compute is refused with the reason") {
  const auto error = [](const char* problem) {
    return error_of([&] { tile(problem, {.algorithm = Algorithm::winograd}); },
                    Status::unsupported);
  };
  CHECK(error("c16h9k16u2") == "winograd: stride 2x2, must be 1x1");
  CHECK(error("c16h9k16d1x2") == "winograd: dilation 1x2, must be 1x1");
  CHECK(error("c16h9k16r5s3") == "winograd: filter 5x3, must be 3x3");
  CHECK(error("c16h9k16g4") == "winograd: groups = 4, must be 1");
  CHECK(error_of([&] { tile("c16h9k16+f16", {.algorithm = Algorithm::opencnn}); },
                 Status::unsupported) == "opencnn: storage type f16, must be f32");
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::implicit_gemm}) {
    CHECK(error_of([&] { tile("c16h9k16+i8", {.algorithm = algorithm}); }, Status::unsupported) ==
          to_string(algorithm) +
              std::string(": storage type i8, which has exact sums; must be f32, f16 or bf16"));
  }
  CHECK(tile("n4c64h28k64+i8", {}).algorithm() == Algorithm::direct);
  CHECK(error("c16h9k16+chwn") == "layout chwn: must be nchw or nhwc, or the algorithm opencnn");
  CHECK(error_of([&] { tile("c16h9k16+nchw16c", {.algorithm = Algorithm::opencnn}); },
                 Status::unsupported) ==
        "layout nchw16c in opencnn: must be an algorithm of a CPU");
  CHECK(error_of(
            [&] {
              make_tiling(parse_problem("c16h9k16+nchw16c"), {}, Target{.backend = Backend::cuda});
            },
            Status::unsupported) == "layout nchw16c: backend cuda, must be cpu");
}

TEST_CASE("options out of range are named with what is allowed") {
  const auto error = [](const TilingOptions& options, const Target& target = {}) {
    return error_of([&] { tile("c16h9k16", options, target); });
  };
  CHECK(error({.m = 3}) == "m = 3: must be 2, 4, 6 or 46 (4 x 6)");
  CHECK(error({.v_slots = 2, .whole_tensors = true}) ==
        "v_slots = 2, m_slots = 0: must be 0 with whole_tensors");
  CHECK(error({}, {.workers = 0}) == "workers = 0: must be at least 1");
  CHECK(error_of(
            [] {
              tile("c1h1000000w1000000k1", {.algorithm = Algorithm::winograd, .group_tiles = 1});
            },
            Status::unsupported) ==
        "62500000000 task groups: must be at most 2^31; use larger groups");
}

TEST_CASE("a tiling prints its window and its counts") {
  const std::string text = to_string(
      tile("n4c20h31k20", {.algorithm = Algorithm::winograd, .group_tiles = 8, .v_slots = 3}));
  CHECK_THAT(text, ContainsSubstring(
                       "algorithm: winograd F(4x4, 3x3), low_error points, fma arithmetic\n"));
  CHECK_THAT(text, ContainsSubstring("tiles: 256 (4 x 8 x 8), 8 a group\n"));
  CHECK_THAT(text, ContainsSubstring("V: 3 of 32 groups, "));
  CHECK_THAT(text, ContainsSubstring("(window)\nM: 32 of 32 groups"));
  CHECK_THAT(to_string(tile("c3h9k5r5")), ContainsSubstring("algorithm: direct\n"));
}

TEST_CASE("costs of all tasks add up to what the algorithm computes and moves") {
  const ConvProblem problem = parse_problem("n2c32h16k48");
  const double sums = problem.flops(), tiles = 2 * 4 * 4, c = 32, k = 48;
  const double input = tiles * c * 4 * 216, output = tiles * k * 2 * (36 * 4 + 6 * 16);
  struct Expected {
    Algorithm algorithm;
    Target target;
    double products, input, output;  // operations of the stages with these roles
  };
  for (const Expected& e :
       {Expected{Algorithm::direct, {}, sums, 0, 0},
        Expected{Algorithm::winograd, {}, sums / 4, input, output},
        Expected{Algorithm::fused_winograd, {}, sums / 4 + input + output, 0, 0},
        Expected{Algorithm::opencnn, kAmpere, sums * 16 / 36, 0, 0},
        Expected{Algorithm::implicit_gemm, kHopper, sums, 0, 0}}) {
    CAPTURE(to_string(e.algorithm));
    const Tiling tiling = make_tiling(problem, {.algorithm = e.algorithm}, e.target);
    TaskGraph graph;
    const NodeBuffers buffers = add_convolution(graph, "conv", tiling);
    const auto total = [&](Role role, auto value) {
      const Stage* const stage = graph.find(0, role);
      return stage == nullptr ? 0 : value(*stage) * static_cast<double>(stage->num_tasks());
    };
    const auto operations = [](const Stage& stage) { return stage.operations; };
    CHECK(total(Role::product, operations) == Approx(e.products));
    CHECK(total(Role::input, operations) == Approx(e.input));
    CHECK(total(Role::output, operations) == Approx(e.output));
    const auto written = [](BufferId buffer) {
      return [buffer](const Stage& stage) {
        double bytes = 0;
        for (const Traffic& traffic : stage.traffic) {
          if (traffic.mode == Mode::write && traffic.buffer == buffer) bytes += traffic.bytes;
        }
        return bytes;
      };
    };
    const Role last = e.output != 0 ? Role::output : Role::product;
    CHECK(total(last, written(buffers.y)) == Approx(4.0 * 2 * 48 * 16 * 16));
    CHECK(total(Role::prepare, written(buffers.u)) ==
          Approx(static_cast<double>(tiling.u_bytes())));
  }
}
