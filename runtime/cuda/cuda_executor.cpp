// SPDX-License-Identifier: Apache-2.0
// Plans on a CUDA device: what is decided when a plan is made, and the order of a run's steps.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/cuda/device.hpp"
#include "runtime/cuda/device_array.hpp"
#include "runtime/cuda/device_results.hpp"
#include "runtime/cuda/device_run.hpp"
#include "runtime/cuda/device_workspace.hpp"
#include "runtime/cuda/error.hpp"
#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/task_arguments.hpp"
#include "runtime/cuda/tensor_arguments.hpp"
#include "runtime/executor.hpp"
#include "runtime/plan_word.hpp"
#include "tasks/cuda/task_args.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv {
namespace cuda {
namespace {

// Device code counts pixels and tiles in 32 bits; element offsets are 64 bits.
void check_extents(const Tiling& tiling) {
  const ConvProblem& p = tiling.problem;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const WinogradTiles* const tiles = tiling.tiles();
  if (p.c * p.h * p.w > kMost || p.k * p.p() * p.q() > kMost ||
      (tiles != nullptr && tiles->num_tiles > static_cast<std::uint64_t>(kMost))) {
    throw Error(Status::unsupported,
                "cuda: an image of more than 2^31 elements in " + to_string(p));
  }
}

void check_shared_memory(const KernelSet& kernels, const Device& device) {
  if (kernels.most_shared_bytes > static_cast<int>(device.shared_bytes)) {
    throw Error(Status::unsupported, kernels.name + " needs " +
                                         std::to_string(kernels.most_shared_bytes) +
                                         " bytes of shared memory, " + device.name + " has " +
                                         std::to_string(device.shared_bytes));
  }
}

// A kernel per stage leaves all that it makes to the next.
void check_window(const Tiling& tiling, CudaLaunch launch) {
  const Window* const window = tiling.window();
  if (launch != CudaLaunch::staged || window == nullptr) return;
  if (*window == Window{tiling.num_groups, tiling.num_groups}) return;
  throw Error(Status::invalid_argument,
              "staged launch: a window of " + std::to_string(window->v_slots) + " V slots and " +
                  std::to_string(window->m_slots) + " M slots, must be whole tensors");
}

// With clusters and shares of channels, which only stages have.
TaskArgs make_launch_args(const Tiling& tiling, const KernelSet& kernels, CudaLaunch launch,
                          std::uint32_t num_channel_shares) {
  TaskArgs args = make_task_args(tiling, kernels);
  if (launch == CudaLaunch::staged) {
    args.cluster_blocks = static_cast<std::int32_t>(cluster_blocks(tiling));
    args.block_k_blocks = args.share_k_blocks;
  }
  if (kernels.operands != Operands::loaded) {
    args.memory = memory_in_place(args.tile_places, args.input_places, kernels.operands,
                                  args.block_k_blocks * args.r * args.s, args.cluster_blocks,
                                  static_cast<std::int32_t>(num_channel_shares));
  }
  return args;
}

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const Lowering& lowering, const PlanOptions& options)
      : device_(current_device()),
        problem_(lowering.tiling().problem),
        launch_(options.cuda_launch),
        kernels_(kernels_for(lowering.tiling(), device_.isa)),
        graph_(lowering.graph),
        host_tasks_(launch_ == CudaLaunch::staged ? lowering.graph.tasks
                                                  : tasks_in_order(lowering)),
        tasks_(host_tasks_),
        signals_(lowering.graph.signals),
        filter_tasks_(build_filter_graph(lowering.tiling()).tasks),
        wait_budget_(std::chrono::milliseconds(options.wait_budget_ms)) {
    const Tiling& tiling = lowering.tiling();
    check_extents(tiling);
    check_shared_memory(kernels_, device_);
    check_window(tiling, launch_);
    const std::uint32_t shares = launch_ == CudaLaunch::staged ? channel_shares(tiling) : 1;
    args_ = make_launch_args(tiling, kernels_, launch_, shares);
    memory_ = memory_of_tasks(tiling, kernels_, args_, filter_tasks_.size());
    num_making_ = tiling.num_filter_tasks + tiling.num_groups * tiling.input_tasks;
    launcher_.emplace(device_, kernels_, launch_, shares);
    num_blocks_ = choose_num_blocks(options);
    const bool keeps_u = tiling.filters == FilterMode::every_run && !kernels_.filters_in_place;
    layout_ = lay_out_workspace(memory_, static_cast<std::uint32_t>(graph_.counter_totals.size()),
                                num_blocks_, keeps_u);
  }

  std::size_t workspace_bytes() const override { return layout_.total; }
  std::size_t filter_bytes() const override { return memory_.u_bytes; }
  std::uint32_t num_workers() const override { return num_blocks_; }

  void prepare_filters(const void* w, void* prepared, void* run_stream) const override {
    check_is_current(device_);
    check_device_pointer("w", w, device_);
    check_device_pointer("prepared_filters", prepared, device_);
    const auto stream = static_cast<cudaStream_t>(run_stream);
    if (kernels_.filters_in_place) {
      check(cudaMemcpyAsync(prepared, w, memory_.u_bytes, cudaMemcpyDeviceToDevice, stream),
            "copy of the filters");
      return;
    }
    TaskArgs args = args_;
    args.w = static_cast<const float*>(w);
    args.u = static_cast<float*>(prepared);
    launcher_->launch_filters(args, filter_tasks_.data(), filter_tasks_.size(), stream);
    if (kernels_.w_scale != 0) launcher_->launch_redo(args, tasks_.data(), 0, 0, stream);
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
    auto* const base = static_cast<std::byte*>(workspace);
    TaskArgs args = args_;
    add_pointers(args, tensors, base, layout_);
    if (kernels_.operands != Operands::loaded) {
      add_tensor_maps(args, tensors, problem_, kernels_.operands);
    }
    const auto stream = static_cast<cudaStream_t>(run.stream);
    if (launch_ == CudaLaunch::staged) {
      launcher_->launch_stages(args, host_tasks_, tasks_.data(), stream);
    } else {
      run_megakernel(args, base, stream, run.trace);
    }
    const bool has_checked = launch_ == CudaLaunch::staged && kernels_.stage_checks_scales;
    if (kernels_.redo != nullptr && !has_checked) {
      launcher_->launch_redo(args, tasks_.data(), static_cast<std::uint32_t>(tasks_.size()),
                             static_cast<std::uint32_t>(args.num_groups), stream);
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
           kernels_.name;
  }

 private:
  std::uint32_t choose_num_blocks(const PlanOptions& options) const {
    const auto num_tasks = static_cast<std::uint32_t>(tasks_.size());
    switch (launch_) {
      case CudaLaunch::staged:
        return static_cast<std::uint32_t>(device_.num_sms);
      case CudaLaunch::persistent: {
        // More blocks than fit are right (tickets), only never faster.
        const std::uint32_t most = launcher_->resident_blocks();
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
    launcher_->launch_megakernel(args, run, num_blocks_, stream);
    if (trace == nullptr) return;
    wait(base, stream);
    check(cudaMemcpy(records.data(), device_records.data(), records.size() * sizeof(records[0]),
                     cudaMemcpyDeviceToHost),
          "trace");
    read_trace(records, device_.num_sms, *trace);
  }

  const Device device_;
  const ConvProblem problem_;
  const CudaLaunch launch_;
  const KernelSet kernels_;
  const TaskGraph& graph_;
  const std::vector<Task> host_tasks_;
  const DeviceArray<Task> tasks_;
  const DeviceArray<SignalRange> signals_;
  const DeviceArray<Task> filter_tasks_;
  const std::chrono::nanoseconds wait_budget_;
  const std::uint64_t plan_word_ = new_plan_word();
  TaskArgs args_;  // without pointers
  TaskMemory memory_;
  std::uint32_t num_blocks_ = 0, num_making_ = 0;
  std::optional<Launcher> launcher_;
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
  return std::make_unique<cuda::CudaExecutor>(lowering, options);
}

}  // namespace megaconv
