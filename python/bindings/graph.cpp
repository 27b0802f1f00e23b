// SPDX-License-Identifier: Apache-2.0
// The task graph for policies in Python: stages, and tasks and edges as columns of numbers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "python/bindings/bindings.hpp"

namespace megaconv::python {
namespace {

/// A stage by value, with the names of its node and kind.
struct NamedStage {
  Stage stage;
  std::string node, kind;
};

std::vector<NamedStage> stages_of(const Graph& graph) {
  std::vector<NamedStage> stages;
  for (const Stage& stage : graph->stages) {
    stages.push_back({stage, graph->nodes[stage.node], graph->kinds[stage.kind].name});
  }
  return stages;
}

Columns task_columns(const Graph& graph) {
  std::vector<std::uint32_t> stages;
  stages.reserve(graph->tasks.size());
  for (std::size_t stage = 0; stage < graph->stages.size(); ++stage) {
    stages.insert(stages.end(), graph->stages[stage].num_tasks(),
                  static_cast<std::uint32_t>(stage));
  }
  const auto number = [&](auto read) { return column_of<std::uint32_t>(graph->tasks, read); };
  Columns columns;
  columns["stage"] = column(std::move(stages));
  columns["node"] = number([](const Task& task) { return task.node; });
  columns["group"] = number([](const Task& task) { return task.group; });
  columns["block"] = number([](const Task& task) { return task.block; });
  columns["wait_counter"] = column_of<std::int64_t>(graph->tasks, [](const Task& task) {
    return task.wait_counter == kNoCounter ? -1 : std::int64_t{task.wait_counter};
  });
  columns["wait_count"] = number([](const Task& task) { return task.wait_count; });
  return columns;
}

Columns edge_columns(const Graph& graph) {
  const auto number = [&](auto read) { return column_of<std::uint32_t>(graph->edges, read); };
  Columns columns;
  columns["producer_stage"] = number([](const Edge& edge) { return edge.producer.stage; });
  columns["producer_begin"] = number([](const Edge& edge) { return edge.producer.groups.begin; });
  columns["producer_end"] = number([](const Edge& edge) { return edge.producer.groups.end; });
  columns["consumer_stage"] = number([](const Edge& edge) { return edge.consumer.stage; });
  columns["consumer_begin"] = number([](const Edge& edge) { return edge.consumer.groups.begin; });
  columns["consumer_end"] = number([](const Edge& edge) { return edge.consumer.groups.end; });
  columns["reuse"] =
      column_of<std::uint8_t>(graph->edges, [](const Edge& edge) { return edge.reuse; });
  return columns;
}

// Ids of the tasks of a range of groups: consecutive.
Interval tasks_of(const TaskGraph& graph, const GroupRange& range) {
  const Stage& stage = graph.stages[range.stage];
  return {stage.first + range.groups.begin * stage.per_group,
          stage.first + range.groups.end * stage.per_group};
}

using Pairs = nb::ndarray<nb::numpy, std::uint32_t, nb::shape<-1, 2>>;

Pairs dependences_of(const Graph& graph) {
  std::vector<std::uint32_t> pairs;
  for (const Edge& edge : graph->edges) {
    const Interval producers = tasks_of(*graph.graph, edge.producer);
    const Interval consumers = tasks_of(*graph.graph, edge.consumer);
    for (std::uint64_t consumer = consumers.begin; consumer < consumers.end; ++consumer) {
      for (std::uint64_t producer = producers.begin; producer < producers.end; ++producer) {
        pairs.push_back(static_cast<std::uint32_t>(producer));
        pairs.push_back(static_cast<std::uint32_t>(consumer));
      }
    }
  }
  const std::size_t count = pairs.size() / 2;
  return owning_array<Pairs>(std::move(pairs), {count, 2});
}

std::optional<std::string> violation_of(const Graph& graph, nb::object order) {
  TaskMapping mapping{.policy = "custom", .options = {}, .order = order_of(order)};
  const nb::gil_scoped_release unlocked;
  const auto violation = validate(*graph.graph, mapping);
  return violation ? std::optional(violation->message) : std::nullopt;
}

}  // namespace

std::vector<std::uint32_t> order_of(nb::handle order) {
  const nb::object numbers = nb::module_::import_("numpy").attr("asarray")(order);
  if (nb::cast<std::size_t>(numbers.attr("size")) == 0)
    return {};  // NumPy takes nothing for floats
  const std::string kind = nb::cast<std::string>(numbers.attr("dtype").attr("kind"));
  if ((kind != "i" && kind != "u") || nb::cast<int>(numbers.attr("ndim")) != 1) {
    throw Error(Status::invalid_argument,
                "order of " + nb::cast<std::string>(numbers.attr("dtype").attr("name")) + " with " +
                    std::to_string(nb::cast<int>(numbers.attr("ndim"))) +
                    " axes, must be task ids: integers, one axis");
  }
  const auto ids =
      nb::cast<nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(
          nb::module_::import_("numpy").attr("ascontiguousarray")(numbers, "int64"));
  std::vector<std::uint32_t> result(ids.shape(0));
  for (std::size_t position = 0; position < result.size(); ++position) {
    const std::int64_t id = ids(position);
    if (id < 0 || id >= kNoCounter) {
      throw Error(Status::invalid_argument, "order: position " + std::to_string(position) +
                                                " has " + std::to_string(id) +
                                                ", must be a task id");
    }
    result[position] = static_cast<std::uint32_t>(id);
  }
  return result;
}

PythonPolicy::PythonPolicy(nb::callable function)
    : state_(new State{std::move(function), nullptr, {}}, [](State* state) {
        const nb::gil_scoped_acquire locked;
        delete state;
      }) {}

std::vector<std::uint32_t> PythonPolicy::operator()(const TaskGraph& graph) const {
  // A copy: what Python keeps of the graph outlives this call.
  Graph copy{std::make_shared<const TaskGraph>(graph)};
  const nb::gil_scoped_acquire locked;
  if (!state_->function) return state_->order;
  try {
    return state_->order = order_of(state_->function(std::move(copy)));
  } catch (const nb::python_error&) {
    state_->raised = std::current_exception();
    throw;
  }
}

void PythonPolicy::forget() const {
  const nb::gil_scoped_acquire locked;
  state_->function.reset();
}

void PythonPolicy::rethrow() const {
  if (state_->raised != nullptr) std::rethrow_exception(std::exchange(state_->raised, nullptr));
}

void bind_graph(nb::module_& module) {
  nb::class_<NamedStage>(module, "Stage",
                         "All tasks of one kind of one node: groups x per_group, group by group.")
      .def_ro("node", &NamedStage::node, "name of the operator")
      .def_ro("kind", &NamedStage::kind, "\"input_transform\", \"gemm\", ...")
      .def_prop_ro(
          "role", [](const NamedStage& s) { return to_string(s.stage.role); },
          "\"prepare\", \"input\", \"product\" or \"output\"")
      .def_prop_ro(
          "first", [](const NamedStage& s) { return s.stage.first; }, "id of its first task")
      .def_prop_ro(
          "groups", [](const NamedStage& s) { return s.stage.groups; }, "task groups")
      .def_prop_ro(
          "per_group", [](const NamedStage& s) { return s.stage.per_group; }, "tasks of a group")
      .def_prop_ro(
          "operations", [](const NamedStage& s) { return s.stage.operations; },
          "floating-point operations of one task")
      .def_prop_ro(
          "bytes", [](const NamedStage& s) { return s.stage.bytes; },
          "bytes that one task moves between its worker and the shared cache")
      .def(
          "id",
          [](const NamedStage& s, std::int64_t group, std::int64_t block) {
            const auto check = [](const char* name, std::int64_t value, std::uint32_t count) {
              if (value >= 0 && value < count) return static_cast<std::uint32_t>(value);
              throw nb::index_error((std::string(name) + " " + std::to_string(value) +
                                     ", must be 0 to " + std::to_string(count - 1))
                                        .c_str());
            };
            return s.stage.id(check("group", group, s.stage.groups),
                              check("block", block, s.stage.per_group));
          },
          nb::arg("group"), nb::arg("block"), "Id of a task.")
      .def("__repr__", [](const NamedStage& s) {
        return "<megaconv.Stage " + s.kind + ": " + std::to_string(s.stage.groups) + " groups of " +
               std::to_string(s.stage.per_group) + ">";
      });

  nb::class_<Graph>(module, "Graph", R"(All tasks of a run, and what they need of each other.

Task ids are 0 to len(graph) - 1, stage by stage; a stage's ids are group by group.)")
      .def("__len__", [](const Graph& graph) { return graph->tasks.size(); })
      .def_prop_ro("stages", &stages_of, "list of Stage, in the order of task ids")
      .def_prop_ro("tasks", &task_columns,
                   R"(NumPy columns by name, one row for each task id.

stage, node: indices. group, block: place in the stage. wait_counter (-1: none), wait_count: what a
worker waits for before the task runs.)")
      .def_prop_ro("edges", &edge_columns,
                   R"(NumPy columns by name, one row for each edge between groups of stages.

Every task of the groups [consumer_begin, consumer_end) of consumer_stage needs every task of the
groups [producer_begin, producer_end) of producer_stage. reuse: it overwrites what they read.)")
      .def("dependences", &dependences_of,
           R"(Edges task by task: array [E, 2] of (producer, consumer) ids.

May be long: groups x tasks of a group x what each needs.)")
      .def(
          "name",
          [](const Graph& graph, std::int64_t id) {
            if (id < 0 || static_cast<std::size_t>(id) >= graph->tasks.size()) {
              throw nb::index_error(("task " + std::to_string(id) + ", must be 0 to " +
                                     std::to_string(graph->tasks.size() - 1))
                                        .c_str());
            }
            return name(*graph.graph, graph->tasks[static_cast<std::size_t>(id)]);
          },
          nb::arg("id"), "\"I[3,0]\": letter of the kind, group, block.")
      .def("violation", &violation_of, nb::arg("order"),
           R"(What is wrong with an order of all task ids; None when it is proven right.

The proof: every task once, every producer before its consumers, every wait covers all producers.)")
      .def(
          "order",
          [](const Graph& graph, const std::string& policy, std::optional<std::uint32_t> dig,
             std::optional<std::uint32_t> dgo, std::optional<std::uint32_t> m_groups,
             std::uint64_t seed, std::uint32_t workers) {
            const MappingOptions options{policy, dig, dgo, m_groups, seed};
            return column(make_mapping(*graph.graph, options, {.workers = workers}).order);
          },
          nb::arg("policy") = "interleaved", nb::kw_only(), nb::arg("dig") = nb::none(),
          nb::arg("dgo") = nb::none(), nb::arg("m_groups") = nb::none(), nb::arg("seed") = 0,
          nb::arg("workers") = 1,
          R"(The order that a policy of the library gives: uint32 array [len(graph)].

To begin a policy of one's own with. workers serves the values that are left to choice.)");
}

}  // namespace megaconv::python
