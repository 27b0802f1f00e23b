// SPDX-License-Identifier: Apache-2.0
// Plans on a CUDA device: what is decided when a plan is made, and the order of a run's steps.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "runtime/cuda/device.hpp"
#include "runtime/cuda/device_array.hpp"
#include "runtime/cuda/device_conv.hpp"
#include "runtime/cuda/device_results.hpp"
#include "runtime/cuda/device_run.hpp"
#include "runtime/cuda/device_workspace.hpp"
#include "runtime/cuda/error.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/executor.hpp"
#include "runtime/plan_word.hpp"

namespace megaconv {
namespace cuda {
namespace {

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const Lowering& lowering, const PlanOptions& options)
      : device_(current_device()),
        launch_(options.cuda_launch),
        conv_(lowering.tiling(), device_, launch_, scale_),
        y_bytes_(static_cast<std::size_t>(lowering.tiling().problem.y_size()) *
                 size_of(lowering.tiling().problem.dtype)),
        graph_(lowering.graph),
        host_tasks_(launch_ == CudaLaunch::staged ? tasks_in_stages(lowering.graph)
                                                  : order_tasks(lowering)),
        tasks_(host_tasks_),
        signals_(lowering.graph.signals),
        wait_budget_(std::chrono::milliseconds(options.wait_budget_ms)) {
    const Tiling& tiling = lowering.tiling();
    num_making_ = tiling.num_filter_tasks + tiling.num_groups * tiling.input_tasks;
    num_blocks_ = choose_num_blocks(options);
    layout_ =
        lay_out_workspace(conv_.memory(), static_cast<std::uint32_t>(graph_.counter_totals.size()),
                          num_blocks_, conv_.keeps_u());
  }

  std::size_t workspace_bytes() const override { return layout_.total; }
  std::size_t filter_bytes() const override { return conv_.memory().u_bytes; }
  std::uint32_t num_workers() const override { return num_blocks_; }

  void prepare_filters(const void* w, void* prepared, void* run_stream) const override {
    check_is_current(device_);
    check_device_pointer("w", w, device_);
    check_device_pointer("prepared_filters", prepared, device_);
    conv_.prepare_filters(w, prepared, static_cast<cudaStream_t>(run_stream));
  }

  using Executor::execute;
  using Executor::prepare_filters;
  void execute(const Tensors& tensors, void* workspace, const RunOptions& run) const override {
    if (run.trace != nullptr && launch_ == CudaLaunch::staged) {
      throw Error(Status::unsupported,
                  "trace: a staged launch records none, must be persistent, "
                  "one_block_per_task or raw_block_index");
    }
    check_is_current(device_);
    check_device_pointer("x", tensors.x, device_);
    check_device_pointer("w", tensors.w, device_);
    check_device_pointer("scale", tensors.scale, device_);
    check_device_pointer("bias", tensors.bias, device_);
    check_device_pointer("residual", tensors.residual, device_);
    check_device_pointer("prepared_filters", tensors.prepared_filters, device_);
    check_device_pointer("y", tensors.y, device_);
    check_device_pointer("workspace", workspace, device_);
    if (tensors.residual != nullptr && tensors.residual == tensors.y && conv_.may_compute_again()) {
      const auto stream = static_cast<cudaStream_t>(run.stream);
      const StreamCopy residual(tensors.residual, y_bytes_, stream);
      Tensors apart = tensors;
      apart.residual = residual.data();
      enqueue(apart, workspace, run);
    } else {
      enqueue(tensors, workspace, run);
    }
  }

  void wait(void* workspace, void* stream) const override {
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "run");
    if (launch_ == CudaLaunch::staged) return;
    DeviceHeader header;
    check(cudaMemcpy(&header, workspace, sizeof(header), cudaMemcpyDeviceToHost), "report");
    if (header.given_up != 0) {
      throw Error(Status::timeout,
                  give_up_report(graph_, host_tasks_, header,
                                 static_cast<const std::byte*>(workspace) + layout_.waiting,
                                 num_blocks_, wait_budget_));
    }
    check_tickets(header, workspace);
  }

  std::string describe() const override {
    return "cuda, " + device_.name + ", " + std::to_string(num_blocks_) + " blocks, " +
           conv_.name();
  }

 private:
  // In the mapping's order. Input tasks that have no pixels may stand behind those that multiply.
  std::vector<Task> order_tasks(const Lowering& lowering) const {
    std::vector<Task> tasks = tasks_in_order(lowering);
    if (conv_.makes_operands_first()) {
      std::stable_partition(tasks.begin(), tasks.end(),
                            [](const Task& task) { return kind_of(task) != TaskKind::direct; });
    }
    return tasks;
  }

  void enqueue(const Tensors& tensors, void* workspace, const RunOptions& run) const {
    auto* const base = static_cast<std::byte*>(workspace);
    const TaskArgs args = conv_.args_of(tensors, base, layout_);
    const auto stream = static_cast<cudaStream_t>(run.stream);
    if (launch_ == CudaLaunch::staged) {
      conv_.launch_stages(args, host_tasks_, tasks_.data(), Launcher::Turn::only, stream);
    } else {
      run_megakernel(args, base, stream, run.trace);
    }
  }

  std::uint32_t choose_num_blocks(const PlanOptions& options) const {
    const auto num_tasks = static_cast<std::uint32_t>(tasks_.size());
    switch (launch_) {
      case CudaLaunch::staged:
        return static_cast<std::uint32_t>(device_.num_sms);
      case CudaLaunch::persistent: {
        // More blocks than fit are right (tickets), only never faster.
        const std::uint32_t most = conv_.resident_blocks();
        return std::min(options.num_blocks != 0 ? options.num_blocks : most, num_tasks);
      }
      default:
        return num_tasks;
    }
  }

  // Blocks that find another ticket than the one before left, or another epoch, skip tasks. They
  // take as many tickets as ever, so the ticket stays wrong. The next run is to start afresh.
  void check_tickets(const DeviceHeader& header, void* workspace) const {
    const bool takes_tickets = launch_ != CudaLaunch::raw_block_index;
    if (header.owner != plan_word_ || !takes_tickets) return;
    const std::uint32_t overshoot = launch_ == CudaLaunch::persistent ? num_blocks_ : 0;
    const auto num_tasks = static_cast<std::uint32_t>(tasks_.size());
    if (header.ticket == header.epoch * (num_tasks + overshoot)) return;
    check(cudaMemset(workspace, 0, sizeof(header)), "workspace");
    throw Error(
        Status::invalid_argument,
        "workspace: a part of it was changed between two runs, so that tasks were left out");
  }

  // With a trace, it waits for the run's end.
  void run_megakernel(const TaskArgs& args, std::byte* base, cudaStream_t stream,
                      Trace* trace) const {
    std::vector<DeviceTraceRecord> records(trace != nullptr ? tasks_.size() : 0);
    const DeviceArray<DeviceTraceRecord> device_records(records);
    const DeviceRun run{
        .tasks = tasks_.data(),
        .signals = signals_.data(),
        .num_tasks = static_cast<std::uint32_t>(tasks_.size()),
        .num_making = num_making_,
        .num_counters = layout_.num_counters,
        .header = reinterpret_cast<DeviceHeader*>(base),
        .counters = reinterpret_cast<std::uint32_t*>(base + layout_.counters),
        .waiting = reinterpret_cast<std::uint32_t*>(base + layout_.waiting),
        .plan_word = plan_word_,
        .wait_budget_ns = static_cast<std::uint64_t>(wait_budget_.count()),
        .trace = device_records.data(),
        .dispatch = dispatch_of(launch_),
    };
    conv_.launch_megakernel(args, run, num_blocks_, stream);
    if (trace == nullptr) return;
    wait(base, stream);
    check(cudaMemcpy(records.data(), device_records.data(), records.size() * sizeof(records[0]),
                     cudaMemcpyDeviceToHost),
          "trace");
    read_trace(records, device_.num_sms, *trace);
  }

  const Device device_;
  const CudaLaunch launch_;
  RightScales scale_{1};
  const DeviceConv conv_;
  const std::size_t y_bytes_;
  const TaskGraph& graph_;
  const std::vector<Task> host_tasks_;
  const DeviceArray<Task> tasks_;
  const DeviceArray<SignalRange> signals_;
  const std::chrono::nanoseconds wait_budget_;
  const std::uint64_t plan_word_ = new_plan_word();
  std::uint32_t num_blocks_ = 0, num_making_ = 0;
  DeviceWorkspace layout_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Executor> make_cuda_executor(const Lowering& lowering, const PlanOptions& options) {
  if (!lowering.inputs.empty()) return make_cuda_network_executor(lowering, options);
  const Tiling& tiling = lowering.tiling();
  if (tiling.problem.dtype == DataType::i8) {
    throw Error(Status::unsupported, "storage type i8: backend cuda, must be cpu");
  }
  if (tiling.algorithm() == Algorithm::small_gemm) {
    return make_cuda_small_gemm_executor(lowering, options);
  }
  return std::make_unique<cuda::CudaExecutor>(lowering, options);
}

}  // namespace megaconv
