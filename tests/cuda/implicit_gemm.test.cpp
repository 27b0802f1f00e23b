// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on the device: in every layout and launch, and of x that threads load.
#include "tests/cuda/implicit_gemm.hpp"

#include <limits>
#include <set>
#include <string>
#include <vector>

using namespace megaconv;
using namespace megaconv::test;

TEST_CASE("cuda: implicit GEMM multiplies tensors of 16 bits as they are") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  // Products are exact; y is rounded, and the sums to a hundredth of that.
  check_odd_shapes<Float16>(Precision::f32, 1.01 * 0x1p-11, "+f16");
  check_odd_shapes<Bfloat16>(Precision::f32, 1.01 * 0x1p-8, "+bf16");
  const auto check = [](const std::string& text) {
    check_launches<Float16>(text + "+nhwc+f16", Precision::f32, 1.01 * 0x1p-11);
    check_launches<Bfloat16>(text + "+nhwc+bf16", Precision::f32, 1.01 * 0x1p-8);
  };
  for (const char* text : kOctetShapes) check(text);
  for (const char* text : kResidualShapes) check(text);
}

TEST_CASE("cuda: implicit GEMM at the precision of TF32 errs by what rounding x and w costs") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  check_odd_shapes(Precision::tf32, 2 * 0x1p-11);
}

TEST_CASE("cuda: implicit GEMM is FP32-accurate on odd shapes, in every layout and launch") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  check_odd_shapes(Precision::f32, kFp32Error);
}

// The guess suits 2^-6 to 2^8 (tasks/cuda/scale_guess.cuh); all else is computed again.
TEST_CASE("cuda: implicit GEMM is as accurate at any magnitude of x and w") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const int exponent : {-100, -60, -20, -7, -6, -5, -4, 0, 5, 6, 7, 8, 9, 10, 40, 90}) {
    check_magnitude("n2c70h21w18k140", exponent, kFp32Error,
                    [](const ConvProblem& problem, CudaLaunch launch) {
                      return Plan::create(problem, implicit_gemm(launch));
                    });
  }
  for (const int exponent : {-20, 0, 10, 40}) {
    check_magnitude("n2c72h21w18k140+residual+nhwc", exponent, kFp32Error,
                    [](const ConvProblem& problem, CudaLaunch launch) {
                      return Plan::create(problem, implicit_gemm(launch));
                    });
  }
}

TEST_CASE("cuda: in implicit GEMM an infinity or a NaN reaches the outputs above it, no others") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Layer layer(parse_problem("n1c32h40k64"), false);
    layer.x[5 * 40 * 40 + 20 * 40 + 20] = value;  // channel 5, row 20, column 20
    const std::vector<double> truth = layer.reference();
    DeviceLayer device(layer);
    const std::vector<float> y = device.run(Plan::create(layer.problem, implicit_gemm()));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = i / 40 % 40, col = i % 40;
      const bool touched = row >= 19 && row <= 21 && col >= 19 && col <= 21;
      if (touched) CHECK_FALSE(std::isfinite(y[i]));
      if (!touched) CHECK(std::abs(y[i] - truth[i]) < 1e-3);
    }
  }
}

TEST_CASE("cuda: implicit GEMM is exact on integers, with any grid and with prepared filters",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text : {"n3c20h13w9k37+bias+relu+residual", "n2c70h17w22k140+nhwc",
                           "n3c70h33w22k140u2+nhwc+residual", "n2c36h31k70r1p0u2+nchw"}) {
    IntegerLayer of(text);
    for (const std::uint32_t blocks : {1u, 2u, 7u, 0u}) {
      PlanOptions options = implicit_gemm();
      options.num_blocks = blocks;
      options.tiling.places_per_group = blocks == 2 ? 100 : 0;
      const std::vector<float> y = of.device.run(Plan::create(of.problem, options));
      CAPTURE(text, blocks);
      CHECK(of.gives(y));
    }
    PlanOptions options = implicit_gemm();
    options.tiling.filters = FilterMode::prepared;
    const std::vector<float> y = of.device.run_prepared(Plan::create(of.problem, options));
    CHECK(of.gives(y));
  }
}

// A stem, patches, a step that is no square, a last step of filters that are cut off.
const char* const kStems[] = {"n3c3h61w58k40r7u2+bias+relu", "n2c3h64k72r8p0u8+residual",
                              "n5c5h17w30k136r3s4p1x3u1x2", "n2c15h30w23k64r5p3u3x2+bias",
                              "n1c1h40k8u2"};

template <class T>
void check_stems(const char* dtype, Precision precision = Precision::f32) {
  for (const char* text : kStems) {
    IntegerLayer<T> of(std::string(text) + "+nhwc" + dtype);
    for (const CudaLaunch launch : kLaunches) {
      for (const std::uint32_t places : {0u, 32u, 192u}) {
        PlanOptions options = implicit_gemm(launch);
        options.tiling.precision = precision;
        options.tiling.places_per_group = places;
        options.num_blocks = places == 192 && launch == CudaLaunch::persistent ? 2 : 0;
        const Plan plan = Plan::create(of.problem, options);
        CAPTURE(plan.describe(), static_cast<int>(launch));
        REQUIRE(plan.lowering().tiling().input_tasks > 0);
        CHECK(of.gives(of.device.run(plan)));
        options.tiling.filters = FilterMode::prepared;
        CHECK(of.gives(of.device.run_prepared(Plan::create(of.problem, options))));
      }
    }
  }
}

TEST_CASE("cuda: few channels from space to depth are exact on integers, in every launch",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  check_stems<float>("");
  check_stems<float>("", Precision::tf32);
  check_stems<Float16>("+f16");
  check_stems<Bfloat16>("+bf16");
}

// Groups of one tile and of two, in every width that is compiled; the last group ends amid a tile.
TEST_CASE("cuda: implicit GEMM is exact on integers with tiles of any width", "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text : {"n3c24h13w11k70+nchw", "n3c24h13w11k70+nhwc", "n3c22h13w11k70+nhwc",
                           "n3c24h13w11k40+nchw", "n4c40h19w9k64r2s2p0+nhwc+relu",
                           "n4c42h19w9k64r2s2p0+nhwc+relu", "n4c40h39w18k64u2+nchw"}) {
    IntegerLayer of(text);
    for (const Precision precision : {Precision::f32, Precision::tf32}) {
      // Then x may be converted, in tiles of other widths.
      if (precision == Precision::tf32 && floats_can_be_brought(of.problem)) continue;
      PlanOptions options = implicit_gemm(CudaLaunch::staged);
      options.tiling.precision = precision;
      options.tiling.cols_per_group = 5;  // copies of x, which other tasks multiply, are whole
      std::set<std::uint32_t> widths;
      for (std::uint32_t places = 64; places <= 512; places += places < 256 ? 8 : 32) {
        options.tiling.places_per_group = places;
        const Plan plan = Plan::create(of.problem, options);
        const Tiling& tiling = plan.lowering().tiling();
        widths.insert(
            implicit_gemm_tile(std::get<ImplicitGemmCut>(tiling.cut).filter_blocks_per_gemm_task,
                               places, tiling.arithmetic)
                .places);
        const std::vector<float> y = of.device.run(plan);
        CAPTURE(text, places, static_cast<int>(precision), plan.describe());
        CHECK(of.gives(y));
      }
      CAPTURE(text, static_cast<int>(precision));
      const std::size_t of_one_product = of.problem.k > 64 ? 5 : 3;
      CHECK(widths.size() == (precision == Precision::f32 ? 9 : of_one_product));
    }
  }
}
