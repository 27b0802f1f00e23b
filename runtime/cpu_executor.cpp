// SPDX-License-Identifier: Apache-2.0
// Plans on CPU workers: where the parts of a workspace lie, and which body computes a task.
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cpu_run.hpp"
#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "runtime/worker_places.hpp"
#include "runtime/workspace.hpp"
#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/kernels.hpp"

namespace megaconv {
namespace {

std::uint32_t new_plan_id() {
  static std::atomic<std::uint32_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed) & 0x7fffffffu;
}

WorkspaceLayout lay_out(const TaskGraph& graph, const cpu::Kernels& kernels,
                        std::uint32_t workers) {
  const Tiling& tiling = graph.tiling;
  const cpu::Extents extents(tiling);
  WorkspaceLayout layout;
  layout.num_counters = graph.counter_totals.size();
  std::size_t end = sizeof(WorkspaceHeader);
  const auto place = [&end](std::size_t bytes) {
    const std::size_t begin = aligned(end);
    end = begin + bytes;
    return begin;
  };
  layout.counters = place(layout.num_counters * sizeof(HostSync::Cell));
  const bool in_slots = tiling.algorithm == Algorithm::winograd;  // else in scratch, or nowhere
  layout.v = place(in_slots ? tiling.v_slots * extents.v_slot_bytes() : 0);
  layout.m = place(in_slots ? tiling.m_slots * extents.m_slot_bytes() : 0);
  layout.u = place(tiling.filters == FilterMode::every_run ? kernels.u_bytes(tiling) : 0);
  layout.scratch_stride = aligned(kernels.scratch_bytes(tiling));
  layout.scratch = place(layout.scratch_stride * workers);
  layout.total = aligned(end);
  return layout;
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Lowering& lowering, const PlanOptions& options)
      : tiling_(lowering.graph.tiling),
        num_workers_(resolve_workers(options.num_threads)),
        binding_(resolve_binding()),
        wait_budget_(options.wait_budget_ms),
        kernels_(cpu::kernels_for()),
        tasks_(tasks_in_order(lowering)),
        layout_(lay_out(lowering.graph, kernels_, num_workers_)) {}

  std::size_t workspace_bytes() const override { return layout_.total; }
  std::size_t filter_bytes() const override { return kernels_.u_bytes(tiling_); }
  std::uint32_t num_workers() const override { return num_workers_; }

  void prepare_filters(const void* w, void* prepared, void*) const override {
    cpu::TaskArgs args;
    args.tiling = &tiling_;
    args.w = w;
    args.u = static_cast<float*>(prepared);
    struct alignas(Plan::kAlignment) Line {
      std::byte bytes[Plan::kAlignment];
    };
    std::vector<Line> scratch(layout_.scratch_stride / sizeof(Line) * num_workers_);
    HostSync::Cell ticket = 0;
    run_on_cpu(build_filter_graph(tiling_).tasks, num_workers_, {.ticket = &ticket}, wait_budget_,
               body(args, reinterpret_cast<std::byte*>(scratch.data())));
  }

  void execute(const Tensors& tensors, void* workspace, const RunOptions& run) const override {
    auto* const base = static_cast<std::byte*>(workspace);
    const auto at = [base](std::size_t offset) { return reinterpret_cast<float*>(base + offset); };
    cpu::TaskArgs args;
    args.tiling = &tiling_;
    args.x = tensors.x;
    args.w = tensors.w;
    args.scale = tensors.scale;
    args.bias = tensors.bias;
    args.residual = tensors.residual;
    args.y = tensors.y;
    args.v = at(layout_.v);
    args.m = at(layout_.m);
    // Prepared filters are only read: a plan that has them has no filter-transform tasks.
    args.u = tiling_.filters == FilterMode::prepared
                 ? const_cast<float*>(static_cast<const float*>(tensors.prepared_filters))
                 : at(layout_.u);

    WorkspaceLease lease(workspace, layout_, plan_id_);
    const CpuRunState cells{.ticket = lease.ticket(),
                            .counters = reinterpret_cast<HostSync::Cell*>(base + layout_.counters),
                            .epoch = lease.epoch()};
    run_on_cpu(tasks_, num_workers_, cells, wait_budget_, body(args, base + layout_.scratch),
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
  TaskBody body(const cpu::TaskArgs& args, std::byte* scratch) const {
    return [this, &args, scratch](const Task& task, std::uint32_t worker) {
      kernels_.run(tiling_.problem.dtype, task.kind)(args, task.group, task.block,
                                                     scratch + worker * layout_.scratch_stride);
    };
  }

  const Tiling& tiling_;
  std::uint32_t num_workers_;
  Binding binding_;
  std::uint32_t plan_id_ = new_plan_id();
  std::chrono::milliseconds wait_budget_;
  const cpu::Kernels& kernels_;
  std::vector<Task> tasks_;  // by position
  WorkspaceLayout layout_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const Lowering& lowering, const PlanOptions& options) {
  if (lowering.graph.tiling.algorithm == Algorithm::opencnn) {
    throw Error(Status::unsupported, "opencnn: backend cpu, must be cuda");
  }
  if (lowering.graph.tiling.algorithm == Algorithm::implicit_gemm) {
    throw Error(Status::unsupported, "implicit_gemm: backend cpu, must be cuda");
  }
  if (const Arithmetic given = lowering.graph.tiling.arithmetic; given != Arithmetic::fma) {
    throw Error(Status::unsupported,
                std::string("arithmetic ") + to_string(given) + ": backend cpu, must be cuda");
  }
  return std::make_unique<CpuExecutor>(lowering, options);
}

}  // namespace megaconv
