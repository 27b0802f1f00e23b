// SPDX-License-Identifier: Apache-2.0
// Which problems a verb works on, and how.
#include <CLI/CLI.hpp>
#include <map>

#include "tasks/implicit_gemm/stripes.hpp"
#include "tests/catch.hpp"
#include "tests/tools/scratch_folder.hpp"
#include "tools/run/random_layers.hpp"
#include "tools/run/trial.hpp"
#include "tools/run/verify_case.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

struct Parsed {
  ProblemArguments problem;
  PlanArguments plan;
};

Parsed parse(const std::string& command_line) {
  Parsed parsed;
  CLI::App app;
  add_problem_options(app, parsed.problem, Selection::many);
  add_plan_options(app, parsed.plan);
  app.parse(command_line);
  return parsed;
}

std::vector<NamedProblem> selected(const std::string& command_line) {
  return select_problems(parse(command_line).problem);
}

std::string error_of(const std::string& command_line) {
  try {
    selected(command_line);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("Problems come in the order given, with the options' batch, layout and epilogue") {
  const auto problems =
      selected("n2c3h4k5 --network vgg16 --batch 7 --layout nhwc --epilogue bias,relu");
  REQUIRE(problems.size() == 6);
  CHECK(problems[0].problem == parse_problem("n7c3h4k5+nhwc+bias+relu"));
  CHECK(problems[1].name == "vgg_1");
  CHECK(problems[5].problem == parse_problem("n7c512h14k512+nhwc+bias+relu"));
  CHECK(selected("c1h1k1+nhwc").front().problem.layout == Layout::nhwc);
  CHECK(selected("c1h1k1+bias --epilogue none").front().problem.epilogue == Epilogue{});
  CHECK(selected("c1h1k1 --dtype i8 --epilogue scale").front().problem ==
        parse_problem("c1h1k1+i8+scale"));
  CHECK(selected("c1h1k1+f16 --dtype bf16").front().problem.dtype == DataType::bf16);
}

TEST_CASE("Random layers are those of their seed, and like those of networks") {
  const std::vector<NamedProblem> layers = random_layers(2000, 7);
  REQUIRE(layers.size() == 2000);
  const std::vector<NamedProblem> again = random_layers(100, 7), other = random_layers(100, 8);
  int same = 0, of_one_tap = 0, of_3x3 = 0, strided = 0, depthwise = 0, square = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const ConvProblem& p = layers[i].problem;
    if (i < again.size()) CHECK(p == again[i].problem);
    if (i < other.size()) same += p == other[i].problem;
    CHECK_NOTHROW(validate(p));
    CHECK((p.n <= 128 && p.h >= 7 && p.h <= 512 && p.w >= 7 && p.w <= 512));
    CHECK((p.c >= 3 && p.c <= 1536 && p.k >= 3 && p.k <= 1536));
    CHECK((p.x_size() <= 1 << 27 && p.y_size() <= 1 << 27));
    of_one_tap += p.r * p.s == 1;
    of_3x3 += p.r == 3 && p.s == 3 && p.stride_h == 1 && p.dilation_h == 1 && p.groups == 1;
    strided += p.stride_h > 1;
    depthwise += p.depthwise();
    square += p.h == p.w;
  }
  CHECK(same < 5);
  // Shares of 51, 31, 5 and 4 % of 2,000, but for what is too large to be borne; six deviations.
  CHECK(std::abs(of_one_tap - 1020) < 200);
  CHECK(std::abs(of_3x3 - 620) < 200);
  CHECK(std::abs(strided - 105) < 65);
  CHECK(std::abs(depthwise - 83) < 65);
  CHECK(std::abs(square - 1340) < 130);
  CHECK(random_layers(0, 7).empty());
}

TEST_CASE("Every network names its layers; the suite has all of them with its own batch sizes") {
  CHECK(selected("--network resnet50").size() == 4);
  CHECK(selected("--network yolov3").back().problem == parse_problem("n4c512h13k1024"));
  CHECK(selected("--network densenet161").front().problem == parse_problem("n4c192h56k48"));
  const auto suite = selected("--suite");
  CHECK(suite.size() == 33);
  CHECK(suite.front().problem == parse_problem("n64c64h56k64"));
  CHECK(suite.back().problem == parse_problem("n1c512h7k512"));
}

TEST_CASE("A file of layers may have comments, empty lines and both forms of a line") {
  const auto layers = parse_layers(
      "# name,N,C,H,W,K : 3x3, stride 1, padding 1\n"
      "a, 2,3,4,5,6\r\n"
      "\n"
      "b,n1c8h9k10r5s5u2  # a comment\n",
      "mine.csv");
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name == "a");
  CHECK(layers[0].problem == parse_problem("n2c3h4w5k6"));
  CHECK(layers[1].problem == parse_problem("n1c8h9k10r5u2"));
}

TEST_CASE("A wrong line of a file of layers is named") {
  const auto error = [](const char* csv) -> std::string {
    try {
      parse_layers(csv, "mine.csv");
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  CHECK_THAT(error("a,1,2,3,4,5\nb,1,2,3\n"), ContainsSubstring("mine.csv:2: 4 fields"));
  CHECK_THAT(error("a,1,2,x,4,5"), ContainsSubstring("mine.csv:1: \"x\" is not a number"));
  CHECK_THAT(error("a,1,0,3,4,5"), ContainsSubstring("mine.csv:1: c = 0"));
  CHECK_THAT(error("a,1,2,3,4,99999999999999999999"), ContainsSubstring("mine.csv:1"));
  CHECK_THAT(error("# nothing\n"), ContainsSubstring("no layers"));
}

TEST_CASE("An unknown word is answered with those allowed") {
  CHECK_THAT(error_of("--network alexnet"),
             ContainsSubstring("alexnet, must be one of resnet50, vgg16, yolov3, densenet161"));
  CHECK_THAT(error_of("c1h1k1 --layout hwcn"),
             ContainsSubstring("hwcn, must be nchw, nhwc, chwn or nchw16c"));
  CHECK_THAT(error_of("c1h1k1 --epilogue tanh"),
             ContainsSubstring("tanh, must be scale, bias, residual, relu, clamp"));
  CHECK_THAT(error_of("c1h1k1 --algo fft"),
             ContainsSubstring("fft, must be auto, direct, winograd, fused-winograd, opencnn, "
                               "implicit-gemm or small-gemm"));
  CHECK_THAT(error_of("c1h1k1 --tile 5"), ContainsSubstring("5, must be 2, 4, 4x6 or 6"));
  CHECK_THAT(error_of("c1h1k1 --window 0,1"), ContainsSubstring("0,1, must be auto, whole, or"));
  CHECK_THAT(error_of("c1h1k1 --window 4"), ContainsSubstring("4, must be auto, whole, or"));
  CHECK_THAT(error_of("c1h1k1 --policy best"), ContainsSubstring("best"));
}

TEST_CASE("short_name leaves out what parse_problem would choose itself") {
  const auto name = [](const char* text) { return short_name(parse_problem(text)); };
  CHECK(name("n64c128h28w28k128r3s3p1u1d1g1") == "n64c128h28k128");
  CHECK(name("n1c8h9w7k4r5s3p0u2d1g2+nhwc+relu") == "n1c8h9w7k4r5s3p0u2g2+nhwc+relu");
  CHECK(name("c1h5k1r1") == "n1c1h5k1r1");
  CHECK(name("c4h1k1r2p1") == "n1c4h1k1r2p1");  // without its padding no problem
}

TEST_CASE("A plan's options written as a command line are parsed to the same options") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const VerifyCase item = random_case(seed, {}, seed % 2 == 0);
    const PlanArguments parsed = parse(to_command_line(item.plan)).plan;
    CHECK(parsed.options.tiling == item.plan.options.tiling);
    CHECK(parsed.options.mapping == item.plan.options.mapping);
    CHECK(parsed.options.num_threads == item.plan.options.num_threads);
    CHECK(parsed.seed == item.plan.seed);
  }
}

TEST_CASE("Whoever names a policy, the usual one too, has the persistent launch unless another") {
  const auto launch = [](const char* text) { return parse(text).plan.options.cuda_launch; };
  CHECK(launch("c1h1k1") == CudaLaunch::automatic);
  CHECK(launch("c1h1k1 --policy interleaved") == CudaLaunch::persistent);
  CHECK(launch("c1h1k1 --launch staged --policy interleaved") == CudaLaunch::staged);
  CHECK(launch("c1h1k1 --launch auto --policy interleaved") == CudaLaunch::automatic);
  const auto traced = [](const char* text) {
    return traceable(parse(text).plan).options.cuda_launch;
  };
  CHECK(traced("c1h1k1") == CudaLaunch::persistent);
  CHECK(traced("c1h1k1 --launch one-block-per-task") == CudaLaunch::one_block_per_task);
  CHECK(traced("c1h1k1 --launch staged") == CudaLaunch::staged);  // refused with a reason
}

TEST_CASE("random_case is the same for a seed, valid, and different for others") {
  std::size_t same = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CHECK(to_command(random_case(seed, {}, false)) == to_command(random_case(seed, {}, false)));
    CHECK_NOTHROW(validate(random_case(seed, {}, false).problem));
    same +=
        random_case(seed, {}, false).problem == random_case(seed + 1, {}, false).problem ? 1 : 0;
  }
  CHECK(same == 0);
}

TEST_CASE("random_case takes the storage type that is asked for, with what it can do") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const VerifyCase item = random_case(seed, {}, false, Backend::cpu, DataType::i8);
    CHECK(item.problem.dtype == DataType::i8);
    CHECK_NOTHROW(make_plan(item.problem, item.plan));
  }
}

TEST_CASE("random_case has tasks of tensor cores for every type, and none that rounds integers") {
  const Target hopper{
      .backend = Backend::cuda, .workers = 264, .split_f16 = true, .multiprocessors = 132};
  VerifyLimits limits;
  limits.tensor_cores = true;
  std::map<DataType, int> rounded;  // cases of Winograd with FP16 numbers
  int in_place = 0;                 // of implicit GEMM, whose operands are the tensors
  int small = 0;                    // of small tiles
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const bool integer = seed % 4 == 0;
    const VerifyCase item = random_case(seed, limits, integer, Backend::cuda);
    const PlanOptions& options = item.plan.options;
    if (options.tiling.v_slots != 0) continue;  // may not fit the order
    CAPTURE(to_command(item));
    const Tiling tiling = lower(item.problem, options.tiling, options.mapping, hopper).tiling();
    const bool rounds =
        tiling.algorithm() == Algorithm::winograd && tiling.arithmetic == Arithmetic::f16;
    if (rounds) ++rounded[item.problem.dtype];
    const auto* const gemm = std::get_if<ImplicitGemmCut>(&tiling.cut);
    if (gemm != nullptr && gemm->operands == Operands::in_tensor) ++in_place;
    if (tiling.algorithm() == Algorithm::small_gemm) ++small;
    CHECK_FALSE((rounds && integer));
  }
  for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
    CHECK(rounded[dtype] > 2);
  }
  CHECK(in_place > 10);
  CHECK(small > 50);
}

TEST_CASE("shrink keeps what makes a case fail and drops the rest") {
  VerifyCase item = random_case(3, {}, false);
  item.problem = parse_problem("n3c40h30w31k48r3s3p1+nhwc+bias+relu");
  item.plan.options.num_threads = 4;
  const VerifyCase simplest = shrink(item, [](const VerifyCase& c) {
    return c.problem.h >= 5 && c.problem.epilogue.bias && c.problem.k > 16;
  });
  CHECK(to_string(simplest.problem) == "n1c1h5w1k17r1s1p0u1d1g1+bias");
  CHECK(simplest.plan.options.num_threads == 1);
}

TEST_CASE("check calls a right plan right, and a refused window refused") {
  VerifyCase item;
  item.problem = parse_problem("n1c17h9k20+bias+relu");
  item.plan.options.tiling.algorithm = Algorithm::winograd;
  CHECK_FALSE(check(item).failed());
  CHECK(check(item).share_of_bound > 0);
  item.plan.options.tiling.group_tiles = 1;
  item.plan.options.tiling.v_slots = item.plan.options.tiling.m_slots = 1;
  item.plan.options.mapping.policy = "staged";
  CHECK_FALSE(check(item).failed());
  CHECK(check(item).refused());
}

TEST_CASE("Integers with which an algorithm is exact leave no differing bit") {
  for (const char* options :
       {"--algo direct", "--algo winograd --tile 2", "--algo winograd --tile 4 --points integer"}) {
    VerifyCase item;
    item.integer = true;
    item.problem = parse_problem("n2c40h13w11k35+bias+residual");
    item.plan = parse(options).plan;
    CAPTURE(options);
    CHECK(check(item).failure.empty());
  }
  VerifyCase rounding;
  rounding.integer = true;
  rounding.problem = parse_problem("c16h8k16");
  rounding.plan = parse("--algo winograd --tile 6").plan;
  CHECK_THAT(check(rounding).failure, ContainsSubstring("unsupported"));
}

}  // namespace
}  // namespace megaconv::cli
