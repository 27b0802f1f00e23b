// SPDX-License-Identifier: Apache-2.0
// The executor with task bodies of the test's own: order, visibility, repetition, hangs.
#include "runtime/cpu_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "megaconv/error.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/child.hpp"

using namespace megaconv;
using namespace megaconv::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kBudget = 20s;  // generous: sanitizers on a loaded machine

struct Cells {
  explicit Cells(const TaskGraph& graph) : counters(graph.counter_totals.size()), workers(8) {}
  CpuRunState at(std::uint32_t epoch) { return {counters.data(), epoch, workers.data()}; }
  std::vector<HostSync::Cell> counters;
  std::vector<CpuWorker> workers;
};

std::vector<Task> in_order(const Lowering& lowering) {
  std::vector<Task> tasks;
  for (const auto id : lowering.mapping.order) tasks.push_back(lowering.graph.tasks[id]);
  return tasks;
}

Lowering small_winograd(const std::string& policy, std::uint32_t slots) {
  TilingOptions tiling;
  tiling.algorithm = Algorithm::winograd;
  tiling.group_tiles = 3;
  tiling.v_slots = tiling.m_slots = slots;
  MappingOptions mapping;
  mapping.policy = policy;
  mapping.dig = mapping.dgo = 2;
  mapping.m_groups = 2;
  mapping.seed = 5;
  return lower(parse_problem("n2c40h13w9k70"), tiling, mapping, Target{.workers = 3});
}

// Plain memory standing for V and M: a group's slot holds, per task of the producing stage, the
// group that wrote it. A wrong order shows as a wrong group, a missing fence as a TSan report.
class ShadowTensors {
 public:
  explicit ShadowTensors(const Tiling& tiling)
      : tiling_(tiling),
        filters_(std::max(1u, tiling.num_filter_tasks)),
        v_(tiling.window()->v_slots * tiling.input_tasks),
        m_(tiling.window()->m_slots * tiling.gemm_tasks),
        output_runs_(tiling.num_groups * tiling.output_tasks) {}

  void run(const Task& task) {
    const int tag = static_cast<int>(task.group) + 1;
    int* const v = v_.data() + task.group % tiling_.window()->v_slots * tiling_.input_tasks;
    int* const m = m_.data() + task.group % tiling_.window()->m_slots * tiling_.gemm_tasks;
    switch (kind_of(task)) {
      case TaskKind::filter_transform:
        ++filters_[task.block];
        break;
      case TaskKind::input_transform:
        v[task.block] = tag;
        break;
      case TaskKind::gemm:
        for (std::uint32_t f = 0; f < tiling_.num_filter_tasks; ++f) expect(filters_[f] == run_);
        for (std::uint32_t i = 0; i < tiling_.input_tasks; ++i) expect(v[i] == tag);
        m[task.block] = tag;
        break;
      case TaskKind::output_transform:
        for (std::uint32_t j = 0; j < tiling_.gemm_tasks; ++j) expect(m[j] == tag);
        ++output_runs_[task.group * tiling_.output_tasks + task.block];
        break;
      case TaskKind::direct:
      case TaskKind::pooling:
        break;
    }
  }
  void begin_run() { ++run_; }
  bool all_right() const {
    return errors_ == 0 && std::all_of(output_runs_.begin(), output_runs_.end(),
                                       [this](int n) { return n == run_; });
  }

 private:
  void expect(bool condition) {
    if (!condition) ++errors_;
  }
  const Tiling& tiling_;
  std::vector<int> filters_, v_, m_, output_runs_;
  int run_ = 0;
  std::atomic<int> errors_{0};
};

}  // namespace

TEST_CASE(
    "every task runs once and after its producers, for every policy, window and worker count") {
  for (const std::string policy :
       {"interleaved", "depth_first", "critical_path", "random_topological"}) {
    for (const std::uint32_t slots : {4u, 7u, 1000u}) {
      if (slots < 7 && policy == "interleaved") continue;  // DIG needs more groups in flight
      const Lowering lowering = small_winograd(policy, slots);
      const std::vector<Task> tasks = in_order(lowering);
      for (const std::uint32_t workers : {1u, 2u, 3u, 7u}) {
        CAPTURE(policy, slots, workers);
        Cells cells(lowering.graph);
        ShadowTensors shadow(lowering.tiling());
        for (std::uint32_t epoch = 0; epoch < 4; ++epoch) {
          shadow.begin_run();
          run_on_cpu(lowering.graph, tasks, workers, cells.at(epoch), kBudget,
                     [&](const Task& task, std::uint32_t) { shadow.run(task); });
        }
        CHECK(shadow.all_right());
      }
    }
  }
}

TEST_CASE("slow tasks and stalled workers change nothing") {
  const Lowering lowering = small_winograd("interleaved", 8);
  Cells cells(lowering.graph);
  ShadowTensors shadow(lowering.tiling());
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    shadow.begin_run();
    run_on_cpu(lowering.graph, in_order(lowering), 4, cells.at(epoch), kBudget,
               [&](const Task& task, std::uint32_t worker) {
                 // A delay of 0 to 300 us that depends on the task, and one worker that is always
                 // late.
                 const auto delay = (task.group * 7 + task.block * 3 + epoch) % 4 * 100;
                 std::this_thread::sleep_for(std::chrono::microseconds(worker == 1 ? 500 : delay));
                 shadow.run(task);
               });
  }
  CHECK(shadow.all_right());
}

TEST_CASE("a consumer in front of its producer ends in a report within twice the budget") {
  Lowering lowering = small_winograd("staged", 1000);
  auto& order = lowering.mapping.order;
  const TaskGraph& graph = lowering.graph;
  // G[0,0] moves to the front: with one worker it waits for tasks that nobody will take.
  const auto gemm = std::find(order.begin(), order.end(), graph.find(0, Role::product)->id(0, 0));
  std::rotate(order.begin(), gemm, gemm + 1);
  Cells cells(graph);
  const auto begin = std::chrono::steady_clock::now();
  std::string message;
  try {
    run_on_cpu(lowering.graph, in_order(lowering), 1, cells.at(0), 200ms,
               [](const Task&, std::uint32_t) {});
  } catch (const Error& error) {
    CHECK(error.status() == Status::timeout);
    message = error.what();
  }
  CHECK(std::chrono::steady_clock::now() - begin < 400ms);
  CHECK_THAT(message,
             ContainsSubstring("position 0: G[0,0] waited 200 ms on counter 0: seen 0, expected"));
  CHECK_THAT(message, ContainsSubstring("F[0] (position 1, not started)"));
}

TEST_CASE("a producer that hangs is named, and all workers come back") {
  const Lowering lowering = small_winograd("staged", 1000);
  const Tiling& tiling = lowering.tiling();
  Cells cells(lowering.graph);
  std::string message;
  try {
    run_on_cpu(lowering.graph, in_order(lowering), 3, cells.at(0), 100ms,
               [](const Task& task, std::uint32_t) {
                 if (kind_of(task) == TaskKind::gemm && task.group == 0 && task.block == 0) {
                   std::this_thread::sleep_for(600ms);
                 }
               });
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK_THAT(message, ContainsSubstring("O[0,"));
  CHECK_THAT(message, ContainsSubstring("seen " + std::to_string(tiling.gemm_tasks - 1) +
                                        ", expected " + std::to_string(tiling.gemm_tasks)));
  CHECK_THAT(message, ContainsSubstring("missing: G[0,0]"));
  CHECK_THAT(message, ContainsSubstring("waiting or running"));
}

TEST_CASE("a counter that expects more than it gets is named as such") {
  Task producer, consumer;
  producer.num_signals = 1;
  consumer.wait_counter = 0;
  consumer.wait_count = 2;
  TaskGraph graph;
  graph.signals = {{0, 1}};
  graph.counter_totals = {2};
  Cells cells(graph);
  const std::vector<Task> tasks = {producer, consumer};
  CHECK_THROWS_WITH(
      run_on_cpu(graph, tasks, 2, cells.at(0), 50ms, [](const Task&, std::uint32_t) {}),
      ContainsSubstring("seen 1, expected 2") &&
          ContainsSubstring("all producers of the counter have signalled"));
}

TEST_CASE("a process that is stopped for longer than the wait budget does not give up its run") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  // The second task waits for the first, which takes a fifth of the budget.
  Task producer, consumer;
  producer.num_signals = 1;
  consumer.wait_counter = 0;
  consumer.wait_count = 1;
  TaskGraph graph;
  graph.signals = {{0, 1}};
  graph.counter_totals = {1};
  const std::vector<Task> tasks = {producer, consumer};
  for (int i = 0; i < 5; ++i) {
    const pid_t child = start_child([&] {
      Cells cells(graph);
      run_on_cpu(graph, tasks, 2, cells.at(0), 500ms, [](const Task& task, std::uint32_t) {
        if (task.num_signals != 0) std::this_thread::sleep_for(100ms);
      });
      return 0;
    });
    std::this_thread::sleep_for(50ms);
    kill(child, SIGSTOP);
    std::this_thread::sleep_for(700ms);
    kill(child, SIGCONT);
    CHECK(end_of(child) == 0);
  }
}

TEST_CASE("a trace has every position once, with times in order") {
  const Lowering lowering = small_winograd("interleaved", 8);
  Cells cells(lowering.graph);
  Trace trace;
  run_on_cpu(
      lowering.graph, in_order(lowering), 3, cells.at(0), kBudget,
      [](const Task&, std::uint32_t) { std::this_thread::sleep_for(10us); }, &trace);
  REQUIRE(trace.records.size() == lowering.graph.tasks.size());
  CHECK(trace.num_workers == 3);
  for (std::uint32_t p = 0; p < trace.records.size(); ++p) {
    const TraceRecord& record = trace.records[p];
    CHECK(record.position == p);
    CHECK(record.worker < 3);
    CHECK(record.fetch_ns <= record.ready_ns);
    CHECK(record.ready_ns + 10'000 <= record.end_ns);
  }
}
