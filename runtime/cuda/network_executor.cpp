// SPDX-License-Identifier: Apache-2.0
// Plans of networks on a CUDA device: one launch for all tasks, or one for every stage. In stages a
// convolution may have kernels of its own (device_conv.hpp).
//
// Workspace:         header | counters | positions given up | values | scratch of a convolution
// Prepared filters:  of convolutions U and bias, FP32 or, with kernels of its own, of the storage
//                    type; scales and biases of others
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mapping/places.hpp"
#include "runtime/arena.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/device_array.hpp"
#include "runtime/cuda/device_results.hpp"
#include "runtime/cuda/device_run.hpp"
#include "runtime/cuda/error.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/network_convs.hpp"
#include "runtime/cuda/network_run.hpp"
#include "runtime/executor.hpp"
#include "runtime/network_positions.hpp"
#include "runtime/plan_word.hpp"
#include "tasks/operators.hpp"
#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/pair_tensors.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/storage.hpp"

namespace megaconv {
namespace cuda {
namespace {

constexpr std::size_t kLine = 256;
constexpr std::uintptr_t kTensorAlignment = 16;

[[noreturn]] void refuse(const std::string& what, const std::string& allowed) {
  throw Error(Status::unsupported, "network on cuda: " + what + ", must be " + allowed);
}

// The precision of all small tiles, or one of the values' storage type if there are none.
Precision precision_of(const Lowering& lowering) {
  DataType dtype = DataType::f32;
  for (const Node& node : lowering.nodes) {
    if (const auto* cut = std::get_if<SmallGemmCut>(&node.cut)) return cut->precision;
    dtype = std::visit([](const auto& cut) { return cut.problem.dtype; }, node.cut);
  }
  return small_gemm_precision(dtype, Precision::f32);
}

// Whether tasks of other operators than convolutions run.
bool has_others(const Lowering& lowering) {
  const std::vector<Stage>& stages = lowering.graph.stages;
  return std::any_of(stages.begin(), stages.end(), [&](const Stage& stage) {
    const Cut& cut = lowering.nodes[stage.node].cut;
    return stage.num_tasks() > 0 && !std::holds_alternative<SmallGemmCut>(cut) &&
           !std::holds_alternative<Tiling>(cut);
  });
}

NetworkKernels kernels_of(const Lowering& lowering) {
  if (has_pairs(lowering)) return network_kernels_pairs();
  const bool others = has_others(lowering);
  switch (precision_of(lowering)) {
    case Precision::f32:
      return network_kernels_f32(others);
    case Precision::tf32:
      return network_kernels_tf32(others);
    case Precision::f16:
      return network_kernels_f16(others);
    case Precision::bf16:
      return network_kernels_bf16(others);
  }
  return {};
}

void check_network(const Lowering& lowering, const Device& device, CudaLaunch launch) {
  if (device.capability < 80) {
    refuse("compute capability " + std::to_string(device.capability / 10) + "." +
               std::to_string(device.capability % 10),
           "8.0 or more");
  }
  if (launch != CudaLaunch::persistent && launch != CudaLaunch::staged) {
    refuse(std::string("launch ") + to_string(launch), "persistent or staged");
  }
  const std::size_t tensors = lowering.inputs.size() + lowering.outputs.size();
  if (tensors > kMostPieces - kFirstTensorPiece) {
    refuse(std::to_string(tensors) + " inputs and outputs",
           "at most " + std::to_string(kMostPieces - kFirstTensorPiece));
  }
  for (std::size_t i = 0; i < lowering.nodes.size(); ++i) {
    if (launch != CudaLaunch::staged && std::holds_alternative<Tiling>(lowering.nodes[i].cut)) {
      refuse(lowering.graph.nodes[i] + " by the algorithm asked for in one launch",
             "automatic, or launched in stages");
    }
  }
}

// Tasks by position of the persistent launch.
std::vector<Task> tasks_by_position(const Lowering& lowering) {
  const Task none{.node = static_cast<NodeId>(lowering.nodes.size())};
  std::vector<Task> tasks;
  for (const std::uint32_t place : network_positions(lowering)) {
    tasks.push_back(place == kNoTask ? none : lowering.graph.tasks[lowering.mapping.order[place]]);
  }
  return tasks;
}

class NetworkExecutor final : public Executor {
 public:
  NetworkExecutor(const Lowering& lowering, const PlanOptions& options)
      : lowering_(lowering),
        device_(checked_device(lowering, options.cuda_launch)),
        convs_(lowering, device_),
        launch_(options.cuda_launch),
        kernels_(kernels_of(lowering)),
        cluster_(cluster_blocks_of(lowering)),
        host_tasks_(launch_ == CudaLaunch::staged ? lowering.graph.tasks
                                                  : tasks_by_position(lowering)),
        tasks_(network_tasks(lowering, host_tasks_)),
        signals_(signals_of(lowering, host_tasks_)),
        wait_budget_(std::chrono::milliseconds(options.wait_budget_ms)) {
    lay_out_prepared();
    find_shared_bytes();
    num_blocks_ = choose_num_blocks(options);
    lay_out_workspace();
    upload_nodes();
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t filter_bytes() const override { return prepared_bytes_; }
  std::uint32_t num_workers() const override { return num_blocks_; }

  using Executor::execute;
  using Executor::prepare_filters;
  void prepare_filters(const void*, void*, void*) const override {}  // of one convolution

  void prepare_filters(const FusedNetwork& network, void* prepared) const override {
    check_is_current(device_);
    check_device_pointer("prepared_filters", prepared, device_);
    std::vector<std::byte> bytes(prepared_bytes_);
    const auto put = [&](std::size_t at, const auto& numbers) {
      if (!numbers.empty()) {
        std::memcpy(bytes.data() + at, numbers.data(), numbers.size() * sizeof(numbers[0]));
      }
    };
    for (std::size_t i = 0; i < network.operators.size(); ++i) {
      const FusedOperator& op = network.operators[i];
      if (const auto* cut = std::get_if<SmallGemmCut>(&lowering_.nodes[i].cut)) {
        put(prepared_[i].u, packed_filters(network, i, *cut));
        put(prepared_[i].bias, stored_bias(op));
      } else if (std::holds_alternative<InReaderCut>(lowering_.nodes[i].cut)) {
        continue;  // its reader has them
      } else if (convs_.has(i)) {
        if (prepared_[i].has_bias) put(prepared_[i].bias, folded_bias(op));
      } else {
        put(prepared_[i].scale, std::vector<float>(op.scale.begin(), op.scale.end()));
        put(prepared_[i].bias, std::vector<float>(op.bias.begin(), op.bias.end()));
      }
    }
    check(cudaMemcpy(prepared, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
          "upload of the filters");
    for (std::size_t i = 0; i < network.operators.size(); ++i) {
      if (!convs_.has(i)) continue;
      const DeviceArray<std::byte> w(folded_filters(network.operators[i]));
      convs_.kernels(i).prepare_filters(
          w.data(), static_cast<std::byte*>(prepared) + prepared_[i].u, nullptr);
      check(cudaStreamSynchronize(nullptr), "preparing filters");  // before w is freed
    }
  }

  void execute(const Tensors&, void*, const RunOptions&) const override {}  // of one convolution

  void execute(const NetworkTensors& tensors, void* workspace,
               const RunOptions& run) const override {
    if (run.trace != nullptr && launch_ == CudaLaunch::staged) {
      throw Error(Status::unsupported, "trace: a staged launch records none, must be persistent");
    }
    check_is_current(device_);
    check_device_pointer("workspace", workspace, device_);
    check_device_pointer("prepared_filters", tensors.prepared_filters, device_);
    NetworkMemory memory{};
    memory.piece[kWorkspacePiece] = static_cast<std::byte*>(workspace);
    memory.piece[kPreparedPiece] =
        static_cast<std::byte*>(const_cast<void*>(tensors.prepared_filters));
    std::uint32_t piece = kFirstTensorPiece;
    const auto add = [&](BufferId buffer, const void* tensor) {
      const std::string& name = lowering_.graph.buffers[buffer].name;
      check_device_pointer(name.c_str(), tensor, device_);
      if (reinterpret_cast<std::uintptr_t>(tensor) % kTensorAlignment != 0) {
        throw Error(Status::invalid_argument,
                    name + " is not aligned to " + std::to_string(kTensorAlignment) + " bytes");
      }
      memory.piece[piece++] = static_cast<std::byte*>(const_cast<void*>(tensor));
    };
    for (std::size_t i = 0; i < tensors.inputs.size(); ++i) {
      add(lowering_.inputs[i], tensors.inputs[i]);
    }
    for (std::size_t i = 0; i < tensors.outputs.size(); ++i) {
      add(lowering_.outputs[i], tensors.outputs[i]);
    }
    const auto stream = static_cast<cudaStream_t>(run.stream);
    if (launch_ == CudaLaunch::staged) {
      launch_stages(memory, stream);
    } else {
      launch_persistent(memory, static_cast<std::byte*>(workspace), stream, run.trace);
    }
  }

  void wait(void* workspace, void* stream) const override {
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "run");
    if (launch_ == CudaLaunch::staged) return;
    DeviceHeader header;
    check(cudaMemcpy(&header, workspace, sizeof(header), cudaMemcpyDeviceToHost), "report");
    if (header.given_up != 0) {
      throw Error(Status::timeout,
                  give_up_report(lowering_.graph, host_tasks_, header,
                                 static_cast<const std::byte*>(workspace) + waiting_, num_blocks_,
                                 wait_budget_));
    }
    const auto num_tasks = static_cast<std::uint32_t>(tasks_.size());
    if (header.owner != plan_word_ || header.ticket == header.epoch * num_tasks) return;
    check(cudaMemset(workspace, 0, sizeof(header)), "workspace");
    throw Error(
        Status::invalid_argument,
        "workspace: a part of it was changed between two runs, so that tasks were left out");
  }

  std::string describe() const override {
    return "cuda, " + device_.name + ", " + std::to_string(num_blocks_) + " blocks, " +
           kernels_.name;
  }

 private:
  // Of a node, in prepared filters.
  struct Prepared {
    std::size_t u = 0, scale = 0, bias = 0;
    bool has_bias = false;
  };

  static Device checked_device(const Lowering& lowering, CudaLaunch launch) {
    const Device device = current_device();
    check_network(lowering, device, launch);
    return device;
  }

  // The counters that tasks add to, one task behind the other.
  static std::vector<std::uint32_t> signals_of(const Lowering& lowering,
                                               const std::vector<Task>& tasks) {
    std::vector<std::uint32_t> signals;
    for (const Task& task : tasks) {
      for (std::uint32_t i = 0; i < task.num_signals; ++i) {
        const SignalRange& range = lowering.graph.signals[task.first_signal + i];
        for (std::uint32_t j = 0; j < range.count; ++j) signals.push_back(range.first + j);
      }
    }
    return signals;
  }
  static std::vector<NetworkTask> network_tasks(const Lowering& lowering,
                                                const std::vector<Task>& tasks) {
    std::vector<NetworkTask> made;
    made.reserve(tasks.size());
    std::uint32_t first = 0;  // of signals_of()
    for (const Task& task : tasks) {
      NetworkTask& record = made.emplace_back(NetworkTask{.task = task, .first_signal = first});
      for (std::uint32_t i = 0; i < task.num_signals; ++i) {
        record.num_signals += lowering.graph.signals[task.first_signal + i].count;
      }
      first += record.num_signals;
      if (task.node == lowering.nodes.size()) continue;
      if (const auto* cut = std::get_if<SmallGemmCut>(&lowering.nodes[task.node].cut)) {
        record.share = make_small_gemm_share(*cut, task.group, task.block);
      }
    }
    return made;
  }

  // What a convolution was prepared with, in its storage type.
  struct Folded {
    std::vector<std::byte> w{}, bias{};

    Folded() = default;
    explicit Folded(const FusedOperator& op) : w(folded_filters(op)), bias(folded_bias(op)) {}
    ConvNumbers numbers() const { return {w.data(), bias.empty() ? nullptr : bias.data()}; }
  };

  // With filters of the convolutions that make its x, if its tasks compute these.
  static std::vector<std::byte> packed_filters(const FusedNetwork& network, std::size_t i,
                                               const SmallGemmCut& cut) {
    const FusedOperator& op = network.operators[i];
    std::vector<std::byte> packed = pack_filters(cut, folded_filters(op).data());
    if (!cut.depthwise) return packed;
    const auto maker_of = [&](const FusedOperator& reader) -> const FusedOperator& {
      return network.operators[reader.reads.front() - network.inputs.size()];
    };
    const FusedOperator& middle = maker_of(op);
    const Folded depthwise(middle), expand = cut.expand ? Folded(maker_of(middle)) : Folded();
    pack_computed_input(cut, depthwise.numbers(), expand.numbers(), packed.data());
    return packed;
  }

  // A bias of the storage type, as floats.
  static std::vector<float> stored_bias(const FusedOperator& op) {
    const std::vector<std::byte> bytes = folded_bias(op);
    std::vector<float> bias(op.bias.size());
    with_storage(std::get<ConvProblem>(op.problem).dtype, [&](auto number) {
      const auto* const stored = reinterpret_cast<const decltype(number)*>(bytes.data());
      for (std::size_t k = 0; k < bias.size(); ++k) bias[k] = to_float(stored[k]);
    });
    return bias;
  }

  void lay_out_prepared() {
    Arena arena(0, kLine);
    for (const Node& node : lowering_.nodes) {
      Prepared& prepared = prepared_.emplace_back();
      if (const auto* tiling = std::get_if<Tiling>(&node.cut)) {
        const ConvProblem& a = tiling->problem;
        prepared.u = arena.place(convs_.kernels(prepared_.size() - 1).memory().u_bytes);
        prepared.has_bias = a.epilogue.bias;
        if (!prepared.has_bias) continue;
        prepared.bias = arena.place(static_cast<std::size_t>(a.k) * size_of(a.vector_type()));
      } else if (const auto* cut = std::get_if<SmallGemmCut>(&node.cut)) {
        prepared.u = arena.place(packed_bytes(*cut));
        prepared.has_bias = cut->problem.epilogue.bias;
        if (!prepared.has_bias) continue;
        prepared.bias = arena.place(static_cast<std::size_t>(cut->problem.k) * sizeof(float));
      } else if (const auto bytes = static_cast<std::size_t>(num_scales(node.cut)) * sizeof(float);
                 bytes > 0) {
        prepared.has_bias = true;
        prepared.scale = arena.place(bytes);
        prepared.bias = arena.place(bytes);
      }
    }
    prepared_bytes_ = arena.end();
  }

  void find_shared_bytes() {
    for (const Node& node : lowering_.nodes) {
      const auto* const cut = std::get_if<SmallGemmCut>(&node.cut);
      if (cut == nullptr) continue;
      shared_bytes_ = std::max(shared_bytes_, static_cast<int>(memory_of(*cut).bytes));
    }
    for (const void* kernel : {kernels_.persistent, kernels_.stage, kernels_.computing_stage,
                               kernels_.expanding_stage}) {
      if (kernel != nullptr) allow_all_shared(kernel, device_);
    }
  }

  // Blocks of the persistent kernel that are resident together.
  std::uint32_t choose_num_blocks(const PlanOptions& options) const {
    const std::uint32_t resident = resident_blocks();
    if (options.num_blocks > resident) {
      throw Error(Status::invalid_argument, "num_blocks = " + std::to_string(options.num_blocks) +
                                                ": must be at most " + std::to_string(resident) +
                                                ", which are resident together");
    }
    const std::uint32_t blocks = options.num_blocks != 0 ? options.num_blocks : resident;
    const std::uint32_t useful = std::min(blocks, static_cast<std::uint32_t>(tasks_.size()));
    return std::max(1u, useful / cluster_) * cluster_;
  }

  std::uint32_t resident_blocks() const {
    int per_sm = 0;
    check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernels_.persistent, kNetworkThreads,
                                                      static_cast<std::size_t>(shared_bytes_)),
        "occupancy of a kernel");
    const int resident = std::min(per_sm, kNetworkBlocksPerSm) * device_.num_sms;
    if (cluster_ == 1) return static_cast<std::uint32_t>(resident);
    LaunchAttributes attributes;
    attributes.add_spread_cluster(cluster_);
    const cudaLaunchConfig_t config =
        attributes.config(cluster_, kNetworkThreads, shared_bytes_, nullptr);
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernels_.persistent, &config),
          "occupancy of a kernel in clusters");
    if (clusters == 0) refuse("a cluster of " + std::to_string(cluster_) + " blocks", "smaller");
    return std::min(static_cast<std::uint32_t>(resident),
                    static_cast<std::uint32_t>(clusters) * cluster_) /
           cluster_ * cluster_;
  }

  void lay_out_workspace() {
    const TaskGraph& graph = lowering_.graph;
    Arena arena(sizeof(DeviceHeader), kLine);
    counters_ = arena.place(num_cells() * sizeof(std::uint32_t));
    waiting_ = arena.place(num_blocks_ * sizeof(std::uint32_t));
    std::uint64_t shared = 0;
    for (const Buffer& buffer : graph.buffers) {
      if (buffer.place != kNoPlace) shared = std::max(shared, bytes_of(buffer).end);
    }
    const std::size_t base = arena.place(shared);
    places_.resize(graph.buffers.size());
    std::vector<bool> elsewhere(graph.buffers.size());
    for (const BufferId output : lowering_.outputs) elsewhere[output] = true;
    // V and M of a convolution with kernels of its own, which say how many bytes these have.
    for (const Node& node : lowering_.nodes) {
      for (const BufferId buffer : {node.buffers.v, node.buffers.m}) {
        if (buffer != kNoBuffer) elsewhere[buffer] = true;
      }
    }
    for (BufferId i = 0; i < graph.buffers.size(); ++i) {
      const Buffer& buffer = graph.buffers[i];
      if (buffer.given || elsewhere[i]) continue;
      places_[i] = place_in(kWorkspacePiece, buffer.place != kNoPlace ? base + buffer.place
                                                                      : arena.place(buffer.bytes));
    }
    std::uint32_t piece = kFirstTensorPiece;
    for (const BufferId input : lowering_.inputs) places_[input] = place_in(piece++, 0);
    for (const BufferId output : lowering_.outputs) places_[output] = place_in(piece++, 0);
    workspace_bytes_ = convs_.place_scratch(arena.end());
  }

  // Counters, and behind them SmallGemmArgs::wide_pairs: all are zero at first.
  std::uint32_t num_cells() const {
    return static_cast<std::uint32_t>(lowering_.graph.counter_totals.size()) + 1;
  }

  // Places of what a node has, but for its table.
  NodePlaces places_of(NodeId node) const {
    const NodeBuffers& buffers = lowering_.nodes[node].buffers;
    const Prepared& prepared = prepared_[node];
    const auto at = [](std::uint64_t place) { return reinterpret_cast<void*>(place); };
    const auto tensor = [&](BufferId buffer) {
      return at(buffer == kNoBuffer ? 0 : places_[buffer]);
    };
    const auto numbers = [&](std::size_t offset) {
      return static_cast<const float*>(
          at(prepared.has_bias ? place_in(kPreparedPiece, offset) : 0));
    };
    NodePlaces places{.x = tensor(buffers.x),
                      .residual = tensor(buffers.residual),
                      .y = tensor(buffers.y),
                      .u = at(place_in(kPreparedPiece, prepared.u)),
                      .scale = numbers(prepared.scale),
                      .bias = numbers(prepared.bias)};
    places.wide_pairs = static_cast<std::uint32_t*>(
        at(place_in(kWorkspacePiece, counters_ + (num_cells() - 1) * sizeof(std::uint32_t))));
    for (const BufferId input : buffers.inputs) places.inputs.push_back(tensor(input));
    if (buffers.second != kNoBuffer) places.second = second_output(buffers);
    return places;
  }

  // Of the node that the buffer belongs to.
  SecondOutput second_output(const NodeBuffers& buffers) const {
    const auto of =
        std::find_if(lowering_.nodes.begin(), lowering_.nodes.end(),
                     [&](const Node& node) { return node.buffers.y == buffers.second; });
    return make_second_output(of->cut, places_of(static_cast<NodeId>(of - lowering_.nodes.begin())),
                              static_cast<std::int64_t>(buffers.second_channel));
  }

  // Tables come first: arguments point to them.
  void upload_nodes() {
    std::vector<NodePlaces> places;
    std::vector<std::size_t> first;
    std::vector<std::byte> tables;
    for (NodeId node = 0; node < lowering_.nodes.size(); ++node) {
      places.push_back(places_of(node));
      const std::vector<std::byte> table = make_node_table(lowering_.nodes[node].cut, places[node]);
      tables.resize((tables.size() + 15) / 16 * 16);
      first.push_back(tables.size());
      tables.insert(tables.end(), table.begin(), table.end());
    }
    tables_.emplace(tables);
    std::vector<NetworkNode> nodes;
    for (NodeId node = 0; node < lowering_.nodes.size(); ++node) {
      places[node].table = tables_->data() + first[node];
      nodes.push_back({make_node_args(lowering_.nodes[node].cut, places[node])});
    }
    nodes.emplace_back();  // of tasks that fill a position
    nodes_.emplace(nodes);
  }

  NetworkTasks tasks_from(std::uint64_t first) const {
    return {nodes_->data(), tasks_.data() + first, signals_.data()};
  }

  // With a trace, it waits for the run's end.
  void launch_persistent(NetworkMemory& memory, std::byte* base, cudaStream_t stream,
                         Trace* trace) const {
    std::vector<DeviceTraceRecord> records(trace != nullptr ? tasks_.size() : 0);
    const DeviceArray<DeviceTraceRecord> device_records(records);
    DeviceRun run{
        .tasks = nullptr,  // the kernel has records of its own
        .signals = nullptr,
        .num_tasks = static_cast<std::uint32_t>(tasks_.size()),
        .num_making = 0,
        .num_counters = num_cells(),
        .header = reinterpret_cast<DeviceHeader*>(base),
        .counters = reinterpret_cast<std::uint32_t*>(base + counters_),
        .waiting = reinterpret_cast<std::uint32_t*>(base + waiting_),
        .plan_word = plan_word_,
        .wait_budget_ns = static_cast<std::uint64_t>(wait_budget_.count()),
        .trace = device_records.data(),
        .dispatch = Dispatch::raw_index,
    };
    NetworkTasks tasks = tasks_from(0);
    LaunchAttributes together;
    together.add_cooperative();
    together.add_spread_cluster(cluster_);
    launch_kernel(kernels_.persistent,
                  together.config(num_blocks_, kNetworkThreads, shared_bytes_, stream),
                  {&memory, &tasks, &run}, "the network");
    if (trace == nullptr) return;
    wait(base, stream);
    check(cudaMemcpy(records.data(), device_records.data(), records.size() * sizeof(records[0]),
                     cudaMemcpyDeviceToHost),
          "trace");
    std::size_t kept = 0;
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (host_tasks_[i].node < lowering_.nodes.size()) records[kept++] = records[i];
    }
    records.resize(kept);
    read_trace(records, device_.num_sms, *trace);
  }

  void launch_stages(NetworkMemory& memory, cudaStream_t stream) const {
    bool is_first = true;
    std::optional<NodeId> launched;  // all stages of it
    for (const Stage& stage : lowering_.graph.stages) {
      if (stage.num_tasks() == 0 || stage.node == launched) continue;
      if (convs_.has(stage.node)) {
        launch_conv(stage.node, memory, is_first, stream);
        launched = stage.node;
      } else {
        launch_stage(stage, memory, is_first, stream);
      }
      is_first = false;
    }
  }

  const void* stage_kernel(const Node& node) const {
    const auto* const cut = std::get_if<SmallGemmCut>(&node.cut);
    if (cut == nullptr || !cut->depthwise) return kernels_.stage;
    return cut->expand ? kernels_.expanding_stage : kernels_.computing_stage;
  }

  void launch_stage(const Stage& stage, NetworkMemory& memory, bool is_first,
                    cudaStream_t stream) const {
    NetworkTasks tasks = tasks_from(stage.first);
    tasks.nodes += stage.node;
    LaunchAttributes attributes;
    // The first stage starts when all that is in front of it has ended.
    if (!is_first && device_.capability >= 90) attributes.add_overlap();
    attributes.add_spread_cluster(shares_of(lowering_.nodes[stage.node]));
    launch_kernel(stage_kernel(lowering_.nodes[stage.node]),
                  attributes.config(static_cast<unsigned>(stage.num_tasks()), kNetworkThreads,
                                    shared_bytes_, stream),
                  {&memory, &tasks}, "a stage");
  }

  // All stages of a node with kernels of its own.
  void launch_conv(NodeId node, const NetworkMemory& memory, bool is_first,
                   cudaStream_t stream) const {
    const NodeBuffers& buffers = lowering_.nodes[node].buffers;
    const std::byte* const prepared = memory.piece[kPreparedPiece];
    const auto tensor = [&](BufferId buffer) {
      return pointer_to(memory, buffer == kNoBuffer ? 0 : places_[buffer]);
    };
    const bool has_bias = prepared_[node].has_bias;
    const bool pools = buffers.second != kNoBuffer;  // in the place of y
    const Tensors tensors{.x = tensor(buffers.x),
                          .bias = has_bias ? prepared + prepared_[node].bias : nullptr,
                          .residual = tensor(buffers.residual),
                          .y = tensor(pools ? buffers.second : buffers.y),
                          .prepared_filters = prepared + prepared_[node].u};
    convs_.launch(node, tensors, memory.piece[kWorkspacePiece], is_first, stream);
  }

  const Lowering& lowering_;
  const Device device_;
  NetworkConvs convs_;
  const CudaLaunch launch_;
  const NetworkKernels kernels_;
  const std::uint32_t cluster_;  // blocks, of the persistent launch
  const std::vector<Task> host_tasks_;
  const DeviceArray<NetworkTask> tasks_;
  const DeviceArray<std::uint32_t> signals_;
  const std::chrono::nanoseconds wait_budget_;
  const std::uint64_t plan_word_ = new_plan_word();
  int shared_bytes_ = 0;
  std::uint32_t num_blocks_ = 0;
  std::vector<Prepared> prepared_;     // by node
  std::vector<std::uint64_t> places_;  // by buffer
  std::size_t prepared_bytes_ = 0, workspace_bytes_ = 0, counters_ = 0, waiting_ = 0;
  std::optional<DeviceArray<std::byte>> tables_;
  std::optional<DeviceArray<NetworkNode>> nodes_;
};

}  // namespace

std::uint32_t network_cluster_blocks() {
  constexpr int kHopper = 90;
  constexpr std::uint32_t kBlocks = 4;
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, network_kernels_f16(true).persistent),
        "attributes of a kernel");
  return attributes.ptxVersion >= kHopper ? kBlocks : 1;
}

}  // namespace cuda

std::unique_ptr<Executor> make_cuda_network_executor(const Lowering& lowering,
                                                     const PlanOptions& options) {
  return std::make_unique<cuda::NetworkExecutor>(lowering, options);
}

}  // namespace megaconv
