// SPDX-License-Identifier: Apache-2.0
// Where a plan's configuration comes from, and that describe() says so.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/plan_database.hpp"
#include "runtime/network_positions.hpp"
#include "runtime/tuning/choose_plan.hpp"
#include "tests/catch.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv {
namespace {

using cli::ScratchFolder;

const ConvProblem kProblem = parse_problem("n2c32h20k32");

/// A database that knows one configuration of kProblem.
class Tuned {
 public:
  explicit Tuned(const char* configuration, PlanKey key = plan_key(kProblem, {.num_threads = 2}))
      : file_(folder_.path("plans.db")) {
    Measurement m;
    m.configuration = parse_configuration(configuration);
    m.samples_ms = {1.5};
    summarize(m);
    PlanDatabase(file_, PlanDatabase::Access::write).add(key, m);
  }
  PlanOptions options() const { return {.database = file_, .num_threads = 2}; }
  const ScratchFolder& folder() const { return folder_; }

 private:
  ScratchFolder folder_;
  std::string file_;
};

constexpr const char* kConfiguration =
    "algo=winograd,tile=2,group-tiles=17,transform-tiles=9,window=whole,policy=depth_first,"
    "workers=2";

TEST_CASE("A plan takes what the database has, and says from where", "[plan_source]") {
  const Tuned tuned(kConfiguration);
  const Plan plan = Plan::create(kProblem, tuned.options());
  CHECK(plan.lowering().tiling().tiles()->m == 2);
  CHECK(plan.lowering().tiling().tiles()->group_tiles == 17);
  CHECK(std::get<WinogradCut>(plan.lowering().tiling().cut).tiles_per_transform_task == 9);
  CHECK(plan.lowering().mapping.policy == "depth_first");
  CHECK_THAT(plan.describe(), ContainsSubstring("chosen by: database"));
  CHECK_THAT(plan.describe(), ContainsSubstring("1.5 ms when measured"));
  PlanOptions heuristic = tuned.options();
  heuristic.source = PlanSource::heuristic;
  CHECK_THAT(Plan::create(kProblem, heuristic).describe(),
             ContainsSubstring("chosen by: heuristic\n"));
}

TEST_CASE("A plan takes the launch that the database has", "[plan_source]") {
  // On a machine model that starts blocks in no time and kernels in 10 ms, one kernel a stage takes
  // 10 ms a stage, whatever the tasks do.
  PlanOptions options{.backend = Backend::sim, .machine = machine_preset("toy")};
  options.machine->launch_us = 10'000;
  const auto time_ms = [&](const char* configuration) {
    const Tuned tuned(configuration, plan_key(kProblem, options));
    options.database = tuned.options().database;
    const Plan plan = Plan::create(kProblem, options);
    CHECK_THAT(plan.describe(), ContainsSubstring("chosen by: database"));
    std::vector<float> x(static_cast<std::size_t>(kProblem.x_size()));
    std::vector<float> w(static_cast<std::size_t>(kProblem.w_size()));
    std::vector<float> y(static_cast<std::size_t>(kProblem.y_size()));
    alignas(Plan::kAlignment) std::byte workspace[Plan::kAlignment];
    Trace trace;
    plan.execute({.x = x.data(), .w = w.data(), .y = y.data()}, workspace, sizeof workspace,
                 {.trace = &trace});
    std::uint64_t begin_ns = trace.records[0].fetch_ns, end_ns = 0;
    for (const TraceRecord& record : trace.records) {
      begin_ns = std::min(begin_ns, record.fetch_ns);
      end_ns = std::max(end_ns, record.end_ns);
    }
    return static_cast<double>(end_ns - begin_ns) * 1e-6;
  };
  const double persistent = time_ms("algo=winograd,window=whole,policy=staged,launch=persistent");
  const double staged = time_ms("algo=winograd,window=whole,policy=staged,launch=staged");
  // Four kernels, of which three begin after the first task.
  CHECK(staged - persistent > 29);
  CHECK(staged - persistent < 33);
}

TEST_CASE("What the caller fixed is not undone by the database", "[plan_source]") {
  const Tuned tuned(kConfiguration);
  PlanOptions options = tuned.options();
  options.tiling.m = 4;
  const Plan plan = Plan::create(kProblem, options);
  CHECK(plan.lowering().tiling().tiles()->m == 4);
  CHECK_THAT(plan.describe(), ContainsSubstring("nothing that fits what is fixed"));
  const Tuned inexact("algo=winograd,tile=6,workers=2");
  CHECK(Plan::create(kProblem, inexact.options()).lowering().tiling().tiles()->m != 6);
}

TEST_CASE("A stored plan outside the error budget is not taken", "[plan_source]") {
  const auto with_budget = [](const Tuned& tuned, double max_error) {
    PlanOptions options = tuned.options();
    options.tiling.max_error = max_error;
    return Plan::create(kProblem, options).describe();
  };
  const Tuned f4("algo=winograd,tile=4,policy=depth_first,workers=2");
  CHECK_THAT(with_budget(f4, 1e-5), ContainsSubstring("chosen by: database"));
  const std::string text = with_budget(f4, 8e-7);
  CHECK_THAT(text, ContainsSubstring("chosen by: heuristic") &&
                       ContainsSubstring("1 plans exceed the error budget") &&
                       ContainsSubstring("F(2x2, 3x3)"));
  // F(6x6), which is taken for nobody who did not ask for it, is if the budget has room.
  const Tuned f6("algo=winograd,tile=6,policy=depth_first,workers=2");
  CHECK_THAT(Plan::create(kProblem, f6.options()).describe(),
             ContainsSubstring("chosen by: heuristic"));
  CHECK_THAT(with_budget(f6, 1e-4), ContainsSubstring("chosen by: database"));
}

TEST_CASE("What was tuned within an error budget is for such budgets alone", "[plan_source]") {
  PlanOptions tuned_for{.num_threads = 2};
  tuned_for.tiling.max_error = 1e-4;
  const Tuned tuned("algo=winograd,tile=4,policy=depth_first,workers=2",
                    plan_key(kProblem, tuned_for));
  CHECK_THAT(Plan::create(kProblem, tuned.options()).describe(),
             ContainsSubstring("chosen by: heuristic"));
  PlanOptions options = tuned.options();
  options.tiling.max_error = 1e-4;
  CHECK_THAT(Plan::create(kProblem, options).describe(), ContainsSubstring("chosen by: database"));
}

TEST_CASE("Rows of another build, device or filter mode are ignored and said", "[plan_source]") {
  PlanKey key = plan_key(kProblem, {.num_threads = 2});
  key.build = "0.0.1-0123456789ab";
  const Tuned tuned(kConfiguration, key);
  const std::string text = Plan::create(kProblem, tuned.options()).describe();
  CHECK_THAT(text, ContainsSubstring("chosen by: heuristic ("));
  CHECK_THAT(text, ContainsSubstring("1 other devices, drivers or builds are ignored"));
}

TEST_CASE("A database that is damaged or missing leaves the heuristic", "[plan_source]") {
  const ScratchFolder folder;
  const std::string file = folder.write("plans.db", std::string(4096, 'x'));
  CHECK_THAT(Plan::create(kProblem, {.database = file}).describe(),
             ContainsSubstring("it is not a plan database"));
  CHECK_THAT(Plan::create(kProblem, {.database = folder.path("absent.db")}).describe(),
             ContainsSubstring("does not exist"));
}

TEST_CASE("A database does not start more threads than there are", "[plan_source]") {
  const PlanOptions options{.database = {}, .num_threads = 0};
  const Tuned tuned("algo=winograd,tile=2,workers=1024", plan_key(kProblem, options));
  const Plan plan = Plan::create(kProblem, {.database = tuned.options().database});
  CHECK(plan.num_workers() < 1024);
  CHECK_THAT(plan.describe(), ContainsSubstring("nothing that fits what is fixed"));
}

TEST_CASE("A database that nobody named is used only if nobody else may write it",
          "[plan_source]") {
  const Tuned tuned(kConfiguration);
  const char* const before = std::getenv("MEGACONV_CACHE_DIR");
  const std::string folder = before == nullptr ? "" : before;
  setenv("MEGACONV_CACHE_DIR", tuned.folder().path("").c_str(), 1);
  const std::string file = tuned.options().database;
  const auto origin = [&](const std::string& database) {
    return Plan::create(kProblem, {.database = database, .num_threads = 2}).describe();
  };
  CHECK_THAT(origin(""), ContainsSubstring("chosen by: database"));
  std::filesystem::permissions(file, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  CHECK_THAT(origin(""), ContainsSubstring("plans.db: it is not used, because everybody may"));
  CHECK_THAT(origin(file), ContainsSubstring("chosen by: database"));
  std::filesystem::permissions(file, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::remove);
  constexpr uid_t kNobody = 65534;
  if (chown(file.c_str(), kNobody, kNobody) == 0) {  // only root may
    CHECK_THAT(origin(""), ContainsSubstring("it belongs to another user"));
  }
  before == nullptr ? unsetenv("MEGACONV_CACHE_DIR")
                    : setenv("MEGACONV_CACHE_DIR", folder.c_str(), 1);
}

TEST_CASE("A workspace limit is respected by every source", "[plan_source]") {
  const Tuned tuned(kConfiguration);
  const Plan free = Plan::create(kProblem, tuned.options());
  PlanOptions options = tuned.options();
  options.workspace_limit = free.workspace_bytes() - 1;
  const Plan limited = Plan::create(kProblem, options);
  CHECK(limited.workspace_bytes() <= options.workspace_limit);
  CHECK_THAT(limited.describe(), ContainsSubstring("chosen by: heuristic"));
  options.source = PlanSource::measure;
  options.measure_ms = 30;
  CHECK(Plan::create(kProblem, options).workspace_bytes() <= options.workspace_limit);
  options.workspace_limit = 100;
  try {
    Plan::create(kProblem, options);
    FAIL("a plan in 100 bytes");
  } catch (const Error& error) {
    CHECK(error.status() == Status::out_of_memory);
    CHECK_THAT(error.what(), ContainsSubstring("workspace limit 100 bytes, must be at least"));
  }
}

TEST_CASE("On a GPU a workspace limit costs the window first, then V and M", "[plan_source]") {
  const auto workspace_of = [](const PlanOptions& options) -> std::size_t {
    if (options.tiling.algorithm == Algorithm::implicit_gemm) return 2;
    if (options.tiling.algorithm == Algorithm::direct) return 1;
    return options.cuda_launch == CudaLaunch::persistent ? 400 : 500;
  };
  const auto chosen = [&](std::size_t limit, PlanOptions options = {}) {
    options.backend = Backend::cuda;
    options.source = PlanSource::heuristic;
    options.workspace_limit = limit;
    return choose_plan(kProblem, options, workspace_of).options;
  };
  CHECK(chosen(500).cuda_launch == CudaLaunch::automatic);
  CHECK(chosen(400).cuda_launch == CudaLaunch::persistent);
  CHECK(chosen(399).tiling.algorithm == Algorithm::implicit_gemm);
  CHECK(chosen(399).cuda_launch == CudaLaunch::automatic);
  CHECK(chosen(1).tiling.algorithm == Algorithm::direct);
  CHECK_THROWS_AS(chosen(399, {.tiling = {.algorithm = Algorithm::winograd}}), Error);
}

TEST_CASE("Measuring in place ends in its time with a plan that is right", "[plan_source]") {
  for (const char* text :
       {"n2c32h20k32+bias+relu", "n1c8h9k24r5+nhwc+residual", "c6h7k6g3u2", "n1c64h9k32+f16",
        "n1c32h14k32+nhwc+bf16+bias+residual", "n1c64h9k32+i8+scale+bias+residual"}) {
    const Plan plan = Plan::create(
        parse_problem(text), {.source = PlanSource::measure, .measure_ms = 60, .num_threads = 2});
    CHECK_THAT(plan.describe(), ContainsSubstring("chosen by: measuring"));
  }
}

Network resnet18(std::int64_t batch = 1, std::uint64_t seed = 1) {
  return make_network("resnet18", {.batch = batch, .image = 32, .classes = 10, .seed = seed});
}

TEST_CASE("A plan of a network takes what the database has of it, whatever its weights",
          "[plan_source]") {
  const Tuned tuned("policy=depth_first,dig=4,workers=2", plan_key(resnet18(), {.num_threads = 2}));
  const auto policy = [&](const Network& network, auto change) {
    PlanOptions options = tuned.options();
    change(options);
    const Plan plan = Plan::create(network, options);
    const std::string& chosen = plan.lowering().mapping.policy;
    CHECK((plan.describe().find("chosen by: database") != std::string::npos) ==
          (chosen == "depth_first"));
    return chosen;
  };
  const auto nothing = [](PlanOptions&) {};
  CHECK(policy(resnet18(), nothing) == "depth_first");
  CHECK(policy(resnet18(1, 7), nothing) == "depth_first");
  CHECK(policy(resnet18(2), nothing) == "interleaved");
  CHECK(policy(make_network("resnet50", {.image = 32, .classes = 10}), nothing) == "interleaved");
  CHECK(policy(resnet18(), [](auto& o) { o.source = PlanSource::heuristic; }) == "interleaved");
  CHECK(policy(resnet18(), [](auto& o) { o.mapping.policy = "staged"; }) == "staged");
  CHECK(policy(resnet18(), [](auto& o) { o.num_threads = 1; }) == "interleaved");
  CHECK(policy(resnet18(), [](auto& o) { o.tiling.algorithm = Algorithm::direct; }) ==
        "interleaved");
}

TEST_CASE("A configuration of a network that cannot be planned leaves it to the heuristics",
          "[plan_source]") {
  PlanOptions options{.backend = Backend::sim, .machine = machine_preset("h100")};
  for (const auto& [cluster, blocks] : {std::pair(2, 2u), std::pair(4, 4u), std::pair(8, 1u)}) {
    const std::string configuration =
        "policy=interleaved,launch=persistent,cluster=" + std::to_string(cluster);
    const Network network = make_network("resnet18", {.image = 128});
    const Tuned tuned(configuration.c_str(), plan_key(network, options));
    options.database = tuned.options().database;
    const Plan plan = Plan::create(network, options);
    if (blocks > 1) {
      CHECK(cluster_blocks_of(plan.lowering()) == blocks);
    } else {
      CHECK_THAT(plan.describe(), ContainsSubstring("cluster of 8 blocks, must be at most 4"));
    }
  }
}

}  // namespace
}  // namespace megaconv
