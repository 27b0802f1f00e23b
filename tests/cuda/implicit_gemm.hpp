// SPDX-License-Identifier: Apache-2.0
// Layers by implicit GEMM on the device: what its tests share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tests/cuda/layer.hpp"

namespace megaconv::test {

inline PlanOptions implicit_gemm(CudaLaunch launch = CudaLaunch::persistent) {
  PlanOptions options;
  options.backend = Backend::cuda;
  options.tiling.algorithm = Algorithm::implicit_gemm;
  options.cuda_launch = launch;
  return options;
}

inline constexpr CudaLaunch kLaunches[] = {CudaLaunch::persistent, CudaLaunch::one_block_per_task,
                                           CudaLaunch::staged};

// The least relative L2 error of FP32 multiply-adds in F(4x4, 3x3), at 64 channels
// (docs/performance.md): what FP32-accurate means here.
inline constexpr double kFp32Error = 6e-7;

inline constexpr const char* kOddShapes[] = {
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
inline constexpr const char* kOctetShapes[] = {
    "n1c8h1w1k8",           "n3c24h13w9k40+bias+relu", "n2c40h7k136",        "n9c64h28k128+bias",
    "n1c72h9w130k128+relu", "n1c8h5w300k64",           "n2c24h9k24r1p0",     "n2c16h20k16r5+bias",
    "n1c16h40w35k24d2",     "n1c8h12w14k16r2s4p1",     "n70c16h3k16",        "n1c520h7k264+bias",
    "n2c16h6w5k64p0",       "n40c32h14k192",           "n3c128h57w56k64",    "n1c16h20w21k200r3s5",
    "n2c8h9w140k72r5d3",    "n5c72h27w26k136u2+relu",  "n8c64h56k128r1p0u2", "n3c16h41w30k24r5u3x2",
    "n2c24h64w61k40r8p0u8", "n40c40h15k64u2+bias"};

// The same with a residual: images abreast, shared channels, several tiles of a task.
inline constexpr const char* kResidualShapes[] = {
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
inline std::vector<Operands> ways_of_floats(const ConvProblem& problem) {
  if (!operands_can_be_copied(problem) || !implicit_gemm_obstacle(problem).empty()) return {};
  if (has_space_to_depth(problem)) return {Operands::in_float_tensor};
  if (!floats_can_be_brought(problem)) return {Operands::in_copy};
  std::vector<Operands> ways{Operands::in_copy, Operands::converted, Operands::in_float_tensor};
  if (operands_in_wide_tiles(problem)) {
    ways.push_back(Operands::in_float_tensor_wide);
    ways.push_back(Operands::converted_tall);
    ways.push_back(Operands::split_tall);
  }
  return ways;
}

// A plan with this load path, in stripes of so many columns or of all, which the
// heuristic might not take.
inline Plan in_place(const ConvProblem& problem, Operands operands, CudaLaunch launch,
                     std::uint32_t places_per_group, FilterMode filters = FilterMode::every_run,
                     std::int64_t cols = 0, std::uint32_t filter_blocks = 0) {
  PlanOptions options = implicit_gemm(launch);
  options.tiling.precision = Precision::tf32;
  options.tiling.filters = filters;
  Tiling tiling = Plan::create(problem, options).lowering().tiling();
  tiling.arithmetic = have_floats(operands)              ? Arithmetic::tf32
                      : operands == Operands::split_tall ? Arithmetic::split_f16
                                                         : Arithmetic::f16;
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

inline bool is_stored(float y, double exact) { return y == exact; }
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

}  // namespace megaconv::test
