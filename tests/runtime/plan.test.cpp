// SPDX-License-Identifier: Apache-2.0
// Plans from the outside: results, reuse, threads, arguments.
#include "megaconv/plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "runtime/machine.hpp"
#include "runtime/plan_word.hpp"
#include "runtime/workspace.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/reference.hpp"
#include "tests/catch.hpp"

using namespace megaconv;

namespace {

// 64-byte aligned floats full of NaN.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes) : storage_(bytes + 64) {
    std::memset(storage_.data(), 0xff, storage_.size());
  }
  void* get() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<std::byte> storage_;
};

// Data with which Winograd is exact: inputs in {-1, 0, 1}, weights multiples of 4 (m = 2) or 576 (m
// = 4 on integer points), so that every sum is an integer below 2^24.
struct Data {
  explicit Data(const ConvProblem& p)
      : problem(p),
        x(static_cast<std::size_t>(p.x_size())),
        w(static_cast<std::size_t>(p.w_size())),
        bias(static_cast<std::size_t>(p.k)),
        residual(static_cast<std::size_t>(p.y_size())) {
    fill_integers(x, 1);
    fill_integers(w, 2, 0.11, 576);
    fill_integers(bias, 3, 1.0);
    fill_integers(residual, 4, 1.0);
  }
  Tensors tensors(std::vector<float>& y) const {
    y.assign(static_cast<std::size_t>(problem.y_size()), std::numeric_limits<float>::quiet_NaN());
    Tensors t;
    t.x = x.data();
    t.w = w.data();
    if (problem.epilogue.bias) t.bias = bias.data();
    if (problem.epilogue.residual) t.residual = residual.data();
    t.y = y.data();
    return t;
  }
  std::vector<float> truth() const {
    std::vector<double> y(static_cast<std::size_t>(problem.y_size()));
    reference_convolution(
        problem, {.x = x.data(), .w = w.data(), .bias = bias.data(), .residual = residual.data()},
        y.data());
    return {y.begin(), y.end()};
  }
  ConvProblem problem;
  std::vector<float> x, w, bias, residual;
};

PlanOptions winograd(std::uint32_t threads = 2) {
  PlanOptions options;
  options.tiling.algorithm = Algorithm::winograd;
  options.tiling.m = 4;
  options.tiling.points = Points::integer;
  options.num_threads = threads;
  return options;
}

std::vector<float> run(const Plan& plan, const Data& data) {
  std::vector<float> y;
  AlignedBytes workspace(plan.workspace_bytes());
  plan.execute(data.tensors(y), workspace.get(), plan.workspace_bytes());
  return y;
}

const ConvProblem kProblem = parse_problem("n2c20h17w11k37+bias+residual+relu");

}  // namespace

TEST_CASE("integer data gives the exact result for every policy, window and worker count") {
  const Data data(kProblem);
  const std::vector<float> truth = data.truth();
  for (const char* const policy :
       {"interleaved", "staged", "depth_first", "critical_path", "random_topological"}) {
    for (const bool whole : {false, true}) {
      for (const std::uint32_t threads : {1u, 2u, 3u, 5u}) {
        CAPTURE(policy, whole, threads);
        PlanOptions options = winograd(threads);
        options.tiling.group_tiles = 3;
        options.tiling.whole_tensors = whole;
        options.mapping.policy = policy;
        options.mapping.seed = threads;
        CHECK(run(Plan::create(kProblem, options), data) == truth);
      }
    }
  }
}

TEST_CASE("whatever the storage type, results are those of double, rounded once") {
  for (const DataType dtype : {DataType::f16, DataType::bf16, DataType::i8}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const Algorithm algorithm :
           {Algorithm::direct, Algorithm::winograd, Algorithm::fused_winograd}) {
        if (dtype == DataType::i8 && algorithm != Algorithm::direct) continue;
        ConvProblem problem = kProblem;
        problem.dtype = dtype;
        problem.layout = layout;
        problem.epilogue.scale = true;
        CAPTURE(to_string(problem), static_cast<int>(algorithm));
        PlanOptions options = winograd();
        options.tiling.algorithm = algorithm;
        options.tiling.filters = FilterMode::prepared;
        const Plan plan = Plan::create(problem, options);
        const auto numbers = [](DataType type, std::int64_t size, std::uint64_t seed,
                                float multiple) {
          std::vector<std::byte> stored(static_cast<std::size_t>(size) * size_of(type));
          fill(type, stored.data(), size, {Filling::Kind::integers, 0.3, multiple}, seed);
          return stored;
        };
        const DataType vector = problem.vector_type();
        const auto x = numbers(dtype, problem.x_size(), 1, 1);
        const auto w =
            numbers(dtype, problem.w_size(), 2, algorithm == Algorithm::direct ? 1 : 576);
        const auto scale = numbers(vector, problem.k, 5, 0.5f);
        const auto bias = numbers(vector, problem.k, 3, 1);
        const auto residual = numbers(dtype, problem.y_size(), 4, 1);
        std::vector<std::byte> y(residual.size());
        std::vector<double> truth(static_cast<std::size_t>(problem.y_size()));
        Tensors tensors{.x = x.data(),
                        .w = w.data(),
                        .scale = scale.data(),
                        .bias = bias.data(),
                        .residual = residual.data(),
                        .y = y.data()};
        reference_convolution(problem, tensors, truth.data());
        AlignedBytes workspace(plan.workspace_bytes()), filters(plan.prepared_filter_bytes());
        plan.prepare_filters(w.data(), filters.get());
        tensors.w = nullptr;
        tensors.prepared_filters = filters.get();
        plan.execute(tensors, workspace.get(), plan.workspace_bytes());
        CHECK(mismatch(dtype, y.data(), truth.data(), problem.y_size()).count == 0);
      }
    }
  }
}

TEST_CASE("an infinity in x reaches the outputs that read it, with Winograd those of their tile") {
  const ConvProblem problem = parse_problem("n1c20h20k20");
  Data data(problem);
  const std::vector<float> truth = data.truth();
  data.x[5 * 400 + 10 * 20 + 10] = std::numeric_limits<float>::infinity();
  for (const Algorithm algorithm :
       {Algorithm::direct, Algorithm::winograd, Algorithm::fused_winograd}) {
    CAPTURE(static_cast<int>(algorithm));
    PlanOptions options = winograd();
    options.tiling.algorithm = algorithm;
    const std::vector<float> y = run(Plan::create(problem, options), data);
    const int first = algorithm == Algorithm::direct ? 9 : 8, last = 11;
    const auto reads_it = [&](int at) { return at >= first && at <= last; };
    int wrong = 0, finite = 0;
    for (int i = 0; i < 20 * 400; ++i) {
      if (reads_it(i / 20 % 20) && reads_it(i % 20)) {
        finite += std::isfinite(y[i]);
      } else {
        wrong += y[i] != truth[i];
      }
    }
    CHECK(wrong == 0);
    CHECK(finite == 0);
  }
}

TEST_CASE("a policy of the caller's own is used, and rejected when it is wrong") {
  const Data data(kProblem);
  PlanOptions options = winograd();
  options.policy = [](const TaskGraph& graph) {
    std::vector<std::uint32_t> order(graph.tasks.size());
    for (std::uint32_t id = 0; id < order.size(); ++id) order[id] = id;
    return order;
  };
  const Plan plan = Plan::create(kProblem, options);
  CHECK(plan.lowering().mapping.policy == "custom");
  CHECK(run(plan, data) == data.truth());

  options.policy = [](const TaskGraph& graph) {
    return std::vector<std::uint32_t>(graph.tasks.size(), 0);
  };
  CHECK_THROWS_AS(Plan::create(kProblem, options), Error);
}

TEST_CASE("an exported mapping makes the same plan again") {
  const Data data(kProblem);
  const Plan plan = Plan::create(kProblem, winograd());
  const Plan again = Plan::create(import_mapping(export_mapping(plan.lowering()), &kProblem));
  CHECK(again.lowering().mapping.order == plan.lowering().mapping.order);
  CHECK(run(again, data) == data.truth());
}

TEST_CASE("a lowering of which one number was edited is refused, or computes the same") {
  const ConvProblem problem = parse_problem("n1c20h14k20");
  const Data data(problem);
  const std::vector<float> truth = data.truth();
  const Lowering right =
      lower(problem,
            {.algorithm = Algorithm::winograd, .m = 2, .points = Points::integer, .group_tiles = 7},
            {}, {.workers = 2});
  const auto numbers = [](Tiling& tiling) {
    auto& cut = std::get<WinogradCut>(tiling.cut);
    return std::vector<std::uint32_t*>{&cut.m,
                                       &cut.tiles_h,
                                       &cut.tiles_w,
                                       &cut.group_tiles,
                                       &cut.channel_blocks_per_input_task,
                                       &cut.tiles_per_transform_task,
                                       &cut.filter_blocks_per_gemm_task,
                                       &cut.positions_per_gemm_task,
                                       &cut.filter_blocks_per_output_task,
                                       &tiling.filter_blocks_per_filter_task,
                                       &tiling.channel_blocks_per_filter_task,
                                       &tiling.num_groups,
                                       &tiling.num_filter_tasks,
                                       &tiling.input_tasks,
                                       &tiling.gemm_tasks,
                                       &tiling.output_tasks,
                                       &cut.window.v_slots,
                                       &cut.window.m_slots};
  };
  Lowering edited = right;
  const std::size_t count = numbers(edited.tiling()).size();
  int refused = 0;
  for (std::size_t field = 0; field < count; ++field) {
    for (const std::uint32_t value : {0u, 1u, 2u, 5u, 64u, 0x80000001u, 0xffffffffu}) {
      CAPTURE(field, value);
      edited = right;
      *numbers(edited.tiling())[field] = value;
      bool same = true;
      try {
        same = run(Plan::create(std::move(edited)), data) == truth;
      } catch (const Error&) {
        ++refused;
      }
      CHECK(same);
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("one plan runs many times in one workspace, also in turn with another plan") {
  const Data data(kProblem);
  const std::vector<float> truth = data.truth();
  const Plan first = Plan::create(kProblem, winograd(2));
  const Plan second = Plan::create(kProblem, winograd(3));
  const std::size_t bytes = std::max(first.workspace_bytes(), second.workspace_bytes());
  AlignedBytes workspace(bytes);
  for (const Plan* plan : {&first, &first, &first, &second, &first, &second, &second}) {
    std::vector<float> y;
    plan->execute(data.tensors(y), workspace.get(), bytes);
    CHECK(y == truth);
  }
}

TEST_CASE("one plan runs on several threads at once, each with its own workspace") {
  const Data data(kProblem);
  const std::vector<float> truth = data.truth();
  const Plan plan = Plan::create(kProblem, winograd(2));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      AlignedBytes workspace(plan.workspace_bytes());
      for (int repeat = 0; repeat < 10; ++repeat) {
        std::vector<float> y;
        plan.execute(data.tensors(y), workspace.get(), plan.workspace_bytes());
        if (y != truth) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("random data gives the same bits for every worker count, policy and window") {
  const ConvProblem problem = parse_problem("n2c33h19w23k50");
  Data data(problem);
  fill_normal(data.x, 5);
  fill_normal(data.w, 6);
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    PlanOptions options;
    options.tiling.algorithm = algorithm;
    options.tiling.group_tiles = algorithm == Algorithm::direct ? 0 : 5;
    options.num_threads = 1;
    const Plan base = Plan::create(problem, options);
    const std::vector<float> bits = run(base, data);
    for (const std::uint32_t threads : {2u, 3u, 7u}) {
      for (const char* const policy : {"interleaved", "staged", "random_topological"}) {
        // The same tiling under another order: worker counts only change what a tiling defaults to.
        Tiling tiling = base.lowering().tiling();
        if (Window* const window = tiling.window()) {
          *window = {tiling.num_groups, tiling.num_groups};
        }
        Lowering other = cut(tiling);
        MappingOptions mapping;
        mapping.policy = policy;
        mapping.seed = threads;
        other.mapping = make_mapping(other.graph, mapping);
        PlanOptions runtime;
        runtime.num_threads = threads;
        CAPTURE(threads, policy, static_cast<int>(algorithm));
        CHECK(run(Plan::create(std::move(other), runtime), data) == bits);
      }
    }
  }
}

TEST_CASE("prepared filters give the same bits as filters transformed in every run") {
  for (const char* text : {"n2c20h17w11k37", "n1c6h9k10r5u2", "n1c12h9k12g12"}) {
    CAPTURE(text);
    const ConvProblem problem = parse_problem(text);
    const Data data(problem);
    PlanOptions options;
    options.num_threads = 2;
    const std::vector<float> expected = run(Plan::create(problem, options), data);
    options.tiling.filters = FilterMode::prepared;
    const Plan plan = Plan::create(problem, options);
    AlignedBytes prepared(plan.prepared_filter_bytes());
    plan.prepare_filters(data.w.data(), prepared.get());
    std::vector<float> y;
    Tensors tensors = data.tensors(y);
    tensors.w = nullptr;
    tensors.prepared_filters = prepared.get();
    AlignedBytes workspace(plan.workspace_bytes());
    plan.execute(tensors, workspace.get(), plan.workspace_bytes());
    CHECK(y == expected);
  }
}

TEST_CASE("the residual may be y itself") {
  const Data data(kProblem);
  const Plan plan = Plan::create(kProblem, winograd());
  std::vector<float> y;
  Tensors tensors = data.tensors(y);
  y = data.residual;
  tensors.residual = tensors.y = y.data();
  AlignedBytes workspace(plan.workspace_bytes());
  plan.execute(tensors, workspace.get(), plan.workspace_bytes());
  CHECK(y == data.truth());
}

TEST_CASE("a window keeps the workspace from growing with the batch") {
  PlanOptions options = winograd();
  const auto bytes = [&](const char* problem) {
    return Plan::create(parse_problem(problem), options).workspace_bytes();
  };
  const std::size_t small = bytes("n16c64h56k64"), large = bytes("n64c64h56k64");
  // Only counters grow: a few words per group.
  CHECK(large - small < 64 * 1024);
  options.tiling.whole_tensors = true;
  CHECK(bytes("n64c64h56k64") > 3 * bytes("n16c64h56k64"));
}

TEST_CASE("wrong arguments are named before any work starts") {
  const Data data(kProblem);
  const Plan plan = Plan::create(kProblem, winograd());
  const std::size_t bytes = plan.workspace_bytes();
  AlignedBytes workspace(bytes + 64);
  std::vector<float> y;
  const Tensors good = data.tensors(y);
  const auto rejects = [&](Tensors tensors, void* space, std::size_t space_bytes,
                           const char* message) {
    CHECK_THROWS_WITH(plan.execute(tensors, space, space_bytes), ContainsSubstring(message));
  };
  Tensors bad = good;
  bad.x = nullptr;
  rejects(bad, workspace.get(), bytes, "x is null");
  bad = good;
  bad.bias = nullptr;
  rejects(bad, workspace.get(), bytes, "bias is null");
  bad = good;
  bad.prepared_filters = workspace.get();
  rejects(bad, workspace.get(), bytes, "prepared_filters given");
  bad = good;
  bad.y = const_cast<float*>(data.x.data());
  rejects(bad, workspace.get(), bytes, "x overlaps y");
  bad = good;
  bad.residual = y.data() + 1;
  rejects(bad, workspace.get(), bytes, "residual overlaps y");
  rejects(good, y.data() - reinterpret_cast<std::uintptr_t>(y.data()) % 64 / sizeof(float), bytes,
          "overlaps workspace");
  rejects(good, nullptr, bytes, "workspace is null");
  rejects(good, workspace.get(), bytes - 1, "bytes, must be at least");
  rejects(good, static_cast<std::byte*>(workspace.get()) + 4, bytes, "not aligned to 64 bytes");
  for (const float value : y) REQUIRE(value != value);  // untouched
  plan.execute(good, workspace.get(), bytes);           // and the plan still works
  CHECK(y == data.truth());
}

TEST_CASE("a workspace in use by another run is refused") {
  const Data data(kProblem);
  const Plan plan = Plan::create(kProblem, winograd());
  AlignedBytes workspace(plan.workspace_bytes());
  std::vector<float> y;
  {
    WorkspaceLayout layout;
    layout.counters = sizeof(WorkspaceHeader);
    const WorkspaceLease lease(workspace.get(), layout, new_plan_word(), {});
    CHECK_THROWS_WITH(plan.execute(data.tensors(y), workspace.get(), plan.workspace_bytes()),
                      ContainsSubstring("in use by another run"));
  }
  plan.execute(data.tensors(y), workspace.get(), plan.workspace_bytes());
  CHECK(y == data.truth());
}

TEST_CASE("a half of an old workspace's word does not say that a run is using it") {
  const Data data(kProblem);
  const Plan plan = Plan::create(kProblem, winograd());
  AlignedBytes workspace(plan.workspace_bytes());
  std::vector<float> y;
  plan.execute(data.tensors(y), workspace.get(), plan.workspace_bytes());
  auto& owner = static_cast<WorkspaceHeader*>(static_cast<void*>(workspace.get()))->owner;
  for (const std::uint64_t low : {0x1u, 0x101u, 0xffffffffu}) {
    const std::uint64_t idle = new_plan_word();
    owner = (idle & ~std::uint64_t{0xffffffff}) | low;
    plan.execute(data.tensors(y), workspace.get(), plan.workspace_bytes());
    CHECK(y == data.truth());
  }
}

TEST_CASE("options out of range are refused while planning") {
  PlanOptions options;
  options.num_threads = 100000;
  CHECK_THROWS_WITH(Plan::create(kProblem, options),
                    ContainsSubstring("threads 100000, must be 1 to"));
  options = {};
  options.wait_budget_ms = 0;
  CHECK_THROWS_WITH(Plan::create(kProblem, options), ContainsSubstring("wait budget 0 ms"));
  options = {};
  options.tiling.m = 3;
  CHECK_THROWS_AS(Plan::create(kProblem, options), Error);
  const Plan plan = Plan::create(kProblem, {});
  CHECK_THROWS_WITH(plan.prepare_filters(nullptr, nullptr),
                    ContainsSubstring("transforms filters in every run"));
}

TEST_CASE("an instruction set forced by the environment is the one that runs") {
  const Data data(parse_problem("n2c20h17w11k37"));
  const std::vector<float> truth = data.truth();  // thousands; F(4x4) errs by less than 1
  PlanOptions options;
  options.num_threads = 2;
  for (const std::string& isa : cpu::available_isas()) {
    REQUIRE(setenv("MEGACONV_ISA", isa.c_str(), 1) == 0);
    const Plan plan = Plan::create(data.problem, options);
    REQUIRE(unsetenv("MEGACONV_ISA") == 0);
    CHECK_THAT(plan.describe(), ContainsSubstring("backend: cpu, 2 workers, " + isa + "\n"));
    std::vector<float> y = run(plan, data);
    CHECK(std::equal(y.begin(), y.end(), truth.begin(),
                     [](float got, float exact) { return std::fabs(got - exact) < 1; }));
  }
}

TEST_CASE("workers are no more than the control group's quota pays for") {
  CHECK(quota_cpus("200000 100000\n") == 2);
  CHECK(quota_cpus("150000 100000\n") == 2);
  CHECK(quota_cpus("1000 100000") == 1);
  CHECK(quota_cpus("9999999999999 100000") == kMaxWorkers);
  for (const char* none : {"max 100000\n", "", "200000", "200000 0", "-1 100000"}) {
    CAPTURE(none);
    CHECK(quota_cpus(none) == kMaxWorkers);
  }
}

TEST_CASE("describe says what was chosen") {
  const std::string text = Plan::create(kProblem, winograd()).describe();
  CHECK_THAT(text, ContainsSubstring("problem: " + to_string(kProblem)));
  CHECK_THAT(text, ContainsSubstring("policy: interleaved"));
  CHECK_THAT(text, ContainsSubstring("winograd"));
  CHECK_THAT(text, ContainsSubstring("workspace: "));
}
