// SPDX-License-Identifier: Apache-2.0
// PlanOptions by name, and what a plan says of itself.
#include "python/bindings/plan.hpp"

#include <nanobind/stl/pair.h>

#include <new>

#include "python/bindings/arrays.hpp"
#include "python/bindings/tuning.hpp"
#include "tasks/error_bound.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::python {
namespace {

constexpr Algorithm kAlgorithms[] = {
    Algorithm::automatic,      Algorithm::direct,        Algorithm::winograd,  Algorithm::opencnn,
    Algorithm::fused_winograd, Algorithm::implicit_gemm, Algorithm::small_gemm};
constexpr Points kPoints[] = {Points::low_error, Points::integer};
constexpr Precision kPrecisions[] = {Precision::f32, Precision::tf32, Precision::f16,
                                     Precision::bf16};
constexpr Arithmetic kArithmetics[] = {Arithmetic::automatic, Arithmetic::fma,
                                       Arithmetic::split_f16, Arithmetic::tf32,
                                       Arithmetic::f16,       Arithmetic::bf16};
constexpr FilterMode kFilterModes[] = {FilterMode::every_run, FilterMode::prepared};
constexpr PlanSource kSources[] = {PlanSource::database, PlanSource::heuristic,
                                   PlanSource::measure};
constexpr Backend kBackends[] = {Backend::cpu, Backend::cuda, Backend::sim};

constexpr auto kNameOf = [](auto value) { return to_string(value); };

using Text = std::string;
using Window = std::optional<std::variant<Text, std::pair<std::int64_t, std::int64_t>>>;
using Tile = std::variant<std::int64_t, Text>;
using ProblemOrText = std::variant<ConvProblem, Text>;

/// What a caller asks of a plan by name.
struct AskedFor {
  PlanOptions options;
  std::optional<PythonPolicy> function;  // options.policy, if it is one of Python's
};

ConvProblem problem_of(const ProblemOrText& problem) {
  if (const auto* text = std::get_if<Text>(&problem)) return parse_problem(*text);
  return std::get<ConvProblem>(problem);
}

void set_window(TilingOptions& tiling, const Window& window) {
  if (!window) return;
  if (const auto* word = std::get_if<Text>(&*window)) {
    if (*word != "whole") {
      throw Error(Status::invalid_argument,
                  "window \"" + *word + "\", must be \"whole\", (slots of V, slots of M), or None");
    }
    tiling.whole_tensors = true;
    return;
  }
  const auto& [v_slots, m_slots] = std::get<std::pair<std::int64_t, std::int64_t>>(*window);
  tiling.v_slots = unsigned_of<std::uint32_t>("window: slots of V", v_slots);
  tiling.m_slots = unsigned_of<std::uint32_t>("window: slots of M", m_slots);
}

std::uint32_t tile_of(const Tile& tile) {
  if (const auto* text = std::get_if<Text>(&tile)) {
    return static_cast<std::uint32_t>(parse_value(Parameter::tile, *text));
  }
  return unsigned_of<std::uint32_t>("tile", std::get<std::int64_t>(tile));
}

AskedFor asked_for(const Text& backend, const Text& algorithm, const Tile& tile, const Text& points,
                   const Text& precision, const MaybeError& max_error, const Text& arithmetic,
                   const Text& filters, std::int64_t group_tiles, const Window& window,
                   const Policy& policy, const MaybeNumber& dig, const MaybeNumber& dgo,
                   const MaybeNumber& m_groups, std::int64_t seed, const Text& source,
                   const Text& database, std::int64_t measure_ms, std::int64_t workspace_limit,
                   std::int64_t threads, std::int64_t blocks, const Text& launch,
                   const std::optional<Text>& machine, std::int64_t wait_budget_ms,
                   const RunWorkers& run_workers) {
  AskedFor asked{base_options(backend, algorithm, precision, max_error), {}};
  PlanOptions& options = asked.options;
  TilingOptions& tiling = options.tiling;
  tiling.m = tile_of(tile);
  tiling.points = enumerator("points", points, kPoints, kNameOf);
  tiling.arithmetic = enumerator("arithmetic", arithmetic, kArithmetics, kNameOf);
  tiling.filters = enumerator("filters", filters, kFilterModes, kNameOf);
  tiling.group_tiles = unsigned_of<std::uint32_t>("group_tiles", group_tiles);
  set_window(tiling, window);
  options.cuda_launch = launch_of(launch);
  asked.function = set_policy(options, policy);
  set_order(options, dig, dgo, m_groups, seed);
  options.source = enumerator("source", source, kSources, kNameOf);
  options.database = database;
  options.measure_ms = unsigned_of<std::uint32_t>("measure_ms", measure_ms);
  options.workspace_limit = unsigned_of<std::size_t>("workspace_limit", workspace_limit);
  options.num_threads = unsigned_of<std::uint32_t>("threads", threads);
  options.num_blocks = unsigned_of<std::uint32_t>("blocks", blocks);
  if (machine) options.machine = machine_of(*machine);
  options.wait_budget_ms = unsigned_of<std::uint32_t>("wait_budget_ms", wait_budget_ms);
  options.threads = threads_of(run_workers);
  return asked;
}

// A constructor, and a search, that take what `make` takes.
template <class... A>
auto constructor(AskedFor (*make)(A...)) {
  return [make](Plan* self, const ProblemOrText& problem, A... arguments) {
    const AskedFor asked = make(arguments...);
    const ConvProblem checked = problem_of(problem);
    const nb::gil_scoped_release unlocked;
    try {
      new (self) Plan(Plan::create(checked, asked.options));
      if (asked.function) asked.function->forget();
    } catch (const Error&) {
      if (asked.function) asked.function->rethrow();
      throw;
    }
  };
}
template <class... A>
auto searcher(AskedFor (*make)(A...)) {
  return [make](const ProblemOrText& problem, double seconds, std::int64_t evaluations,
                const Text& strategy, A... arguments) {
    const SearchBudget budget{.seconds = seconds,
                              .evaluations = unsigned_of<std::uint64_t>("evaluations", evaluations),
                              .strategy = parse_strategy(strategy)};
    return tune_plan(problem_of(problem), make(arguments...).options, budget);
  };
}

Plan import_plan(const std::string& text, std::int64_t threads) {
  PlanOptions options;
  options.num_threads = unsigned_of<std::uint32_t>("threads", threads);
  const nb::gil_scoped_release unlocked;
  return Plan::create(import_mapping(text), options);
}

constexpr const char* kPlanDoc = R"(A convolution that is ready to run.

Everything is chosen and checked here. What is left out is chosen by the library. Any number of
threads may use one plan.

problem          Problem or problem string
backend          "cpu", "cuda", or "sim": runs only fill traces, with the times of a machine model
algorithm        "automatic", "direct", "winograd", "fused_winograd", "opencnn", "implicit_gemm",
                 "small_gemm"
tile             m of Winograd's F(m x m, 3 x 3): 2, 4, 6, or "4x6"; 0: chosen
points           "low_error" or "integer"
precision        of the products of f32 tensors: "f32", "tf32", "f16" or "bf16"; a permission
max_error        error budget: the most relative L2 error, |y - exact| / |exact|, that the plan may have
                 by its error_bound, which decides, not a measurement. Algorithm, tile, points and
                 products are chosen within it; precision is left out. None: none
arithmetic       "automatic", "fma", "split_f16", "tf32", "f16" or "bf16"
filters          "every_run", or "prepared" by prepare_filters
group_tiles      t, tiles of a task group; 0: chosen
window           slots of V and M: (v, m), "whole", or None: chosen
policy           name (policy_names()), a function of a Graph that returns all task ids in order, or
                 these ids as an array: a mapping of one's own
dig, dgo, m_groups   numbers of the policies "interleaved" and "blended"
seed             of "random_topological"
source           "database", "heuristic", or "measure" for measure_ms milliseconds
database         file of tuned plans; "": the user's
workspace_limit  bytes; 0: any
threads          CPU workers; 0: MEGACONV_NUM_THREADS, else all CPUs of this process
blocks           CUDA thread blocks; 0: as many as the device holds
launch           CUDA: "automatic", "persistent", "one_block_per_task", "raw_block_index", "staged"
machine          of backend "sim": a name (machine_names()) or the JSON of a model; None: h200
wait_budget_ms   a task that waits longer ends the run with TimeoutError
run_workers      CPU: threads of one's own, a function (count, body) that calls body(i) for every i
                 below count, at the same time if it can, and returns when all have returned

Raises ValueError, NotImplementedError, MemoryError (no plan fits workspace_limit), and what a policy
raises.)";

constexpr const char* kTuneDoc =
    R"(Searches the fastest plan of a problem, by measuring. Returns a Tuned.

problem      Problem or problem string
seconds      budget of time; 0: no limit
evaluations  budget of measurements; 0: no limit
strategy     "model", "exhaustive", "random", "coordinate" or "annealing"

All else is of Plan, and fixed in all candidates if it is given. Measurements go to the database, for
Plan and conv2d to find with the same options; "": the user's. A candidate counts when its result
agrees with the heuristic's, which is checked in double in some places. It is measured in this
process, so one that crashes ends it: the command `megaconv tune` has a process for that. Ctrl-C keeps
what was measured. Raises ValueError, NotImplementedError (backend "sim", a policy of one's own).)";

constexpr const char* kCallDoc = R"(y (N, K, P, Q) of x (N, C, H, W): an array of x's library.

w (K, C/groups, R, S), or what prepare_filters returned. scale and bias (K,), residual (shape of y): as
the problem has them. An array that is not dense in the problem's layout is copied, once, or with
copy=False a ValueError; out must be dense in it. NumPy, PyTorch and CuPy arrays, and any other that offers its memory by DLPack.)";

// What depends on the library of an array is in Python.
nb::object call(nb::handle self, const nb::args& arguments, const nb::kwargs& names) {
  return nb::module_::import_("megaconv._arrays").attr("run")(self, *arguments, **names);
}

using Order = nb::ndarray<nb::numpy, const std::uint32_t, nb::ndim<1>>;

Order order_of_plan(nb::handle self) {
  const auto& order = nb::cast<const Plan&>(self).lowering().mapping.order;
  return Order(order.data(), {order.size()}, self);
}

}  // namespace

PlanOptions base_options(const Text& backend, const Text& algorithm, const Text& precision,
                         const MaybeError& max_error) {
  PlanOptions options;
  options.backend = enumerator("backend", backend, kBackends, kNameOf);
  options.tiling.algorithm = enumerator("algorithm", algorithm, kAlgorithms, kNameOf);
  options.tiling.precision = enumerator("precision", precision, kPrecisions, kNameOf);
  options.tiling.max_error = max_error;
  return options;
}

WorkerThreads threads_of(const RunWorkers& run) {
  if (!run) return {};
  const auto call = [](void* context, std::uint32_t count, void (*body)(void*, std::uint32_t),
                       void* state) {
    const nb::gil_scoped_acquire locked;
    try {
      nb::handle(static_cast<PyObject*>(context))(
          count, nb::cpp_function([body, state](std::uint32_t worker) {
            const nb::gil_scoped_release unlocked;
            body(state, worker);
          }));
    } catch (nb::python_error& error) {  // the plan says which workers were not called
      error.discard_as_unraisable("megaconv: run_workers");
    }
  };
  return {call, run->ptr()};
}

std::optional<PythonPolicy> set_policy(PlanOptions& options, const Policy& policy) {
  std::optional<PythonPolicy> function;
  if (!policy) return function;
  if (const auto* word = std::get_if<Text>(&*policy)) {
    check_policy(*word);
    options.mapping.policy = *word;
  } else if (const auto* order = std::get_if<OrderArray>(&*policy)) {
    options.policy = [ids = order_of(nb::cast(*order))](const TaskGraph&) { return ids; };
  } else {
    function.emplace(std::get<nb::callable>(*policy));
    options.policy = *function;
  }
  // An order that is named is asked for, the usual one, too: stages in one kernel.
  if (options.cuda_launch == CudaLaunch::automatic) options.cuda_launch = CudaLaunch::persistent;
  return function;
}

void set_order(PlanOptions& options, const MaybeNumber& dig, const MaybeNumber& dgo,
               const MaybeNumber& m_groups, std::int64_t seed) {
  const auto maybe = [](const char* name, const MaybeNumber& value) {
    return value ? std::optional(unsigned_of<std::uint32_t>(name, *value)) : std::nullopt;
  };
  options.mapping.dig = maybe("dig", dig);
  options.mapping.dgo = maybe("dgo", dgo);
  options.mapping.m_groups = maybe("m_groups", m_groups);
  options.mapping.seed = unsigned_of<std::uint64_t>("seed", seed);
}

void bind_plan(nb::module_& module) {
  nb::class_<Plan> type(module, "Plan", kPlanDoc);
  bind_tuning(module);
  const auto with_options = [](const auto& define) {
    define(nb::arg("backend") = "cpu", nb::arg("algorithm") = "automatic", nb::arg("tile") = 0,
           nb::arg("points") = "low_error", nb::arg("precision") = "f32",
           nb::arg("max_error") = nb::none(), nb::arg("arithmetic") = "automatic",
           nb::arg("filters") = "every_run", nb::arg("group_tiles") = 0,
           nb::arg("window") = nb::none(), nb::arg("policy") = nb::none(),
           nb::arg("dig") = nb::none(), nb::arg("dgo") = nb::none(),
           nb::arg("m_groups") = nb::none(), nb::arg("seed") = 0, nb::arg("source") = "database",
           nb::arg("database") = "", nb::arg("measure_ms") = 1000, nb::arg("workspace_limit") = 0,
           nb::arg("threads") = 0, nb::arg("blocks") = 0, nb::arg("launch") = "automatic",
           nb::arg("machine") = nb::none(), nb::arg("wait_budget_ms") = 10'000,
           nb::arg("run_workers") = nb::none());
  };
  with_options([&](const auto&... options) {
    type.def("__init__", constructor(&asked_for), nb::arg("problem"), nb::kw_only(), options...,
             nb::keep_alive<1, 2 + sizeof...(options)>());
    module.def("tune", searcher(&asked_for), nb::arg("problem"), nb::kw_only(),
               nb::arg("seconds") = 10.0, nb::arg("evaluations") = 0, nb::arg("strategy") = "model",
               options..., kTuneDoc);
  });
  type.def_static(
          "from_mapping", &import_plan, nb::arg("text"), nb::kw_only(), nb::arg("threads") = 0,
          R"(A plan for the CPU from the text of a mapping file, as export_mapping() writes it.

Raises ValueError with the line, key or first violation that is wrong.)")
      .def(
          "export_mapping", [](const Plan& plan) { return export_mapping(plan.lowering()); },
          "The mapping file: JSON, one task a line.")
      .def("__call__", &call,
           nb::sig("def __call__(self, x: Any, w: Any, bias: Any = None, *, scale: Any = None, "
                   "residual: Any = None, out: Any = None, copy: bool | None = None) -> Any"),
           kCallDoc)
      .def("describe", &Plan::describe,
           "Everything that was chosen and why: \"name: value\" lines.")
      .def_prop_ro("problem", [](const Plan& plan) { return plan.problem(); })
      .def_prop_ro("backend", [](const Plan& plan) { return to_string(plan.backend()); })
      .def_prop_ro("workers", &Plan::num_workers, "tasks that run at the same time")
      .def_prop_ro("workspace_bytes", &Plan::workspace_bytes, "bytes that every run needs")
      .def_prop_ro("prepared_filter_bytes", &Plan::prepared_filter_bytes,
                   "bytes of prepared filters; 0 unless filters=\"prepared\"")
      .def_prop_ro("graph", &graph_of, "its Graph")
      .def_prop_ro("policy", [](const Plan& plan) { return plan.lowering().mapping.policy; })
      .def_prop_ro("order", &order_of_plan,
                   "position -> task id: uint32 array [len(graph)], the plan's own memory")
      .def_prop_ro(
          "error_bound",
          [](const Plan& plan) {
            static_cast<void>(plan.problem());  // refuses networks
            const ErrorBound bound = error_bound(plan.lowering().tiling());
            return std::pair(bound.relative_l2, bound.worst_element);
          },
          R"((relative L2 error, worst error of an element in u S) that the plan promises.

u is the unit roundoff of the type, S the sum of the magnitudes that went into an output; of
Winograd the largest S of the output's tile.)")
      .def("__repr__", [](const Plan& plan) {
        return "<megaconv.Plan " + to_string(plan.problem()) + " on " + to_string(plan.backend()) +
               ">";
      });
  bind_execute(type);
}

}  // namespace megaconv::python
