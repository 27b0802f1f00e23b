// SPDX-License-Identifier: Apache-2.0
// Policies over the layers of a network.
#include <map>

#include "tasks/conv_graph.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/hand_made.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

// Most groups of a node's tasks that are written, wholly or in part, and still to be read.
std::uint64_t most_live_groups(const TaskGraph& graph, const std::vector<std::uint32_t>& order,
                               NodeId node, Role role = Role::product) {
  const Stage& writer = *graph.find(node, role);
  std::map<std::uint64_t, std::uint64_t> first_write, last_read;
  for (std::uint64_t position = order.size(); position-- > 0;) {
    const Task& task = graph.tasks[order[position]];
    const StageId stage = graph.stage_of(order[position]);
    if (graph.stages[stage].first == writer.first) first_write[task.group] = position;
    for (const Edge& edge : graph.edges) {
      if (edge.consumer.stage != stage || graph.stages[edge.producer.stage].first != writer.first) {
        continue;
      }
      if (!edge.consumer.groups.contains({task.group, task.group + 1u})) continue;
      for (std::uint64_t g = edge.producer.groups.begin; g < edge.producer.groups.end; ++g) {
        last_read.insert({g, position});
      }
    }
  }
  std::uint64_t most = 0;
  for (std::uint64_t position = 0; position < order.size(); ++position) {
    std::uint64_t live = 0;
    for (const auto& [group, written] : first_write) {
      live += written <= position && position <= last_read.at(group) ? 1 : 0;
    }
    most = std::max(most, live);
  }
  return most;
}

// Three layers of 3x3 filters, a task for each row.
std::vector<RowNode> rows_of_three_layers(std::uint64_t rows) {
  std::vector<RowNode> nodes;
  for (const char* name : {"a", "b", "c"}) {
    RowNode node{.name = name, .rows = rows, .rows_per_group = 1, .blocks = 1};
    node.reads = {{nodes.empty() ? "x" : nodes.back().name, 1}};
    nodes.push_back(node);
  }
  return nodes;
}

// One convolution behind the other.
TaskGraph two_convolutions(const Tiling& first, const Tiling& second) {
  TaskGraph graph;
  const BufferId between = add_convolution(graph, "conv1", first).y;
  add_convolution(graph, "conv2", second, {.x = between});
  link(graph);
  count_signals(graph);
  return graph;
}

Tiling rows_of_tiles(const char* problem, Algorithm algorithm) {
  TilingOptions options{.algorithm = algorithm, .whole_tensors = true};
  const ConvProblem parsed = parse_problem(problem);
  if (algorithm == Algorithm::direct) {
    options.rows_per_group = 2;
    options.cols_per_group = static_cast<std::uint32_t>(parsed.q());
  } else {
    options.m = 2;
    options.group_tiles = static_cast<std::uint32_t>((parsed.q() + 1) / 2);
  }
  return make_tiling(parsed, options, {});
}

}  // namespace

TEST_CASE(
    "depth_first works through the layers row by row, and keeps as few rows as the halo has") {
  const TaskGraph small = make_rows(rows_of_three_layers(4));
  CHECK(names(small, make_mapping(small, {.policy = "depth_first"}).order) ==
        "a/D[0,0] a/D[1,0] b/D[0,0] a/D[2,0] b/D[1,0] c/D[0,0] "
        "a/D[3,0] b/D[2,0] c/D[1,0] b/D[3,0] c/D[2,0] c/D[3,0]");
  const TaskGraph graph = make_rows(rows_of_three_layers(64));
  const auto live = [&](const char* policy, NodeId node) {
    const TaskMapping mapping = make_mapping(graph, {.policy = policy});
    REQUIRE_FALSE(validate(graph, mapping).has_value());
    return most_live_groups(graph, mapping.order, node);
  };
  for (const NodeId node : {NodeId{0}, NodeId{1}}) {
    CHECK(live("depth_first", node) == 3);
    CHECK(live("staged", node) == 64);
  }
}

TEST_CASE("depth_first keeps layers DIG positions apart, and takes M groups of one at a time") {
  const TaskGraph small = make_rows(rows_of_three_layers(4));
  const auto small_order = [&](std::uint32_t dig, std::uint32_t m_groups) {
    return names(
        small,
        make_mapping(small, {.policy = "depth_first", .dig = dig, .m_groups = m_groups}).order);
  };
  CHECK(small_order(1, 1) == names(small, make_mapping(small, {.policy = "depth_first"}).order));
  CHECK(small_order(1, 2) ==
        "a/D[0,0] a/D[1,0] b/D[0,0] a/D[2,0] a/D[3,0] b/D[1,0] b/D[2,0] "
        "c/D[0,0] c/D[1,0] b/D[3,0] c/D[2,0] c/D[3,0]");
  CHECK(small_order(3, 1) ==
        "a/D[0,0] a/D[1,0] a/D[2,0] a/D[3,0] b/D[0,0] b/D[1,0] b/D[2,0] b/D[3,0] "
        "c/D[0,0] c/D[1,0] c/D[2,0] c/D[3,0]");

  const TaskGraph graph = make_rows(rows_of_three_layers(64));
  std::uint64_t before = 0;
  for (const std::uint32_t dig : {0u, 1u, 4u, 8u, 16u, 1'000'000u}) {
    const TaskMapping mapping = make_mapping(graph, {.policy = "depth_first", .dig = dig});
    CAPTURE(dig);
    REQUIRE_FALSE(validate(graph, mapping).has_value());
    std::vector<std::uint64_t> position_of(graph.tasks.size());
    for (std::uint64_t p = 0; p < mapping.order.size(); ++p) position_of[mapping.order[p]] = p;
    // The last rows of a layer have nothing to wait behind.
    const std::uint64_t rows = 60 - std::min(dig, 60u);
    for (const Edge& edge : graph.edges) {
      const Stage& from = graph.stages[edge.producer.stage];
      const Stage& to = graph.stages[edge.consumer.stage];
      if (edge.consumer.groups.end > rows || dig > 60) continue;
      const std::uint64_t needed = position_of[from.first + edge.producer.groups.end - 1];
      CHECK(position_of[to.first + edge.consumer.groups.begin] >= needed + dig);
    }
    const std::uint64_t live = most_live_groups(graph, mapping.order, 0);
    CHECK(live >= before);
    before = live;
  }
  CHECK(before == 64);
  CHECK(make_mapping(graph, {.policy = "depth_first", .dig = 1'000'000}).order ==
        make_mapping(graph, {.policy = "staged"}).order);
  CHECK(error_of([&] { make_mapping(graph, {.policy = "depth_first", .m_groups = 0}); }) ==
        "m_groups = 0: must be at least 1");
}

TEST_CASE("depth_first keeps a few rows of tiles between two convolutions") {
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    const Tiling first = rows_of_tiles("c20h48w16k40", algorithm);
    const TaskGraph graph =
        two_convolutions(first, rows_of_tiles("c40h48w16k24", Algorithm::direct));
    CAPTURE(to_string(algorithm));
    REQUIRE(first.num_groups == 24);
    const TaskMapping mapping = make_mapping(graph, {.policy = "depth_first"});
    REQUIRE_FALSE(validate(graph, mapping).has_value());
    const Role writer = algorithm == Algorithm::winograd ? Role::output : Role::product;
    CHECK(most_live_groups(graph, mapping.order, 0, writer) == 3);  // two rows each, and a halo
  }
}

TEST_CASE("depth_first takes what nobody reads, too") {
  // c reads a; nobody reads rows 8 to 15 of it, nor b.
  std::vector<RowNode> nodes = {{.name = "a", .rows = 16, .rows_per_group = 4, .reads = {{"x", 0}}},
                                {.name = "b", .rows = 16, .rows_per_group = 2, .reads = {{"x", 0}}},
                                {.name = "c", .rows = 8, .rows_per_group = 4, .reads = {{"a", 0}}}};
  const TaskGraph graph = make_rows(nodes);
  for (const std::string& policy : policy_names()) {
    const auto violation = validate(graph, make_mapping(graph, {.policy = policy}));
    CAPTURE(policy);
    CHECK((violation ? violation->message : "") == "");
  }
}

TEST_CASE("interleaved orders each of two layers as if it were alone, one behind the other") {
  const Tiling first = rows_of_tiles("c40h16w16k70", Algorithm::winograd);
  const Tiling second = rows_of_tiles("c70h16w16k100", Algorithm::winograd);
  const TaskGraph graph = two_convolutions(first, second);
  for (const char* policy : {"interleaved", "blended"}) {
    for (const std::uint32_t dig : {1u, 7u, 40u}) {
      for (const std::uint32_t m_groups : {1u, 3u}) {
        const MappingOptions options{
            .policy = policy, .dig = dig, .dgo = 2 * dig, .m_groups = m_groups};
        const TaskMapping mapping = make_mapping(graph, options, {.workers = 3});
        CAPTURE(policy, dig, m_groups);
        REQUIRE_FALSE(validate(graph, mapping).has_value());
        std::vector<std::uint32_t> expected =
            make_mapping(build_graph(first), options, {.workers = 3}).order;
        const auto behind = static_cast<std::uint32_t>(expected.size());
        for (const std::uint32_t id :
             make_mapping(build_graph(second), options, {.workers = 3}).order) {
          expected.push_back(behind + id);
        }
        CHECK(mapping.order == expected);
      }
    }
  }
}

TEST_CASE("every policy is right over layers of every two algorithms") {
  const auto algorithms = {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct};
  for (const Algorithm one : algorithms) {
    for (const Algorithm other : algorithms) {
      const TaskGraph graph = two_convolutions(rows_of_tiles("n2c20h14w9k40", one),
                                               rows_of_tiles("n2c40h14w9k24", other));
      for (const std::string& policy : policy_names()) {
        for (const std::uint32_t workers : {1u, 8u}) {
          const TaskMapping mapping =
              make_mapping(graph, {.policy = policy, .seed = 5}, {.workers = workers});
          const auto violation = validate(graph, mapping);
          CAPTURE(to_string(one), to_string(other), policy);
          CHECK((violation ? violation->message : "") == "");
        }
      }
    }
  }
}
