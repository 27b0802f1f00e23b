// SPDX-License-Identifier: Apache-2.0
#include "megaconv/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mapping/launch.hpp"
#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "runtime/tuning/choose_plan.hpp"

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
};

struct Plan::State {
  Lowering lowering;
  Backend backend = Backend::cpu;
  CudaLaunch launch = CudaLaunch::persistent;
  Origin origin;
  std::unique_ptr<const Executor> executor;

  const Tiling& tiling() const { return lowering.graph.tiling; }
  const ConvProblem& problem() const { return tiling().problem; }
  bool prepared() const { return tiling().filters == FilterMode::prepared; }

  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * size_of(problem().dtype);
  }
  std::size_t vector_bytes() const {
    return static_cast<std::size_t>(problem().k) * size_of(problem().vector_type());
  }
  void check(const Tensors& tensors, const void* workspace, std::size_t workspace_bytes) const;
};

Plan Plan::create(const ConvProblem& problem, const PlanOptions& options) {
  const auto plan_with = [&](const PlanOptions& chosen, const std::string& origin) {
    const Target target = target_of(chosen);
    const auto [launched, reason] = choose_launch(problem, chosen, target);
    return create(lower(problem, launched.tiling, launched.mapping, target, launched.policy),
                  launched, {origin, reason});
  };
  const Choice choice = choose_plan(problem, options, [&](const PlanOptions& candidate) {
    return plan_with(candidate, {}).workspace_bytes();
  });
  return plan_with(choice.options, choice.origin);
}

Plan Plan::create(Lowering lowering, const PlanOptions& options) {
  PlanOptions launched = options;
  const bool chosen = options.cuda_launch == CudaLaunch::automatic;
  if (chosen) launched.cuda_launch = CudaLaunch::persistent;
  return create(std::move(lowering), launched,
                {"the caller's lowering", chosen ? "for the caller's order" : kAskedFor});
}

Plan Plan::create(Lowering lowering, const PlanOptions& options, const Origin& origin) {
  if (options.wait_budget_ms == 0) {
    throw Error(Status::invalid_argument, "wait budget 0 ms, must be at least 1");
  }
  if (const auto violation = validate(lowering.graph, lowering.mapping)) {
    throw Error(Status::invalid_argument, "mapping: " + violation->message);
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
  const Argument source{"w", w, state_->bytes(state_->problem().w_size()), true};
  const Argument target{"prepared_filters", prepared, prepared_filter_bytes(), true};
  require_presence(source);
  require_presence(target);
  require_aligned(target);
  require_apart(source, target);
  state_->executor->prepare_filters(w, prepared, stream);
}

void Plan::State::check(const Tensors& tensors, const void* workspace,
                        std::size_t workspace_bytes) const {
  const ConvProblem& p = problem();
  const Argument residual{"residual", tensors.residual, bytes(p.y_size()), p.epilogue.residual};
  const Argument filters{"prepared_filters", tensors.prepared_filters, executor->filter_bytes(),
                         prepared()};
  const Argument read[] = {
      {"x", tensors.x, bytes(p.x_size()), true},
      {"w", tensors.w, bytes(p.w_size()), !prepared()},
      {"scale", tensors.scale, vector_bytes(), p.epilogue.scale},
      {"bias", tensors.bias, vector_bytes(), p.epilogue.bias},
      filters,
      residual,
  };
  const Argument y{"y", tensors.y, bytes(p.y_size()), true};
  const Argument space{"workspace", workspace, executor->workspace_bytes(), true};

  for (const Argument& argument : read) require_presence(argument);
  require_presence(y);
  require_presence(space);
  if (workspace_bytes < space.bytes) {
    throw Error(Status::out_of_memory, "workspace of " + std::to_string(workspace_bytes) +
                                           " bytes, must be at least " +
                                           std::to_string(space.bytes));
  }
  require_aligned(space);
  require_aligned(filters);
  for (const Argument& argument : read) {
    const bool in_place = argument.name == residual.name && argument.pointer == y.pointer;
    if (!in_place) require_apart(argument, y);
    require_apart(argument, space);
  }
  require_apart(y, space);
}

void Plan::execute(const Tensors& tensors, void* workspace, std::size_t workspace_bytes,
                   const RunOptions& run) const {
  state_->check(tensors, workspace, workspace_bytes);
  state_->executor->execute(tensors, workspace, run);
}

void Plan::wait(void* workspace, void* stream) const { state_->executor->wait(workspace, stream); }

const ConvProblem& Plan::problem() const noexcept { return state_->problem(); }
const Lowering& Plan::lowering() const noexcept { return state_->lowering; }
Backend Plan::backend() const noexcept { return state_->backend; }
std::uint32_t Plan::num_workers() const noexcept { return state_->executor->num_workers(); }

std::string Plan::describe() const {
  const TaskMapping& mapping = state_->lowering.mapping;
  const auto number = [](const std::optional<std::uint32_t>& value) {
    return value ? std::to_string(*value) : std::string("-");
  };
  std::string text = "problem: " + to_string(problem()) +
                     "\nchosen by: " + state_->origin.configuration +
                     "\nbackend: " + state_->executor->describe() + '\n';
  if (state_->backend != Backend::cpu) {
    text +=
        std::string("launch: ") + to_string(state_->launch) + ", " + state_->origin.launch + '\n';
  }
  text += to_string(state_->tiling());
  if (!text.ends_with('\n')) text += '\n';
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
