// SPDX-License-Identifier: Apache-2.0
// What an automatic launch stands for, without a GPU.
#include "tasks/launch.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "megaconv/tuning.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/targets.hpp"

namespace megaconv {
namespace {

using test::kHopper;

PlanOptions on_cuda(const TilingOptions& tiling = {}) {
  return {.tiling = tiling, .backend = Backend::cuda};
}

LaunchChoice choice(const char* problem, const PlanOptions& options,
                    const Target& target = kHopper) {
  return choose_launch(parse_problem(problem), options, target);
}

CudaLaunch launch(const char* problem, const PlanOptions& options, const Target& target = kHopper) {
  return choice(problem, options, target).options.cuda_launch;
}

TEST_CASE("Tasks of tensor cores are launched in stages, whole tensors and their order with them") {
  const char* const layer = "n64c128h28k128";
  for (const TilingOptions& tiling :
       {TilingOptions{}, TilingOptions{.algorithm = Algorithm::implicit_gemm},
        TilingOptions{.algorithm = Algorithm::winograd},
        TilingOptions{.algorithm = Algorithm::winograd, .precision = Precision::tf32},
        TilingOptions{.algorithm = Algorithm::winograd, .m = 2},
        TilingOptions{.algorithm = Algorithm::winograd, .whole_tensors = true}}) {
    const LaunchChoice made = choice(layer, on_cuda(tiling));
    CHECK(made.options.cuda_launch == CudaLaunch::staged);
    CHECK(made.reason == "faster where tasks are short");
    const Lowering lowering =
        lower(parse_problem(layer), made.options.tiling, made.options.mapping, kHopper);
    const Tiling& made_tiling = lowering.tiling();
    const Window* const window = made_tiling.window();
    CHECK((window == nullptr || *window == Window{made_tiling.num_groups, made_tiling.num_groups}));
    CHECK(lowering.mapping.order == make_mapping(lowering.graph, {.policy = "staged"}).order);
    CHECK(lowering.mapping.policy == "staged");
  }
}

TEST_CASE("Whoever asks for an order, a window or blocks has the persistent kernel") {
  const char* const layer = "n64c128h28k128";
  const TilingOptions winograd{.algorithm = Algorithm::winograd};
  const auto persistent = [&](const char* reason, auto change) {
    PlanOptions options = on_cuda(winograd);
    change(options);
    const LaunchChoice made = choice(layer, options);
    CAPTURE(reason);
    CHECK(made.reason == reason);
    CHECK(made.options.cuda_launch == CudaLaunch::persistent);
    CHECK(made.options.tiling == options.tiling);
    CHECK(made.options.mapping == options.mapping);
  };
  persistent("for the order asked for", [](auto& o) { o.mapping.policy = "staged"; });
  persistent("for the order asked for", [](auto& o) { o.mapping.dig = 264; });
  persistent("for the order asked for", [](auto& o) { o.mapping.m_groups = 2; });
  persistent("for the order asked for", [](auto& o) {
    o.policy = [](const TaskGraph&) { return std::vector<std::uint32_t>{}; };
  });
  persistent("for the window asked for", [](auto& o) { o.tiling.v_slots = o.tiling.m_slots = 4; });
  persistent("for the number of blocks asked for", [](auto& o) { o.num_blocks = 132; });
  PlanOptions seeded = on_cuda(winograd);
  seeded.mapping.seed = 7;  // which the staged order does not read
  CHECK(launch(layer, seeded) == CudaLaunch::staged);
}

TEST_CASE("openCNN, simulations and CPUs have the persistent kernel, direct tasks a stage") {
  const char* const layer = "n64c128h28k128";
  CHECK(launch(layer, on_cuda({.algorithm = Algorithm::opencnn})) == CudaLaunch::persistent);
  CHECK(launch(layer, on_cuda({.algorithm = Algorithm::direct})) == CudaLaunch::staged);
  for (const Backend backend : {Backend::cpu, Backend::sim}) {
    CHECK(launch(layer, {.backend = backend}) == CudaLaunch::persistent);
  }
  PlanOptions staged;
  staged.cuda_launch = CudaLaunch::staged;
  CHECK(choice(layer, staged).options.mapping.policy == "interleaved");  // of a CPU
}

// The L2 of the model is 2 x 264 x 96 KiB, 51 MB.
TEST_CASE("Winograd without tensor cores has the persistent kernel where V and M are many L2s") {
  const PlanOptions options =
      on_cuda({.algorithm = Algorithm::winograd, .arithmetic = Arithmetic::fma});
  CHECK(launch("n64c256h14k256", options) == CudaLaunch::staged);      // 75 MB
  CHECK(launch("n64c128h28k128", options) == CudaLaunch::persistent);  // 116 MB
  const LaunchChoice made = choice("n64c64h56k64", options);           // 231 MB
  CHECK(made.options.cuda_launch == CudaLaunch::persistent);
  CHECK(made.reason == "faster where V and M, 220 MiB, exceed the cache");
  CHECK(choice("n64c128h28k128", on_cuda({.algorithm = Algorithm::opencnn})).reason ==
        "faster for opencnn without tensor cores");
  CHECK(launch("n64c512h28k512", options) == CudaLaunch::persistent);  // U of 38 MB
  CHECK(launch("n64c512h14k512", options) == CudaLaunch::staged);      // but V and M of 151 MB
  CHECK(launch("n64c512h13k1024", options) == CudaLaunch::staged);     // U of 75 MB
}

TEST_CASE("V and M of more than 8 GiB are not kept whole unasked") {
  // 36 positions of V and M of 256 x 28 x 28 tiles: 28.9 MB a channel.
  const TilingOptions winograd{.algorithm = Algorithm::winograd};
  CHECK(launch("n256c128h112k128", on_cuda(winograd)) == CudaLaunch::staged);  // 7.4 GB
  const LaunchChoice larger = choice("n256c192h112k128", on_cuda(winograd));   // 9.2 GB
  CHECK(larger.options.cuda_launch == CudaLaunch::persistent);
  CHECK(larger.reason == "V and M whole are 8820 MiB, more than 8192");
  PlanOptions asked = on_cuda(winograd);
  asked.cuda_launch = CudaLaunch::staged;
  CHECK(launch("n256c192h112k128", asked) == CudaLaunch::staged);
  CHECK(launch("n256c192h112k128+f16", on_cuda(winograd)) == CudaLaunch::staged);  // V is half
}

TEST_CASE("A launch that is asked for is taken, a staged one with what it needs") {
  for (const CudaLaunch asked : {CudaLaunch::persistent, CudaLaunch::one_block_per_task,
                                 CudaLaunch::raw_block_index, CudaLaunch::staged}) {
    PlanOptions options =
        on_cuda({.algorithm = Algorithm::winograd, .arithmetic = Arithmetic::fma});
    options.cuda_launch = asked;
    const LaunchChoice made = choice("n64c128h28k128", options);
    CHECK(made.options.cuda_launch == asked);
    CHECK(made.reason == "as asked for");
    CHECK(made.options.tiling.whole_tensors == (asked == CudaLaunch::staged));
    CHECK((made.options.mapping.policy == "staged") == (asked == CudaLaunch::staged));
  }
}

TEST_CASE("The heuristic's launch is a point of the space, and fixed only when asked for",
          "[tuning]") {
  const auto space = [](const PlanOptions& plan) {
    return make_space(parse_problem("n64c128h28k128"), kHopper, {.plan = plan, .axes = {}});
  };
  const auto heuristic = [&](const PlanOptions& plan) {
    const Space made = space(plan);
    CHECK(made.index_of(made.heuristic()));
    CHECK(!made.rejection(made.heuristic()));
    return value_text(Parameter::launch, *made.heuristic().get(Parameter::launch));
  };
  CHECK(heuristic(on_cuda()) == "staged");
  CHECK(heuristic(on_cuda({.algorithm = Algorithm::winograd})) == "staged");
  PlanOptions persistent = on_cuda();
  CHECK(!fixed_value(Parameter::launch, persistent));
  persistent.cuda_launch = CudaLaunch::persistent;
  CHECK(fixed_value(Parameter::launch, persistent));
  CHECK(heuristic(persistent) == "persistent");
  persistent.backend = Backend::cpu;
  CHECK(!fixed_value(Parameter::launch, persistent));  // which has one way
  persistent.backend = Backend::sim;
  CHECK(fixed_value(Parameter::launch, persistent));
  persistent.machine.emplace().tilings = Backend::cpu;
  CHECK(!fixed_value(Parameter::launch, persistent));
}

}  // namespace
}  // namespace megaconv
