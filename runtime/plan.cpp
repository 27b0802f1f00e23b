// SPDX-License-Identifier: Apache-2.0
#include "megaconv/plan.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mapping/places.hpp"
#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "runtime/sub_tensor.hpp"
#include "runtime/tuning/choose_plan.hpp"
#include "runtime/verbose.hpp"
#include "tasks/considered.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/error_budget.hpp"
#include "tasks/fuse.hpp"
#include "tasks/launch.hpp"
#include "tasks/lower.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// One pointer that the caller gave.
struct Argument {
  const char* name;
  const void* pointer;
  std::size_t bytes;
  bool needed;
};

void require_presence(const Argument& argument) {
  if (argument.needed == (argument.pointer != nullptr)) return;
  throw Error(
      Status::invalid_argument,
      std::string(argument.name) +
          (argument.needed ? " is null" : " given, but this plan has no use for it; must be null"));
}

void require_aligned(const Argument& argument) {
  if (reinterpret_cast<std::uintptr_t>(argument.pointer) % Plan::kAlignment != 0) {
    throw Error(Status::invalid_argument, std::string(argument.name) + " is not aligned to " +
                                              std::to_string(Plan::kAlignment) + " bytes");
  }
}

bool overlap(const Argument& a, const Argument& b) {
  if (a.pointer == nullptr || b.pointer == nullptr) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.pointer);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.pointer);
  return a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes;
}

void require_apart(const Argument& a, const Argument& b) {
  if (overlap(a, b)) {
    throw Error(Status::invalid_argument, std::string(a.name) + " overlaps " + b.name);
  }
}

constexpr const char* kResidual = "residual";  // the one that y may lie over

std::size_t bytes_of(std::int64_t elements, DataType dtype) {
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

using Clock = std::chrono::steady_clock;

std::string milliseconds_since(Clock::time_point start) {
  const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start;
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f ms", elapsed.count());
  return text;
}

std::unique_ptr<const Executor> make_executor(const Lowering& lowering,
                                              const PlanOptions& options) {
  switch (options.backend) {
    case Backend::cuda:
      return make_cuda_executor(lowering, options);
    case Backend::sim:
      return make_sim_executor(lowering, options);
    default:
      return make_cpu_executor(lowering, options);
  }
}

}  // namespace

Target target_of(const PlanOptions& options) {
  if (options.backend == Backend::cuda) return cuda_target(options);
  if (options.backend == Backend::sim) return target_of(simulated_machine(options));
  return {.backend = Backend::cpu,
          .workers = resolve_workers(options.num_threads),
          .cache_bytes_per_worker = level2_cache_bytes(),
          .amx = cpu::kernels_for().amx,
          .mesh_cache_bytes = mesh_cache_bytes()};
}

namespace {

std::vector<Task> ordered(const TaskGraph& graph, const std::vector<std::uint32_t>& order) {
  std::vector<Task> tasks;
  tasks.reserve(order.size());
  for (const std::uint32_t id : order) tasks.push_back(graph.tasks[id]);
  return tasks;
}

}  // namespace

std::vector<Task> tasks_in_order(const Lowering& lowering) {
  return ordered(lowering.graph, lowering.mapping.order);
}
std::vector<Task> tasks_in_stages(const TaskGraph& graph) {
  return ordered(graph, make_mapping(graph, {.policy = "staged"}).order);
}

// Who chose the configuration, and why the launch.
struct Plan::Origin {
  std::string configuration, launch;
  /// Of a plan that the library chose: what it chose for.
  std::optional<std::pair<PlanOptions, Target>> choice{};
  std::optional<FusedNetwork> network{};  ///< that the plan is of
};

struct Plan::State {
  bool verbose = false;  // MEGACONV_VERBOSE
  Lowering lowering;
  Backend backend = Backend::cpu;
  CudaLaunch launch = CudaLaunch::persistent;
  Origin origin;
  std::unique_ptr<const Executor> executor;

  const Tiling& tiling() const { return lowering.tiling(); }
  const ConvProblem& problem() const { return tiling().problem; }
  bool is_convolution() const { return lowering.inputs.empty(); }
  bool prepared() const { return !is_convolution() || tiling().filters == FilterMode::prepared; }

  // The tensors with the strides of every axis; 0 where they are dense.
  Tensors check(Tensors tensors, const void* workspace, std::size_t workspace_bytes) const;
  const NetworkTensors& check(const NetworkTensors& tensors, const void* workspace,
                              std::size_t workspace_bytes) const;
  TensorStrides resolve(const char* name, TensorStrides& strides,
                        const TensorExtents& extents) const;
  Argument check_workspace(const void* workspace, std::size_t workspace_bytes) const;
  std::string describe_network() const;
  std::string title() const;
  void announce(Clock::time_point start) const;
  template <class AnyTensors>
  void execute(const AnyTensors& tensors, void* workspace, std::size_t workspace_bytes,
               const RunOptions& run) const;
};

Plan Plan::create(const ConvProblem& problem, const PlanOptions& options) {
  const Clock::time_point start = Clock::now();
  std::shared_ptr<State> state;  // of what was planned last
  const auto plan_with = [&](const PlanOptions& chosen) {
    const Target target = target_of(chosen);
    const auto [launched, reason, tiling] = choose_launch(problem, chosen, target);
    state = make_state(lower(tiling, launched.tiling, launched.mapping, target, launched.policy),
                       launched, {{}, reason, std::pair(chosen, target)});
    return state->executor->workspace_bytes();
  };
  const Choice choice = choose_plan(problem, options, plan_with);
  if (!choice.planned) plan_with(choice.options);
  state->origin.configuration = choice.origin;
  state->announce(start);
  return Plan(std::move(state));
}

Plan Plan::create(const Network& network, const PlanOptions& options) {
  const Clock::time_point start = Clock::now();
  const bool sized = options.tiling.v_slots != 0 || options.tiling.m_slots != 0;
  if (sized || options.workspace_limit != 0 || options.source == PlanSource::measure) {
    throw Error(Status::unsupported,
                "network: a window, a workspace limit or measuring, must not be asked for");
  }
  const auto target_of_network = [](const PlanOptions& of) {
    return of.backend == Backend::sim ? network_target_of(simulated_machine(of)) : target_of(of);
  };
  std::shared_ptr<State> state;  // of what was planned last
  const auto plan_with = [&](const PlanOptions& chosen) {
    const auto [launched, reason] = choose_launch(network, chosen, target_of_network(chosen));
    const Target target = target_of_network(launched);
    FusedNetwork fused = fuse(network, launched.tiling, target);
    Lowering lowering = lower(fused, launched.tiling, launched.mapping, target, launched.policy);
    state = make_state(std::move(lowering), launched,
                       {.configuration = {}, .launch = reason, .network = std::move(fused)});
    return state->executor->workspace_bytes();
  };
  const Choice choice = choose_plan(network, options, plan_with);
  if (!choice.planned) plan_with(choice.options);
  state->origin.configuration = choice.origin;
  state->announce(start);
  return Plan(std::move(state));
}

Plan Plan::create(Lowering lowering, const PlanOptions& options) {
  const Clock::time_point start = Clock::now();
  PlanOptions launched = options;
  const bool chosen = options.cuda_launch == CudaLaunch::automatic;
  if (chosen) launched.cuda_launch = CudaLaunch::persistent;
  check_cut(lowering);
  if (const auto violation = validate(lowering.graph, lowering.mapping)) {
    throw Error(Status::invalid_argument, "mapping: " + violation->message);
  }
  for (const Node& node : lowering.nodes) {
    const auto* const tiling = std::get_if<Tiling>(&node.cut);
    if (tiling != nullptr) require_within_budget(*tiling, options.tiling);
  }
  auto state = make_state(std::move(lowering), launched,
                          {"the caller's lowering", chosen ? "for the caller's order" : kAskedFor});
  state->announce(start);
  return Plan(std::move(state));
}

void Plan::State::announce(Clock::time_point start) const {
  if (!verbose) return;
  const std::string algorithm =
      is_convolution() ? ", " + algorithm_of(tiling()).name(tiling()) : std::string();
  say("plan " + title() + ": " + executor->describe() + algorithm + ", policy " +
      lowering.mapping.policy + ", " + std::to_string(lowering.mapping.order.size()) +
      " tasks, workspace " + std::to_string(executor->workspace_bytes()) + " bytes, chosen by " +
      origin.configuration + ", planned in " + milliseconds_since(start));
}

// The lowering has been proven right.
std::shared_ptr<Plan::State> Plan::make_state(Lowering lowering, const PlanOptions& options,
                                              const Origin& origin) {
  if (options.wait_budget_ms == 0) {
    throw Error(Status::invalid_argument, "wait budget 0 ms, must be at least 1");
  }
  auto state = std::make_shared<State>();
  state->verbose = resolve_verbose();
  state->lowering = std::move(lowering);
  state->backend = options.backend;
  state->launch = options.cuda_launch;
  state->origin = origin;
  state->executor = make_executor(state->lowering, options);
  return state;
}

std::size_t Plan::workspace_bytes() const noexcept { return state_->executor->workspace_bytes(); }

std::size_t Plan::prepared_filter_bytes() const noexcept {
  return state_->prepared() ? state_->executor->filter_bytes() : 0;
}

void Plan::prepare_filters(const void* w, void* prepared, void* stream) const {
  if (!state_->is_convolution()) {
    throw Error(Status::invalid_argument,
                "prepare_filters: w given, but a plan of a network has its weights; must be left "
                "out");
  }
  if (!state_->prepared()) {
    throw Error(Status::invalid_argument,
                "prepare_filters: the plan transforms filters in every run; create it with "
                "FilterMode::prepared");
  }
  const ConvProblem& p = state_->problem();
  const Argument source{"w", w, bytes_of(p.w_size(), p.dtype), true};
  const Argument target{"prepared_filters", prepared, prepared_filter_bytes(), true};
  require_presence(source);
  require_presence(target);
  require_aligned(target);
  require_apart(source, target);
  state_->executor->prepare_filters(w, prepared, stream);
}

void Plan::prepare_filters(void* prepared) const {
  if (state_->is_convolution()) {
    throw Error(Status::invalid_argument,
                "prepare_filters: w is missing, must be given for a plan of one convolution");
  }
  const Argument target{"prepared_filters", prepared, prepared_filter_bytes(), true};
  require_presence(target);
  require_aligned(target);
  state_->executor->prepare_filters(*state_->origin.network, prepared);
}

Argument Plan::State::check_workspace(const void* workspace, std::size_t workspace_bytes) const {
  const Argument space{"workspace", workspace, executor->workspace_bytes(), true};
  require_presence(space);
  if (workspace_bytes < space.bytes) {
    throw Error(Status::out_of_memory, "workspace of " + std::to_string(workspace_bytes) +
                                           " bytes, must be at least " +
                                           std::to_string(space.bytes));
  }
  require_aligned(space);
  return space;
}

// Those of every axis. Dense `strides` become 0, so that every back end has them.
TensorStrides Plan::State::resolve(const char* name, TensorStrides& strides,
                                   const TensorExtents& extents) const {
  const Layout layout = problem().layout;
  const TensorStrides resolved = resolve_strides(name, strides, layout, extents);
  if (resolved == resolve_strides(name, {}, layout, extents)) {
    strides = {};
  } else if (backend != Backend::cpu) {
    throw Error(Status::unsupported, std::string(name) + "_strides: backend " + to_string(backend) +
                                         ", must be cpu, or all 0: dense");
  } else {
    strides = resolved;
  }
  return resolved;
}

Tensors Plan::State::check(Tensors tensors, const void* workspace,
                           std::size_t workspace_bytes) const {
  if (!is_convolution()) {
    throw Error(Status::invalid_argument,
                "tensors of one convolution, must be NetworkTensors for a plan of a network");
  }
  const ConvProblem& p = problem();
  const std::size_t vector_bytes = bytes_of(p.k, p.vector_type());
  const TensorExtents x_extents{p.n, p.c, p.h, p.w}, y_extents{p.n, p.k, p.p(), p.q()};
  const SubTensor x{tensors.x, x_extents, resolve("x", tensors.x_strides, x_extents)};
  const TensorStrides y_strides = resolve("y", tensors.y_strides, y_extents);
  const std::size_t y_bytes = bytes_of(span_of(y_extents, y_strides), p.dtype);
  const Argument read[] = {
      {"x", tensors.x, bytes_of(span_of(x_extents, x.strides), p.dtype), true},
      {"w", tensors.w, bytes_of(p.w_size(), p.dtype), !prepared()},
      {"scale", tensors.scale, vector_bytes, p.epilogue.scale},
      {"bias", tensors.bias, vector_bytes, p.epilogue.bias},
      {"prepared_filters", tensors.prepared_filters, executor->filter_bytes(), prepared()},
      {kResidual, tensors.residual, y_bytes, p.epilogue.residual}};
  const Argument y{"y", tensors.y, y_bytes, true};
  for (const Argument& argument : read) require_presence(argument);
  require_presence(y);
  const Argument space = check_workspace(workspace, workspace_bytes);
  const SubTensor y_tensor{y.pointer, y_extents, y_strides};
  const auto shares_none = [&](const Argument& argument) {  // with y, though their ranges overlap
    const std::string_view name = argument.name;
    if ((name != "x" && name != kResidual) || !overlap(argument, y)) return false;
    const SubTensor other = name == "x" ? x : SubTensor{argument.pointer, y_extents, y_strides};
    return side_by_side(other, y_tensor, size_of(p.dtype));
  };
  for (const Argument& argument : read) {
    if (argument.name == std::string_view("prepared_filters")) require_aligned(argument);
    const bool in_place = argument.name == kResidual && argument.pointer == y.pointer;
    if (!in_place && !shares_none(argument)) require_apart(argument, y);
    require_apart(argument, space);
  }
  require_apart(y, space);
  return tensors;
}

const NetworkTensors& Plan::State::check(const NetworkTensors& tensors, const void* workspace,
                                         std::size_t workspace_bytes) const {
  if (is_convolution()) {
    throw Error(Status::invalid_argument,
                "NetworkTensors, must be Tensors for a plan of one convolution");
  }
  const auto check_count = [](const char* what, std::size_t given, std::size_t wanted) {
    if (given == wanted) return;
    throw Error(Status::invalid_argument,
                std::to_string(given) + " " + what + ", must be " + std::to_string(wanted));
  };
  check_count("inputs", tensors.inputs.size(), lowering.inputs.size());
  check_count("outputs", tensors.outputs.size(), lowering.outputs.size());
  const auto buffer = [&](BufferId id, const void* pointer) {
    const Buffer& of = lowering.graph.buffers[id];
    return Argument{of.name.c_str(), pointer, of.bytes, true};
  };
  const auto input = [&](std::size_t i) { return buffer(lowering.inputs[i], tensors.inputs[i]); };
  const auto output = [&](std::size_t i) {
    return buffer(lowering.outputs[i], tensors.outputs[i]);
  };
  const Argument prepared{"prepared_filters", tensors.prepared_filters, executor->filter_bytes(),
                          executor->filter_bytes() != 0};
  for (std::size_t i = 0; i < tensors.inputs.size(); ++i) require_presence(input(i));
  for (std::size_t i = 0; i < tensors.outputs.size(); ++i) require_presence(output(i));
  require_presence(prepared);
  require_aligned(prepared);
  const Argument space = check_workspace(workspace, workspace_bytes);
  for (std::size_t i = 0; i < tensors.inputs.size(); ++i) require_apart(input(i), space);
  require_apart(prepared, space);
  for (std::size_t i = 0; i < tensors.outputs.size(); ++i) {
    for (std::size_t j = 0; j < tensors.inputs.size(); ++j) require_apart(input(j), output(i));
    for (std::size_t j = 0; j < i; ++j) require_apart(output(j), output(i));
    require_apart(prepared, output(i));
    require_apart(output(i), space);
  }
  return tensors;
}

template <class AnyTensors>
void Plan::State::execute(const AnyTensors& tensors, void* workspace, std::size_t workspace_bytes,
                          const RunOptions& run) const {
  const AnyTensors checked = check(tensors, workspace, workspace_bytes);
  if (!verbose) return executor->execute(checked, workspace, run);
  const Clock::time_point start = Clock::now();
  executor->execute(checked, workspace, run);
  say("run " + title() + (backend == Backend::cuda ? ": enqueued in " : ": ") +
      milliseconds_since(start));
}

void Plan::execute(const Tensors& tensors, void* workspace, std::size_t workspace_bytes,
                   const RunOptions& run) const {
  state_->execute(tensors, workspace, workspace_bytes, run);
}

void Plan::execute(const NetworkTensors& tensors, void* workspace, std::size_t workspace_bytes,
                   const RunOptions& run) const {
  state_->execute(tensors, workspace, workspace_bytes, run);
}

void Plan::wait(void* workspace, void* stream) const { state_->executor->wait(workspace, stream); }

const ConvProblem& Plan::problem() const {
  if (state_->is_convolution()) return state_->problem();
  throw Error(Status::invalid_argument, "problem of a plan of a network, must be one convolution");
}
const Lowering& Plan::lowering() const noexcept { return state_->lowering; }
Backend Plan::backend() const noexcept { return state_->backend; }
std::uint32_t Plan::num_workers() const noexcept { return state_->executor->num_workers(); }

// What `megaconv bench` takes; of a network, its size.
std::string Plan::State::title() const {
  if (is_convolution()) return to_string(problem());
  return "network of " + std::to_string(lowering.nodes.size()) + " nodes";
}

// What became of every operator, one line each: those that run as one, what they compute, and how.
std::string Plan::State::describe_network() const {
  const FusedNetwork& network = *origin.network;
  std::size_t operators = 0;
  std::uint64_t activations = 0, shared = 0;
  std::string text;
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const FusedOperator& op = network.operators[i];
    operators += op.operators.size();
    const Buffer& y = lowering.graph.buffers[lowering.nodes[i].buffers.y];
    activations += y.bytes;
    if (y.place != kNoPlace) shared = std::max(shared, bytes_of(y).end);
    text += '\n';
    const std::string& reason = lowering.nodes[i].reason;
    text += names_text(op) + ": " + summary(lowering.nodes[i].cut);
    if (!reason.empty()) text += " (" + reason + ')';
  }
  return "network: " + std::to_string(operators) + " operators in " +
         std::to_string(network.operators.size()) + " nodes" + text +
         "\nactivations: " + std::to_string(activations) + " bytes in all, which share " +
         std::to_string(shared) + " bytes";
}

std::string Plan::describe() const {
  const TaskMapping& mapping = state_->lowering.mapping;
  const auto number = [](const std::optional<std::uint32_t>& value) {
    return value ? std::to_string(*value) : std::string("-");
  };
  std::string text =
      state_->is_convolution() ? "problem: " + to_string(problem()) : state_->describe_network();
  text += "\nchosen by: " + state_->origin.configuration +
          "\nbackend: " + state_->executor->describe() + '\n';
  if (state_->backend != Backend::cpu) {
    text +=
        std::string("launch: ") + to_string(state_->launch) + ", " + state_->origin.launch + '\n';
  }
  if (state_->is_convolution()) {
    text += to_string(state_->tiling());
  }
  if (const auto& choice = state_->origin.choice) {
    text += considered_text(problem(), choice->first, choice->second, state_->tiling().algorithm());
  }
  text += "policy: " + mapping.policy + ", DIG " + number(mapping.options.dig) + ", DGO " +
          number(mapping.options.dgo) + ", M groups " + number(mapping.options.m_groups) +
          "\ntasks: " + std::to_string(mapping.order.size()) +
          "\nworkspace: " + std::to_string(workspace_bytes()) + " bytes\n";
  if (prepared_filter_bytes() != 0) {
    text += "prepared filters: " + std::to_string(prepared_filter_bytes()) + " bytes\n";
  }
  return text;
}

const char* to_string(PlanSource source) noexcept {
  switch (source) {
    case PlanSource::database:
      return "database";
    case PlanSource::heuristic:
      return "heuristic";
    case PlanSource::measure:
      return "measure";
  }
  return "unknown";
}

const char* version() noexcept { return MEGACONV_VERSION; }

}  // namespace megaconv
