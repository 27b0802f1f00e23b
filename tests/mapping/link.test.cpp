// SPDX-License-Identifier: Apache-2.0
// From regions to edges, counters and the proof, on graphs made by hand: which edges follow, which
// of them need no signals, and which accesses are refused.
#include <random>
#include <set>
#include <tuple>

#include "mapping/needs.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/hand_made.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

// An edge between single groups: consumer and producer.
using Pair = std::tuple<std::string, std::uint64_t, std::string, std::uint64_t>;

std::set<Pair> pairs_of(const TaskGraph& graph, const std::vector<Edge>& edges) {
  std::set<Pair> pairs;
  const auto node = [&](StageId stage) { return graph.nodes[graph.stages[stage].node]; };
  for (const Edge& edge : edges) {
    for (std::uint64_t c = edge.consumer.groups.begin; c < edge.consumer.groups.end; ++c) {
      for (std::uint64_t p = edge.producer.groups.begin; p < edge.producer.groups.end; ++p) {
        pairs.insert({node(edge.consumer.stage), c, node(edge.producer.stage), p});
      }
    }
  }
  return pairs;
}

// What edges must be, row by row: a group that reads a row needs the group that writes it.
std::set<Pair> pairs_of_rows(const std::vector<RowNode>& nodes) {
  std::set<Pair> pairs;
  for (const RowNode& reader : nodes) {
    for (std::uint64_t c = 0; c < reader.groups(); ++c) {
      for (const RowNode::Read& read : reader.reads) {
        const Interval rows = reader.rows_read(c, read);
        for (std::uint64_t row = rows.begin; row < rows.end; ++row) {
          for (const RowNode& writer : nodes) {
            if (writer.name != read.from) continue;
            pairs.insert({reader.name, c, writer.name, row / writer.rows_per_group});
          }
        }
      }
    }
  }
  return pairs;
}

std::string verdict(const TaskGraph& graph, const char* policy = "staged") {
  const auto violation = validate(graph, make_mapping(graph, {.policy = policy}));
  return violation ? violation->message : "right";
}

// How many tasks of a node signal the counter on which a task of another waits.
std::size_t signals_between(const TaskGraph& graph, NodeId producer, const Task& consumer) {
  std::size_t count = 0;
  for (const Task& task : graph.tasks) {
    if (task.node != producer) continue;
    graph.for_each_signal(task,
                          [&](std::uint32_t c) { count += c == consumer.wait_counter ? 1 : 0; });
  }
  return count;
}

// The same graph without one signal, and with counts that agree with that.
TaskGraph without_signal(const TaskGraph& graph, std::uint32_t id, std::uint32_t counter) {
  TaskGraph broken = graph;
  Task& task = broken.tasks[id];
  std::vector<SignalRange> ranges;
  graph.for_each_signal(graph.tasks[id], [&](std::uint32_t c) {
    if (c != counter) ranges.push_back({c, 1});
  });
  task.first_signal = static_cast<std::uint32_t>(broken.signals.size());
  task.num_signals = static_cast<std::uint32_t>(ranges.size());
  broken.signals.insert(broken.signals.end(), ranges.begin(), ranges.end());
  --broken.counter_totals[counter];
  for (Task& waiter : broken.tasks) {
    if (waiter.wait_counter == counter) --waiter.wait_count;
  }
  return broken;
}

// No signal can be spared: the proof misses each of them.
void check_every_signal_is_needed(const TaskGraph& graph) {
  const TaskMapping mapping = make_mapping(graph, {.policy = "staged"});
  for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
    graph.for_each_signal(graph.tasks[id], [&](std::uint32_t counter) {
      const auto violation = validate(without_signal(graph, id, counter), mapping);
      INFO(name(graph, graph.tasks[id]) << " to " << counter);
      REQUIRE(violation.has_value());
      CHECK(violation->property == Violation::Property::complete_waits);
      CHECK_THAT(violation->message,
                 ContainsSubstring("does not signal") || ContainsSubstring("needs"));
    });
  }
}

// Tiles of rows of x -> a -> b.
std::vector<RowNode> two_layers() {
  return {{.name = "a", .rows = 16, .rows_per_group = 4, .reads = {{"x", 1}}},
          {.name = "b", .rows = 16, .rows_per_group = 3, .reads = {{"a", 1}}}};
}

// b reads a; c reads b and, as in a DenseNet, a, with a halo of its own.
std::vector<RowNode> three_layers(std::uint64_t halo_of_a) {
  std::vector<RowNode> nodes = two_layers();
  nodes.push_back(
      {.name = "c", .rows = 16, .rows_per_group = 5, .reads = {{"b", 1}, {"a", halo_of_a}}});
  return nodes;
}

}  // namespace

TEST_CASE("edges between tiles of rows are exactly those that the halo asks for") {
  const std::vector<RowNode> nodes = two_layers();
  const TaskGraph graph = make_rows(nodes);
  // a has rows 0-3, 4-7, 8-11 and 12-15; b 0-2, 3-5, 6-8, 9-11, 12-14 and 15.
  const std::set<Pair> expected = {
      {"b", 0, "a", 0}, {"b", 1, "a", 0}, {"b", 1, "a", 1}, {"b", 2, "a", 1}, {"b", 2, "a", 2},
      {"b", 3, "a", 2}, {"b", 3, "a", 3}, {"b", 4, "a", 2}, {"b", 4, "a", 3}, {"b", 5, "a", 3}};
  CHECK(pairs_of(graph, graph.edges) == expected);
  CHECK(pairs_of_rows(nodes) == expected);
  CHECK(pairs_of(graph, find_needs(graph).edges) == expected);
  CHECK(verdict(graph) == "right");
  CHECK(name(graph, graph.tasks[graph.find(1, Role::product)->id(2, 1)]) == "b/D[2,1]");
  check_every_signal_is_needed(graph);
  // All tasks of both groups of a, once each.
  const Task& task = graph.tasks[graph.find(1, Role::product)->id(2, 0)];
  CHECK(task.wait_count == 4);
  CHECK(waits_for(graph, task) == "a/D[1,0] a/D[1,1] a/D[2,0] a/D[2,1]");
}

TEST_CASE("groups that read the same share a counter, those of other nodes have their own") {
  std::vector<RowNode> nodes = two_layers();
  nodes[1].reads[0].halo = 16;  // all of a
  const TaskGraph graph = make_rows(nodes);
  CHECK(graph.counter_totals == std::vector<std::uint32_t>{8});
  CHECK(graph.edges.size() == 1);
  CHECK(verdict(graph) == "right");
  check_every_signal_is_needed(graph);
}

TEST_CASE("an edge that another implies gets no signals, and the proof finds it all the same") {
  const std::vector<RowNode> nodes = three_layers(0);
  const TaskGraph graph = make_rows(nodes);
  CHECK(pairs_of(graph, graph.edges) == pairs_of_rows(nodes));
  const Stage& c = *graph.find(2, Role::product);
  for (std::uint32_t group = 0; group < c.groups; ++group) {
    const Task& task = graph.tasks[c.id(group, 0)];
    CAPTURE(group);
    CHECK(signals_between(graph, 0, task) == 0);
    CHECK(signals_between(graph, 1, task) == task.wait_count);
  }
  for (const std::string& policy : policy_names()) {
    CAPTURE(policy);
    CHECK(verdict(graph, policy.c_str()) == "right");
  }
  check_every_signal_is_needed(graph);
}

TEST_CASE("an edge that no other implies gets its signals") {
  const std::vector<RowNode> nodes = three_layers(8);  // further than b has waited for
  const TaskGraph graph = make_rows(nodes);
  CHECK(pairs_of(graph, graph.edges) == pairs_of_rows(nodes));
  const Stage& c = *graph.find(2, Role::product);
  const Task& first = graph.tasks[c.id(0, 0)];
  CHECK(signals_between(graph, 0, first) == 8);  // a's rows 0 to 12, two tasks for four of them
  CHECK(verdict(graph) == "right");
  // Without the edge the counters would miss it: then the proof does not.
  TaskGraph forgetful = graph;
  std::erase_if(forgetful.edges, [](const Edge& edge) {
    return edge.consumer.stage == 2 && edge.producer.stage == 0;
  });
  count_signals(forgetful);
  CHECK_THAT(verdict(forgetful), ContainsSubstring("c/D[0,0] waits on counter ") &&
                                     ContainsSubstring(", which a/D[2,0] does not signal"));
}

TEST_CASE("random chains, joins and skips of tiles have the edges of their rows or columns") {
  std::mt19937 random(20260301);
  const auto in = [&](std::uint64_t least, std::uint64_t most) {
    return least + random() % (most - least + 1);
  };
  std::size_t implied = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<RowNode> nodes;
    for (std::uint64_t n = 0, most = in(2, 6); n < most; ++n) {
      RowNode node{.name = std::string(1, static_cast<char>('a' + n)), .rows = 24};
      node.rows_per_group = in(1, 24);
      node.blocks = static_cast<std::uint32_t>(in(1, 3));
      for (std::uint64_t from = 0; from < n; ++from) {
        if (from + 1 == n || in(1, 3) == 1) node.reads.push_back({nodes[from].name, in(0, 4)});
      }
      nodes.push_back(node);
    }
    INFO("case " << i);
    const TaskGraph graph = make_rows(nodes, i % 2 == 0 ? &Region::rows : &Region::cols);
    const std::set<Pair> expected = pairs_of_rows(nodes);
    REQUIRE(pairs_of(graph, graph.edges) == expected);
    REQUIRE(pairs_of(graph, find_needs(graph).edges) == expected);
    for (const std::string& policy : policy_names()) {
      CAPTURE(policy);
      REQUIRE(verdict(graph, policy.c_str()) == "right");
    }
    for (const Edge& edge : graph.edges) {
      const Stage& consumer = graph.stages[edge.consumer.stage];
      const Stage& producer = graph.stages[edge.producer.stage];
      const auto group = static_cast<std::uint32_t>(edge.consumer.groups.begin);
      const Task& waiter = graph.tasks[consumer.id(group, 0)];
      implied += signals_between(graph, producer.node, waiter) == 0 ? 1 : 0;
    }
  }
  CHECK(implied > 100);
}

// --- accesses that are wrong

namespace {

// a writes A, b reads A and writes B, in two groups of two tasks with four rows each; `change`
// changes what is listed.
using Change = std::function<void(NodeId node, std::uint32_t group, std::uint32_t block,
                                  std::vector<Access>& accesses)>;

enum : BufferId { kX, kA, kB, kZ };

TaskGraph unlinked(const Change& change) {
  TaskGraph graph;
  graph.nodes = {"a", "b"};
  graph.kinds = {{"direct", 'D'}};
  for (const char* name : {"x", "A", "B", "Z"}) {
    graph.buffers.push_back(
        {.name = name, .extent = {.rows = {0, 8}, .channels = {0, 2}}, .given = name[0] == 'x'});
  }
  for (NodeId node = 0; node < 2; ++node) {
    graph.accesses.push_back([node, change](Role, std::uint32_t group, std::uint32_t block,
                                            std::vector<Access>& accesses) {
      const Interval rows{group * 4u, group * 4u + 4};
      accesses.push_back({node == 0 ? kX : kA, Mode::read, {.rows = rows, .channels = {0, 2}}});
      accesses.push_back(
          {node == 0 ? kA : kB, Mode::write, {.rows = rows, .channels = {block, block + 1u}}});
      if (change) change(node, group, block, accesses);
    });
    add_products(graph, node, 2, 2);
  }
  return graph;
}

std::string link_error(const Change& change) {
  TaskGraph graph = unlinked(change);
  return error_of([&] { link(graph); });
}

// What the proof says of a graph that was linked before its accesses went wrong.
std::string proof_error(const Change& change) {
  TaskGraph graph = unlinked(nullptr);
  link(graph);
  count_signals(graph);
  const TaskMapping mapping = make_mapping(graph, {.policy = "staged"});
  REQUIRE_FALSE(validate(graph, mapping).has_value());
  graph.accesses = unlinked(change).accesses;
  const auto violation = validate(graph, mapping);
  if (!violation) return "right";
  const bool of_regions = violation->property == Violation::Property::regions;
  return (of_regions ? "regions, " : "not regions, ") + violation->message;
}

}  // namespace

TEST_CASE("a read of what nobody writes is refused with operator, buffer and region") {
  const Change change = [](NodeId node, std::uint32_t, std::uint32_t, std::vector<Access>& list) {
    if (node == 1) list.push_back({kZ, Mode::read, {.rows = {2, 5}, .channels = {0, 2}}});
  };
  CHECK(link_error(change) ==
        "b, direct: reads rows 2-5, channels 0-2 of buffer Z, which no task writes");
  CHECK(proof_error(change) ==
        "regions, position 4: b/D[0,0] reads rows 2-5, channels 0-2 of buffer Z, of which tasks "
        "write 0 of 6 elements");
}

TEST_CASE("a read of what is written in part is refused with operator, buffer and region") {
  for (const bool all_of_a_group : {false, true}) {
    const Change change = [&](NodeId node, std::uint32_t group, std::uint32_t block,
                              std::vector<Access>& list) {
      if (node == 0 && group == 1 && (block == 1 || all_of_a_group)) list.pop_back();
    };
    TaskGraph graph = unlinked(change);
    const std::string expected =
        all_of_a_group
            ? "b/D[1,0] reads rows 4-8, channels 0-2 of buffer A, of which tasks write 0 of 8 "
              "elements"
            : "b/D[1,0] reads rows 4-8, channels 0-2 of buffer A, of which tasks write 4 of 8 "
              "elements";
    if (all_of_a_group) {
      CHECK(error_of([&] { link(graph); }) ==
            "b, direct: reads rows 4-8, channels 0-2 of buffer A, which no task writes");
    } else {
      link(graph);
      count_signals(graph);
      CHECK(verdict(graph) == "position 6: " + expected);
    }
    CHECK(proof_error(change) == "regions, position 6: " + expected);
  }
  // A hole of one element within a group's grid of writes.
  const Change hole = [](NodeId node, std::uint32_t group, std::uint32_t block,
                         std::vector<Access>& list) {
    if (node == 0 && group == 0 && block == 0) list.back().region.rows = {0, 3};
  };
  CHECK(proof_error(hole) ==
        "regions, position 4: b/D[0,0] reads rows 0-4, channels 0-2 of buffer A, of which tasks "
        "write 7 of 8 elements");
}

TEST_CASE("two writers of one region are refused with operators, buffer and regions") {
  const auto also_writes = [](NodeId of, std::uint32_t of_group, const Access& access) {
    return [=](NodeId node, std::uint32_t group, std::uint32_t block, std::vector<Access>& list) {
      if (node == of && group == of_group && block == 1) list.push_back(access);
    };
  };
  const auto rejected = [&](const Change& change) {
    TaskGraph graph = unlinked(change);
    link(graph);
    count_signals(graph);
    const std::string found = verdict(graph);
    CHECK(proof_error(change) == "regions, " + found);
    return found;
  };
  // Of another node, of the same group, and of the group before.
  CHECK(rejected(also_writes(1, 0, {kA, Mode::write, {.rows = {3, 4}, .channels = {1, 2}}})) ==
        "position 5: b/D[0,1] writes rows 3-4, channels 1-2 of buffer A, of which a/D[0,0] writes "
        "rows 0-4, channels 0-2");
  CHECK(rejected(also_writes(0, 0, {kA, Mode::write, {.rows = {0, 4}}})) ==
        "position 1: a/D[0,1] writes rows 0-4 of buffer A, of which a/D[0,0] writes rows 0-4");
  CHECK_THAT(rejected(also_writes(0, 1, {kA, Mode::write, {.rows = {3, 4}}})),
             ContainsSubstring("rows 3-4 of buffer A, of which a/D[0,0] writes rows 0-4"));
}

TEST_CASE("regions beyond their buffer are refused with operator, buffer and region") {
  const auto touches = [](NodeId of, std::uint32_t block_of, Mode mode, const Region& region) {
    return [=](NodeId node, std::uint32_t group, std::uint32_t block, std::vector<Access>& list) {
      const BufferId buffer = mode == Mode::read ? kX : of == 0 ? kA : kB;
      if (node == of && group == 1 && block == block_of) list.push_back({buffer, mode, region});
    };
  };
  const std::string extent = ", which has only rows 0-8, channels 0-2";
  const Region wide{.rows = {7, 9}}, high{.channels = {1, 3}}, far{.cols = {1, 2}};
  const Region empty{.rows = {9, 9}};
  for (const Region& region : {wide, high, far, empty}) {
    const std::string text = to_string(region);
    CHECK(link_error(touches(0, 1, Mode::write, region)) ==
          "a, direct: writes " + text + " of buffer A" + extent);
    CHECK(link_error(touches(1, 0, Mode::read, region)) ==
          "b, direct: reads " + text + " of buffer x" + extent);
    CHECK(proof_error(touches(0, 1, Mode::write, region)) ==
          "regions, position 3: a/D[1,1] writes " + text + " of buffer A" + extent);
    CHECK(proof_error(touches(1, 1, Mode::write, region)) ==
          "regions, position 7: b/D[1,1] writes " + text + " of buffer B" + extent);
    CHECK(proof_error(touches(1, 1, Mode::read, region)) ==
          "regions, position 7: b/D[1,1] reads " + text + " of buffer x" + extent);
  }
}

TEST_CASE("a buffer that does not exist is refused with the operator") {
  const Change change = [](NodeId node, std::uint32_t, std::uint32_t, std::vector<Access>& list) {
    if (node == 1) list.push_back({9, Mode::read, {}});
  };
  CHECK(link_error(change) == "b, direct: reads buffer 9, there are 4");
  CHECK(proof_error(change) == "regions, position 4: b/D[0,0] reads buffer 9, there are 4");
}

TEST_CASE("a reader in front of its writer is refused with operators, buffer and region") {
  const Change change = [](NodeId node, std::uint32_t group, std::uint32_t,
                           std::vector<Access>& list) {
    const Interval rows{group * 4u, group * 4u + 4};
    if (node == 0) list.push_back({kB, Mode::read, {.rows = rows, .channels = {0, 2}}});
  };
  CHECK(link_error(change) ==
        "a, direct: reads rows 0-4, channels 0-2 of buffer B, which only later tasks write: direct "
        "of b");
  CHECK(proof_error(change) ==
        "regions, position 0: a/D[0,0] reads rows 0-4, channels 0-2 of buffer B, which a later "
        "stage writes");
  // Nor may tasks of a stage read what others of it write.
  const Change own = [](NodeId node, std::uint32_t group, std::uint32_t,
                        std::vector<Access>& list) {
    if (node == 1) list.push_back({kB, Mode::read, {.rows = {0, 4 * group + 4u}}});
  };
  CHECK_THAT(link_error(own), ContainsSubstring("b, direct: reads rows 0-4 of buffer B, which only "
                                                "later tasks write: direct of b"));
  CHECK_THAT(proof_error(own), ContainsSubstring("reads rows 0-4 of buffer B, which a later stage "
                                                 "writes"));
}

namespace {

// a writes A in a grid: groups have rows and columns, blocks channels and positions. One of its
// regions may be a little wrong. b reads a box of it.
struct Boxes {
  Region extent, read;
  std::vector<std::vector<Region>> writes;  // by group and block

  explicit Boxes(std::mt19937& random) {
    const auto in = [&](std::uint64_t least, std::uint64_t most) {
      return least + random() % (most - least + 1);
    };
    const auto part = [&](std::uint64_t size) {
      const std::uint64_t begin = in(0, size - 1);
      return Interval{begin, in(begin + 1, size)};
    };
    constexpr Interval Region::*kAxes[] = {&Region::rows, &Region::cols, &Region::channels,
                                           &Region::positions};
    std::uint64_t sizes[4], steps[4], counts[4];
    for (int axis = 0; axis < 4; ++axis) {
      sizes[axis] = in(1, 4);
      steps[axis] = in(1, 3);
      counts[axis] = (sizes[axis] + steps[axis] - 1) / steps[axis];
      extent.*kAxes[axis] = {0, sizes[axis]};
      read.*kAxes[axis] = part(sizes[axis]);
    }
    const auto of = [&](int axis, std::uint64_t index) {
      const std::uint64_t begin = index * steps[axis];
      return Interval{begin, std::min(begin + steps[axis], sizes[axis])};
    };
    for (std::uint64_t group = 0; group < counts[0] * counts[1]; ++group) {
      writes.emplace_back();
      for (std::uint64_t block = 0; block < counts[2] * counts[3]; ++block) {
        writes.back().push_back({of(0, group / counts[1]), of(1, group % counts[1]),
                                 of(2, block / counts[3]), of(3, block % counts[3])});
      }
    }
    if (in(0, 1) == 0) return;
    std::vector<Region>& blocks = writes[in(0, writes.size() - 1)];
    const std::uint64_t axis = in(0, 3);
    blocks[in(0, blocks.size() - 1)].*kAxes[axis] = part(sizes[axis]);
  }

  TaskGraph graph() const {
    TaskGraph graph;
    graph.nodes = {"a", "b"};
    graph.kinds = {{"direct", 'D'}};
    graph.buffers = {{.name = "A", .extent = extent}};
    graph.accesses = {
        [this](Role, std::uint32_t group, std::uint32_t block, std::vector<Access>& list) {
          list.push_back({0, Mode::write, writes[group][block]});
        },
        [this](Role, std::uint32_t, std::uint32_t, std::vector<Access>& list) {
          list.push_back({0, Mode::read, read});
        }};
    add_products(graph, 0, writes.size(), static_cast<std::uint32_t>(writes[0].size()));
    add_products(graph, 1, 1, 1);
    return graph;
  }

  // Element by element: whether all is right, and the groups that write what is read.
  std::pair<bool, std::set<std::uint64_t>> truth() const {
    bool right = true;
    std::set<std::uint64_t> groups;
    for (std::uint64_t i = 0; i < 256; ++i) {
      const std::uint64_t row = i / 64, col = i / 16 % 4, channel = i / 4 % 4, position = i % 4;
      const Region element{
          {row, row + 1}, {col, col + 1}, {channel, channel + 1}, {position, position + 1}};
      int writers = 0;
      for (std::uint64_t group = 0; group < writes.size(); ++group) {
        for (const Region& region : writes[group]) {
          if (!region.contains(element)) continue;
          ++writers;
          if (read.contains(element)) groups.insert(group);
        }
      }
      right = right && writers <= 1 && (writers == 1 || !read.contains(element));
    }
    return {right, groups};
  }
};

std::set<std::uint64_t> producers(const std::vector<Edge>& edges) {
  std::set<std::uint64_t> groups;
  for (const Edge& edge : edges) {
    for (std::uint64_t g = edge.producer.groups.begin; g < edge.producer.groups.end; ++g) {
      groups.insert(g);
    }
  }
  return groups;
}

}  // namespace

TEST_CASE("of random boxes those are refused that leave out or share an element, and no others") {
  std::mt19937 random(20260302);
  int right = 0, wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    const Boxes boxes(random);
    TaskGraph graph = boxes.graph();
    const auto [is_right, groups] = boxes.truth();
    const Needs needs = find_needs(graph);
    INFO("case " << i << (needs.wrong ? ": " + needs.wrong->what : ""));
    REQUIRE(needs.wrong.has_value() != is_right);
    ++(is_right ? right : wrong);
    if (!is_right) continue;
    REQUIRE(producers(needs.edges) == groups);
    link(graph);
    REQUIRE(producers(graph.edges) == groups);
  }
  CHECK(right > 5000);
  CHECK(wrong > 2000);
}

TEST_CASE("neighbours that read all of a buffer are one reader, however often they say so") {
  TaskGraph graph;
  graph.nodes = {"a", "b"};
  graph.kinds = {{"direct", 'D'}};
  for (const char* name : {"x", "A", "B"}) {
    graph.buffers.push_back({.name = name, .extent = {.rows = {0, 8}}, .given = name[0] == 'x'});
  }
  for (NodeId node = 0; node < 2; ++node) {
    graph.accesses.push_back(
        [node](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& list) {
          for (int time = 0; time < 3; ++time) {
            list.push_back({node == 0 ? kX : kA, Mode::read, {.rows = {0, 8}}});
          }
          list.push_back({node == 0 ? kA : kB, Mode::write, {.rows = {group, group + 1}}});
        });
    add_products(graph, node, 8, 1);
  }
  const Needs needs = find_needs(graph);
  CHECK_FALSE(needs.wrong.has_value());
  CHECK(needs.edges == std::vector<Edge>{{{1, {0, 8}}, {0, {0, 8}}}});
  link(graph);
  count_signals(graph);
  CHECK(verdict(graph) == "right");
}

TEST_CASE("groups of one stage may read different buffers") {
  // c's first group reads A alone, its second one B alone.
  TaskGraph graph;
  graph.nodes = {"a", "b", "c"};
  graph.kinds = {{"direct", 'D'}};
  constexpr BufferId kC = 3;
  for (const char* name : {"x", "A", "B", "C"}) {
    graph.buffers.push_back({.name = name, .extent = {.rows = {0, 2}}, .given = name[0] == 'x'});
  }
  for (NodeId node = 0; node < 2; ++node) {
    graph.accesses.push_back(
        [node](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& list) {
          list.push_back({node == 0 ? kA : kB, Mode::write, {.rows = {group, group + 1}}});
        });
    add_products(graph, node, 2, 1);
  }
  graph.accesses.push_back([](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& list) {
    list.push_back({group == 0 ? kA : kB, Mode::read, {.rows = {0, 2}}});
    list.push_back({kC, Mode::write, {.rows = {group, group + 1}}});
  });
  add_products(graph, 2, 2, 1);
  link(graph);
  count_signals(graph);
  CHECK(graph.edges == std::vector<Edge>{{{2, {0, 1}}, {0, {0, 2}}}, {{2, {1, 2}}, {1, {0, 2}}}});
  CHECK(verdict(graph) == "right");
}

// --- windows

TEST_CASE("a task that writes two windowed buffers waits for the readers of both slots") {
  // a writes A and Z, b reads A, c reads Z.
  TaskGraph graph;
  graph.nodes = {"a", "b", "c"};
  graph.kinds = {{"direct", 'D'}};
  for (const char* name : {"x", "A", "B", "Z", "C"}) {
    graph.buffers.push_back({.name = name, .extent = {.rows = {0, 8}}, .given = name[0] == 'x'});
  }
  constexpr BufferId kC = 4;
  graph.buffers[kA].windowed = graph.buffers[kZ].windowed = true;
  for (NodeId node = 0; node < 3; ++node) {
    graph.accesses.push_back(
        [node](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& list) {
          const Region rows{.rows = {group, group + 1}};
          list.push_back({node == 0 ? kX : node == 1 ? kA : kZ, Mode::read, rows});
          list.push_back({node == 0 ? kA : node == 1 ? kB : kC, Mode::write, rows});
          if (node == 0) list.push_back({kZ, Mode::write, rows});
        });
    add_products(graph, node, 8, 1);
  }
  link(graph);
  graph.buffers[kZ].slots = 2;  // of A there is more
  graph.buffers[kA].slots = 4;
  add_reuse(graph);
  count_signals(graph);
  CHECK(verdict(graph, "critical_path") == "right");
  CHECK(verdict(graph, "random_topological") == "right");
  CHECK_THAT(verdict(graph, "staged"), ContainsSubstring("which stands later"));
  const auto waiters = [&](std::uint32_t group) {
    return waits_for(graph, graph.tasks[graph.find(0, Role::product)->id(group, 0)]);
  };
  CHECK(waiters(1) == "");
  CHECK_THAT(waiters(2), ContainsSubstring("c/D[0,0]"));
  CHECK_THAT(waiters(4), ContainsSubstring("b/D[0,0]") && ContainsSubstring("c/D[2,0]"));
  // A, read by b right behind the writer, needs one slot; Z, read when all is written, all.
  const TaskGraph whole = without_window(graph);
  std::vector<std::uint32_t> order;
  for (std::uint32_t g = 0; g < 8; ++g) order.insert(order.end(), {g, 8 + g});
  for (std::uint32_t g = 0; g < 8; ++g) order.push_back(16 + g);
  TaskMapping mapping;
  mapping.policy = "custom";
  mapping.order = order;
  REQUIRE_FALSE(validate(whole, mapping).has_value());
  const std::vector<std::uint32_t> least = smallest_window(whole, mapping);
  CHECK(least[kZ] == 8);
  // One would do, but edges do not say which of the writer's buffers is read.
  CHECK(least[kA] == 8);
}
