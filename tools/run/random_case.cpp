// SPDX-License-Identifier: Apache-2.0
// Where the cases of `verify` come from, and how they get simpler.
#include <algorithm>
#include <functional>

#include "megaconv/error.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tools/run/dice.hpp"
#include "tools/run/verify_case.hpp"

namespace megaconv::cli {
namespace {

bool valid(const ConvProblem& problem) {
  try {
    validate(problem);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// `integer`: of those that leave whole numbers exact.
Activation random_activation(Dice& dice, bool integer) {
  if (!dice.chance(50)) return {};
  if (!integer && dice.chance(50)) {
    return dice.one_of({kSigmoid, hard_sigmoid(0.2f, 0.5f), kSilu, kHardSwish, kGelu, kGeluTanh});
  }
  return dice.one_of({kRelu, kRelu, clamp(0, 6), clamp(-9, 20), leaky_relu(0.25f)});
}

ConvProblem random_problem(Dice& dice, const VerifyLimits& limits, bool for_winograd,
                           bool integer) {
  ConvProblem p;
  p.n = dice.between(1, limits.batch);
  p.c = dice.between(1, limits.channels);
  p.k = dice.between(1, limits.channels);
  p.h = dice.between(1, limits.extent);
  p.w = dice.between(1, limits.extent);
  if (!for_winograd) {
    p.r = dice.between(1, limits.filter);
    p.s = dice.chance(70) ? p.r : dice.between(1, limits.filter);
    p.stride_h = dice.between(1, 3);
    p.stride_w = dice.chance(70) ? p.stride_h : dice.between(1, 3);
    p.dilation_h = dice.between(1, 2);
    p.dilation_w = dice.chance(70) ? p.dilation_h : dice.between(1, 3);
    if (dice.chance(30)) p.groups = p.k = p.c;  // depthwise
    if (dice.chance(30)) {
      p.groups = dice.between(1, 4);
      p.c = std::max<std::int64_t>(1, p.c / p.groups) * p.groups;
      p.k = std::max<std::int64_t>(1, p.k / p.groups) * p.groups;
    }
  }
  p.pad_h = dice.between(0, p.filter_extent_h());
  p.pad_w = dice.chance(50) ? std::min(p.pad_h, p.filter_extent_w())
                            : dice.between(0, p.filter_extent_w());
  p.layout = dice.one_of({Layout::nchw, Layout::nhwc});
  p.epilogue = {.scale = dice.chance(20),
                .bias = dice.chance(50),
                .residual = dice.chance(40),
                .activation = random_activation(dice, integer)};
  return p;
}

void random_plan(Dice& dice, PlanArguments& plan, const VerifyLimits& limits, bool for_winograd,
                 bool integer) {
  TilingOptions& tiling = plan.options.tiling;
  if (for_winograd) {
    tiling.algorithm = dice.one_of({Algorithm::winograd, Algorithm::winograd, Algorithm::winograd,
                                    Algorithm::fused_winograd, Algorithm::automatic});
    tiling.m = integer ? dice.one_of<std::uint32_t>({2, 4})
                       : dice.one_of<std::uint32_t>({0, 2, 4, kWideTile, 6});
    tiling.points = integer ? Points::integer : dice.one_of({Points::low_error, Points::integer});
    // Pairs of FP16 numbers hold 22 bits: whole numbers are exact only in part of their range.
    if (integer) tiling.arithmetic = Arithmetic::fma;
    if (dice.chance(60)) tiling.group_tiles = dice.small(40);
    if (dice.chance(25)) tiling.whole_tensors = true;
    if (!tiling.whole_tensors && dice.chance(40)) {
      tiling.v_slots = dice.small(8);
      tiling.m_slots = dice.small(8);
    }
  } else {
    tiling.algorithm = dice.one_of({Algorithm::automatic, Algorithm::direct});
    if (integer) tiling.points = Points::integer;
  }
  tiling.filters = dice.one_of({FilterMode::every_run, FilterMode::prepared});
  MappingOptions& mapping = plan.options.mapping;
  mapping.policy = dice.one_of(
      {"interleaved", "blended", "staged", "depth_first", "critical_path", "random_topological"});
  if (mapping.policy == "interleaved" || mapping.policy == "blended") {
    if (dice.chance(60)) mapping.dig = dice.small(60) - 1;
    if (dice.chance(60)) mapping.dgo = dice.small(60) - 1;
    if (dice.chance(60)) mapping.m_groups = dice.small(6);
  }
  plan.options.num_threads = dice.small(limits.threads);
}

/// Makes a problem one whose tensors TMA can load.
void take_in_place(ConvProblem& p) {
  constexpr std::int64_t kOctet = 8;
  p.layout = Layout::nhwc;
  p.groups = 1;
  p.c = ceil_div(p.c, kOctet) * kOctet;
  p.k = ceil_div(p.k, kOctet) * kOctet;
  p.epilogue.residual = false;
}

/// Makes a case one of small tiles.
void take_small_tiles(Dice& dice, VerifyCase& item) {
  ConvProblem& p = item.problem;
  PlanOptions& options = item.plan.options;
  p.layout = Layout::nhwc;
  p.epilogue.scale = false;
  p.dtype = dice.one_of({DataType::f32, DataType::f32, DataType::f16, DataType::bf16});
  options.tiling = {.algorithm = Algorithm::small_gemm, .filters = FilterMode::prepared};
  if (!item.integer) options.tiling.precision = dice.one_of({Precision::f32, Precision::tf32});
  if (dice.chance(30)) {
    options.tiling.rows_per_group = 1;
    options.tiling.cols_per_group =
        static_cast<std::uint32_t>(dice.between(1, std::min<std::int64_t>(p.q(), 8)));
  }
  options.mapping = {};
  options.num_blocks = 0;
  options.cuda_launch = dice.one_of({CudaLaunch::automatic, CudaLaunch::staged});
}

/// Gives a case what only CUDA has: openCNN's kernel, launches, grids.
void random_cuda_plan(Dice& dice, VerifyCase& item, const VerifyLimits& limits, bool for_winograd) {
  PlanOptions& options = item.plan.options;
  options.backend = Backend::cuda;
  options.num_threads = 0;
  if (options.tiling.algorithm == Algorithm::fused_winograd) {
    options.tiling.algorithm = Algorithm::winograd;
  }
  if (for_winograd && dice.chance(30)) {
    options.tiling = {.algorithm = Algorithm::opencnn, .filters = options.tiling.filters};
    options.tiling.output_layout =
        dice.one_of({OutputLayout::baseline, OutputLayout::optSTS64, OutputLayout::optSTS64_compact,
                     OutputLayout::optLDS64});
    if (dice.chance(40)) item.problem.layout = Layout::chwn;
  }
  if (dice.chance(40)) options.tiling.arithmetic = Arithmetic::fma;
  if (!for_winograd && dice.chance(40)) {
    item.problem.dtype = dice.one_of({DataType::f16, DataType::bf16});
  }
  if (limits.tensor_cores && implicit_gemm_obstacle(item.problem).empty() && dice.chance(30)) {
    options.tiling = {.algorithm = Algorithm::implicit_gemm, .filters = options.tiling.filters};
    item.problem.dtype = dice.one_of({DataType::f32, DataType::f32, DataType::f16, DataType::bf16});
    options.tiling.precision = dice.one_of({Precision::f32, Precision::tf32});
    if (item.problem.layout == Layout::chwn) item.problem.layout = Layout::nhwc;
    const bool floats = item.problem.dtype == DataType::f32;
    if (dice.chance(floats ? 40 : 60)) take_in_place(item.problem);
    if (floats_can_be_brought(item.problem) && dice.chance(40)) {
      options.tiling.arithmetic = Arithmetic::tf32;
    }
  }
  // V and U of whole numbers are not exact in the 11 bits of FP16.
  const bool rounds =
      limits.tensor_cores && !item.integer && options.tiling.algorithm == Algorithm::winograd;
  if (rounds && dice.chance(40)) {
    item.problem.dtype = dice.one_of({DataType::f32, DataType::f16, DataType::bf16});
    options.tiling.m = dice.one_of<std::uint32_t>({0, 4});
    options.tiling.points = Points::low_error;
    options.tiling.arithmetic = dice.one_of({Arithmetic::automatic, Arithmetic::f16});
    options.tiling.precision = Precision::tf32;
  }
  if (dice.chance(30)) options.num_blocks = dice.small(300);
  options.cuda_launch = dice.one_of({CudaLaunch::automatic, CudaLaunch::persistent,
                                     CudaLaunch::one_block_per_task, CudaLaunch::staged});
  if (options.cuda_launch == CudaLaunch::staged) {
    options.tiling.v_slots = options.tiling.m_slots = 0;  // it needs whole tensors
  }
  if (limits.tensor_cores && dice.chance(15)) take_small_tiles(dice, item);
}

/// A change, and nothing when it changed nothing.
using Simplification = std::function<void(VerifyCase&)>;

std::vector<Simplification> simplifications() {
  std::vector<Simplification> all;
  const auto shorten = [&](std::int64_t ConvProblem::*extent, std::int64_t least) {
    all.push_back(
        [=](VerifyCase& c) { c.problem.*extent = std::max(c.problem.*extent / 2, least); });
    all.push_back(
        [=](VerifyCase& c) { c.problem.*extent = std::max(c.problem.*extent - 1, least); });
  };
  all.push_back([](VerifyCase& c) { c.problem.groups = 1; });
  for (auto extent : {&ConvProblem::n, &ConvProblem::c, &ConvProblem::k, &ConvProblem::h,
                      &ConvProblem::w, &ConvProblem::r, &ConvProblem::s}) {
    shorten(extent, 1);
  }
  all.push_back([](VerifyCase& c) {  // groups and channels together
    c.problem.c /= std::exchange(c.problem.groups, 1);
  });
  all.push_back([](VerifyCase& c) { c.problem.stride_h = c.problem.stride_w = 1; });
  for (auto step : {&ConvProblem::stride_h, &ConvProblem::stride_w, &ConvProblem::dilation_h,
                    &ConvProblem::dilation_w}) {
    all.push_back([=](VerifyCase& c) {  // fused tasks want both alike
      if (c.plan.options.tiling.algorithm != Algorithm::fused_winograd) c.problem.*step = 1;
    });
  }
  for (auto pad : {&ConvProblem::pad_h, &ConvProblem::pad_w}) shorten(pad, 0);
  for (auto part : {&Epilogue::scale, &Epilogue::bias, &Epilogue::residual}) {
    all.push_back([=](VerifyCase& c) { c.problem.epilogue.*part = false; });
  }
  all.push_back([](VerifyCase& c) { c.problem.epilogue.activation = {}; });
  all.push_back([](VerifyCase& c) { c.problem.layout = Layout::nchw; });
  all.push_back([](VerifyCase& c) { c.problem.dtype = DataType::f32; });
  all.push_back([](VerifyCase& c) { c.plan.options.num_threads = 1; });
  all.push_back([](VerifyCase& c) { c.plan.options.tiling.arithmetic = Arithmetic::fma; });
  all.push_back([](VerifyCase& c) { c.plan.options.num_blocks = 0; });
  all.push_back([](VerifyCase& c) { c.plan.options.cuda_launch = CudaLaunch::persistent; });
  all.push_back(
      [](VerifyCase& c) { c.plan.options.tiling.output_layout = TilingOptions{}.output_layout; });
  all.push_back([](VerifyCase& c) { c.plan.options.mapping = {.policy = "staged"}; });
  all.push_back(
      [](VerifyCase& c) { c.plan.options.mapping = {.policy = c.plan.options.mapping.policy}; });
  all.push_back([](VerifyCase& c) {
    c.plan.options.tiling.v_slots = c.plan.options.tiling.m_slots = 0;
    c.plan.options.tiling.whole_tensors = true;
  });
  all.push_back([](VerifyCase& c) { c.plan.options.tiling.group_tiles = 0; });
  all.push_back([](VerifyCase& c) { c.plan.options.tiling.filters = FilterMode::every_run; });
  return all;
}

bool same(const VerifyCase& a, const VerifyCase& b) { return to_command(a) == to_command(b); }

}  // namespace

VerifyCase random_case(std::uint64_t seed, const VerifyLimits& limits, bool integer,
                       Backend backend, std::optional<DataType> dtype) {
  Dice dice(seed);
  VerifyCase item;
  item.plan.options.source = PlanSource::heuristic;  // a case must not depend on the machine
  item.integer = integer;
  item.plan.seed = seed;
  const bool for_winograd = dice.chance(50);
  do {
    item.problem = random_problem(dice, limits, for_winograd, integer);
  } while (!valid(item.problem));
  random_plan(dice, item.plan, limits, for_winograd, integer);
  if (backend == Backend::cuda) {
    if (item.plan.options.tiling.m > 4) item.plan.options.tiling.m = 4;
    random_cuda_plan(dice, item, limits, for_winograd);
  } else {
    item.problem.dtype = dice.one_of({DataType::f32, DataType::f32, DataType::f16, DataType::bf16});
    item.problem.epilogue.scale = dice.chance(30);
    if (dice.chance(20)) item.problem.dtype = DataType::i8;
  }
  if (dtype) item.problem.dtype = *dtype;
  if (backend == Backend::cpu && dice.chance(30)) {
    ConvProblem blocked = item.problem;
    blocked.layout = Layout::nchw16c;
    if (valid(blocked)) item.problem = blocked;
  }
  if (item.problem.dtype == DataType::i8) {
    if (!valid(item.problem)) item.problem.epilogue.activation = kRelu;  // of those that are exact
    item.plan.options.tiling = {.algorithm = dice.one_of({Algorithm::automatic, Algorithm::direct}),
                                .filters = item.plan.options.tiling.filters};
  }
  TilingOptions& tiling = item.plan.options.tiling;
  if (tiling.algorithm == Algorithm::fused_winograd && dice.chance(50)) {
    ConvProblem strided = item.problem;
    strided.stride_h = strided.stride_w = 2;
    if (valid(strided)) item.problem = strided, tiling.m = dice.one_of<std::uint32_t>({2, 4});
  }
  return item;
}

std::vector<VerifyCase> simpler_cases(const VerifyCase& item) {
  static const std::vector<Simplification> all = simplifications();
  std::vector<VerifyCase> simpler;
  for (const Simplification& simplify : all) {
    VerifyCase changed = item;
    simplify(changed);
    if (valid(changed.problem) && !same(changed, item)) simpler.push_back(std::move(changed));
  }
  return simpler;
}

VerifyCase shrink(VerifyCase item, const std::function<bool(const VerifyCase&)>& fails) {
  for (;;) {
    const std::vector<VerifyCase> simpler = simpler_cases(item);
    const auto failing = std::find_if(simpler.begin(), simpler.end(), fails);
    if (failing == simpler.end()) return item;
    item = *failing;
  }
}

}  // namespace megaconv::cli
