// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on the device, in wide and in tall tiles.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/implicit_gemm.hpp"

using namespace megaconv;
using namespace megaconv::test;

TEST_CASE("cuda: implicit GEMM in wide tiles is exact on integers, with a residual, too",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* text :
       {"n3c24h13w9k136r1p0+bias+relu", "n2c520h14k264r1p0", "n3c136h13w9k328u2+relu+residual",
        "n2c64h28k256r1p0+bias+relu+residual", "n40c72h7k1000r1p0u2+residual",
        "n2c40h9w141k136r3s1p1x0+bias+residual"}) {
    IntegerLayer<Float16> of(std::string(text) + "+nhwc+f16");
    for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
      for (const std::uint32_t places : {0u, 32u, 96u, 176u, 240u}) {
        PlanOptions options = implicit_gemm(launch);
        options.tiling.filter_blocks_per_gemm_task =
            filter_blocks_of_tile(Operands::in_tensor_wide);
        options.tiling.places_per_group = places;
        options.num_blocks = places == 96 ? 2 : 0;
        const Plan plan = Plan::create(of.problem, options);
        const auto& cut = std::get<ImplicitGemmCut>(plan.lowering().tiling().cut);
        REQUIRE(cut.operands == Operands::in_tensor_wide);
        CAPTURE(text, places, static_cast<int>(launch));
        CHECK(of.gives(of.device.run(plan)));
        if (of.problem.epilogue.residual) CHECK(of.gives(of.device.run_in_place(plan)));
      }
    }
    IntegerLayer floats(std::string(text) + "+nhwc");
    if (!operands_in_wide_tiles(floats.problem)) continue;  // taps of a column share their inputs
    for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
      for (const std::uint32_t places : {32u, 96u, 176u, 192u, 240u}) {
        CAPTURE(text, places, static_cast<int>(launch));
        const Plan plan = in_place(floats.problem, Operands::in_float_tensor_wide, launch, places);
        CHECK(floats.gives(floats.device.run(plan)));
        if (floats.problem.epilogue.residual) CHECK(floats.gives(floats.device.run_in_place(plan)));
      }
    }
  }
}

// Filters that leave the last tile with a few, K blocks and groups that are not full, several tiles
// of a task, several tasks of a block with a rest, blocks that load x for each other.
template <class T>
void check_tall_tiles(const std::string& text, Operands operands) {
  IntegerLayer<T> of(text);
  for (const std::uint32_t blocks : {1u, 2u, 3u, 5u, 8u, 9u, 11u, 12u, 13u, 16u}) {
    const std::uint32_t all = static_cast<std::uint32_t>(ceil_div(of.problem.k, std::int64_t{16}));
    if (blocks > std::min(filter_blocks_of_tile(operands), all)) continue;
    for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
      for (const std::uint32_t places : {48u, 128u, 384u}) {
        CAPTURE(text, blocks, places, static_cast<int>(launch));
        if (places > 256 && of.problem.n * of.problem.p() * of.problem.q() <= 256) continue;
        const Plan plan =
            in_place(of.problem, operands, launch, places, FilterMode::every_run, 0, blocks);
        CHECK(of.gives(of.device.run(plan)));
        if (of.problem.epilogue.residual) CHECK(of.gives(of.device.run_in_place(plan)));
      }
    }
  }
}

TEST_CASE("cuda: implicit GEMM in tall tiles is exact on integers, with a residual, too",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* shape :
       {"n3c24h13w9k136r1p0+bias+relu", "n2c520h14k264r1p0", "n3c136h13w9k328u2+relu+residual",
        "n2c64h28k256r1p0+bias+relu+residual", "n40c72h7k1000r1p0u2+residual",
        "n2c1000h19k8r1p0+bias"}) {
    const std::string text = std::string(shape) + "+nhwc";
    check_tall_tiles<Float16>(text + "+f16", Operands::in_tensor_tall);
    check_tall_tiles<float>(text, Operands::in_float_tensor_tall);
    check_tall_tiles<float>(text, Operands::converted_tall);
    check_tall_tiles<float>(text, Operands::split_tall);
  }
}

// Of 16 bits: pixels of any number of filters begin amid words. So do those of an even one, where y
// does.
TEST_CASE("cuda: implicit GEMM in tall tiles stores outputs that begin amid a word",
          "[sanitizer]") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  for (const char* shape : {"n3c24h13w9k137r1p0+bias", "n2c64h19k255r1p0+bias+relu",
                            "n2c72h14k33r1p0", "n1c64h11k266r1p0+clamp:-2.5:7"}) {
    const std::string text = std::string(shape) + "+nhwc+f16";
    check_tall_tiles<Float16>(text, Operands::in_tensor_tall);
    const IntegerLayer<Float16> of(text);
    const Plan plan = in_place(of.problem, Operands::in_tensor_tall, CudaLaunch::staged, 128,
                               FilterMode::every_run, 0, 2);
    CAPTURE(text);
    check_one_past(of, plan);
  }
}

// Alone they are in the persistent launch. What one block reads while the other overwrites it would
// be another number now and then.
TEST_CASE("cuda: blocks of a cluster that load x for each other give the bits of blocks alone") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  constexpr int kRuns = 50;
  const Layer layer(parse_problem("n30c472h31w29k488r1p0+nhwc+f16"), false);
  DeviceLayer<Float16> device(layer);
  for (const auto& [operands, blocks] :
       {std::pair{Operands::in_tensor_wide, 8u}, std::pair{Operands::in_tensor_tall, 8u},
        std::pair{Operands::in_tensor_tall, 16u}}) {
    for (const std::uint32_t places : {128u, 640u}) {
      CAPTURE(to_string(operands), blocks, places);
      const auto plan_of = [&, operands = operands, blocks = blocks](CudaLaunch launch) {
        return in_place(layer.problem, operands, launch, places, FilterMode::every_run, 0, blocks);
      };
      const Plan alone = plan_of(CudaLaunch::persistent), plan = plan_of(CudaLaunch::staged);
      REQUIRE(cluster_blocks(plan.lowering().tiling()) == 2);
      const std::vector<Float16> y = device.run(alone);
      for (int i = 0; i < kRuns; ++i) {
        const std::vector<Float16> together = device.run(plan);
        REQUIRE(std::memcmp(together.data(), y.data(), y.size() * sizeof(Float16)) == 0);
      }
    }
  }
}
