// SPDX-License-Identifier: Apache-2.0
// Plans on CPU workers: where the buffers of a graph lie in a workspace, and who computes a task.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "mapping/places.hpp"
#include "runtime/arena.hpp"
#include "runtime/cpu_run.hpp"
#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "runtime/plan_word.hpp"
#include "runtime/worker_places.hpp"
#include "runtime/workspace.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/operators.hpp"
#include "tasks/operators.hpp"

namespace megaconv {
namespace {

// Where the numbers of an operator of a network lie in what prepare_filters() fills.
struct PreparedNode {
  std::size_t u = 0, scale = 0, bias = 0;
};

struct alignas(Plan::kAlignment) Line {
  std::byte bytes[Plan::kAlignment];
};

// Workers that pay: to wake one and to wait for it takes up to 40 us, if it was asleep, and 2 us if
// it was not. n1c16h4k16 takes 2 us on one worker and up to 39 on two (2 cores of Zen 4).
constexpr double kLeastUsOfWorker = 10;
// Rates of a core, which need not be exact.
constexpr double kOperationsPerUs = 100e3, kBytesPerUs = 20e3;

std::uint32_t workers_that_pay(const TaskGraph& graph, std::uint32_t most) {
  double us = 0;
  for (const Stage& stage : graph.stages) {
    us += static_cast<double>(stage.num_tasks()) *
          std::max(stage.operations / kOperationsPerUs, stage.bytes / kBytesPerUs);
  }
  return std::clamp(static_cast<std::uint32_t>(std::min(us / kLeastUsOfWorker, 1e9)), 1u, most);
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Lowering& lowering, const PlanOptions& options)
      : lowering_(lowering),
        num_workers_(resolve_workers(options.num_threads)),
        threads_(options.threads),
        binding_(resolve_binding()),
        wait_budget_(options.wait_budget_ms),
        kernels_(cpu::kernels_for()),
        tasks_(tasks_in_order(lowering)) {
    if (options.num_threads == 0) num_workers_ = workers_that_pay(lowering.graph, num_workers_);
    for (const Node& node : lowering.nodes) {
      node_tasks_.push_back(cpu::make_node_tasks(node.cut, kernels_));
    }
    lay_out();
    lay_out_prepared();
  }

  std::size_t workspace_bytes() const override { return layout_.total; }
  std::size_t filter_bytes() const override { return prepared_bytes_; }
  std::uint32_t num_workers() const override { return num_workers_; }

  void prepare_filters(const void* w, void* prepared, void*) const override {
    std::vector<Line> scratch(scratch_lines());
    prepare_node(0, w, static_cast<float*>(prepared), scratch);
  }

  void prepare_filters(const FusedNetwork& network, void* prepared) const override {
    auto* const base = static_cast<std::byte*>(prepared);
    const auto put = [&](std::size_t at, const auto& numbers) {
      if (numbers.empty()) return;
      std::memcpy(base + at, numbers.data(), numbers.size() * sizeof(numbers[0]));
    };
    std::vector<Line> scratch(scratch_lines());
    for (std::size_t i = 0; i < network.operators.size(); ++i) {
      const FusedOperator& op = network.operators[i];
      if (std::holds_alternative<ConvProblem>(op.problem)) {
        const std::vector<std::byte> w = folded_filters(op);
        prepare_node(i, w.data(), reinterpret_cast<float*>(base + prepared_[i].u), scratch);
        put(prepared_[i].bias, folded_bias(op));
      } else {
        put(prepared_[i].scale, std::vector<float>(op.scale.begin(), op.scale.end()));
        put(prepared_[i].bias, std::vector<float>(op.bias.begin(), op.bias.end()));
      }
    }
  }

  void execute(const Tensors& tensors, void* workspace, const RunOptions& run) const override {
    execute(workspace, run, [&](std::byte* base) {
      const NodeBuffers& buffers = lowering_.nodes.front().buffers;
      const void** const pointers = place_buffers(base);
      const auto give = [&](BufferId buffer, const void* pointer) {
        if (buffer != kNoBuffer && pointer != nullptr) pointers[buffer] = pointer;
      };
      give(buffers.x, tensors.x);
      give(buffers.w, tensors.w);
      give(buffers.residual, tensors.residual);
      give(buffers.y, tensors.y);
      give(buffers.u, tensors.prepared_filters);
      cpu::TaskArgs args = bind(buffers, pointers);
      args.scale = tensors.scale;
      args.bias = tensors.bias;
      const Layout layout = std::get<Tiling>(lowering_.nodes.front().cut).problem.layout;
      args.x_pitches = pitches_of(layout, tensors.x_strides);
      args.y_pitches = pitches_of(layout, tensors.y_strides);
      std::construct_at(args_in(base), args);
    });
  }

  void execute(const NetworkTensors& tensors, void* workspace,
               const RunOptions& run) const override {
    execute(workspace, run, [&](std::byte* base) {
      const void** const pointers = place_buffers(base);
      for (std::size_t i = 0; i < lowering_.inputs.size(); ++i) {
        pointers[lowering_.inputs[i]] = tensors.inputs[i];
      }
      for (std::size_t i = 0; i < lowering_.outputs.size(); ++i) {
        pointers[lowering_.outputs[i]] = tensors.outputs[i];
      }
      const auto* const prepared = static_cast<const std::byte*>(tensors.prepared_filters);
      const void** inputs = pointers + lowering_.graph.buffers.size();
      for (std::size_t i = 0; i < lowering_.nodes.size(); ++i) {
        const NodeBuffers& buffers = lowering_.nodes[i].buffers;
        if (buffers.u != kNoBuffer) pointers[buffers.u] = prepared + prepared_[i].u;
        cpu::TaskArgs args = bind(buffers, pointers);
        args.scale = prepared + prepared_[i].scale;
        args.bias = prepared + prepared_[i].bias;
        args.inputs = inputs;
        for (const BufferId input : buffers.inputs) *inputs++ = pointers[input];
        std::construct_at(args_in(base) + i, args);
      }
    });
  }

  void wait(void*, void*) const override {}  // execute() returns when all is done

  std::string describe() const override {
    const bool own = threads_.run != nullptr;
    const bool bound = !own && (binding_ == Binding::cpu ||
                                (binding_ == Binding::node && numa_nodes().size() > 1));
    return "cpu, " + std::to_string(num_workers_) + " workers" +
           (own ? " on the caller's threads, " : ", ") + kernels_.isa +
           (bound ? std::string(", each bound to one ") + to_string(binding_) : "");
  }

 private:
  // Whether a buffer is neither the caller's nor in a worker's scratch.
  bool in_workspace(BufferId buffer) const {
    const auto& outputs = lowering_.outputs;
    return buffer != kNoBuffer && !lowering_.graph.buffers[buffer].given &&
           std::find(outputs.begin(), outputs.end(), buffer) == outputs.end();
  }

  void lay_out() {
    const std::size_t num_buffers = lowering_.graph.buffers.size();
    std::size_t num_pointers = num_buffers, scratch = 0;
    for (const Node& node : lowering_.nodes) num_pointers += node.buffers.inputs.size();
    layout_.buffers.resize(num_buffers);
    Arena arena(sizeof(WorkspaceHeader), Plan::kAlignment);
    layout_.counters = arena.place(lowering_.graph.counter_totals.size() * sizeof(HostSync::Cell));
    layout_.pointers = arena.place(num_pointers * sizeof(void*));
    layout_.arguments = arena.place(lowering_.nodes.size() * sizeof(cpu::TaskArgs));
    layout_.workers = arena.place(num_workers_ * sizeof(CpuWorker));
    const bool in_network = !lowering_.inputs.empty();
    std::uint64_t shared_bytes = 0;
    for (const Buffer& buffer : lowering_.graph.buffers) {
      if (buffer.place != kNoPlace) shared_bytes = std::max(shared_bytes, bytes_of(buffer).end);
    }
    const std::size_t shared = arena.place(shared_bytes);
    for (std::size_t i = 0; i < lowering_.nodes.size(); ++i) {
      const NodeBuffers& buffers = lowering_.nodes[i].buffers;
      const cpu::NodeBytes& bytes = node_tasks_[i].bytes;
      const auto place = [&](BufferId buffer, std::size_t size) {
        if (!in_workspace(buffer)) return;
        const std::uint64_t in_shared = lowering_.graph.buffers[buffer].place;
        layout_.buffers[buffer] = in_shared != kNoPlace ? shared + in_shared : arena.place(size);
      };
      place(buffers.v, bytes.v);
      place(buffers.m, bytes.m);
      place(buffers.u, bytes.u);
      // The y of a convolution alone is the caller's.
      if (in_network) place(buffers.y, lowering_.graph.buffers[buffers.y].bytes);
      scratch = std::max(scratch, bytes.scratch);
    }
    layout_.scratch_stride = aligned(scratch);
    layout_.scratch = arena.place(layout_.scratch_stride * num_workers_);
    layout_.total = arena.end();
  }

  // A convolution alone has its transformed filters prepared, a network also biases and scales.
  void lay_out_prepared() {
    Arena arena(0, Plan::kAlignment);
    for (std::size_t i = 0; i < lowering_.nodes.size(); ++i) {
      PreparedNode& node = prepared_.emplace_back();
      node.u = arena.place(node_tasks_[i].bytes.u);
      if (lowering_.inputs.empty()) continue;
      const Cut& cut = lowering_.nodes[i].cut;
      if (const auto* tiling = std::get_if<Tiling>(&cut)) {
        const ConvProblem& a = tiling->problem;
        if (a.epilogue.bias) {
          node.bias = arena.place(static_cast<std::size_t>(a.k) * size_of(a.dtype));
        }
      } else if (const auto bytes = static_cast<std::size_t>(num_scales(cut)) * sizeof(float);
                 bytes > 0) {
        node.scale = arena.place(bytes);
        node.bias = arena.place(bytes);
      }
    }
    prepared_bytes_ = lowering_.inputs.empty() ? node_tasks_.front().bytes.u : arena.end();
  }

  std::size_t scratch_lines() const { return layout_.scratch_stride / sizeof(Line) * num_workers_; }

  // Transforms the filters of one node.
  void prepare_node(std::size_t node, const void* w, float* u, std::vector<Line>& scratch) const {
    cpu::TaskArgs args;
    args.w = w;
    args.u = u;
    std::vector<CpuWorker> workers(num_workers_);
    const TaskGraph graph = build_filter_graph(std::get<Tiling>(lowering_.nodes[node].cut));
    run_on_cpu(
        graph, graph.tasks, num_workers_, {.workers = workers.data()}, wait_budget_,
        [&](const Task& task, std::uint32_t worker) {
          run_task(node, task, args, reinterpret_cast<std::byte*>(scratch.data()), worker);
        },
        nullptr, threads_);
  }

  // `bind_nodes` fills the arguments of all nodes.
  template <class BindNodes>
  void execute(void* workspace, const RunOptions& run, const BindNodes& bind_nodes) const {
    auto* const base = static_cast<std::byte*>(workspace);
    WorkspaceLease lease(workspace, layout_, plan_word_, lowering_.graph.counter_totals);
    bind_nodes(base);
    const CpuRunState state{
        .counters = reinterpret_cast<HostSync::Cell*>(base + layout_.counters),
        .epoch = lease.epoch(),
        .workers = reinterpret_cast<CpuWorker*>(base + layout_.workers),
    };
    // Two pointers are what a function object keeps without an allocation.
    run_on_cpu(
        lowering_.graph, tasks_, num_workers_, state, wait_budget_,
        [this, base](const Task& task, std::uint32_t worker) {
          run_task(task.node, task, args_in(base)[task.node], base + layout_.scratch, worker);
        },
        run.trace, threads_);
    lease.set_completed();
  }

  // The pointers by buffer, filled for those in the workspace; null for the others.
  const void** place_buffers(std::byte* base) const {
    const auto pointers = reinterpret_cast<const void**>(base + layout_.pointers);
    for (std::size_t i = 0; i < layout_.buffers.size(); ++i) {
      pointers[i] = layout_.buffers[i] != 0 ? base + layout_.buffers[i] : nullptr;
    }
    return pointers;
  }

  static cpu::Pitches pitches_of(Layout layout, const TensorStrides& s) {
    if (s == TensorStrides{}) return {};
    if (layout == Layout::nchw) return {.image = s.n, .row = s.h, .step = s.c};
    return {.image = s.n, .row = s.h / s.w, .step = s.w};
  }

  // The buffers of one node, all in place. Those that are only given are only read: a plan that has
  // prepared filters has no filter-transform tasks.
  static cpu::TaskArgs bind(const NodeBuffers& buffers, const void* const* pointers) {
    const auto at = [&](BufferId buffer) -> void* {
      return buffer != kNoBuffer ? const_cast<void*>(pointers[buffer]) : nullptr;
    };
    cpu::TaskArgs args;
    args.x = at(buffers.x);
    args.w = at(buffers.w);
    args.residual = at(buffers.residual);
    args.y = at(buffers.y);
    args.u = static_cast<float*>(at(buffers.u));
    args.v = static_cast<float*>(at(buffers.v));
    args.m = static_cast<float*>(at(buffers.m));
    return args;
  }

  // By node.
  cpu::TaskArgs* args_in(std::byte* workspace) const {
    return reinterpret_cast<cpu::TaskArgs*>(workspace + layout_.arguments);
  }

  // `scratch`: that of all workers.
  void run_task(std::size_t node, const Task& task, const cpu::TaskArgs& args, std::byte* scratch,
                std::uint32_t worker) const {
    node_tasks_[node].run(args, task, scratch + worker * layout_.scratch_stride);
  }

  const Lowering& lowering_;
  std::uint32_t num_workers_;
  WorkerThreads threads_;
  Binding binding_;
  const std::uint64_t plan_word_ = new_plan_word();
  std::chrono::milliseconds wait_budget_;
  const cpu::Kernels& kernels_;
  std::vector<Task> tasks_;                 // by position
  std::vector<cpu::NodeTasks> node_tasks_;  // by node
  WorkspaceLayout layout_;
  std::vector<PreparedNode> prepared_;  // by node
  std::size_t prepared_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const Lowering& lowering, const PlanOptions& options) {
  return std::make_unique<CpuExecutor>(lowering, options);
}

}  // namespace megaconv
