// SPDX-License-Identifier: Apache-2.0
// Direct tilings for CUDA, without a GPU.
#include <algorithm>
#include <string>

#include "megaconv/mapping.hpp"
#include "tasks/direct/direct_shapes.hpp"
#include "tasks/direct/few_terms.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/targets.hpp"

using namespace megaconv;

namespace {

Tiling tiling_of(const char* text, std::uint32_t workers = 528) {
  TilingOptions options;
  options.algorithm = Algorithm::direct;
  return make_tiling(parse_problem(text), options, {.backend = Backend::cuda, .workers = workers});
}

const DirectShape* shape_of(const Tiling& t) {
  const auto* found =
      std::find_if(std::begin(kDirectShapes), std::end(kDirectShapes), [&](const DirectShape& s) {
        return s.has_room(
            std::get<DirectCut>(t.cut).rows_per_group, std::get<DirectCut>(t.cut).cols_per_group,
            std::get<DirectCut>(t.cut).filter_blocks_per_gemm_task * Tiling::kLaneBlock);
      });
  return found == std::end(kDirectShapes) ? nullptr : found;
}

}  // namespace

TEST_CASE("Every direct tiling for CUDA has a compiled shape with room for its tasks") {
  for (const char* text :
       {"c1h1k1", "n64c3h224k64r7u2", "n64c64h56k256r1p0", "n1c512h7k512", "n2c24h11k48g4",
        "n1c6h9k352g2", "n1c16h200w1k5", "n3c5h40w33k30r5", "n1c32h1w300k1000"}) {
    const Tiling tiling = tiling_of(text);
    CAPTURE(text, to_string(tiling));
    REQUIRE(shape_of(tiling) != nullptr);
    const auto groups = static_cast<std::uint32_t>(tiling.problem.groups);
    if (groups > 1) {
      CHECK(tiling.filter_blocks() / groups %
                std::get<DirectCut>(tiling.cut).filter_blocks_per_gemm_task ==
            0);
    }
    CHECK_FALSE(validate(build_graph(tiling), make_mapping(build_graph(tiling), {})));
  }
}

TEST_CASE("Tensors of 16 bits get shapes that are compiled for them") {
  for (const char* text : {"n64c256h14k256u2+f16", "n64c64h7k256+bf16", "n1c512h14k512g32+f16",
                           "n64c3h224k64r7u2+bf16+nhwc"}) {
    const Tiling tiling = tiling_of(text);
    CAPTURE(text, to_string(tiling));
    const auto suits = [&](const DirectShape& shape) {
      return shape.is_compiled_for(2) &&
             shape.has_room(
                 std::get<DirectCut>(tiling.cut).rows_per_group,
                 std::get<DirectCut>(tiling.cut).cols_per_group,
                 std::get<DirectCut>(tiling.cut).filter_blocks_per_gemm_task * Tiling::kLaneBlock);
    };
    CHECK(std::any_of(std::begin(kDirectShapes), std::end(kDirectShapes), suits));
  }
}

TEST_CASE("On a GPU without tensor cores direct tasks take tensors of 16 bits") {
  const Target target{.backend = Backend::cuda, .workers = 320};
  CHECK(make_tiling(parse_problem("n4c64h56k64+f16"), {}, target).algorithm() == Algorithm::direct);
  CHECK(make_tiling(parse_problem("n4c64h56k64"), {}, target).algorithm() == Algorithm::winograd);

  // And so they do where multiply-adds are asked for.
  const Target hopper{
      .backend = Backend::cuda, .workers = 264, .split_f16 = true, .multiprocessors = 132};
  const TilingOptions fma{.arithmetic = Arithmetic::fma};
  for (const char* text : {"n4c64h56k64+f16", "n1c1h1k1+bf16"}) {
    CHECK(make_tiling(parse_problem(text), fma, hopper).algorithm() == Algorithm::direct);
  }
}

TEST_CASE("Tasks have no more room than half of a small problem, and many outputs of a large one") {
  const auto shape = [](const char* problem) { return *shape_of(tiling_of(problem)); };
  CHECK(shape("n64c64h64k32").filters() == 32);
  CHECK(shape("n64c64h64k64").filters() == 64);
  for (const char* small : {"n64c64h7k256", "n64c64h14k256", "n64c64h7k32", "n64c64h14k64"}) {
    const ConvProblem problem = parse_problem(small);
    CAPTURE(small);
    CHECK(shape(small).pixels() < 2 * problem.p() * problem.q());
    CHECK(14 % std::min<std::int64_t>(shape(small).rows(), problem.p()) == 0);
  }
  for (const char* large : {"n64c64h64k32", "n64c64h64k64", "n64c64h64k256"}) {
    CAPTURE(large);
    CHECK(shape(large).pixels() * shape(large).filters() >= 8192);  // more products a load
  }
}

TEST_CASE("Depthwise tasks come in whole waves, and are no larger than others can wait for") {
  for (const char* layer : {"n16c32h112k32g32", "n16c144h56k144g144", "n32c192h28k192u2g192",
                            "n32c384h14k384g384", "n32c576h14k576g576", "n32c960h7k960g960"}) {
    const Tiling tiling = tiling_of((std::string(layer) + "+nhwc+f16").c_str());
    const std::uint32_t tasks = tiling.num_groups * tiling.gemm_tasks;
    CAPTURE(to_string(tiling), tasks);
    CHECK(tasks <= 528);
    CHECK(tasks >= 528 * 2 / 3);
  }
  for (const char* layer : {"n64c64h112k64g64", "n1c40h200w1k40g40", "n8c7h33k7r5g7",
                            "n1c1h1k1r1p0", "n256c1024h64k1024g1024"}) {
    for (const char* layout : {"+nchw", "+nhwc"}) {
      const Tiling tiling = tiling_of((std::string(layer) + layout).c_str());
      const auto& cut = std::get<DirectCut>(tiling.cut);
      const DirectShape tile = depthwise_shape(tiling.problem.layout);
      CAPTURE(to_string(tiling));
      CHECK(cut.rows_per_group * cut.cols_per_group * cut.filter_blocks_per_gemm_task *
                Tiling::kLaneBlock <=
            8 * tile.threads() * tile.i_tile * tile.h_tile * tile.w_tile);
    }
  }
}

TEST_CASE("Depthwise tasks on tensors that the L2 has no room for are small") {
  const auto bytes_of_thread = [](const char* layer) {
    const Tiling tiling = tiling_of(layer);
    const auto& cut = std::get<DirectCut>(tiling.cut);
    const DirectShape tile = depthwise_shape(tiling.problem.layout);
    return cut.rows_per_group * cut.cols_per_group * cut.filter_blocks_per_gemm_task *
           Tiling::kLaneBlock / tile.threads() * size_of(tiling.problem.dtype);
  };
  CHECK(bytes_of_thread("n5c224h177k224g224+nhwc") <= 256);
  CHECK(bytes_of_thread("n5c224h177k224g224+nhwc+f16") <= 256);
  CHECK(bytes_of_thread("n2c224h150k224g224+nhwc+f16") > 256);
  // Larger filters would load more of x again.
  CHECK(bytes_of_thread("n5c224h177k224r7g224+nhwc") > 256);
}

TEST_CASE("Threads and shared-memory runs of every shape come out even") {
  for (const DirectShape& shape : kDirectShapes) {
    CHECK(shape.threads() % 32 == 0);
    CHECK(shape.i_tile % 4 == 0);
    CHECK(shape.w_tile % 4 == 0);
    CHECK(shape.filters() % Tiling::kLaneBlock == 0);
  }
}

TEST_CASE("Tasks of 1x1 filters on few channels have whole rows, for all their threads") {
  for (const char* text :
       {"n1c8h8k8r1p0", "n64c3h224k40r1p0", "n2c24h395k1000r1p0", "n1c32h1w8192k300r1p0",
        "n92c8h124k6r1p0", "n1c5h7000w1k9r1p0", "n69c4h21k24r1p0", "n3c8h284w18k6r1p0",
        "n2c6h128k627r1p0", "n1c3h1w9000k150r1p0"}) {
    const Tiling tiling = tiling_of((std::string(text) + "+nhwc").c_str());
    const auto& cut = std::get<DirectCut>(tiling.cut);
    const ConvProblem& a = tiling.problem;
    CAPTURE(to_string(tiling));
    REQUIRE(has_few_channels_of_pixels(a));
    CHECK((cut.cols_per_group == a.q() || cut.rows_per_group == 1));
    CHECK(std::uint64_t{cut.rows_per_group} * cut.cols_per_group * cut.filter_blocks_per_gemm_task *
              Tiling::kLaneBlock <=
          kMostTaskOutputs);
    // All threads have pixels, or nearly, or a task has a whole image.
    const std::uint64_t pixels = std::uint64_t{cut.rows_per_group + 1} * cut.cols_per_group;
    const std::uint64_t filters = std::min<std::uint64_t>(
        static_cast<std::uint64_t>(a.k),
        std::uint64_t{cut.filter_blocks_per_gemm_task} * Tiling::kLaneBlock);
    CHECK((cut.rows_per_group == a.p() ||
           pixels * pointwise_threads(filters) > kPointwiseThreads * kPointwisePixels));
    CHECK_FALSE(validate(build_graph(tiling), make_mapping(build_graph(tiling), {})));
  }
  CHECK_FALSE(has_few_channels_of_pixels(parse_problem("c8h28k8r1p0")));
  CHECK_FALSE(has_few_channels_of_pixels(parse_problem("c8h28k8r1p0u2+nhwc")));
  CHECK_FALSE(has_few_channels_of_pixels(parse_problem("c8h28k8r1p1+nhwc")));
  CHECK_FALSE(has_few_channels_of_pixels(parse_problem("c33h28k8r1p0+nhwc")));
  CHECK_FALSE(has_few_channels_of_pixels(parse_problem("c8h28k8+nhwc")));
}

TEST_CASE("Tasks that write y in columns are all there at once, with all filters of odd numbers") {
  const Target hopper{
      .backend = Backend::cuda, .workers = 528, .split_f16 = true, .multiprocessors = 132};
  TilingOptions options;
  options.algorithm = Algorithm::direct;
  for (const char* text : {"n2c6h128k627r1p0", "n45c8h28w8k439r1p0", "n6c3h221w81k136r1p0",
                           "n2c7h68k1032r1p0", "n11c5h125k40r1p0", "n4c4h76k944r1p0"}) {
    const Tiling tiling = make_tiling(parse_problem(text + std::string("+nhwc")), options, hopper);
    CAPTURE(to_string(tiling));
    CHECK(writes_columns(tiling.problem));
    const std::uint32_t tasks = tiling.num_groups * tiling.gemm_tasks;
    CHECK(tasks <= 4 * 132);
    CHECK(tasks >= 132);
    CHECK((tiling.problem.k % 8 == 0 || tiling.gemm_tasks == 1));
  }
  CHECK_FALSE(writes_columns(parse_problem("n6c8h221w81k136r1p0+nhwc")));
  CHECK_FALSE(writes_columns(parse_problem("n6c3h221w81k30r1p0+nhwc")));
  CHECK_FALSE(writes_columns(parse_problem("n1c3h18k136r1p0+nhwc")));
  CHECK(writes_columns(parse_problem("n1c3h18k135r1p0+nhwc")));
}

TEST_CASE("Direct tasks multiply sums of few terms on tensor cores, where that was faster") {
  const auto arithmetic = [](const char* text, Precision precision = Precision::f32) {
    const TilingOptions options{.algorithm = Algorithm::direct, .precision = precision};
    return make_tiling(parse_problem(text), options, test::kHopper).arithmetic;
  };
  for (const char* text : {"n4c3h75k1032r1s3p0x1+nhwc+f16", "n1c24h64k760+nhwc+f16",
                           "c3h28k64r7u2+nhwc+f16", "n6c24h126k792r1p0+nhwc+f16"}) {
    CAPTURE(text);
    CHECK(arithmetic(text) == Arithmetic::f16);
  }
  CHECK(arithmetic("c3h28k64+nhwc+bf16") == Arithmetic::bf16);
  CHECK(arithmetic("c3h28k64+nhwc", Precision::tf32) == Arithmetic::tf32);
  // Accurate, in NCHW, of many terms, or waiting for memory alone.
  for (const char* text : {"c3h28k64+nhwc", "c3h28k64+f16", "c32h28k64+nhwc+f16",
                           "n2c6h128k627r1p0+nhwc+f16", "c8h28k64g2+nhwc+f16"}) {
    CAPTURE(text);
    CHECK(arithmetic(text) == Arithmetic::fma);
  }
  // Few filters of vectors of channels, and few outputs.
  for (const char* text : {"n3c4h29w78k10r1p0+nhwc+f16", "n26c8h10k8r1p0+nhwc+f16"}) {
    CAPTURE(text);
    CHECK(arithmetic(text) == Arithmetic::fma);
  }
  CHECK(arithmetic("n26c5h34k8r1p0+nhwc+f16") == Arithmetic::f16);
  CHECK(arithmetic("n22c4h16k128r1p0+nhwc+f16") == Arithmetic::f16);
  CHECK(arithmetic("n32c8h161k8r1p0+nhwc+f16") == Arithmetic::f16);
  CHECK(arithmetic("n32c4h28k640r1p0+nhwc", Precision::tf32) == Arithmetic::fma);
  CHECK(arithmetic("n32c5h28k640r1p0+nhwc", Precision::tf32) == Arithmetic::tf32);
  CHECK(arithmetic("n32c4h28k640r1p0+nhwc+f16") == Arithmetic::f16);
  CHECK(arithmetic("c3h28k64r1p0+nhwc+f16") == Arithmetic::f16);
  CHECK(arithmetic("c3h28k50r1p0+nhwc+f16") == Arithmetic::f16);
  CHECK(arithmetic("c7h28k80r1p0+nhwc", Precision::tf32) == Arithmetic::tf32);
  CHECK(arithmetic("c24h28k64+nhwc", Precision::tf32) == Arithmetic::fma);  // 14 steps
}

// Measured on an H200, of a graph that repeats one layer.
TEST_CASE("Tasks of sums of few terms take what was measured, and no size takes less") {
  struct Measured {
    const char* problem;
    double us;
  };
  const Measured all[] = {
      {"n32c3h224k32r3p1u2+nhwc+f16", 21.9}, {"n32c16h112k96r1p0+nhwc+f16", 30.0},
      {"n9c32h33k440r1p0+nhwc+f16", 4.8},    {"n1c16h28k32r1p0+nhwc+bf16", 1.24},
      {"n21c4h88w132k196+nhwc+f16", 61.5},   {"n2c16h395k184r1p0+nhwc+f16", 46.7},
      {"n32c3h416k32+nhwc+f16", 280},        {"n3c8h21w153k1040+nhwc+f16", 10.6},
      {"n32c3h224k32r3p1u2+nhwc", 30.5},     {"n8c26h27k208r1p0+nhwc", 3.84},
      {"n4c4h304k336r1p0+nhwc", 144},
  };
  for (const auto& [text, us] : all) {
    const ConvProblem problem = parse_problem(text);
    const Tiling tiling = make_tiling(
        problem, {.algorithm = Algorithm::direct, .arithmetic = mma_arithmetic(problem.dtype)},
        test::kHopper);
    CAPTURE(to_string(tiling));
    const auto& cut = std::get<DirectCut>(tiling.cut);
    const double estimated = few_terms_us(problem, cut, test::kHopper);
    CHECK(estimated > us / 1.5);
    CHECK(estimated < us * 1.5);
    const auto all_rows = static_cast<std::uint32_t>(problem.p());
    const auto all_cols = static_cast<std::uint32_t>(problem.q());
    for (std::uint32_t rows = 1; rows <= std::min(all_rows, 4096 / all_cols); ++rows) {
      if (rows * all_cols < 32) continue;
      const DirectCut other{rows, all_cols, cut.filter_blocks_per_gemm_task};
      CHECK(few_terms_us(problem, other, test::kHopper) >= estimated);
    }
  }
}

TEST_CASE("Tasks of sums of few terms come in whole waves where they are long") {
  for (const char* text : {"n32c3h224k32r3p1u2+nhwc+f16", "n16c3h224k24r3p1u2+nhwc+bf16",
                           "n32c24h56k144r1p0+nhwc+f16"}) {
    const Tiling tiling = make_tiling(parse_problem(text), {}, test::kHopper);
    const std::uint32_t tasks = tiling.num_groups * tiling.gemm_tasks;
    CAPTURE(to_string(tiling), tasks);
    CHECK(tiling.algorithm() == Algorithm::direct);
    CHECK(tasks <= 4 * 132);
    CHECK(tasks > 3 * 132);
  }
}

TEST_CASE("1x1 filters on few channels are direct on tensor cores, where that was faster") {
  const auto algorithm = [](const char* text) {
    const ConvProblem problem = parse_problem(std::string(text) + "+nhwc");
    return make_tiling(problem, {.precision = Precision::tf32}, test::kHopper).algorithm();
  };
  for (const char* text : {"n1c16h28k32r1p0+f16", "n4c24h28k64r1p0+f16", "n16c32h56k144r1p0+bf16",
                           "n35c16h35k160r1p0+f16", "n16c24h112k144r1p0+f16",
                           "n1c64h28k144r1p0+f16", "n4c64h28k64r1p0+f16", "n16c40h56k80r1p0+f16",
                           "n4c16h56k144r1p0", "n1c24h28k144r1p0", "n1c40h14k240r1p0"}) {
    CAPTURE(text);
    CHECK(algorithm(text) == Algorithm::direct);
  }
  for (const char* text :
       {"n16c16h112k64r1p0+f16", "n16c32h112k320r1p0+f16", "n16c64h56k64r1p0+f16",
        "n4c64h56k320r1p0+f16", "n6c128h35k248r1p0+f16", "n16c16h56k320r1p0", "n16c24h112k64r1p0",
        "n1c32h28k64r1p0", "n1c112h14k672r1p0", "n16c64h56k144r1p0"}) {
    CAPTURE(text);
    CHECK(algorithm(text) == Algorithm::implicit_gemm);
  }
}

TEST_CASE("Layers of few filters are direct on tensor cores, where that was faster") {
  const auto chosen = [](const char* text) {
    const ConvProblem problem = parse_problem(std::string(text) + "+nhwc");
    return make_tiling(problem, {.precision = Precision::tf32}, test::kHopper);
  };
  for (const char* text : {"n4c4h420k16+f16", "n33c16h287k8+f16", "n17c3h104k16", "n2c32h8k5r1p0",
                           "n10c56h283k8r1p0+f16", "n12c23h284k16r1p0"}) {
    const Tiling tiling = chosen(text);
    CAPTURE(text, to_string(tiling));
    CHECK(tiling.algorithm() == Algorithm::direct);
    CHECK(tiling.arithmetic == mma_arithmetic(tiling.problem.dtype));
    CHECK(tiling.gemm_tasks == 1);
  }
  // Of many or long pixels that are loaded in vectors; of terms that registers have no room for.
  CHECK(chosen("n92c8h124k6r1p0").arithmetic == Arithmetic::fma);
  for (const char* text :
       {"n10c56h283k8r1p0", "n20c176h39w149k8r1p0+f16", "n4c720h52k8r1p0+f16", "n3c72h133k3"}) {
    CAPTURE(text);
    CHECK(chosen(text).algorithm() != Algorithm::direct);
  }
}

TEST_CASE("Floats of few terms are direct on tensor cores, of more where y is small") {
  const auto algorithm = [](const char* text) {
    const ConvProblem problem = parse_problem(std::string(text) + "+nhwc");
    return make_tiling(problem, {.precision = Precision::tf32}, test::kHopper).algorithm();
  };
  for (const char* text : {"n37c6h11w116k176", "n1c8h244w468k672", "n4c16h10k88"}) {
    CAPTURE(text);
    CHECK(algorithm(text) == Algorithm::direct);
  }
  CHECK(algorithm("n36c16h8k1352") != Algorithm::direct);
}

TEST_CASE("Streams of pixels are many and short, long and nothing for TMA, or of odd filters") {
  const auto streams = [](const char* text) {
    const ConvProblem problem = parse_problem(std::string(text) + "+nhwc");
    const Tiling tiling = make_tiling(problem, {.precision = Precision::tf32}, test::kHopper);
    CAPTURE(to_string(tiling));
    if (streams_pixels(problem)) CHECK(tiling.algorithm() == Algorithm::direct);
    return streams_pixels(problem);
  };
  for (const char* text :
       {"n12c16h217k50r1p0+f16", "n12c16h217k50r1p0", "n13c24h200k16r1p0+bf16",
        "n24c1002h92w42k4r1p0+f16", "n20c170h39w149k8r1p0+f16", "n32c32h112k16r1p0+f16",
        "n8c48h100k37r1p0+f16", "n4c128h60k101r1p0+bf16", "n4c24h60k17r1p0+f16",
        "n8c3h100k50r1p0+f16", "n4c32h60k37r1p0", "n8c24h100k230r1p0"}) {
    CHECK(streams(text));
  }
  for (const char* text :
       {"n12c16h217k48r1p0", "n3c16h208k8r1p0+f16", "n13c24h200k16r3+f16",
        "n13c24h200k16r1p0u2+f16", "n32c240h18w300k8r1p0+f16", "n7c992h14w20k16r1p0+f16",
        "n12c16h217k72r1p0+f16", "n8c48h100k40r1p0+f16", "n2c48h28k37r1p0+f16",
        "n4c128h60k150r1p0+f16", "n4c8h60k37r1p0+f16", "n8c48h100k36r1p0", "n8c96h100k37r1p0",
        "n4c24h60k230r1p0", "n8c8h100k101r1p0", "n24c1000h92w42k4r1p0+f16",
        "n20c168h39w149k8r1p0+f16"}) {
    CHECK_FALSE(streams(text));
  }
}

TEST_CASE("Shared memory has room for what streams of pixels cut it into") {
  for (const std::size_t element : {std::size_t{2}, std::size_t{4}}) {
    for (const int c : {1, 3, 4, 8, 20, 24, 168, 264, 1000, 1992}) {
      for (const int k : {1, 5, 8, 16, 33, 64, 230, 439}) {
        const PixelStream stream = pixel_stream(c, k, element);
        CAPTURE(element, c, k, stream.warps, stream.stages, stream.pixels);
        if (stream.warps == 0) continue;
        const auto bytes = static_cast<int>(element);
        CHECK(stream.shared_bytes() <= PixelStream::kSharedBytes);
        CHECK(stream.steps * 4 * stream.channels >= c);
        CHECK(stream.columns * 8 >= k);
        CHECK(stream.pixels % 16 == 0);
        CHECK(stream.x_bytes % 16 == 0);
        CHECK(stream.y_bytes % 16 == 0);
        CHECK(stream.x_bytes >= stream.pixels * c * bytes + 15);  // wherever they begin
        CHECK(stream.y_bytes >= stream.pixels * k * bytes + 15);
        CHECK(stream.stages * static_cast<int>(sizeof(std::uint64_t)) <=
              PixelStream::kBarrierBytes);
        CHECK(stream.warp_bytes >= PixelStream::kBarrierBytes + stream.stages * stream.x_bytes +
                                       PixelStream::kOutputs * stream.y_bytes);
      }
    }
  }
}

TEST_CASE("Direct tasks on tensor cores have whole parts of filters that fit in shared memory") {
  for (const char* text : {"n1c1h1k1", "n4c4h300k336r1p0", "n2c24h40w31k760", "n3c5h33k1031r5p2",
                           "n64c3h224k64r7u2", "n1c16h9k100", "n4c4h420k16", "n20c112h39w149k8r1p0",
                           "n1c2h3w5000k3r1p0", "n13c24h200k16r1p0", "n24c1000h92w42k4r1p0"}) {
    for (const DataType dtype : {DataType::f32, DataType::f16}) {
      ConvProblem problem = parse_problem(std::string(text) + "+nhwc");
      problem.dtype = dtype;
      if (!mma_need(problem).empty()) continue;
      const Tiling tiling = make_tiling(
          problem, {.algorithm = Algorithm::direct, .arithmetic = mma_arithmetic(dtype)},
          test::kHopper);
      CAPTURE(text, to_string(tiling));
      const std::uint32_t filters =
          std::get<DirectCut>(tiling.cut).filter_blocks_per_gemm_task * Tiling::kLaneBlock;
      const MmaFilterParts parts = mma_filter_parts(problem);
      const auto part = static_cast<std::uint32_t>(parts.filters);
      CHECK((filters % part == 0 || filters == tiling.filter_blocks() * Tiling::kLaneBlock));
      if (!has_few_filters(problem) && !streams_pixels(problem)) {
        CHECK(ceil_div(filters, part) * parts.bytes <= kMmaFilterBytes);
      } else {
        CHECK(tiling.gemm_tasks == 1);
      }
      CHECK(tiling.u_bytes() >= ceil_div(std::uint64_t(problem.k), std::uint64_t{part}) *
                                    static_cast<std::uint64_t>(parts.bytes));
      CHECK_FALSE(validate(build_graph(tiling), make_mapping(build_graph(tiling), {})));
    }
  }
  TilingOptions odd{.algorithm = Algorithm::direct, .filter_blocks_per_gemm_task = 3};
  odd.arithmetic = Arithmetic::f16;
  CHECK_THROWS_WITH(make_tiling(parse_problem("c3h28k640+nhwc+f16"), odd, test::kHopper),
                    "filter_blocks_per_gemm_task = 3: arithmetic f16, must be a multiple of 4 and "
                    "at most 24, or all 40");
}
