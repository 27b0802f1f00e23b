// SPDX-License-Identifier: Apache-2.0
// Error budgets: what is chosen within them, what is refused, and that results keep to them.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "megaconv/tuning.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/lower.hpp"
#include "tasks/reference.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/network_run.hpp"
#include "tests/runtime/whole_networks.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

const ConvProblem kLayer = parse_problem("n2c64h32k64");
const Target kCpu{.workers = 2};
const Target kTensorCores{.backend = Backend::cuda,
                          .workers = 264,
                          .cache_bytes_per_worker = 100'000,
                          .split_f16 = true,
                          .multiprocessors = 132};

TilingOptions within(double max_error) { return {.max_error = max_error}; }

double bound_of(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  return error_bound(make_tiling(problem, options, target)).relative_l2;
}

template <class Call>
std::string refusal_of(Call&& call, Status status) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.status() == status);
    return error.what();
  }
  return "";
}

// The number behind "must be at least".
double named_least(const std::string& refusal) {
  const std::string before = "must be at least ";
  const std::size_t at = refusal.find(before);
  REQUIRE(at != std::string::npos);
  return std::stod(refusal.substr(at + before.size()));
}

}  // namespace

TEST_CASE("a budget just below the bound of one algorithm takes the next") {
  const double f4 = bound_of(kLayer, {}, kCpu);
  const Tiling unbounded = make_tiling(kLayer, {}, kCpu);
  REQUIRE(unbounded.tiles() != nullptr);
  REQUIRE(unbounded.tiles()->m == 4);
  CHECK(make_tiling(kLayer, within(f4), kCpu) == unbounded);
  const Tiling below = make_tiling(kLayer, within(f4 * 0.999), kCpu);
  REQUIRE(below.tiles() != nullptr);
  CHECK(below.tiles()->m == 2);
  // Where Winograd is not possible there are direct sums alone, and F(2x2) errs less than these.
  const ConvProblem strided = parse_problem("n2c64h32k64u2");
  CHECK(make_tiling(strided, within(1e-5), kCpu).algorithm() == Algorithm::direct);
  const ConvProblem few_channels = parse_problem("n2c8h32k64");
  const double direct = bound_of(few_channels, {}, kCpu);
  CHECK(make_tiling(few_channels, within(direct), kCpu).algorithm() == Algorithm::direct);
  const Tiling better = make_tiling(few_channels, within(direct * 0.999), kCpu);
  REQUIRE(better.tiles() != nullptr);
  CHECK(better.tiles()->m == 2);
}

TEST_CASE("what is fixed stays fixed, and a budget decides about the rest") {
  TilingOptions options = within(1e-5);
  options.algorithm = Algorithm::direct;
  CHECK(make_tiling(kLayer, options, kCpu).algorithm() == Algorithm::direct);
  options.algorithm = Algorithm::winograd;
  options.m = 6;
  const double f6 = bound_of(kLayer, {.algorithm = Algorithm::winograd, .m = 6}, kCpu);
  options.max_error = f6;
  CHECK(make_tiling(kLayer, options, kCpu).tiles()->m == 6);
  options.max_error = f6 * 0.999;
  const std::string refusal =
      refusal_of([&] { make_tiling(kLayer, options, kCpu); }, Status::unsupported);
  CHECK_THAT(refusal, ContainsSubstring("the bound of winograd F(6x6, 3x3)"));
  options.m = 0;
  CHECK(make_tiling(kLayer, options, kCpu).tiles()->m == 4);
}

TEST_CASE("on tensor cores a budget chooses products, then algorithms, then tiles") {
  const ConvProblem layer = parse_problem("n64c128h28k128");
  const auto within_bound_of = [&](const TilingOptions& options, double share) {
    const Tiling tiling =
        make_tiling(layer, within(share * bound_of(layer, options, kTensorCores)), kTensorCores);
    return algorithm_of(tiling).name(tiling);
  };
  const TilingOptions f16{.precision = Precision::f16}, f32;
  CHECK(within_bound_of(f16, 1) == "implicit GEMM, f16");
  CHECK(within_bound_of(f16, 0.999) == "implicit GEMM, split f16");
  CHECK(within_bound_of(f32, 1) == "implicit GEMM, split f16");
  CHECK(within_bound_of(f32, 0.999) == "winograd F(2x2, 3x3), split f16");

  TilingOptions winograd{.algorithm = Algorithm::winograd, .m = 4};
  winograd.max_error = bound_of(layer, winograd, kTensorCores);
  winograd.m = 0;
  CHECK(make_tiling(layer, winograd, kTensorCores).tiles()->m == 4);
  *winograd.max_error *= 0.999;
  CHECK(make_tiling(layer, winograd, kTensorCores).tiles()->m == 2);
}

TEST_CASE("three products have a bound above what an H100 erred by, and below multiply-adds'") {
  const auto bound = [](const char* problem, std::uint32_t m, Arithmetic arithmetic) {
    return bound_of(parse_problem(problem),
                    {.algorithm = Algorithm::winograd, .m = m, .arithmetic = arithmetic},
                    kTensorCores);
  };
  struct Measured {
    const char* problem;
    std::uint32_t m;
    double error;
  };
  for (const auto& [problem, m, error] :
       {Measured{"n1c512h7k512", 2, 1.95e-7}, Measured{"n1c1280h32k640", 2, 2.37e-7},
        Measured{"n1c1920h32k640", 2, 2.65e-7}, Measured{"n64c256h56k256", 4, 5.01e-7},
        Measured{"n64c512h28k512", 4, 5.46e-7}}) {
    CAPTURE(problem, m);
    const double split = bound(problem, m, Arithmetic::split_f16);
    CHECK(split > error);
    CHECK(split < bound(problem, m, Arithmetic::fma));
  }
}

TEST_CASE("a budget that nothing meets is refused with the least error, which is then enough") {
  for (const char* const text : {"n2c64h32k64", "n2c64h32k64u2", "n1c7h9k5", "n2c64h32k64+f16",
                                 "n2c64h32k64+bf16", "n1c512h7k512r1s1p0"}) {
    for (const Target& target : {kCpu, kTensorCores}) {
      const ConvProblem problem = parse_problem(text);
      CAPTURE(text, static_cast<int>(target.backend));
      const std::string refusal =
          refusal_of([&] { make_tiling(problem, within(1e-9), target); }, Status::unsupported);
      CHECK_THAT(refusal, ContainsSubstring("max_error = 1e-09: must be at least ") &&
                              ContainsSubstring(", the bound of ") &&
                              ContainsSubstring(", the least error that is possible"));
      const double least = named_least(refusal);
      CHECK_NOTHROW(make_tiling(problem, within(least), target));
      CHECK_THROWS_AS(make_tiling(problem, within(least * 0.9), target), Error);
    }
  }
}

TEST_CASE("exact sums are within every budget") {
  CHECK_NOTHROW(make_tiling(parse_problem("n2c64h32k64+i8"), within(1e-300), kCpu));
}

TEST_CASE("a budget is a number greater than 0, and stands in the place of a precision") {
  for (const double wrong : {0.0, -1e-6, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    CAPTURE(wrong);
    const auto check = [&](auto&& call) {
      CHECK_THAT(refusal_of(call, Status::invalid_argument),
                 ContainsSubstring("max_error = ") &&
                     ContainsSubstring(": must be a number greater than 0"));
    };
    PlanOptions options;
    options.tiling = within(wrong);
    check([&] { make_tiling(kLayer, options.tiling, kCpu); });
    check([&] { Plan::create(kLayer, options); });
    check([&] { Plan::create(chain(Layout::nhwc, PoolMode::max), options); });
    check([&] { Plan::create(lower(kLayer, {}, {}, kCpu), options); });
  }
  TilingOptions both = within(1e-3);
  both.precision = Precision::tf32;
  CHECK(refusal_of([&] { make_tiling(kLayer, both, kCpu); }, Status::invalid_argument) ==
        "precision tf32: must be left out with max_error, within which it is chosen");
}

TEST_CASE("describe names the bound, and what was rejected for the budget") {
  PlanOptions options{.source = PlanSource::heuristic};
  options.tiling = within(1e-6);
  const std::string text = Plan::create(kLayer, options).describe();
  CHECK_THAT(text,
             ContainsSubstring("\nerror: at most 8.") &&
                 ContainsSubstring(", within max_error = 1e-06\n") &&
                 ContainsSubstring("\nrejected: fused winograd F(4x4, 3x3): error 2.") &&
                 ContainsSubstring("\nrejected: direct: max_error = 1e-06: must be at least"));
}

TEST_CASE("a lowering of the caller's own is held to the budget") {
  const Lowering lowering = lower(kLayer, {.algorithm = Algorithm::winograd, .m = 4}, {}, kCpu);
  const double f4 = error_bound(lowering.tiling()).relative_l2;
  PlanOptions options;
  options.tiling = within(f4);
  CHECK_NOTHROW(Plan::create(lowering, options));
  options.tiling = within(f4 * 0.999);
  CHECK_THAT(refusal_of([&] { Plan::create(lowering, options); }, Status::unsupported),
             ContainsSubstring("the bound of winograd F(4x4, 3x3)"));
}

TEST_CASE("random problems err no more than their budgets") {
  constexpr std::uint64_t kSeed = 20;
  std::mt19937_64 random(kSeed);
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  int planned = 0, refused = 0;
  for (int i = 0; i < 120; ++i) {
    ConvProblem a;
    a.n = number(1, 2), a.c = number(1, 40), a.k = number(1, 40);
    a.h = number(5, 20), a.w = number(5, 20);
    a.r = a.s = number(0, 2) != 0 ? 3 : 5;
    a.pad_h = a.pad_w = number(0, 1);
    a.stride_h = a.stride_w = number(0, 3) != 0 ? 1 : 2;
    a.dtype =
        std::vector{DataType::f32, DataType::f16,
                    DataType::bf16}[static_cast<std::size_t>(number(0, 5) < 4 ? 0 : number(1, 2))];
    a.layout = number(0, 1) != 0 ? Layout::nhwc : Layout::nchw;
    PlanOptions options{.source = PlanSource::heuristic, .num_threads = 2};
    // 1e-7 to 1e-2
    options.tiling = within(std::pow(10.0, -7 + 5 * static_cast<double>(number(0, 1000)) / 1000));
    CAPTURE(kSeed, i, to_string(a), *options.tiling.max_error);
    try {
      const Plan plan = Plan::create(a, options);
      ++planned;
      const auto stored = [&](std::int64_t size, std::uint64_t seed) {
        std::vector<std::byte> bytes(static_cast<std::size_t>(size) * size_of(a.dtype));
        fill(a.dtype, bytes.data(), size, {Filling::Kind::normal}, seed);
        return bytes;
      };
      const auto x = stored(a.x_size(), 2 * static_cast<std::uint64_t>(i));
      const auto w = stored(a.w_size(), 2 * static_cast<std::uint64_t>(i) + 1);
      const Memory y(static_cast<std::size_t>(a.y_size()) * size_of(a.dtype));
      const Memory workspace(plan.workspace_bytes());
      const Tensors tensors{.x = x.data(), .w = w.data(), .y = y.get()};
      std::vector<double> truth(static_cast<std::size_t>(a.y_size())), magnitude(truth.size());
      reference_convolution(a, tensors, truth.data(), magnitude.data());
      plan.execute(tensors, workspace.get(), workspace.bytes);
      const ErrorReport found =
          compare(plan.lowering().tiling(), y.get(), truth.data(), magnitude.data());
      CHECK(found.relative_l2 <= *options.tiling.max_error);
    } catch (const Error& error) {
      ++refused;
      REQUIRE(error.status() == Status::unsupported);
      for (const ConvAlgorithm* const algorithm : conv_algorithms()) {
        if (!algorithm->runs_on(Backend::cpu)) continue;
        try {
          const double bound = bound_of(a, {.algorithm = algorithm->id(), .m = 2}, kCpu);
          CHECK(bound > *options.tiling.max_error);
        } catch (const Error&) {  // not for this problem
        }
      }
    }
  }
  CHECK(planned >= 40);
  CHECK(refused >= 10);
}

TEST_CASE("a candidate outside the budget is rejected, and F(6x6) is one within") {
  const auto space = [](double max_error) {
    PlanOptions plan;
    plan.tiling = within(max_error);
    return make_space(kLayer, kCpu, {.plan = plan, .axes = {}});
  };
  const Configuration f6 = parse_configuration("algo=winograd,tile=6");
  const Configuration f4 = parse_configuration("algo=winograd,tile=4");
  const Configuration f2 = parse_configuration("algo=winograd,tile=2");
  const Space wide = space(1e-4), narrow = space(1e-6);
  const auto rule = [](const Space& in, const Configuration& configuration) {
    const std::optional<Rejection> rejection = in.rejection(configuration);
    return rejection ? rejection->rule : std::string();
  };
  CHECK(rule(wide, f6) == "");
  CHECK(rule(wide, f4) == "");
  CHECK(rule(narrow, f6) == "max-error");
  CHECK(rule(narrow, f4) == "max-error");
  CHECK(rule(narrow, f2) == "");
  CHECK_THAT(narrow.rejection(f4)->reason, ContainsSubstring("the bound of winograd F(4x4, 3x3)"));
}

TEST_CASE("each convolution of a network is within the budget, or its operator is named") {
  const Network network = chain(Layout::nhwc, PoolMode::max);
  for (const Target& target : {kCpu, kTensorCores}) {
    const auto errors = [&](const TilingOptions& options) {
      std::vector<double> found;
      for (const Node& node : lower(network, options, {}, target).nodes) {
        if (const auto* tiling = std::get_if<Tiling>(&node.cut)) {
          found.push_back(error_bound(*tiling).relative_l2);
        }
        if (const auto* small = std::get_if<SmallGemmCut>(&node.cut)) {
          found.push_back(error_bound(tiling_of_error(*small)).relative_l2);
        }
      }
      return found;
    };
    const std::string refusal = refusal_of([&] { errors(within(1e-9)); }, Status::unsupported);
    // On a CPU the first that is refused; on CUDA the one that errs most, for all are alike there.
    const std::string name = target.backend == Backend::cpu ? "conv1" : "conv2";
    CHECK_THAT(refusal, ContainsSubstring(name + ": max_error = 1e-09: must be at least "));
    for (const double budget : {1e-2, 1e-5, 2e-6}) {
      CAPTURE(static_cast<int>(target.backend), budget);
      const std::vector<double> found = errors(within(budget));
      CHECK(found.size() == 2);
      for (const double error : found) CHECK(error <= budget);
    }
  }
  const auto precision = [&](double budget) {
    return std::get<SmallGemmCut>(lower(network, within(budget), {}, kTensorCores).nodes[0].cut)
        .precision;
  };
  CHECK(precision(1e-2) == Precision::tf32);
  CHECK(precision(1e-5) == Precision::f32);
}
