// SPDX-License-Identifier: Apache-2.0
#include "megaconv/plan.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "runtime/tuning/choose_plan.hpp"
#include "tasks/considered.hpp"
#include "tasks/launch.hpp"
#include "tasks/pooling/pooling.hpp"
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

void require_apart(const Argument& a, const Argument& b) {
  if (a.pointer == nullptr || b.pointer == nullptr) return;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.pointer);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.pointer);
  if (a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes) {
    throw Error(Status::invalid_argument, std::string(a.name) + " overlaps " + b.name);
  }
}

constexpr const char* kResidual = "residual";  // the one that y may lie over

std::size_t bytes_of(std::int64_t elements, DataType dtype) {
  return static_cast<std::size_t>(elements) * size_of(dtype);
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
          .cache_bytes_per_worker = level2_cache_bytes()};
}

std::vector<Task> tasks_in_order(const Lowering& lowering) {
  std::vector<Task> tasks;
  tasks.reserve(lowering.mapping.order.size());
  for (const std::uint32_t id : lowering.mapping.order) tasks.push_back(lowering.graph.tasks[id]);
  return tasks;
}

// Who chose the configuration, and why the launch.
struct Plan::Origin {
  std::string configuration, launch;
  /// Of a plan that the library chose: what it chose for.
  std::optional<std::pair<PlanOptions, Target>> choice{};
};

struct Plan::State {
  Lowering lowering;
  Backend backend = Backend::cpu;
  CudaLaunch launch = CudaLaunch::persistent;
  Origin origin;
  std::unique_ptr<const Executor> executor;

  const Tiling& tiling() const { return lowering.tiling(); }
  const ConvProblem& problem() const { return tiling().problem; }
  bool is_convolution() const {
    return lowering.nodes.size() == 1 && std::holds_alternative<Tiling>(lowering.nodes[0].cut);
  }
  bool prepared() const { return is_convolution() && tiling().filters == FilterMode::prepared; }

  void check(std::span<const Tensors> operators, const void* workspace,
             std::size_t workspace_bytes) const;
  std::array<Argument, 6> read_arguments(std::size_t index, const Tensors& tensors) const;
};

Plan Plan::create(const ConvProblem& problem, const PlanOptions& options) {
  const auto plan_with = [&](const PlanOptions& chosen, const std::string& origin) {
    const Target target = target_of(chosen);
    const auto [launched, reason] = choose_launch(problem, chosen, target);
    return create(lower(problem, launched.tiling, launched.mapping, target, launched.policy),
                  launched, {origin, reason, std::pair(chosen, target)});
  };
  const Choice choice = choose_plan(problem, options, [&](const PlanOptions& candidate) {
    return plan_with(candidate, {}).workspace_bytes();
  });
  return plan_with(choice.options, choice.origin);
}

Plan Plan::create(const Network& network, const PlanOptions& options) {
  PlanOptions launched = options;
  if (options.cuda_launch == CudaLaunch::automatic) launched.cuda_launch = CudaLaunch::persistent;
  const bool sized = options.tiling.v_slots != 0 || options.tiling.m_slots != 0 ||
                     options.tiling.filters == FilterMode::prepared;
  if (sized || options.workspace_limit != 0 || options.source == PlanSource::measure) {
    throw Error(Status::unsupported,
                "network: a window, prepared filters, a workspace limit or measuring, must not be "
                "asked for");
  }
  return create(
      lower(network, launched.tiling, launched.mapping, target_of(launched), launched.policy),
      launched, {"heuristic", "for a network"});
}

Plan Plan::create(Lowering lowering, const PlanOptions& options) {
  PlanOptions launched = options;
  const bool chosen = options.cuda_launch == CudaLaunch::automatic;
  if (chosen) launched.cuda_launch = CudaLaunch::persistent;
  check_cut(lowering);
  if (const auto violation = validate(lowering.graph, lowering.mapping)) {
    throw Error(Status::invalid_argument, "mapping: " + violation->message);
  }
  return create(std::move(lowering), launched,
                {"the caller's lowering", chosen ? "for the caller's order" : kAskedFor});
}

// The lowering has been proven right.
Plan Plan::create(Lowering lowering, const PlanOptions& options, const Origin& origin) {
  if (options.wait_budget_ms == 0) {
    throw Error(Status::invalid_argument, "wait budget 0 ms, must be at least 1");
  }
  auto state = std::make_shared<State>();
  state->lowering = std::move(lowering);
  state->backend = options.backend;
  state->launch = options.cuda_launch;
  state->origin = origin;
  state->executor = make_executor(state->lowering, options);
  return Plan(std::move(state));
}

std::size_t Plan::workspace_bytes() const noexcept { return state_->executor->workspace_bytes(); }

std::size_t Plan::prepared_filter_bytes() const noexcept {
  return state_->prepared() ? state_->executor->filter_bytes() : 0;
}

void Plan::prepare_filters(const void* w, void* prepared, void* stream) const {
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

// What the operator reads of what the caller gives.
std::array<Argument, 6> Plan::State::read_arguments(std::size_t index,
                                                    const Tensors& tensors) const {
  const Node& node = lowering.nodes[index];
  const bool first = index == 0;
  if (const auto* pool = std::get_if<PoolCut>(&node.cut)) {
    return {{{"x", tensors.x, bytes_of(pool->problem.x_size(), pool->problem.dtype), first},
             {"w", tensors.w, 0, false},
             {"scale", tensors.scale, 0, false},
             {"bias", tensors.bias, 0, false},
             {"prepared_filters", tensors.prepared_filters, 0, false},
             {"residual", tensors.residual, 0, false}}};
  }
  const ConvProblem& p = std::get<Tiling>(node.cut).problem;
  const std::size_t vector_bytes = bytes_of(p.k, p.vector_type());
  return {{{"x", tensors.x, bytes_of(p.x_size(), p.dtype), first},
           {"w", tensors.w, bytes_of(p.w_size(), p.dtype), !prepared()},
           {"scale", tensors.scale, vector_bytes, p.epilogue.scale},
           {"bias", tensors.bias, vector_bytes, p.epilogue.bias},
           {"prepared_filters", tensors.prepared_filters, executor->filter_bytes(), prepared()},
           {kResidual, tensors.residual, bytes_of(p.y_size(), p.dtype), p.epilogue.residual}}};
}

void Plan::State::check(std::span<const Tensors> operators, const void* workspace,
                        std::size_t workspace_bytes) const {
  if (operators.size() != lowering.nodes.size()) {
    throw Error(Status::invalid_argument, "tensors of " + std::to_string(operators.size()) +
                                              " operators, must be of " +
                                              std::to_string(lowering.nodes.size()));
  }
  const Buffer& last = lowering.graph.buffers[lowering.nodes.back().buffers.y];
  const Argument y{"y", operators.back().y, last.bytes, true};
  const Argument space{"workspace", workspace, executor->workspace_bytes(), true};
  const auto for_each_read = [&](const auto& require) {
    for (std::size_t i = 0; i < operators.size(); ++i) {
      for (const Argument& argument : read_arguments(i, operators[i])) require(argument);
    }
  };
  for (const Tensors& tensors : operators.first(operators.size() - 1)) {
    require_presence({"y", tensors.y, 0, false});
  }
  for_each_read(require_presence);
  require_presence(y);
  require_presence(space);
  if (workspace_bytes < space.bytes) {
    throw Error(Status::out_of_memory, "workspace of " + std::to_string(workspace_bytes) +
                                           " bytes, must be at least " +
                                           std::to_string(space.bytes));
  }
  require_aligned(space);
  for_each_read([&](const Argument& argument) {
    if (argument.name == std::string_view("prepared_filters")) require_aligned(argument);
    const bool in_place = argument.name == kResidual && argument.pointer == y.pointer;
    if (!in_place) require_apart(argument, y);
    require_apart(argument, space);
  });
  require_apart(y, space);
}

void Plan::execute(const Tensors& tensors, void* workspace, std::size_t workspace_bytes,
                   const RunOptions& run) const {
  execute(std::span(&tensors, 1), workspace, workspace_bytes, run);
}

void Plan::execute(std::span<const Tensors> operators, void* workspace, std::size_t workspace_bytes,
                   const RunOptions& run) const {
  state_->check(operators, workspace, workspace_bytes);
  state_->executor->execute(operators, workspace, run);
}

void Plan::wait(void* workspace, void* stream) const { state_->executor->wait(workspace, stream); }

const ConvProblem& Plan::problem() const {
  if (state_->is_convolution()) return state_->problem();
  throw Error(Status::invalid_argument, "problem of a plan of " +
                                            std::to_string(state_->lowering.nodes.size()) +
                                            " operators, must be one convolution");
}
const Lowering& Plan::lowering() const noexcept { return state_->lowering; }
Backend Plan::backend() const noexcept { return state_->backend; }
std::uint32_t Plan::num_workers() const noexcept { return state_->executor->num_workers(); }

std::string Plan::describe() const {
  const TaskMapping& mapping = state_->lowering.mapping;
  const auto number = [](const std::optional<std::uint32_t>& value) {
    return value ? std::to_string(*value) : std::string("-");
  };
  const Lowering& lowering = state_->lowering;
  std::string text = state_->is_convolution()
                         ? "problem: " + to_string(problem())
                         : "operators: " + std::to_string(lowering.nodes.size());
  text += "\nchosen by: " + state_->origin.configuration +
          "\nbackend: " + state_->executor->describe() + '\n';
  if (state_->backend != Backend::cpu) {
    text +=
        std::string("launch: ") + to_string(state_->launch) + ", " + state_->origin.launch + '\n';
  }
  for (std::size_t i = 0; i < lowering.nodes.size(); ++i) {
    if (!state_->is_convolution()) text += "operator " + lowering.graph.nodes[i] + ":\n";
    text += std::visit([](const auto& cut) { return to_string(cut); }, lowering.nodes[i].cut);
    if (!text.ends_with('\n')) text += '\n';
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

const char* to_string(CudaLaunch launch) noexcept {
  switch (launch) {
    case CudaLaunch::automatic:
      return "automatic";
    case CudaLaunch::persistent:
      return "persistent";
    case CudaLaunch::one_block_per_task:
      return "one_block_per_task";
    case CudaLaunch::raw_block_index:
      return "raw_block_index";
    case CudaLaunch::staged:
      return "staged";
  }
  return "unknown";
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
