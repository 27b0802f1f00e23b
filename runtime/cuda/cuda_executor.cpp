// SPDX-License-Identifier: Apache-2.0
// Plans on a CUDA device: checks, workspace, launches.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "mapping/stripes.hpp"
#include "mapping/tiling.hpp"
#include "runtime/cuda/device_run.hpp"
#include "runtime/cuda/error.hpp"
#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/task_arguments.hpp"
#include "runtime/cuda/tensor_map.hpp"
#include "runtime/executor.hpp"
#include "runtime/report.hpp"
#include "tasks/cuda/task_args.hpp"

namespace megaconv {
namespace cuda {
namespace {

constexpr int kLeastCapability = 75;  // the oldest that CUDA 13 compiles for

struct Device {
  int id = 0;
  int num_sms = 0;
  int capability = 0;  // 90 for sm_90
  Isa isa = Isa::fma;  // that plans use
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes = 0;  // most that a block may ask for
  int sm_shared_bytes = 0;       // of all blocks of a multiprocessor
  std::string name;
};

Device current_device() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    cudaGetLastError();
    throw Error(Status::device_error, "backend cuda: no CUDA device");
  }
  check(code, "backend cuda: cannot reach the CUDA driver");
  check_nothing_left();
  Device device;
  check(cudaGetDevice(&device.id), "cudaGetDevice");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device.id), "cudaGetDeviceProperties");
  device.num_sms = properties.multiProcessorCount;
  device.capability = properties.major * 10 + properties.minor;
  device.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  device.shared_bytes = properties.sharedMemPerBlockOptin;
  device.sm_shared_bytes = static_cast<int>(properties.sharedMemPerMultiprocessor);
  device.name = properties.name;
  if (device.capability < kLeastCapability) {
    throw Error(Status::unsupported, "backend cuda: " + device.name + " has compute capability " +
                                         std::to_string(properties.major) + "." +
                                         std::to_string(properties.minor) +
                                         ", must be at least 7.5");
  }
  device.isa = choose_isa(device.capability);
  return device;
}

// Owner words of this process's plans: even, and unlike what memory may hold by chance.
std::uint64_t new_plan_word() {
  static const std::uint64_t key = [] {
    std::random_device device;
    return static_cast<std::uint64_t>(device()) << 32;
  }();
  static std::atomic<std::uint32_t> next{1};
  return key | static_cast<std::uint64_t>(next.fetch_add(1) & 0x7fffffffu) << 1;
}

// Device memory of a plan's own.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    if (size_ == 0) return;
    check(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T)),
          "task array of " + std::to_string(size_ * sizeof(T)) + " bytes");
    const cudaError_t code =
        cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
    if (code != cudaSuccess) cudaFree(data_);
    check(code, "upload of the task array");
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);  // even freeing nothing would end a stream capture
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Device code counts pixels and tiles in 32 bits; element offsets are 64 bits.
void check_extents(const Tiling& tiling) {
  const ConvProblem& p = tiling.problem;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (p.c * p.h * p.w > kMost || p.k * p.p() * p.q() > kMost ||
      tiling.num_tiles() > static_cast<std::uint64_t>(kMost)) {
    throw Error(Status::unsupported,
                "cuda: an image of more than 2^31 elements in " + to_string(p));
  }
}

void check_device_pointer(const char* name, const void* pointer, int device) {
  if (pointer == nullptr) return;
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, pointer), name);
  if (attributes.type == cudaMemoryTypeManaged) return;
  if (attributes.type != cudaMemoryTypeDevice) {
    throw Error(Status::invalid_argument,
                std::string(name) + " is a host pointer, must be device memory");
  }
  if (attributes.device != device) {
    throw Error(Status::invalid_argument, std::string(name) + " lies on device " +
                                              std::to_string(attributes.device) + ", must be on " +
                                              std::to_string(device));
  }
}

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const Lowering& lowering, const PlanOptions& options)
      : device_(current_device()),
        problem_(lowering.graph.tiling.problem),
        launch_(options.cuda_launch),
        kernels_(kernels_for(lowering.graph.tiling, device_.isa)),
        args_(make_task_args(lowering.graph.tiling, kernels_)),
        operands_(operands_of(lowering.graph.tiling)),
        host_tasks_(launch_ == CudaLaunch::staged ? lowering.graph.tasks
                                                  : tasks_in_order(lowering)),
        tasks_(host_tasks_),
        filter_tasks_(build_filter_graph(lowering.graph.tiling).tasks),
        wait_budget_ns_(std::uint64_t{options.wait_budget_ms} * 1'000'000) {
    const Tiling& tiling = lowering.graph.tiling;
    check_extents(tiling);
    if (kernels_.most_shared_bytes > static_cast<int>(device_.shared_bytes)) {
      throw Error(Status::unsupported, kernels_.name + " needs " +
                                           std::to_string(kernels_.most_shared_bytes) +
                                           " bytes of shared memory, " + device_.name + " has " +
                                           std::to_string(device_.shared_bytes));
    }
    if (launch_ == CudaLaunch::staged) {
      args_.cluster_blocks = static_cast<std::int32_t>(cluster_blocks(tiling));
      args_.block_slabs = args_.share_slabs;
      channel_shares_ = channel_shares(tiling);
    }
    if (kernels_.reads_pixels) {
      args_.memory = memory_in_place(args_.tile_places, args_.input_places, operands_,
                                     args_.block_slabs * args_.r * args_.s, args_.cluster_blocks,
                                     static_cast<std::int32_t>(channel_shares_));
    }
    memory_ = memory_of_tasks(tiling, kernels_, args_, filter_tasks_.size());
    num_making_ = tiling.num_filter_tasks + tiling.num_groups * tiling.input_tasks;
    choose_grid(options);
    lay_out(lowering.graph);
  }

  std::size_t workspace_bytes() const override { return layout_.total; }
  std::size_t filter_bytes() const override { return memory_.u_bytes; }
  std::uint32_t num_workers() const override { return num_blocks_; }

  void prepare_filters(const void* w, void* prepared, void* stream) const override {
    check_call();
    check_device_pointer("w", w, device_.id);
    check_device_pointer("prepared_filters", prepared, device_.id);
    if (kernels_.filters_in_place) {
      check(cudaMemcpyAsync(prepared, w, memory_.u_bytes, cudaMemcpyDeviceToDevice,
                            static_cast<cudaStream_t>(stream)),
            "copy of the filters");
      return;
    }
    TaskArgs args = args_;
    args.w = static_cast<const float*>(w);
    args.u = static_cast<float*>(prepared);
    launch_stage(TaskKind::filter_transform, args, filter_tasks_.data(),
                 static_cast<unsigned>(filter_tasks_.size()), static_cast<cudaStream_t>(stream),
                 Start::after_all);
    if (kernels_.w_scale != 0) launch_redo(args, 0, static_cast<cudaStream_t>(stream));
  }

  void execute(const Tensors& tensors, void* workspace, const RunOptions& run) const override {
    if (run.trace != nullptr && launch_ == CudaLaunch::staged) {
      throw Error(Status::unsupported,
                  "trace: a staged launch records none, must be persistent, "
                  "one_block_per_task or raw_block_index");
    }
    check_call();
    check_device_pointer("x", tensors.x, device_.id);
    check_device_pointer("w", tensors.w, device_.id);
    check_device_pointer("bias", tensors.bias, device_.id);
    check_device_pointer("residual", tensors.residual, device_.id);
    check_device_pointer("prepared_filters", tensors.prepared_filters, device_.id);
    check_device_pointer("y", tensors.y, device_.id);
    check_device_pointer("workspace", workspace, device_.id);
    auto* const base = static_cast<std::byte*>(workspace);
    const auto at = [base](std::size_t offset) { return reinterpret_cast<float*>(base + offset); };
    TaskArgs args = args_;
    args.x = static_cast<const float*>(tensors.x);
    args.w = tensors.prepared_filters != nullptr ? nullptr : static_cast<const float*>(tensors.w);
    args.bias = static_cast<const float*>(tensors.bias);
    args.residual = static_cast<const float*>(tensors.residual);
    args.y = static_cast<float*>(tensors.y);
    args.v = at(layout_.v);
    args.m = at(layout_.m);
    args.x_footer = reinterpret_cast<OperandFooter*>(base + layout_.footer);
    args.x_magnitudes = reinterpret_cast<std::uint32_t*>(base + layout_.footer) + kFooterNumbers;
    args.u = tensors.prepared_filters != nullptr
                 ? const_cast<float*>(static_cast<const float*>(tensors.prepared_filters))
                 : at(layout_.u);
    if (kernels_.reads_pixels) {
      const bool stored = are_tensors(operands_);
      const void* const w =
          tensors.prepared_filters != nullptr ? tensors.prepared_filters : tensors.w;
      const bool converted = operands_ == Operands::converted;
      const Elements elements = operands_ == Operands::in_float_tensor
                                    ? Elements::f32_rounded_to_tf32
                                : stored ? elements_of(problem_)
                                         : Elements::f16;
      // Copies have whole slabs of channels.
      const Pixels pixels =
          operands_ == Operands::in_copy
              ? Pixels{args.v, args.c_padded, elements}
              : Pixels{tensors.x, problem_.c, converted ? Elements::f32 : elements};
      if (args.stripes.images > 1) {
        args.x_tensors[0] = abreast_tensor(problem_, pixels, args.stripes, args.slab_channels,
                                           args.input_places / args.stripes.row());
      } else {
        const int places = converted ? kPiecePlaces : args.input_places;
        const int channels = converted ? kPieceChannels : args.slab_channels;
        for (int stripe = 0; stripe * args.stripes.cols < args.q; ++stripe) {
          args.x_tensors[stripe] =
              pixel_tensor(problem_, pixels, args.stripes, stripe, channels, places);
        }
      }
      args.w_tensor =
          filter_tensor(problem_, stored ? w : args.u, stored ? problem_.c : args.c_padded,
                        elements, args.slab_channels, args.gemm_filters);
      // Outputs of 16 bits come in whole octets; of floats only some y can be stored by vectors.
      constexpr std::int64_t kVectorFloats = 4;
      const bool has_vectors =
          problem_.k % kVectorFloats == 0 &&
          reinterpret_cast<std::uintptr_t>(tensors.y) % (kVectorFloats * sizeof(float)) == 0;
      if (problem_.dtype != DataType::f32 || has_vectors) {
        args.y_tensor = output_tensor(problem_, tensors.y, args.output_cols);
      } else {
        args.output_cols = 0;
      }
    }
    const auto stream = static_cast<cudaStream_t>(run.stream);
    if (launch_ == CudaLaunch::staged) {
      launch_stages(args, stream);
    } else {
      launch_megakernel(args, base, stream, run.trace);
    }
    const bool has_looked = launch_ == CudaLaunch::staged && kernels_.stage_looks;
    if (kernels_.redo != nullptr && !has_looked) {
      launch_redo(args, static_cast<std::uint32_t>(args.num_groups), stream);
    }
  }

  void wait(void* workspace, void* stream) const override {
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "run");
    if (launch_ == CudaLaunch::staged) return;
    DeviceHeader header;
    check(cudaMemcpy(&header, workspace, sizeof(header), cudaMemcpyDeviceToHost), "report");
    if (header.given_up != 0) {
      throw Error(Status::timeout, report(header, static_cast<const std::byte*>(workspace)));
    }
  }

  std::string describe() const override {
    return "cuda, " + device_.name + ", " + std::to_string(num_blocks_) + " blocks, " +
           kernels_.name;
  }

 private:
  struct DeviceLayout {
    std::size_t counters = 0, waiting = 0, footer = 0, v = 0, m = 0, u = 0, total = 0;
    std::uint32_t num_counters = 0;
  };

  Dispatch dispatch() const {
    switch (launch_) {
      case CudaLaunch::one_block_per_task:
        return Dispatch::one_task;
      case CudaLaunch::raw_block_index:
        return Dispatch::raw_index;
      default:
        return Dispatch::persistent;
    }
  }

  void choose_grid(const PlanOptions& options) {
    const auto allow_shared = [](const void* kernel, int bytes) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
            "shared memory of a kernel");
    };
    for (std::uint32_t kind = 0; kind < kNumTaskKinds; ++kind) {
      if (kernels_.stage[kind] == nullptr) continue;
      allow_shared(kernels_.stage[kind],
                   std::max(kernels_.shared_bytes[kind], bytes_to_keep_apart(1)));
      stage_blocks_per_sm_[kind] = blocks_per_sm(kernels_.stage[kind], kernels_.shared_bytes[kind]);
    }
    if (kernels_.redo != nullptr) allow_shared(kernels_.redo, kernels_.most_shared_bytes);
    if (launch_ == CudaLaunch::staged) {
      num_blocks_ = static_cast<std::uint32_t>(device_.num_sms);
      return;
    }
    allow_shared(kernels_.megakernel, kernels_.most_shared_bytes);
    if (launch_ != CudaLaunch::persistent) {
      num_blocks_ = static_cast<std::uint32_t>(tasks_.size());
      return;
    }
    const auto most = static_cast<std::uint32_t>(
        blocks_per_sm(kernels_.megakernel, kernels_.most_shared_bytes) * device_.num_sms);
    // More blocks than fit are right (tickets), only never faster.
    num_blocks_ = std::min(options.num_blocks != 0 ? options.num_blocks : most,
                           static_cast<std::uint32_t>(tasks_.size()));
  }

  int blocks_per_sm(const void* kernel, int shared_bytes) const {
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kernels_.num_threads,
                                                        static_cast<std::size_t>(shared_bytes)),
          "occupancy of a kernel");
    return std::max(1, blocks);
  }

  void lay_out(const TaskGraph& graph) {
    const Tiling& tiling = graph.tiling;
    if (launch_ == CudaLaunch::staged &&
        (tiling.v_slots < tiling.num_groups || tiling.m_slots < tiling.num_groups)) {
      throw Error(Status::invalid_argument,
                  "staged launch: a window of " + std::to_string(tiling.v_slots) + " V slots and " +
                      std::to_string(tiling.m_slots) + " M slots, must be whole tensors");
    }
    layout_.num_counters = static_cast<std::uint32_t>(graph.counter_totals.size());
    std::size_t end = sizeof(DeviceHeader);
    const auto place = [&end](std::size_t bytes) {
      constexpr std::size_t kLine = 256;
      const std::size_t begin = (end + kLine - 1) / kLine * kLine;
      end = begin + bytes;
      return begin;
    };
    layout_.counters = place(layout_.num_counters * sizeof(std::uint32_t));
    layout_.waiting = place(num_blocks_ * sizeof(std::uint32_t));
    layout_.footer = place(memory_.footer_bytes);
    layout_.v = place(memory_.v_bytes);
    layout_.m = place(memory_.m_bytes);
    const bool keeps_u = tiling.filters == FilterMode::every_run && !kernels_.filters_in_place;
    layout_.u = place(keeps_u ? memory_.u_bytes : 0);
    layout_.total = aligned(end);
  }

  void check_call() const {
    check_nothing_left();
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    if (current != device_.id) {
      throw Error(Status::invalid_argument, "current device " + std::to_string(current) +
                                                ", must be the plan's, " +
                                                std::to_string(device_.id));
    }
  }

  // When a kernel's blocks may start: with_kernel_before is for kernels that wait for the one in
  // front of them by themselves (programmatic dependent launch). Code for older GPUs, which newer
  // ones than sm_90 are given, does not.
  enum class Start { after_all, with_kernel_before };

  // `cluster` divides the grid of blocks.
  void launch(const void* kernel, dim3 blocks, int shared_bytes, void** parameters,
              cudaStream_t stream, Start start, const std::string& name, dim3 cluster = {}) const {
    std::array<cudaLaunchAttribute, 2> attributes{};
    unsigned num_attributes = 0;
    if (start == Start::with_kernel_before && device_.capability == 90) {
      cudaLaunchAttribute& overlap = attributes[num_attributes++];
      overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      overlap.val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster.x * cluster.y > 1) {
      cudaLaunchAttribute& dimension = attributes[num_attributes++];
      dimension.id = cudaLaunchAttributeClusterDimension;
      dimension.val.clusterDim = {cluster.x, cluster.y, 1};
    }
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = dim3(static_cast<unsigned>(kernels_.num_threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
    config.stream = stream;
    config.attrs = attributes.data();
    config.numAttrs = num_attributes;
    check(cudaLaunchKernelExC(&config, kernel, parameters), "launch of " + name);
  }

  void launch_stage(TaskKind kind, TaskArgs args, const Task* tasks, unsigned count,
                    cudaStream_t stream, Start start) const {
    const auto index = static_cast<std::uint32_t>(kind);
    dim3 cluster;
    if (kernels_.clusters[index]) {
      cluster = dim3(static_cast<unsigned>(args.cluster_blocks), channel_shares_);
    }
    const unsigned at_once = static_cast<unsigned>(device_.num_sms) / cluster.x * cluster.x;
    // Tasks whose channels are shared out have their cluster each.
    const bool in_turn = kernels_.streams[index] && cluster.y == 1;
    const dim3 blocks(in_turn ? std::min(count, at_once) : count, cluster.y);
    void* parameters[] = {&args, &tasks, &count};
    launch(kernels_.stage[index], blocks, stage_bytes(kind, blocks.x * blocks.y), parameters,
           stream, start, std::string("stage ") + to_string(kind), cluster);
  }

  // Dynamic shared memory with which no more than so many blocks fit on a multiprocessor.
  int bytes_to_keep_apart(int blocks) const { return device_.sm_shared_bytes / (blocks + 1); }

  // Blocks that start early take whatever room there is. If there are fewer than fit on the device,
  // they crowd on the multiprocessors that were free first (H200, n1c512h7k512 with FP32
  // multiply-adds, 120 us in place of 76), unless they ask for so much shared memory that no
  // multiprocessor has room for more than its share.
  int stage_bytes(TaskKind kind, unsigned count) const {
    const auto index = static_cast<std::uint32_t>(kind);
    const int share = ceil_div(static_cast<int>(count), device_.num_sms);
    const int own = kernels_.shared_bytes[index];
    return share < stage_blocks_per_sm_[index] ? std::max(own, bytes_to_keep_apart(share)) : own;
  }

  // A stage that is the whole run starts beside the end of what is in front of it; of several the
  // first one gains nothing by that.
  Start start_of_run(TaskKind kind, unsigned count) const {
    const bool reads_ahead = kernels_.reads_ahead[static_cast<std::uint32_t>(kind)];
    return count < host_tasks_.size() || reads_ahead ? Start::after_all : Start::with_kernel_before;
  }

  void launch_stages(const TaskArgs& args, cudaStream_t stream) const {
    const auto stage_of = [this](const Task& task) {
      return kernels_.stage[static_cast<std::uint32_t>(task.kind)];
    };
    for (std::size_t begin = 0; begin < host_tasks_.size();) {
      const void* const stage = stage_of(host_tasks_[begin]);
      std::size_t end = begin;
      while (end < host_tasks_.size() && stage_of(host_tasks_[end]) == stage) ++end;
      const TaskKind kind = host_tasks_[begin].kind;
      const auto count = static_cast<unsigned>(end - begin);
      launch_stage(kind, args, tasks_.data() + begin, count, stream,
                   begin == 0 ? start_of_run(kind, count) : Start::with_kernel_before);
      begin = end;
    }
  }

  // num_groups: 0 if only filters were transformed.
  void launch_redo(TaskArgs args, std::uint32_t num_groups, cudaStream_t stream) const {
    const Task* tasks = tasks_.data();
    auto num_tasks = num_groups == 0 ? 0 : static_cast<std::uint32_t>(tasks_.size());
    void* parameters[] = {&args, &tasks, &num_tasks, &num_groups};
    // So many blocks are all there before the last task has ended; one on the multiprocessor that
    // it leaves would start when the others are done.
    const int blocks = std::max(1, device_.num_sms * 3 / 4);
    launch(kernels_.redo, static_cast<unsigned>(blocks), kernels_.most_shared_bytes, parameters,
           stream, Start::with_kernel_before, "redo_kernel");
  }

  void launch_megakernel(TaskArgs args, std::byte* base, cudaStream_t stream, Trace* trace) const {
    DeviceRun run{};
    run.tasks = tasks_.data();
    run.num_tasks = static_cast<std::uint32_t>(tasks_.size());
    run.num_making = num_making_;
    run.num_counters = layout_.num_counters;
    run.header = reinterpret_cast<DeviceHeader*>(base);
    run.counters = reinterpret_cast<std::uint32_t*>(base + layout_.counters);
    run.waiting = reinterpret_cast<std::uint32_t*>(base + layout_.waiting);
    run.plan_word = plan_word_;
    run.wait_budget_ns = wait_budget_ns_;
    run.dispatch = dispatch();
    std::vector<DeviceTraceRecord> records(trace != nullptr ? tasks_.size() : 0);
    const DeviceArray<DeviceTraceRecord> device_records(records);
    run.trace = device_records.data();

    void* parameters[] = {&args, &run};
    launch(kernels_.megakernel, num_blocks_, kernels_.most_shared_bytes, parameters, stream,
           Start::with_kernel_before, "the megakernel");
    if (trace == nullptr) return;
    wait(base, stream);
    check(cudaMemcpy(records.data(), device_records.data(), records.size() * sizeof(records[0]),
                     cudaMemcpyDeviceToHost),
          "trace");
    read_trace(records, *trace);
  }

  void read_trace(const std::vector<DeviceTraceRecord>& records, Trace& trace) const {
    std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
    for (const DeviceTraceRecord& record : records) begin = std::min(begin, record.fetch_ns);
    trace.num_workers = static_cast<std::uint32_t>(device_.num_sms);
    trace.records.clear();
    for (std::uint32_t position = 0; position < records.size(); ++position) {
      const DeviceTraceRecord& record = records[position];
      trace.records.push_back({position, record.sm, record.fetch_ns - begin,
                               record.ready_ns - begin, record.end_ns - begin});
    }
  }

  std::string report(const DeviceHeader& header, const std::byte* workspace) const {
    std::vector<std::uint32_t> waiting(std::min(header.num_waiting, num_blocks_));
    check(cudaMemcpy(waiting.data(), workspace + layout_.waiting,
                     waiting.size() * sizeof(waiting[0]), cudaMemcpyDeviceToHost),
          "report");
    const std::chrono::milliseconds budget(wait_budget_ns_ / 1'000'000);
    return timeout_report(host_tasks_, header.position, header.seen, budget,
                          [&](std::uint32_t p) -> const char* {
                            if (std::find(waiting.begin(), waiting.end(), p) != waiting.end()) {
                              return "waiting";
                            }
                            return p < header.positions_taken ? nullptr : "not started";
                          });
  }

  Device device_;
  ConvProblem problem_;
  CudaLaunch launch_;
  KernelSet kernels_;
  TaskArgs args_;  // without pointers
  Operands operands_;
  std::uint32_t channel_shares_ = 1;  // to blocks of a cluster
  std::vector<Task> host_tasks_;
  DeviceArray<Task> tasks_, filter_tasks_;
  std::uint64_t wait_budget_ns_;
  std::uint64_t plan_word_ = new_plan_word();
  std::uint32_t num_blocks_ = 0, num_making_ = 0;
  std::array<int, kNumTaskKinds> stage_blocks_per_sm_{};
  TaskMemory memory_;
  DeviceLayout layout_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Executor> make_cuda_executor(const Lowering& lowering, const PlanOptions& options) {
  const Tiling& tiling = lowering.graph.tiling;
  const DataType dtype = tiling.problem.dtype;
  if (dtype == DataType::i8 || tiling.problem.epilogue.scale) {
    throw Error(Status::unsupported,
                std::string(dtype == DataType::i8 ? "storage type i8" : "epilogue scale") +
                    ": backend cuda, must be cpu");
  }
  const bool takes_16_bits =
      tiling.algorithm == Algorithm::implicit_gemm ||
      (tiling.algorithm == Algorithm::winograd && tiling.arithmetic == Arithmetic::f16);
  if (dtype != DataType::f32 && !takes_16_bits) {
    throw Error(Status::unsupported,
                std::string("storage type ") + to_string(dtype) + " on backend cuda: algorithm " +
                    to_string(tiling.algorithm) + ", arithmetic " + to_string(tiling.arithmetic) +
                    ", must be implicit_gemm or winograd with arithmetic f16 (stride 1, one group; "
                    "tensor cores)");
  }
  return std::make_unique<cuda::CudaExecutor>(lowering, options);
}

DeviceIdentity cuda_identity() {
  const cuda::Device device = cuda::current_device();
  int runtime = 0;
  cuda::check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  // "NVRM version: NVIDIA UNIX ... Kernel Module for x86_64  580.95.05  Release Build ..."
  std::ifstream stream("/proc/driver/nvidia/version");
  std::string word, driver;
  while (driver.empty() && stream >> word) {
    if (std::count(word.begin(), word.end(), '.') == 2) driver = word + ", ";
  }
  std::string name = device.name + ", " + std::to_string(device.num_sms) + " SMs";
  if (device.isa != cuda::default_isa(device.capability))
    name += std::string(", ") + to_string(device.isa);
  return {name, driver + "CUDA " + std::to_string(runtime / 1000) + '.' +
                    std::to_string(runtime % 1000 / 10)};
}

Target cuda_target(const PlanOptions& options) {
  const cuda::Device device = cuda::current_device();
  const bool has_tensor_cores = device.isa != cuda::Isa::fma;
  // Workers of an SM; half of the L2 is what V, M and U can keep of it (docs/performance.md).
  const bool split = has_tensor_cores && options.tiling.arithmetic != Arithmetic::fma &&
                     options.tiling.m != 6 && options.tiling.algorithm != Algorithm::direct;
  const std::uint32_t resident = static_cast<std::uint32_t>((split ? 2 : 4) * device.num_sms);
  return {.backend = Backend::cuda,
          .workers = options.num_blocks != 0 ? std::min(options.num_blocks, resident) : resident,
          .cache_bytes_per_worker = device.l2_bytes / 2 / resident,
          .split_f16 = has_tensor_cores,
          .multiprocessors =
              device.isa == cuda::Isa::mma ? 0 : static_cast<std::uint32_t>(device.num_sms)};
}

}  // namespace megaconv
