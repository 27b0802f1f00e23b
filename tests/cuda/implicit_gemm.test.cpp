// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on tensor cores, against double.
#include "tasks/implicit_gemm/implicit_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tests/cuda/layer.hpp"

using namespace megaconv;
using megaconv::test::DeviceBuffer;
using megaconv::test::DeviceLayer;
using megaconv::test::Layer;
using megaconv::test::uses_wgmma;

namespace {

PlanOptions implicit_gemm(CudaLaunch launch = CudaLaunch::persistent) {
  PlanOptions options;
  options.backend = Backend::cuda;
  options.tiling.algorithm = Algorithm::implicit_gemm;
  options.cuda_launch = launch;
  return options;
}

const CudaLaunch kLaunches[] = {CudaLaunch::persistent, CudaLaunch::one_block_per_task,
                                CudaLaunch::staged};

// The least relative L2 error of FP32 multiply-adds in F(4x4, 3x3), at 64 channels
// (docs/performance.md): what FP32-accurate means here.
constexpr double kFp32Error = 6e-7;

const char* const kOddShapes[] = {
    "n1c1h1w1k1",           "n2c3h5w7k2",         "n3c20h13w9k37+bias+relu",
    "n2c64h28k64+residual", "n1c130h9w31k129",    "n5c40h8k200+bias",
    "n2c17h6w5k65p0",       "n1c33h10k48p2+relu", "n1c8h70w200k24",
    "n2c24h9k31r1p0",       "n2c16h20k16r5+bias", "n1c9h40w35k20d2",
    "n1c5h12w14k9r2s4p1",   "n70c16h3k16",        "n1c512h7k256+bias+residual+relu",
    "n3c20h13w9k37u2+bias", "n1c40h15k48r1p0u2",  "n1c24h23w31k16r5p3u3x2d2+residual",
    "n2c3h37w40k24r7u2",    "n2c16h40k20r9p0u9",  "n3c5h16w14k136r3s4p1x3u1x2",
    "n2c4h32k70r4p0u4"};

// Whole octets of channels and filters, which 16-bit tensors in NHWC are multiplied in place with:
// tiles of 64 and 128 filters, partly filled K blocks, filters that reach too far to be taken
// whole, gaps of all sizes, several tiles of a task.
const char* const kOctetShapes[] = {
    "n1c8h1w1k8",           "n3c24h13w9k40+bias+relu", "n2c40h7k136",        "n9c64h28k128+bias",
    "n1c72h9w130k128+relu", "n1c8h5w300k64",           "n2c24h9k24r1p0",     "n2c16h20k16r5+bias",
    "n1c16h40w35k24d2",     "n1c8h12w14k16r2s4p1",     "n70c16h3k16",        "n1c520h7k264+bias",
    "n2c16h6w5k64p0",       "n40c32h14k192",           "n3c128h57w56k64",    "n1c16h20w21k200r3s5",
    "n2c8h9w140k72r5d3",    "n5c72h27w26k136u2+relu",  "n8c64h56k128r1p0u2", "n3c16h41w30k24r5u3x2",
    "n2c24h64w61k40r8p0u8", "n40c40h15k64u2+bias"};

// The same with a residual: images abreast, shared channels, several tiles of a task.
const char* const kResidualShapes[] = {
    "n3c24h13w9k40+residual", "n2c64h28k256r1p0+bias+relu+residual",
    "n1c520h7k264+residual",  "n70c16h3k16+residual",
    "n1c8h5w300k64+residual", "n3c128h57w56k64+relu+residual",
    "n2c40h7k136+residual",   "n40c40h15k64u2+bias+residual"};

// One layer against double, in every launch, whose plan plan_of(problem, launch) is; those of one
// tiling all give the same bits.
template <class T = float, class PlanOf>
void check_launches(const std::string& text, double most_l2, PlanOf&& plan_of) {
  const Layer layer(parse_problem(text), false);
  std::vector<double> magnitude;
  const std::vector<double> truth = layer.reference(&magnitude);
  DeviceLayer<T> device(layer);
  std::vector<T> first;
  Tiling of_first;
  for (const CudaLaunch launch : kLaunches) {
    const Plan plan = plan_of(layer.problem, launch);
    const Tiling& tiling = plan.lowering().tiling();
    const std::vector<T> y = device.run(plan);
    const ErrorReport report = compare(tiling, y.data(), truth.data(), magnitude.data());
    CAPTURE(text, to_string(tiling), static_cast<int>(launch), to_string(report));
    CHECK(report.relative_l2 <= most_l2);
    CHECK(error_bound(tiling).covers(report));
    if (first.empty()) first = y, of_first = tiling;
    if (tiling == of_first) {
      CHECK(std::memcmp(y.data(), first.data(), y.size() * sizeof(T)) == 0);
    }
  }
}
template <class T = float>
void check_launches(const std::string& text, Precision precision, double most_l2) {
  check_launches<T>(text, most_l2, [precision](const ConvProblem& problem, CudaLaunch launch) {
    PlanOptions options = implicit_gemm(launch);
    options.tiling.precision = precision;
    return Plan::create(problem, options);
  });
}

// One layer with x 2^exponent times as large, and w by half of that smaller, in every launch.
template <class PlanOf>
void check_magnitude(const std::string& text, int exponent, double most_l2, PlanOf&& plan_of) {
  Layer layer(parse_problem(text), false);
  for (float& value : layer.x) value = std::ldexp(value, exponent);
  for (float& value : layer.w) value = std::ldexp(value, -exponent / 2);
  std::vector<double> magnitude;
  const std::vector<double> truth = layer.reference(&magnitude);
  DeviceLayer device(layer);
  for (const CudaLaunch launch : kLaunches) {
    const Plan plan = plan_of(layer.problem, launch);
    const std::vector<float> y = device.run(plan);
    const ErrorReport report =
        compare(plan.lowering().tiling(), y.data(), truth.data(), magnitude.data());
    CAPTURE(exponent, static_cast<int>(launch), to_string(report));
    CHECK(report.relative_l2 < most_l2);
    // What is computed again adds the residual that was there before, not what was made of it.
    if (layer.problem.epilogue.residual) CHECK(device.run_in_place(plan) == y);
  }
}

// The load paths in place that a layer of floats has.
std::vector<Operands> ways_of_floats(const ConvProblem& problem) {
  if (!operands_can_be_copied(problem) || !implicit_gemm_obstacle(problem).empty()) return {};
  if (has_space_to_depth(problem)) return {Operands::in_float_tensor};
  if (!floats_can_be_brought(problem)) return {Operands::in_copy};
  std::vector<Operands> ways{Operands::in_copy, Operands::converted, Operands::in_float_tensor};
  if (operands_in_wide_tiles(problem)) {
    ways.push_back(Operands::in_float_tensor_wide);
    ways.push_back(Operands::converted_tall);
  }
  return ways;
}

// A plan with this load path, in stripes of so many columns or of all, which the
// heuristic might not take.
Plan in_place(const ConvProblem& problem, Operands operands, CudaLaunch launch,
              std::uint32_t places_per_group, FilterMode filters = FilterMode::every_run,
              std::int64_t cols = 0, std::uint32_t filter_blocks = 0) {
  PlanOptions options = implicit_gemm(launch);
  options.tiling.precision = Precision::tf32;
  options.tiling.filters = filters;
  Tiling tiling = Plan::create(problem, options).lowering().tiling();
  tiling.arithmetic = have_floats(operands) ? Arithmetic::tf32 : Arithmetic::f16;
  const std::uint32_t copied = operands == Operands::in_copy ? kMostBlocksOfInputTask : 0;
  tiling.cut = ImplicitGemmCut{
      .operands = operands,
      .cols_per_group = static_cast<std::uint32_t>(cols != 0 ? cols : problem.q()),
      .places_per_group = places_per_group,
      .channel_blocks_per_input_task = copied,
      .filter_blocks_per_gemm_task =
          filter_blocks != 0 ? filter_blocks
                             : std::min(filter_blocks_of_tile(operands), tiling.filter_blocks())};
  derive_counts(tiling);
  Lowering lowering = cut(tiling);
  lowering.mapping = make_mapping(lowering.graph, {.policy = "staged"});
  return Plan::create(std::move(lowering), options);
}

bool is_stored(float y, double exact) { return y == exact; }
template <class T>
bool is_stored(T y, double exact) {
  return to_float(y) == to_float(from_float<T>(static_cast<float>(exact)));
}

// A layer of integers, whose outputs are exact but for the rounding to their type.
template <class T = float>
struct IntegerLayer {
  explicit IntegerLayer(const std::string& text) : layer(parse_problem(text), true) {}
  bool gives(const std::vector<T>& y) const {
    return std::equal(y.begin(), y.end(), truth.begin(),
                      [](T stored, double exact) { return is_stored(stored, exact); });
  }
  const Layer layer;
  const ConvProblem& problem = layer.problem;
  const std::vector<double> truth = layer.reference();
  DeviceLayer<T> device{layer};
};

// With y one number past where device memory begins. What lies beside it keeps its poison.
template <class T>
void check_one_past(const IntegerLayer<T>& of, const Plan& plan) {
  const DeviceBuffer y((of.truth.size() + 2) * sizeof(T)), workspace(plan.workspace_bytes());
  Tensors tensors = of.device.tensors();
  tensors.y = static_cast<T*>(y.get()) + 1;
  plan.execute(tensors, workspace.get(), workspace.bytes());
  plan.wait(workspace.get());
  const std::vector<T> stored = y.download<T>();
  CHECK(of.gives({stored.begin() + 1, stored.end() - 1}));
  CHECK(std::isnan(to_float(stored.front())));
  CHECK(std::isnan(to_float(stored.back())));
  CHECK(y.guards_intact());
  CHECK(workspace.guards_intact());
}

// In NCHW and NHWC.
template <class T = float>
void check_odd_shapes(Precision precision, double most_l2, const char* dtype = "") {
  for (const char* text : kOddShapes) {
    for (const char* layout : {"+nchw", "+nhwc"}) {
      check_launches<T>(std::string(text) + layout + dtype, precision, most_l2);
    }
  }
}

}  // namespace

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

TEST_CASE("cuda: implicit GEMM at the precision of TF32 errs by what rounding x and w costs") {
  if (!uses_wgmma()) SKIP("no device of compute capability 9.0, or not its wgmma");
  check_odd_shapes(Precision::tf32, 2 * 0x1p-11);
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
                                  Operands::converted_tall}) {
    CAPTURE(static_cast<int>(operands));
    const bool is_tall = are_tall(operands);
    const std::string shape = is_tall ? "n2c72h21w18k140u2" : "n2c72h21w18k140";
    for (const int exponent : {-100, -60, -20, -10, -6, 0, 5, 7, 8, 9, 10, 40, 90}) {
      check_magnitude(shape + "+nhwc", exponent, 2 * 0x1p-11,
                      [operands](const ConvProblem& problem, CudaLaunch launch) {
                        return in_place(problem, operands, launch, 96);
                      });
    }
    for (const int exponent : {-20, 0, 10, 40}) {
      check_magnitude(shape + "+residual+nhwc", exponent, 2 * 0x1p-11,
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
  const Plan plan = in_place(layer.problem, Operands::converted_tall, CudaLaunch::staged, 128);
  for (int run = 0; run < 3; ++run) {  // the first one leaves its scales for the others
    const std::vector<float> y = device.run(plan);
    const std::size_t y_of_image = y.size() / kExponents.size();
    for (std::size_t image = 0; image < kExponents.size(); ++image) {
      double error = 0, all = 0;
      for (std::size_t i = image * y_of_image; i < (image + 1) * y_of_image; ++i) {
        error += (y[i] - truth[i]) * (y[i] - truth[i]), all += truth[i] * truth[i];
      }
      CAPTURE(run, image);
      CHECK(std::sqrt(error / all) < 2 * 0x1p-11);
    }
  }
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
