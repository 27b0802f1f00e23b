// SPDX-License-Identifier: Apache-2.0
// Traces of runs, and simulated runs.
#include "megaconv/simulation.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "python/bindings/bindings.hpp"

namespace megaconv::python {
namespace {

Columns columns_of(const RecordedRun& run) {
  const Lowering& lowering = run.plan.lowering();
  const auto number = [&](auto read) { return column_of<std::uint32_t>(run.trace.records, read); };
  const auto time = [&](std::uint64_t TraceRecord::*member) {
    return column_of<std::uint64_t>(run.trace.records,
                                    [member](const TraceRecord& record) { return record.*member; });
  };
  const auto task = [&](const TraceRecord& record) -> const Task& {
    return lowering.graph.tasks[lowering.mapping.order[record.position]];
  };
  nb::list kinds;
  for (const Kind& kind : lowering.graph.kinds) kinds.append(kind.name);
  Columns columns;
  columns["position"] = number([](const TraceRecord& record) { return record.position; });
  columns["task"] =
      number([&](const TraceRecord& record) { return lowering.mapping.order[record.position]; });
  columns["kind"] = nb::module_::import_("numpy").attr("take")(
      kinds, number([&](const TraceRecord& record) { return task(record).kind; }));
  columns["group"] = number([&](const TraceRecord& record) { return task(record).group; });
  columns["block"] = number([&](const TraceRecord& record) { return task(record).block; });
  columns["worker"] = number([](const TraceRecord& record) { return record.worker; });
  columns["fetch_ns"] = time(&TraceRecord::fetch_ns);
  columns["ready_ns"] = time(&TraceRecord::ready_ns);
  columns["end_ns"] = time(&TraceRecord::end_ns);
  return columns;
}

nb::dict analysis_of(const RecordedRun& run) {
  const TraceAnalysis analysis = analyse(run.plan.lowering(), run.trace);
  nb::dict kinds;
  for (std::uint32_t kind = 0; kind < kNumTaskKinds; ++kind) {
    const KindTimes& times = analysis.kinds[kind];
    if (times.num == 0) continue;
    nb::dict row;
    row["tasks"] = times.num;
    row["work_us"] = times.work_us;
    row["wait_us"] = times.wait_us;
    kinds[to_string(static_cast<TaskKind>(kind))] = row;
  }
  nb::list waits;
  for (const EdgeWait& wait : analysis.waits) {
    nb::dict row;
    row["producer"] = to_string(wait.from);
    row["consumer"] = to_string(wait.to);
    row["frees_memory"] = wait.slot;
    row["tasks"] = wait.num;
    row["us"] = wait.us;
    waits.append(row);
  }
  nb::dict result;
  result["span_us"] = analysis.span_us;
  result["tracks"] = analysis.tracks;
  result["idle_us"] = analysis.idle_us;
  result["peak_live_bytes"] = analysis.peak_live_bytes;
  result["kinds"] = kinds;
  result["waits"] = waits;
  return result;
}

using Numbers = nb::typed<nb::dict, nb::str, double>;

/// A simulation with the plan that its trace is of.
struct SimulatedRun {
  Plan plan;
  Simulation simulation;
};

SimulatedRun simulate_plan(const Plan& plan, const std::string& machine, std::int64_t seed,
                           std::int64_t workers, bool warm_cache, const std::string& launch) {
  const MachineModel model = machine_of(machine);
  const SimulationOptions options{.seed = unsigned_of<std::uint64_t>("seed", seed),
                                  .launch = launch_of(launch),
                                  .num_workers = unsigned_of<std::uint32_t>("workers", workers),
                                  .warm_cache = warm_cache};
  const nb::gil_scoped_release unlocked;
  return {plan, simulate(plan.lowering(), model, options)};
}

Numbers utilisation_of(const SimulatedRun& run) {
  const Utilisation& shares = run.simulation.utilisation;
  Numbers result;
  result["workers"] = shares.workers;
  result["compute"] = shares.compute;
  result["l2"] = shares.l2;
  result["hbm"] = shares.hbm;
  return result;
}

Numbers bounds_of(const Graph& graph, const std::string& machine) {
  const Bounds bounds = lower_bounds(*graph.graph, machine_of(machine));
  Numbers result;
  result["critical_path_us"] = bounds.critical_path_us;
  result["work_us"] = bounds.work_us;
  result["stage_us"] = bounds.stage_us;
  result["compute_us"] = bounds.compute_us;
  result["l2_us"] = bounds.l2_us;
  result["hbm_us"] = bounds.hbm_us;
  result["launch_us"] = bounds.launch_us;
  result["least_us"] = bounds.least_us();
  return result;
}

}  // namespace

MachineModel machine_of(const std::string& name_or_json) {
  return name_or_json.find('{') == std::string::npos ? machine_preset(name_or_json)
                                                     : parse_machine(name_or_json);
}

void bind_simulation(nb::module_& module) {
  nb::class_<RecordedRun>(module, "Trace", "What a run really did: one record for each task.")
      .def("__len__", [](const RecordedRun& run) { return run.trace.records.size(); })
      .def_prop_ro(
          "workers", [](const RecordedRun& run) { return run.trace.num_workers; },
          "workers of the run")
      .def(
          "columns", &columns_of,
          R"(NumPy columns by name, one row for each position of the order; pandas.DataFrame takes them.

position, task (its id), kind, group, block, worker, and in nanoseconds since the run began fetch_ns
(the worker took the position), ready_ns (all producers had signalled), end_ns (it had signalled).)")
      .def("analysis", &analysis_of,
           "Times by kind, waits by producer and consumer, idle time: dicts of numbers.");

  nb::class_<SimulatedRun>(module, "Simulation", "What a plan would take on a machine.")
      .def_prop_ro(
          "time_us", [](const SimulatedRun& run) { return run.simulation.time_us; },
          "microseconds, launch included")
      .def_prop_ro(
          "trace",
          [](const SimulatedRun& run) {
            return RecordedRun{run.plan, run.simulation.trace};
          },
          "its Trace")
      .def_prop_ro("utilisation", &utilisation_of,
                   "shares of the most that there is: workers, compute, l2, hbm")
      .def_prop_ro(
          "l2_bytes", [](const SimulatedRun& run) { return run.simulation.l2_bytes; },
          "bytes between workers and the shared cache")
      .def_prop_ro(
          "hbm_bytes", [](const SimulatedRun& run) { return run.simulation.hbm_bytes; },
          "bytes between the shared cache and memory");

  module.def("simulate", &simulate_plan, nb::arg("plan"), nb::arg("machine") = "h200",
             nb::kw_only(), nb::arg("seed") = 1, nb::arg("workers") = 0,
             nb::arg("warm_cache") = true, nb::arg("launch") = "automatic",
             R"(Runs a plan's tasks in their order on a machine model; nothing is computed.

machine: a name (machine_names()) or the JSON of a model. seed: of the noise. workers: 0: all of the
machine's. Make the plan with backend="sim" and the same machine, so that its tasks suit it.
Deterministic. Raises ValueError, NotImplementedError, TimeoutError (the order deadlocks).)");
  module.def("lower_bounds", &bounds_of, nb::arg("graph"), nb::arg("machine") = "h200",
             "Times in microseconds that no order of these tasks can beat on the machine: a dict.");
}

}  // namespace megaconv::python
