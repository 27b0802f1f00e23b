// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on the device, of operands that TMA loads.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/implicit_gemm.hpp"

using namespace megaconv;
using namespace megaconv::test;

TEST_CASE("cuda: implicit GEMM of tensors in place is exact on integers, whatever its groups",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  // Few tasks of many channels share these out.
  for (const char* text : {"n3c24h13w9k40+bias+relu+nhwc+f16", "n2c8h17w130k136+nhwc+f16",
                           "n3c520h13w12k72+bias+nhwc+f16", "n3c136h13w9k136+relu+nhwc+f16"}) {
    IntegerLayer<Float16> of(text);
    for (const std::uint32_t places : {32u, 64u, 96u, 160u, 288u, 512u}) {
      PlanOptions options = implicit_gemm();
      options.tiling.places_per_group = places;
      options.num_blocks = places == 160 ? 2 : 0;
      CAPTURE(text, places);
      CHECK(of.gives(of.device.run(Plan::create(of.problem, options))));
    }
    PlanOptions options = implicit_gemm();
    options.tiling.filters = FilterMode::prepared;
    CHECK(of.gives(of.device.run_prepared(Plan::create(of.problem, options))));
  }
}

// Boxes of TMA have whole vectors of 16 bytes; others are stored by two filters, or one.
TEST_CASE("cuda: implicit GEMM in place stores outputs of 16 bits of any number of filters",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text :
       {"n3c24h13w9k61+bias+relu", "n2c72h14k70r1p0", "n3c16h13w9k133r1p0u2+relu",
        "n1c8h9w31k2+bias", "n2c64h7k259r1p0+bias", "n4c40h7w5k36u2"}) {
    IntegerLayer<Float16> of(std::string(text) + "+nhwc+f16");
    REQUIRE(operands_in_tensor(of.problem));
    for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
      for (const std::uint32_t places : {0u, 48u, 176u}) {
        PlanOptions options = implicit_gemm(launch);
        options.tiling.places_per_group = places;
        if (places != 0) options.tiling.cols_per_group = static_cast<std::uint32_t>(of.problem.q());
        CAPTURE(text, places, static_cast<int>(launch));
        CHECK(of.gives(of.device.run(Plan::create(of.problem, options))));
      }
    }
  }
}

TEST_CASE("cuda: implicit GEMM in place refuses tensors that are not aligned to octets") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  const Plan plan = Plan::create(parse_problem("n1c8h8k8+nhwc+f16"), implicit_gemm());
  const DeviceBuffer x(4096), w(4096), y(4096), workspace(plan.workspace_bytes());
  Tensors tensors;
  tensors.x = x.get(), tensors.w = w.get(), tensors.y = y.get();
  tensors.x = static_cast<const char*>(tensors.x) + 2;
  CHECK_THROWS_WITH(plan.execute(tensors, workspace.get(), workspace.bytes()),
                    ContainsSubstring("x: its address is 2 bytes past a multiple of 16"));
  const Plan adds = Plan::create(parse_problem("n1c8h8k8+nhwc+f16+residual"), implicit_gemm());
  tensors.x = x.get();
  tensors.residual = static_cast<const char*>(w.get()) + 2;
  CHECK_THROWS_WITH(adds.execute(tensors, workspace.get(), workspace.bytes()),
                    ContainsSubstring("residual: its address is 2 bytes past a multiple of 16"));
}

TEST_CASE("cuda: a residual of implicit GEMM in place is exact on integers, and may be y itself",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text : kResidualShapes) {
    IntegerLayer<Float16> of(std::string(text) + "+nhwc+f16");
    for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
      for (const std::uint32_t places : {0u, 32u, 96u}) {
        PlanOptions options = implicit_gemm(launch);
        options.tiling.places_per_group = places;
        const Plan plan = Plan::create(of.problem, options);
        CAPTURE(text, places, static_cast<int>(launch));
        CHECK(of.gives(of.device.run(plan)));
        CHECK(of.gives(of.device.run_in_place(plan)));
      }
    }
  }
  for (const char* text : kResidualShapes) {
    IntegerLayer of(std::string(text) + "+nhwc");
    for (const Operands operands : ways_of_floats(of.problem)) {
      for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
        for (const std::uint32_t places : {32u, 96u, 240u}) {
          const Plan plan = in_place(of.problem, operands, launch, places);
          CAPTURE(text, static_cast<int>(operands), places, static_cast<int>(launch));
          CHECK(of.gives(of.device.run(plan)));
          CHECK(of.gives(of.device.run_in_place(plan)));
        }
      }
    }
  }
}

TEST_CASE("cuda: implicit GEMM of floats in place errs by what rounding them costs") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  std::map<Operands, int> layers;
  const auto check = [&](const std::string& text, std::uint32_t places) {
    for (const Operands operands : ways_of_floats(parse_problem(text + "+nhwc"))) {
      CAPTURE(static_cast<int>(operands));
      ++layers[operands];
      check_launches(text + "+nhwc", 2 * 0x1p-11,
                     [=](const ConvProblem& problem, CudaLaunch launch) {
                       return in_place(problem, operands, launch, places);
                     });
    }
  };
  for (const char* text : kOddShapes) check(text, 96);
  for (const char* text : kOctetShapes) check(text, 256);
  check("n9c64h28k128", 1024);
  check("n3c136h57w56k65+bias+relu", 640);
  check("n2c44h30w120k64", 960);
  for (const Operands operands :
       {Operands::in_copy, Operands::converted, Operands::in_float_tensor}) {
    CAPTURE(static_cast<int>(operands));
    CHECK(layers[operands] >= 20);
  }
}

TEST_CASE("cuda: implicit GEMM of floats in place is exact on integers, with prepared filters, too",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text :
       {"n3c20h13w9k37+bias+relu+nhwc", "n2c70h17w130k140+nhwc", "n2c68h17w130k140+nhwc",
        "n1c36h6w300k72+nhwc", "n3c100h11w14k250+relu+nhwc", "n3c260h13w12k72+bias+nhwc",
        "n3c68h33w61k140u2+bias+nhwc"}) {
    IntegerLayer of(text);
    REQUIRE_FALSE(ways_of_floats(of.problem).empty());
    for (const Operands operands : ways_of_floats(of.problem)) {
      for (const std::uint32_t places : {32u, 96u, 160u, 288u, 512u}) {
        for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
          const std::vector<float> y =
              of.device.run(in_place(of.problem, operands, launch, places));
          CAPTURE(text, static_cast<int>(operands), places, static_cast<int>(launch));
          CHECK(of.gives(y));
        }
      }
      const std::vector<float> y = of.device.run_prepared(
          in_place(of.problem, operands, CudaLaunch::staged, 96, FilterMode::prepared));
      CAPTURE(text, static_cast<int>(operands));
      CHECK(of.gives(y));
    }
  }
}

// Conv groups of 4 to 128 channels, as many groups at once as have whole tiles of 64 filters; more
// channels than filters, and fewer; K blocks that are not full.
TEST_CASE("cuda: implicit GEMM multiplies conv groups in place, exactly on integers",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text :
       {"n3c128h13w9k128g32+bias+relu", "n2c256h14k256g16u2", "n2c64h17w30k128g2+residual",
        "n1c384h9k384g3r1p0", "n3c96h12k192g12d2+bias", "n5c32h7k64g8", "n2c256h14k128g4r5"}) {
    const auto check = [&](auto of, Operands operands, const CudaLaunch launch) {
      for (const std::uint32_t places : {32u, 96u, 256u}) {
        CAPTURE(text, to_string(operands), places, static_cast<int>(launch));
        const Plan plan = in_place(of.problem, operands, launch, places);
        CHECK(of.gives(of.device.run(plan)));
        const Plan prepared = in_place(of.problem, operands, launch, places, FilterMode::prepared);
        CHECK(of.gives(of.device.run_prepared(prepared)));
      }
    };
    for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
      check(IntegerLayer<Float16>(std::string(text) + "+nhwc+f16"), Operands::in_tensor, launch);
      check(IntegerLayer(std::string(text) + "+nhwc"), Operands::in_float_tensor, launch);
    }
  }
}

// Few taps of many channels: stages of input are fewer than taps that are pending.
TEST_CASE("cuda: implicit GEMM in place multiplies filters of one tap and of two") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text : {"n12c200h14k64r1p0", "n12c104h14k64r1s2p0", "n12c104h14k64r2s1p0",
                           "n12c104h27k64r1p0u2", "n12c72h28k64u2", "n4c72h29w55k72r2u1x3"}) {
    IntegerLayer of(std::string(text) + "+nhwc");
    IntegerLayer<Float16> numbers(std::string(text) + "+nhwc+f16");
    REQUIRE(ways_of_floats(of.problem).size() >= 3);
    for (const std::uint32_t places : {64u, 320u, 448u, 512u, 1024u}) {
      CAPTURE(text, places);
      for (const Operands operands : ways_of_floats(of.problem)) {
        CAPTURE(static_cast<int>(operands));
        CHECK(of.gives(of.device.run(in_place(of.problem, operands, CudaLaunch::staged, places))));
      }
      PlanOptions options = implicit_gemm(CudaLaunch::staged);
      options.tiling.places_per_group = places;
      CHECK(numbers.gives(numbers.device.run(Plan::create(numbers.problem, options))));
    }
  }
}

TEST_CASE("cuda: implicit GEMM in place is exact on integers with tiles of any width") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  IntegerLayer of("n3c24h13w11k72+bias+nhwc");
  IntegerLayer<Float16> numbers("n3c24h13w11k72+bias+nhwc+f16");
  REQUIRE(ways_of_floats(of.problem).size() >= 3);
  for (std::int32_t places = 32; places <= 512; places += tile_step_in_place(places + 1)) {
    CAPTURE(places);
    const auto group = static_cast<std::uint32_t>(places);
    for (const Operands operands : ways_of_floats(of.problem)) {
      CAPTURE(static_cast<int>(operands));
      CHECK(of.gives(of.device.run(in_place(of.problem, operands, CudaLaunch::staged, group))));
    }
    PlanOptions options = implicit_gemm(CudaLaunch::staged);
    options.tiling.places_per_group = group;
    options.tiling.cols_per_group = 11;
    CHECK(numbers.gives(numbers.device.run(Plan::create(numbers.problem, options))));
  }
}

TEST_CASE("cuda: implicit GEMM of images abreast is exact on integers", "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  std::map<Operands, int> runs;
  for (const char* text : {"n5c36h7w6k72+bias+relu", "n7c20h5k37r5", "n4c40h9w11k136d2",
                           "n3c24h8w9k64r2s4p1", "n9c72h14k64r1p0"}) {
    IntegerLayer of(std::string(text) + "+nhwc");
    IntegerLayer<Float16> numbers(std::string(text) + "+nhwc+f16");
    for (const std::int64_t images : {2, 3, 5}) {
      const std::int64_t cols = images * of.problem.q();
      if (cols > of.problem.n * of.problem.q()) continue;
      const Stripes stripes = make_stripes(of.problem, static_cast<std::int32_t>(cols));
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{3}, of.problem.p()}) {
        const auto places = static_cast<std::uint32_t>(rows * stripes.row());
        const auto have_tiles = [&](Operands operands) {
          return tile_places_in_place(places, stripes, operands, of.problem.c) > 0;
        };
        for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
          CAPTURE(text, images, places, static_cast<int>(launch));
          for (const Operands operands : {Operands::in_copy, Operands::in_float_tensor}) {
            if (!have_tiles(operands)) continue;
            const std::vector<float> y = of.device.run(
                in_place(of.problem, operands, launch, places, FilterMode::every_run, cols));
            CAPTURE(static_cast<int>(operands));
            CHECK(of.gives(y));
            ++runs[operands];
          }
          if (!operands_in_tensor(numbers.problem) || !have_tiles(Operands::in_tensor)) continue;
          PlanOptions options = implicit_gemm(launch);
          options.tiling.cols_per_group = static_cast<std::uint32_t>(cols);
          options.tiling.places_per_group = places;
          CHECK(numbers.gives(numbers.device.run(Plan::create(numbers.problem, options))));
          ++runs[Operands::in_tensor];
        }
      }
    }
  }
  for (const Operands operands :
       {Operands::in_copy, Operands::in_float_tensor, Operands::in_tensor}) {
    CAPTURE(static_cast<int>(operands));
    CHECK(runs[operands] >= 10);
  }
}

// Columns of a box that divide a stripe evenly, and one; a last stripe of fewer columns; one block
// of filters, two that convert for each other, and three.
TEST_CASE("cuda: implicit GEMM that converts floats is exact on integers in stripes of columns",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text :
       {"n3c20h13w9k37+bias+relu+nhwc", "n2c68h17w130k140+nhwc", "n1c36h6w300k72+nhwc",
        "n2c8h9w41k40r2s4p1+nhwc", "n1c16h20w64k64r5p0+nhwc", "n2c12h11w50k24r3d4p2+nhwc",
        "n2c72h9w61k100+bias+nhwc"}) {
    IntegerLayer of(text);
    for (const std::int64_t stripes : {2, 3, 7}) {
      for (const std::uint32_t places : {64u, 160u, 256u}) {
        const Plan plan = in_place(of.problem, Operands::converted, CudaLaunch::staged, places,
                                   FilterMode::every_run, (of.problem.q() + stripes - 1) / stripes);
        CAPTURE(text, stripes, places);
        CHECK(of.gives(of.device.run(plan)));
      }
    }
  }
}

TEST_CASE("cuda: implicit GEMM of floats in place stores outputs that are aligned to floats alone",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  const IntegerLayer of("n2c24h9w31k72+bias+nhwc");
  REQUIRE(ways_of_floats(of.problem).size() >= 3);
  for (const Operands operands : ways_of_floats(of.problem)) {
    const Plan plan = in_place(of.problem, operands, CudaLaunch::staged, 96);
    CAPTURE(static_cast<int>(operands));
    check_one_past(of, plan);
  }
}

TEST_CASE("cuda: implicit GEMM refuses floats to bring that are aligned to floats alone") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const Operands operands : {Operands::converted, Operands::in_float_tensor}) {
    const Plan plan = in_place(parse_problem("n1c8h8k8+nhwc"), operands, CudaLaunch::staged, 96);
    const DeviceBuffer x(4096), w(4096), y(4096), workspace(plan.workspace_bytes());
    Tensors tensors;
    tensors.x = static_cast<const float*>(x.get()) + 1, tensors.w = w.get(), tensors.y = y.get();
    CHECK_THROWS_WITH(plan.execute(tensors, workspace.get(), workspace.bytes()),
                      ContainsSubstring("x: its address is 4 bytes past a multiple of 16"));
  }
}

TEST_CASE("cuda: implicit GEMM of floats in place is as accurate at any magnitude, and keeps NaN") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const Operands operands : {Operands::in_copy, Operands::converted, Operands::in_float_tensor,
                                  Operands::converted_tall, Operands::split_tall}) {
    CAPTURE(static_cast<int>(operands));
    const bool is_tall = are_tall(operands);
    const double most_l2 = operands == Operands::split_tall ? 5e-7 : 2 * 0x1p-11;
    const std::string shape = is_tall ? "n2c72h21w18k140u2" : "n2c72h21w18k140";
    for (const int exponent : {-100, -60, -20, -10, -6, 0, 5, 7, 8, 9, 10, 40, 90}) {
      check_magnitude(shape + "+nhwc", exponent, most_l2,
                      [operands](const ConvProblem& problem, CudaLaunch launch) {
                        return in_place(problem, operands, launch, 96);
                      });
    }
    for (const int exponent : {-20, 0, 10, 40}) {
      check_magnitude(shape + "+residual+nhwc", exponent, most_l2,
                      [operands](const ConvProblem& problem, CudaLaunch launch) {
                        return in_place(problem, operands, launch, 96);
                      });
    }
    Layer layer(parse_problem(is_tall ? "n1c32h40k64r1p0+nhwc" : "n1c32h40k64+nhwc"), false);
    const std::size_t reach = is_tall ? 0 : 1;
    layer.x[(20 * 40 + 20) * 32 + 5] = std::numeric_limits<float>::quiet_NaN();
    DeviceLayer device(layer);
    const std::vector<float> y =
        device.run(in_place(layer.problem, operands, CudaLaunch::staged, 96));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = i / 64 / 40, col = i / 64 % 40;
      const bool touched =
          row + reach >= 20 && row <= 20 + reach && col + reach >= 20 && col <= 20 + reach;
      CHECK(std::isfinite(y[i]) == !touched);
    }
  }
}

// In stages each block looks at its own pixels.
TEST_CASE("cuda: implicit GEMM that converts in registers suits images of any magnitudes at once") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  constexpr std::array kExponents{0, 20, -20, 0};
  Layer layer(parse_problem("n4c72h32k140r1p0+nhwc"), false);
  const std::size_t x_of_image = layer.x.size() / kExponents.size();
  for (std::size_t i = 0; i < layer.x.size(); ++i) {
    layer.x[i] = std::ldexp(layer.x[i], kExponents[i / x_of_image]);
  }
  const std::vector<double> truth = layer.reference();
  DeviceLayer device(layer);
  for (const auto& [operands, most] :
       {std::pair{Operands::converted_tall, 2 * 0x1p-11}, std::pair{Operands::split_tall, 5e-7}}) {
    const Plan plan = in_place(layer.problem, operands, CudaLaunch::staged, 128);
    for (int run = 0; run < 3; ++run) {  // the first one leaves its scales for the others
      const std::vector<float> y = device.run(plan);
      const std::size_t y_of_image = y.size() / kExponents.size();
      for (std::size_t image = 0; image < kExponents.size(); ++image) {
        double error = 0, all = 0;
        for (std::size_t i = image * y_of_image; i < (image + 1) * y_of_image; ++i) {
          error += (y[i] - truth[i]) * (y[i] - truth[i]), all += truth[i] * truth[i];
        }
        CAPTURE(to_string(operands), run, image);
        CHECK(std::sqrt(error / all) < most);
      }
    }
  }
}
