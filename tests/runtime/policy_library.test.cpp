// SPDX-License-Identifier: Apache-2.0
// Policies from shared objects: MEGACONV_TEST_POLICIES is a folder with one object for each way to
// fail (bad_policy.cpp), and tools/examples/policy_pairs.c.
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "megaconv/megaconv.h"
#include "megaconv/plan.hpp"
#include "megaconv/simulation.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

std::string library(const char* name) {
  return std::string(MEGACONV_TEST_POLICIES "/") + name + ".so";
}

Lowering lower_with(const PolicyFunction& policy) {
  TilingOptions tiling;
  tiling.algorithm = Algorithm::winograd;
  return lower(parse_problem("n2c32h14k32"), tiling, {}, {.workers = 4}, policy);
}

/// A read or a write of rows, columns and all that one has.
Access rows(BufferId buffer, Mode mode, std::uint64_t begin, std::uint64_t end) {
  return {buffer, mode, {.rows = {begin, end}}};
}

/// Two nodes of four groups. The first is whole: its product of group g reads V of groups g to
/// g + 3, further than policy_pairs looks ahead. The second has a product stage alone, whose group
/// g reads y of groups 0 to g.
TaskGraph two_nodes() {
  enum : BufferId { x, u, v, m, y, z };
  TaskGraph graph;
  graph.nodes = {"a", "b"};
  graph.kinds = {{"prepare", 'F'}, {"input", 'I'}, {"product", 'G'}, {"output", 'O'}};
  const auto add = [&](NodeId node, Role role, std::uint32_t groups, std::uint32_t per_group) {
    Stage stage;
    stage.node = node;
    stage.role = role;
    stage.kind = static_cast<KindId>(role);
    stage.groups = groups;
    stage.per_group = per_group;
    add_stage(graph, stage);
  };
  for (const char* name : {"x", "U", "V", "M", "y", "z"}) {
    graph.buffers.push_back({.name = name, .extent = {.rows = {0, 8}}, .bytes = 8});
  }
  graph.buffers[x].given = true;
  add(0, Role::prepare, 1, 2);
  add(0, Role::input, 4, 2);
  add(0, Role::product, 4, 1);
  add(0, Role::output, 4, 1);
  add(1, Role::product, 4, 1);
  graph.accesses.push_back([](Role role, std::uint32_t group, std::uint32_t block,
                              std::vector<Access>& accesses) {
    const std::uint64_t begin = 2 * std::uint64_t{group}, one = begin + block;
    if (role == Role::prepare) {
      accesses = {rows(u, Mode::write, 4 * block, 4 * block + 4)};
    } else if (role == Role::input) {
      accesses = {rows(x, Mode::read, one, one + 1), rows(v, Mode::write, one, one + 1)};
    } else if (role == Role::product) {
      accesses = {rows(u, Mode::read, 0, 8), rows(v, Mode::read, begin, std::min(begin + 8, 8ul)),
                  rows(m, Mode::write, begin, begin + 2)};
    } else {
      accesses = {rows(m, Mode::read, begin, begin + 2), rows(y, Mode::write, begin, begin + 2)};
    }
  });
  graph.accesses.push_back(
      [](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& accesses) {
        const std::uint64_t begin = 2 * std::uint64_t{group};
        accesses = {rows(y, Mode::read, 0, begin + 2), rows(z, Mode::write, begin, begin + 2)};
      });
  link(graph);
  count_signals(graph);
  return graph;
}

/// What is wrong with the order that a policy makes; "" when it is right.
std::string violation_of(const PolicyFunction& policy, const TaskGraph& graph) {
  TaskMapping mapping;
  mapping.policy = "custom";
  mapping.order = policy(graph);
  const auto violation = validate(graph, mapping);
  return violation ? violation->message : "";
}

std::string error_with(const char* name, Status status = Status::invalid_argument) {
  return error_of([&] { lower_with(load_policy(library(name), 300)); }, status);
}

}  // namespace

TEST_CASE("the example policy makes a right order") {
  const Lowering lowering = lower_with(load_policy(library("policy_pairs")));
  CHECK_FALSE(validate(lowering.graph, lowering.mapping));
  CHECK(lowering.mapping.policy == "custom");
}

TEST_CASE("the example policy is right for any stages, windows and several nodes") {
  const PolicyFunction pairs = load_policy(library("policy_pairs"));
  for (Counts counts : kOddCounts) {
    CAPTURE(counts.ng, counts.nf, counts.si, counts.sg, counts.so);
    CHECK(violation_of(pairs, build_graph(direct_tiling(counts))) == "");  // product stage alone
    for (const std::uint32_t slots : {1u, 2u, 4u, 0u}) {
      counts.v_slots = counts.m_slots = slots;
      CAPTURE(slots);
      CHECK(violation_of(pairs, build_graph(winograd_tiling(counts))) == "");
    }
  }
  CHECK(violation_of(pairs, build_filter_graph(winograd_tiling({.nf = 3}))) == "");
  CHECK(violation_of(pairs, two_nodes()) == "");
}

TEST_CASE("the example policy transforms inputs two groups ahead") {
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 4}));
  // ids: F 0, I 1-4, G 5-8, O 9-12
  CHECK(load_policy(library("policy_pairs"))(graph) ==
        std::vector<std::uint32_t>{0, 1, 2, 3, 5, 9, 4, 6, 10, 7, 11, 8, 12});
}

TEST_CASE("a policy in C sees the stages by node and role, their edges and the signals") {
  const auto seen = [](const TaskGraph& graph) {
    return error_of([&] { load_policy(library("throws"))(graph); });
  };
  CHECK_THAT(seen(build_graph(winograd_tiling({.ng = 3, .nf = 2, .si = 2, .sg = 1, .so = 1}))),
             ContainsSubstring(std::to_string(sizeof(megaconv_graph)) +
                               " bytes; 0/0 0+1x2; 0/1 2+3x2; 0/2 8+3x1<0<1<0<1<0<1; "
                               "0/3 11+3x1<2<2<2; signals agree"));
  CHECK_THAT(seen(build_graph(winograd_tiling({.ng = 2, .nf = 0, .v_slots = 1}))),
             ContainsSubstring("0/1 0+2x1~1; 0/2 2+2x1<0<0; 0/3 4+2x1<1<1; signals agree"));
  CHECK_THAT(seen(build_graph(direct_tiling({.ng = 2, .nf = 3, .sg = 2}))),
             ContainsSubstring("bytes; 0/0 0+1x3; 0/2 3+2x2<0; signals agree"));
  CHECK_THAT(seen(two_nodes()), ContainsSubstring("; 0/3 14+4x1<2<2<2<2; 1/2 18+4x1<3"));
}

TEST_CASE("a policy that drops a task, throws, crashes, exits or loops is an error with its name") {
  CHECK_THAT(error_with("drops"), ContainsSubstring("policy \"custom\": position"));
  CHECK_THAT(error_with("refuses"), ContainsSubstring("refuses.so: returned 7"));
  CHECK_THAT(error_with("throws"), ContainsSubstring("throws.so: threw \""));
  CHECK_THAT(error_with("crashes"), ContainsSubstring("crashes.so: ended by signal"));
  CHECK_THAT(error_with("exits"), ContainsSubstring("exits.so: ended the process with status 3"));
  CHECK_THAT(error_with("loops", Status::timeout),
             ContainsSubstring("loops.so: no order after 300 ms"));
  CHECK_THAT(error_with("closes", Status::timeout),  // its end of the pipe, and goes on
             ContainsSubstring("closes.so: no order after 300 ms"));
  CHECK_THAT(error_with("empty"), ContainsSubstring("does not define megaconv_policy"));
  CHECK_THAT(error_with("absent"), ContainsSubstring("cannot open shared object"));
}

TEST_CASE("a program with a timer waits for a policy no longer than the budget") {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  const itimerval every_5_ms{{0, 5000}, {0, 5000}}, never{};
  setitimer(ITIMER_REAL, &every_5_ms, nullptr);
  const std::string error = error_with("loops", Status::timeout);
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  CHECK_THAT(error, ContainsSubstring("no order after 300 ms"));
}

TEST_CASE("a policy ends with the process that waits for it") {
  int held[2];  // both hold its writing end open as long as they live
  REQUIRE(pipe(held) == 0);
  const pid_t caller = fork();
  if (caller == 0) {
    try {
      lower_with(load_policy(library("loops"), 600'000));
    } catch (...) {
    }
    _exit(0);
  }
  close(held[1]);
  const std::string children =
      "/proc/" + std::to_string(caller) + "/task/" + std::to_string(caller) + "/children";
  int policy = 0;
  for (int tries = 0; tries < 1000 && policy == 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream(children) >> policy;
  }
  kill(caller, SIGKILL);
  waitpid(caller, nullptr, 0);
  pollfd closed{held[0], POLLIN, 0};
  const bool both_ended = poll(&closed, 1, 10'000) == 1;
  close(held[0]);
  if (policy == 0) SKIP("this kernel does not list children");
  if (!both_ended) kill(policy, SIGKILL);
  CHECK(both_ended);
}

TEST_CASE("a C++ policy that throws is an error that says what") {
  const auto policy = [](const TaskGraph&) -> std::vector<std::uint32_t> {
    throw std::runtime_error("not today");
  };
  CHECK(error_of([&] { lower_with(policy); }) == "policy \"custom\" threw \"not today\"");
}

TEST_CASE("the paced policy is right on odd shapes and no slower than staged order on its model") {
  MachineModel machine = machine_preset("toy");
  for (const Counts& counts : kOddCounts) {
    Lowering lowering = cut(winograd_tiling(counts));
    lowering.mapping = {
        .policy = "paced", .options = {}, .order = paced_policy(machine)(lowering.graph)};
    CAPTURE(counts.ng, counts.si, counts.sg);
    REQUIRE_FALSE(validate(lowering.graph, lowering.mapping));
    const double paced_us = simulate(lowering, machine).time_us;
    lowering.mapping = make_mapping(lowering.graph, {.policy = "staged"});
    CHECK(paced_us <= simulate(lowering, machine).time_us * 1.001);
  }
}
