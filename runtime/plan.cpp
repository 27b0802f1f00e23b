// SPDX-License-Identifier: Apache-2.0
#include "megaconv/plan.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu_executor.hpp"
#include "runtime/machine.hpp"
#include "runtime/workspace.hpp"
#include "tasks/cpu/kernels.hpp"

namespace megaconv {
namespace {

std::size_t round_up(std::size_t bytes) {
  return (bytes + Plan::kAlignment - 1) / Plan::kAlignment * Plan::kAlignment;
}

WorkspaceLayout lay_out(const TaskGraph& graph, std::size_t scratch_bytes, std::uint32_t workers) {
  const Tiling& tiling = graph.tiling;
  WorkspaceLayout layout;
  layout.num_counters = graph.counter_totals.size();
  std::size_t end = sizeof(WorkspaceHeader);
  const auto place = [&end](std::size_t bytes) {
    const std::size_t begin = round_up(end);
    end = begin + bytes;
    return begin;
  };
  layout.counters = place(layout.num_counters * sizeof(HostSync::Cell));
  layout.v = place(tiling.v_slots * tiling.v_slot_bytes());
  layout.m = place(tiling.m_slots * tiling.m_slot_bytes());
  layout.u = place(tiling.filters == FilterMode::every_run ? tiling.u_bytes() : 0);
  layout.scratch_stride = round_up(scratch_bytes);
  layout.scratch = place(layout.scratch_stride * workers);
  layout.total = round_up(end);
  return layout;
}

std::vector<Task> in_order(const Lowering& lowering) {
  std::vector<Task> tasks;
  tasks.reserve(lowering.mapping.order.size());
  for (const std::uint32_t id : lowering.mapping.order) tasks.push_back(lowering.graph.tasks[id]);
  return tasks;
}

void require_aligned(const char* name, const void* pointer) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % Plan::kAlignment != 0) {
    throw Error(Status::invalid_argument, std::string(name) + " is not aligned to " +
                                              std::to_string(Plan::kAlignment) + " bytes");
  }
}

// One pointer that execute() was given.
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

void require_apart(const Argument& a, const Argument& b) {
  if (a.pointer == nullptr || b.pointer == nullptr) return;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.pointer);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.pointer);
  if (a_begin < b_begin + b.bytes && b_begin < a_begin + a.bytes) {
    throw Error(Status::invalid_argument, std::string(a.name) + " overlaps " + b.name);
  }
}

}  // namespace

struct Plan::State {
  Lowering lowering;
  std::uint32_t num_threads = 1;
  std::uint32_t plan_id = 0;
  std::chrono::milliseconds wait_budget{0};
  const cpu::Kernels* kernels = nullptr;
  std::vector<Task> tasks;  // by position
  WorkspaceLayout layout;

  const Tiling& tiling() const { return lowering.graph.tiling; }
  const ConvProblem& problem() const { return tiling().problem; }
  std::size_t element_bytes() const { return size_of(problem().dtype); }

  void check(const Tensors& tensors, const void* workspace, std::size_t workspace_bytes) const;
};

Plan Plan::create(const ConvProblem& problem, const PlanOptions& options) {
  if (options.backend != Backend::cpu) {
    throw Error(Status::unsupported, "backend is not part of this build, must be cpu");
  }
  Target target;
  target.workers = resolve_workers(options.num_threads);
  target.cache_bytes_per_worker = level2_cache_bytes();
  return create(lower(problem, options.tiling, options.mapping, target, options.policy), options);
}

Plan Plan::create(Lowering lowering, const PlanOptions& options) {
  if (options.backend != Backend::cpu) {
    throw Error(Status::unsupported, "backend is not part of this build, must be cpu");
  }
  if (options.wait_budget_ms == 0) {
    throw Error(Status::invalid_argument, "wait budget 0 ms, must be at least 1");
  }
  if (const auto violation = validate(lowering.graph, lowering.mapping)) {
    throw Error(Status::invalid_argument, "mapping: " + violation->message);
  }
  static std::atomic<std::uint32_t> next_plan_id{0};

  auto state = std::make_shared<State>();
  state->lowering = std::move(lowering);
  state->num_threads = resolve_workers(options.num_threads);
  state->plan_id = next_plan_id.fetch_add(1, std::memory_order_relaxed) & 0x7fffffffu;
  state->wait_budget = std::chrono::milliseconds(options.wait_budget_ms);
  state->kernels = &cpu::kernels_for();
  state->tasks = in_order(state->lowering);
  state->layout = lay_out(state->lowering.graph, state->kernels->scratch_bytes(state->tiling()),
                          state->num_threads);
  return Plan(std::move(state));
}

std::size_t Plan::workspace_bytes() const noexcept { return state_->layout.total; }

std::size_t Plan::prepared_filter_bytes() const noexcept {
  return state_->tiling().filters == FilterMode::prepared ? state_->tiling().u_bytes() : 0;
}

void Plan::prepare_filters(const void* w, void* prepared) const {
  if (state_->tiling().filters != FilterMode::prepared) {
    throw Error(Status::invalid_argument,
                "prepare_filters: the plan transforms filters in every run; create it with "
                "FilterMode::prepared");
  }
  const Argument source{
      "w", w, static_cast<std::size_t>(state_->problem().w_size()) * state_->element_bytes(), true};
  const Argument target{"prepared filters", prepared, prepared_filter_bytes(), true};
  require_presence(source);
  require_presence(target);
  require_aligned(target.name, prepared);
  require_apart(source, target);

  cpu::TaskArgs args;
  args.tiling = &state_->tiling();
  args.w = static_cast<const float*>(w);
  args.u = static_cast<float*>(prepared);
  const std::vector<Task> tasks = build_filter_graph(state_->tiling()).tasks;
  struct alignas(kAlignment) Line {
    std::byte bytes[kAlignment];
  };
  const std::size_t lines_per_worker = state_->layout.scratch_stride / kAlignment;
  std::vector<Line> scratch(lines_per_worker * state_->num_threads);
  HostSync::Cell ticket = 0;
  const cpu::TaskFunction transform =
      state_->kernels->run[static_cast<std::uint32_t>(TaskKind::filter_transform)];
  run_on_cpu(tasks, state_->num_threads, {.ticket = &ticket}, state_->wait_budget,
             [&](const Task& task, std::uint32_t worker) {
               transform(args, task.group, task.block,
                         reinterpret_cast<std::byte*>(scratch.data() + worker * lines_per_worker));
             });
}

void Plan::State::check(const Tensors& tensors, const void* workspace,
                        std::size_t workspace_bytes) const {
  const ConvProblem& p = problem();
  const bool prepared = tiling().filters == FilterMode::prepared;
  const auto bytes = [this](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes();
  };
  const Argument residual{"residual", tensors.residual, bytes(p.y_size()), p.epilogue.residual};
  const Argument read[] = {
      {"x", tensors.x, bytes(p.x_size()), true},
      {"w", tensors.w, bytes(p.w_size()), !prepared},
      {"prepared_filters", tensors.prepared_filters, tiling().u_bytes(), prepared},
      {"bias", tensors.bias, bytes(p.k), p.epilogue.bias},
      residual,
  };
  const Argument y{"y", tensors.y, bytes(p.y_size()), true};
  const Argument space{"workspace", workspace, layout.total, true};

  for (const Argument& argument : read) require_presence(argument);
  require_presence(y);
  require_presence(space);
  if (workspace_bytes < layout.total) {
    throw Error(Status::out_of_memory, "workspace of " + std::to_string(workspace_bytes) +
                                           " bytes, must be at least " +
                                           std::to_string(layout.total));
  }
  require_aligned("workspace", workspace);
  require_aligned("prepared_filters", tensors.prepared_filters);
  for (const Argument& argument : read) {
    const bool in_place = argument.name == residual.name && argument.pointer == y.pointer;
    if (!in_place) require_apart(argument, y);
    require_apart(argument, space);
  }
  require_apart(y, space);
}

void Plan::execute(const Tensors& tensors, void* workspace, std::size_t workspace_bytes,
                   const RunOptions& run) const {
  const State& state = *state_;
  state.check(tensors, workspace, workspace_bytes);
  const WorkspaceLayout& layout = state.layout;
  auto* const base = static_cast<std::byte*>(workspace);
  const auto at = [base](std::size_t offset) { return reinterpret_cast<float*>(base + offset); };

  cpu::TaskArgs args;
  args.tiling = &state.tiling();
  args.x = static_cast<const float*>(tensors.x);
  args.w = static_cast<const float*>(tensors.w);
  args.bias = static_cast<const float*>(tensors.bias);
  args.residual = static_cast<const float*>(tensors.residual);
  args.y = static_cast<float*>(tensors.y);
  args.v = at(layout.v);
  args.m = at(layout.m);
  args.u = tensors.prepared_filters != nullptr
               ? const_cast<float*>(static_cast<const float*>(tensors.prepared_filters))
               : at(layout.u);

  WorkspaceLease lease(workspace, layout, state.plan_id);
  const CpuRunState cells{.ticket = lease.ticket(),
                          .counters = reinterpret_cast<HostSync::Cell*>(base + layout.counters),
                          .epoch = lease.epoch()};
  run_on_cpu(
      state.tasks, state.num_threads, cells, state.wait_budget,
      [&](const Task& task, std::uint32_t worker) {
        state.kernels->run[static_cast<std::uint32_t>(task.kind)](
            args, task.group, task.block, base + layout.scratch + worker * layout.scratch_stride);
      },
      run.trace);
  lease.set_completed();
}

const ConvProblem& Plan::problem() const noexcept { return state_->problem(); }
const Lowering& Plan::lowering() const noexcept { return state_->lowering; }
std::uint32_t Plan::num_threads() const noexcept { return state_->num_threads; }

std::string Plan::describe() const {
  const MappingOptions& mapping = state_->lowering.mapping.options;
  const auto number = [](const std::optional<std::uint32_t>& value) {
    return value ? std::to_string(*value) : std::string("-");
  };
  std::string text = "problem: " + to_string(problem()) + "\nbackend: cpu, " +
                     std::to_string(num_threads()) + " workers, " + state_->kernels->isa + '\n' +
                     to_string(state_->tiling());
  if (!text.ends_with('\n')) text += '\n';
  text += "policy: " + state_->lowering.mapping.policy + ", DIG " + number(mapping.dig) + ", DGO " +
          number(mapping.dgo) + ", M groups " + number(mapping.m_groups) +
          "\ntasks: " + std::to_string(state_->tasks.size()) +
          "\nworkspace: " + std::to_string(workspace_bytes()) + " bytes\n";
  if (prepared_filter_bytes() != 0) {
    text += "prepared filters: " + std::to_string(prepared_filter_bytes()) + " bytes\n";
  }
  return text;
}

const char* version() noexcept { return MEGACONV_VERSION; }

}  // namespace megaconv
