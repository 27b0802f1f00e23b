// SPDX-License-Identifier: Apache-2.0
// Plans on CPU workers: where the buffers of a graph lie in a workspace, and who computes a task.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/arena.hpp"
#include "runtime/cpu_run.hpp"
#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "runtime/plan_word.hpp"
#include "runtime/worker_places.hpp"
#include "runtime/workspace.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/operators.hpp"

namespace megaconv {
namespace {

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Lowering& lowering, const PlanOptions& options)
      : lowering_(lowering),
        num_workers_(resolve_workers(options.num_threads)),
        binding_(resolve_binding()),
        wait_budget_(options.wait_budget_ms),
        kernels_(cpu::kernels_for()),
        tasks_(tasks_in_order(lowering)) {
    for (const Node& node : lowering.nodes) {
      node_tasks_.push_back(cpu::make_node_tasks(node.cut, kernels_));
    }
    lay_out();
  }

  std::size_t workspace_bytes() const override { return layout_.total; }
  std::size_t filter_bytes() const override { return node_tasks_.front().bytes.u; }
  std::uint32_t num_workers() const override { return num_workers_; }

  void prepare_filters(const void* w, void* prepared, void*) const override {
    cpu::TaskArgs args;
    args.w = w;
    args.u = static_cast<float*>(prepared);
    struct alignas(Plan::kAlignment) Line {
      std::byte bytes[Plan::kAlignment];
    };
    std::vector<Line> scratch(layout_.scratch_stride / sizeof(Line) * num_workers_);
    std::vector<CpuWorker> workers(num_workers_);
    const TaskGraph graph = build_filter_graph(lowering_.tiling());
    run_on_cpu(graph, graph.tasks, num_workers_, {.workers = workers.data()}, wait_budget_,
               [&](const Task& task, std::uint32_t worker) {
                 run_task(task, args, reinterpret_cast<std::byte*>(scratch.data()), worker);
               });
  }

  void execute(std::span<const Tensors> nodes, void* workspace,
               const RunOptions& run) const override {
    auto* const base = static_cast<std::byte*>(workspace);
    WorkspaceLease lease(workspace, layout_, plan_word_, lowering_.graph.counter_totals);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      std::construct_at(args_in(base) + node,
                        bind(lowering_.nodes[node].buffers, nodes[node], base));
    }
    const CpuRunState state{
        .counters = reinterpret_cast<HostSync::Cell*>(base + layout_.counters),
        .epoch = lease.epoch(),
        .workers = reinterpret_cast<CpuWorker*>(base + layout_.workers),
    };
    // Two pointers are what a function object keeps without an allocation.
    run_on_cpu(
        lowering_.graph, tasks_, num_workers_, state, wait_budget_,
        [this, base](const Task& task, std::uint32_t worker) {
          run_task(task, args_in(base)[task.node], base + layout_.scratch, worker);
        },
        run.trace);
    lease.set_completed();
  }

  void wait(void*, void*) const override {}  // execute() returns when all is done

  std::string describe() const override {
    const bool bound =
        binding_ == Binding::cpu || (binding_ == Binding::node && numa_nodes().size() > 1);
    return "cpu, " + std::to_string(num_workers_) + " workers, " + kernels_.isa +
           (bound ? std::string(", each bound to one ") + to_string(binding_) : "");
  }

 private:
  // Whether a buffer is neither the caller's nor in a worker's scratch.
  bool in_workspace(BufferId buffer) const {
    return buffer != kNoBuffer && !lowering_.graph.buffers[buffer].given;
  }

  void lay_out() {
    layout_.buffers.resize(lowering_.graph.buffers.size());
    Arena arena(sizeof(WorkspaceHeader), Plan::kAlignment);
    layout_.counters = arena.place(lowering_.graph.counter_totals.size() * sizeof(HostSync::Cell));
    layout_.arguments = arena.place(lowering_.nodes.size() * sizeof(cpu::TaskArgs));
    layout_.workers = arena.place(num_workers_ * sizeof(CpuWorker));
    std::size_t scratch = 0;
    for (std::size_t i = 0; i < lowering_.nodes.size(); ++i) {
      const NodeBuffers& buffers = lowering_.nodes[i].buffers;
      const cpu::NodeBytes& bytes = node_tasks_[i].bytes;
      const auto place = [&](BufferId buffer, std::size_t size) {
        if (in_workspace(buffer)) layout_.buffers[buffer] = arena.place(size);
      };
      place(buffers.v, bytes.v);
      place(buffers.m, bytes.m);
      place(buffers.u, bytes.u);
      const bool last = i + 1 == lowering_.nodes.size();  // whose y is the caller's
      if (!last) place(buffers.y, lowering_.graph.buffers[buffers.y].bytes);
      scratch = std::max(scratch, bytes.scratch);
    }
    layout_.scratch_stride = aligned(scratch);
    layout_.scratch = arena.place(layout_.scratch_stride * num_workers_);
    layout_.total = arena.end();
  }

  // The pointers of one node: the caller's where he gives them, else into the workspace.
  cpu::TaskArgs bind(const NodeBuffers& buffers, const Tensors& tensors, std::byte* base) const {
    const auto at = [&](BufferId buffer) -> void* {
      const bool placed = buffer != kNoBuffer && layout_.buffers[buffer] != 0;
      return placed ? base + layout_.buffers[buffer] : nullptr;
    };
    cpu::TaskArgs args;
    args.x = tensors.x != nullptr ? tensors.x : at(buffers.x);
    args.w = tensors.w;
    args.scale = tensors.scale;
    args.bias = tensors.bias;
    args.residual = tensors.residual;
    args.y = tensors.y != nullptr ? tensors.y : at(buffers.y);
    args.v = static_cast<float*>(at(buffers.v));
    args.m = static_cast<float*>(at(buffers.m));
    // Prepared filters are only read: a plan that has them has no filter-transform tasks.
    args.u = tensors.prepared_filters != nullptr
                 ? const_cast<float*>(static_cast<const float*>(tensors.prepared_filters))
                 : static_cast<float*>(at(buffers.u));
    return args;
  }

  // By node.
  cpu::TaskArgs* args_in(std::byte* workspace) const {
    return reinterpret_cast<cpu::TaskArgs*>(workspace + layout_.arguments);
  }

  // `scratch`: that of all workers.
  void run_task(const Task& task, const cpu::TaskArgs& args, std::byte* scratch,
                std::uint32_t worker) const {
    node_tasks_[task.node].run(args, task, scratch + worker * layout_.scratch_stride);
  }

  const Lowering& lowering_;
  std::uint32_t num_workers_;
  Binding binding_;
  const std::uint64_t plan_word_ = new_plan_word();
  std::chrono::milliseconds wait_budget_;
  const cpu::Kernels& kernels_;
  std::vector<Task> tasks_;                 // by position
  std::vector<cpu::NodeTasks> node_tasks_;  // by node
  WorkspaceLayout layout_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const Lowering& lowering, const PlanOptions& options) {
  return std::make_unique<CpuExecutor>(lowering, options);
}

}  // namespace megaconv
