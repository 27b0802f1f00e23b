// SPDX-License-Identifier: Apache-2.0
// Networks on a CUDA device, in one launch and in one for every stage.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/fuse.hpp"
#include "tasks/network_reference.hpp"
#include "tasks/small_gemm/pair_tensors.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tests/runtime/exact_networks.hpp"
#include "tests/runtime/whole_networks.hpp"

using namespace megaconv;
using megaconv::test::DeviceBuffer;
using megaconv::test::have_device;
using megaconv::test::require_cuda;

namespace {

constexpr CudaLaunch kLaunches[] = {CudaLaunch::persistent, CudaLaunch::staged};

/// How convolutions are computed: by small tiles, by what is estimated to be faster, or all by
/// kernels of their own.
struct Way {
  CudaLaunch launch;
  Algorithm algorithm = Algorithm::automatic;
};
constexpr Way kWays[] = {{CudaLaunch::persistent},
                         {CudaLaunch::staged},
                         {CudaLaunch::staged, Algorithm::implicit_gemm},
                         {CudaLaunch::staged, Algorithm::direct}};

std::string text_of(const Way& way) {
  return std::string(to_string(way.launch)) + ", " + to_string(way.algorithm);
}

/// Implicit GEMM has no tasks for some conv groups.
bool has_tasks(const Way& way, const Network& network) {
  const auto grouped = [](const Operator& op) {
    const auto* const conv = std::get_if<Convolution>(&op.does);
    return conv != nullptr && conv->groups != 1;
  };
  return way.algorithm != Algorithm::implicit_gemm ||
         std::none_of(network.operators.begin(), network.operators.end(), grouped);
}

bool runs_networks() {
  if (!have_device()) return false;
  int major = 0;
  require_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  return major >= 8;
}

PlanOptions on_cuda(const Way& way, Precision precision = Precision::f32) {
  PlanOptions options;
  options.backend = Backend::cuda;
  options.cuda_launch = way.launch;
  options.tiling.algorithm = way.algorithm;
  options.tiling.precision = precision;
  return options;
}
PlanOptions on_cuda(CudaLaunch launch) { return on_cuda(Way{launch}); }

/// Convolutions of large tiles that store a pooling in the place of y.
std::ptrdiff_t count_pooling(const Plan& plan) {
  const auto& nodes = plan.lowering().nodes;
  return std::count_if(nodes.begin(), nodes.end(), [](const Node& node) {
    const auto* const tiling = std::get_if<Tiling>(&node.cut);
    const auto* const cut = tiling ? std::get_if<ImplicitGemmCut>(&tiling->cut) : nullptr;
    return cut != nullptr && cut->pools;
  });
}

/// Winograd's sums round whatever the numbers are, unless weights are made for its tiles.
bool is_exact(const Plan& plan) {
  const auto& nodes = plan.lowering().nodes;
  return std::none_of(nodes.begin(), nodes.end(), [](const Node& node) {
    const auto* const tiling = std::get_if<Tiling>(&node.cut);
    return tiling != nullptr && tiling->tiles() != nullptr;
  });
}

bool all_have_own_kernels(const Plan& plan) {
  const auto& nodes = plan.lowering().nodes;
  return std::none_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return std::holds_alternative<SmallGemmCut>(node.cut);
  });
}

/// A plan with its memory on the device; tensors in the network's storage type and layout.
class DeviceNetwork {
 public:
  DeviceNetwork(const Network& network, const PlanOptions& options)
      : network_(network),
        shapes_(shapes_of(network)),
        plan(Plan::create(network, options)),
        workspace(plan.workspace_bytes()),
        prepared_(plan.prepared_filter_bytes()) {
    if (prepared_.bytes() != 0) plan.prepare_filters(prepared_.get());
    for (const NetworkInput& input : network.inputs) add(input.name, inputs_, input_pointers_);
    for (const std::string& output : network.outputs) add(output, outputs_, output_pointers_);
  }

  void set_inputs(test::Outputs inputs) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::string& name = network_.inputs[i].name;
      std::vector<std::byte> bytes(inputs_[i].bytes());
      test::convert(network_, shapes_.at(name), inputs.at(name), bytes.data(), true);
      require_cuda(
          cudaMemcpy(inputs_[i].get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    }
  }
  void enqueue(cudaStream_t stream = nullptr, Trace* trace = nullptr) {
    plan.execute(
        NetworkTensors{.inputs = input_pointers_,
                       .outputs = output_pointers_,
                       .prepared_filters = prepared_.bytes() != 0 ? prepared_.get() : nullptr},
        workspace.get(), workspace.bytes(), {.trace = trace, .stream = stream});
  }
  /// Of poisoned outputs.
  void run() {
    for (const DeviceBuffer& output : outputs_) const_cast<DeviceBuffer&>(output).poison();
    enqueue();
    plan.wait(workspace.get());
  }
  std::vector<std::byte> bytes(std::size_t i) const { return outputs_[i].download<std::byte>(); }
  std::vector<float> output(std::size_t i) const {
    std::vector<std::byte> stored = bytes(i);
    const Shape& shape = shapes_.at(network_.outputs[i]);
    std::vector<float> values(static_cast<std::size_t>(shape.size()));
    test::convert(network_, shape, values, stored.data(), false);
    return values;
  }
  std::vector<std::byte> input_bytes(std::size_t i) const {
    return inputs_[i].download<std::byte>();
  }
  bool guards_intact() const {
    bool intact = workspace.guards_intact() && prepared_.guards_intact();
    for (const DeviceBuffer& tensor : inputs_) intact = intact && tensor.guards_intact();
    for (const DeviceBuffer& tensor : outputs_) intact = intact && tensor.guards_intact();
    return intact;
  }

 private:
  void add(const std::string& name, std::deque<DeviceBuffer>& buffers, auto& pointers) {
    buffers.emplace_back(static_cast<std::size_t>(shapes_.at(name).size()) *
                         size_of(network_.dtype));
    pointers.push_back(buffers.back().get());
  }

  Network network_;
  std::map<std::string, Shape> shapes_;

 public:
  const Plan plan;
  DeviceBuffer workspace;

 private:
  DeviceBuffer prepared_;
  std::deque<DeviceBuffer> inputs_, outputs_;
  std::vector<const void*> input_pointers_;
  std::vector<void*> output_pointers_;
};

}  // namespace

TEST_CASE("cuda: a network of every operator is exact on whole numbers, run by run") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const Way& way : kWays) {
      // What rounds to a storage type of 16 bits rounds on a CPU alike. TF32 would round, too.
      const Network network = test::everything(Layout::nhwc, dtype);
      if (!has_tasks(way, network)) continue;
      const test::Outputs inputs =
          test::random_inputs(network, {.kind = Filling::Kind::integers, .density = 0.11});
      PlanOptions direct;
      direct.tiling.algorithm = Algorithm::direct;
      direct.num_threads = 2;
      test::NetworkRun on_cpu(network, direct);
      const test::Outputs wanted = on_cpu.run(inputs);
      CAPTURE(to_string(dtype), text_of(way));
      DeviceNetwork run(network, on_cuda(way));
      REQUIRE(is_exact(run.plan));
      run.set_inputs(inputs);
      for (int i = 0; i < 3; ++i) {
        run.run();
        for (std::size_t o = 0; o < network.outputs.size(); ++o) {
          const bool exact = run.output(o) == wanted.at(network.outputs[o]);
          CHECK(exact);
        }
      }
      CHECK(run.guards_intact());
    }
  }
}

TEST_CASE("cuda: the built-in networks with exact numbers give the bits of the CPU") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  // Whole numbers up to 2^11, which TF32 and FP16 hold, and sums below 2^24. A section for each
  // network, so that one process may take one: test_cuda NAME -c resnet50.
  for (const std::string& name : network_names()) {
    DYNAMIC_SECTION(name) {
      for (const std::int64_t batch : {1, 8}) {
        Network network = test::exact_network(
            name, {.batch = batch, .image = test::small_image(name), .classes = 10});
        CAPTURE(name, batch);
        REQUIRE(test::exact_bounds(network).sum < 1 << 24);
        REQUIRE(test::exact_bounds(network).value <= 1 << 11);
        const test::Outputs inputs =
            test::random_inputs(network, {.kind = Filling::Kind::integers, .density = 0.5});
        PlanOptions direct;
        direct.tiling.algorithm = Algorithm::direct;
        const test::Outputs wanted = test::NetworkRun(network, direct).run(inputs);
        for (const auto& [dtype, precision] :
             {std::pair(DataType::f32, Precision::f32), std::pair(DataType::f32, Precision::tf32),
              std::pair(DataType::f16, Precision::f32)}) {
          network.dtype = dtype;
          for (const Way& way : kWays) {
            if (!has_tasks(way, network)) continue;
            CAPTURE(to_string(dtype), to_string(precision), text_of(way));
            DeviceNetwork run(network, on_cuda(way, precision));
            if (way.algorithm != Algorithm::automatic) CHECK(all_have_own_kernels(run.plan));
            if (!is_exact(run.plan)) continue;
            if (name == "vgg16" && batch == 1 && dtype == DataType::f16 &&
                way.algorithm == Algorithm::implicit_gemm) {
              CHECK(count_pooling(run.plan) == 5);
            }
            run.set_inputs(inputs);
            run.run();
            for (std::size_t i = 0; i < network.outputs.size(); ++i) {
              const bool same = run.output(i) == wanted.at(network.outputs[i]);
              CHECK(same);
            }
            CHECK(run.guards_intact());
          }
        }
      }
    }
  }
}

namespace {

/// Every operator on what it has really read, of plans whose outputs are all values that tasks
/// store when operators are fused, some at a time; fusing stays as it was. `whole`: a plan that has
/// run; its first output is that of the others.
void check_all_operators(Network network, const PlanOptions& options, const test::Outputs& inputs,
                         const DeviceNetwork& whole) {
  const std::string output = network.outputs.front();
  const FusedNetwork fused = fuse(network);
  const std::set<std::string> in_readers = not_stored(whole.plan.lowering());
  std::map<std::string, std::vector<std::byte>> values;
  constexpr std::size_t kAtOnce = 100;
  std::vector<Node> nodes;
  for (std::size_t begin = 0; begin < fused.operators.size(); begin += kAtOnce) {
    network.outputs.clear();
    for (std::size_t i = begin; i < std::min(begin + kAtOnce, fused.operators.size()); ++i) {
      if (in_readers.contains(fused.operators[i].name())) continue;
      network.outputs.push_back(fused.operators[i].value());
    }
    DeviceNetwork run(network, options);
    run.set_inputs(inputs);
    run.run();
    CHECK(run.guards_intact());
    for (std::size_t i = 0; i < network.outputs.size(); ++i) {
      values[network.outputs[i]] = run.bytes(i);
    }
    for (std::size_t i = 0; i < network.inputs.size(); ++i) {
      values[network.inputs[i].name] = run.input_bytes(i);
    }
    if (begin == 0) nodes = run.plan.lowering().nodes;
  }
  if (!has_pairs(whole.plan.lowering())) CHECK(values.at(output) == whole.bytes(0));
  std::vector<std::vector<std::byte>> in_order;  // nothing of what no task stores
  for (const NetworkInput& input : network.inputs) in_order.push_back(values.at(input.name));
  for (const FusedOperator& op : fused.operators) in_order.push_back(values[op.value()]);
  std::size_t checked = 0;
  check_operators(fused, nodes, in_order, [&](std::size_t, const OperatorCheck& check) {
    CAPTURE(check.name, check.text);
    CHECK(check.right());
    ++checked;
    return true;
  });
  CHECK(checked + in_readers.size() == fused.operators.size());
}

}  // namespace

TEST_CASE("cuda: every operator of the built-in networks errs by no more than its bound") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  struct Case {
    DataType dtype;
    Precision precision;
  };
  for (const std::string& name : network_names()) {
    DYNAMIC_SECTION(name) {
      for (const auto& [dtype, precision] :
           {Case{DataType::f32, Precision::f32}, Case{DataType::f32, Precision::tf32},
            Case{DataType::f16, Precision::f32}, Case{DataType::bf16, Precision::f32}}) {
        const bool dense = name.find("densenet") == 0;
        if (dense && dtype == DataType::bf16) continue;
        const std::int64_t image = name == "inception_v3" ? 75 : name == "vgg16" ? 32 : 64;
        const Network network =
            make_network(name, {.batch = 2, .image = image, .classes = 10, .dtype = dtype});
        const test::Outputs inputs = test::random_inputs(network, {});
        for (const Way& way : kWays) {
          if (!has_tasks(way, network)) continue;
          CAPTURE(name, to_string(dtype), to_string(precision), text_of(way));
          DeviceNetwork run(network, on_cuda(way, precision));
          run.set_inputs(inputs);
          run.run();
          check_all_operators(network, on_cuda(way, precision), inputs, run);
        }
      }
    }
  }
}

TEST_CASE("cuda: convolutions of a network that Winograd computes in stages are exact") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    const Network network = test::chain(layout, PoolMode::max);
    const test::Outputs inputs =
        test::random_inputs(network, {.kind = Filling::Kind::integers, .density = 0.11});
    PlanOptions direct;
    direct.tiling.algorithm = Algorithm::direct;
    const test::Outputs wanted = test::NetworkRun(network, direct).run(inputs);
    PlanOptions winograd = on_cuda({CudaLaunch::staged, Algorithm::winograd});
    winograd.tiling.m = 2;
    CAPTURE(to_string(layout));
    DeviceNetwork run(network, winograd);
    CHECK(all_have_own_kernels(run.plan));
    run.set_inputs(inputs);
    for (int i = 0; i < 3; ++i) {
      run.run();
      const bool exact = run.output(0) == wanted.at(network.outputs.front());
      CHECK(exact);
    }
    CHECK(run.guards_intact());
  }
}

TEST_CASE("cuda: convolutions of a network whose scales were guessed wrong are computed again") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  const Network network = make_network("resnet18", {.batch = 2, .image = 64, .classes = 10});
  for (const float factor : {1e-6f, 1e6f}) {
    test::Outputs inputs = test::random_inputs(network, {});
    for (float& value : inputs.begin()->second) value *= factor;
    for (const Precision precision : {Precision::f32, Precision::tf32}) {
      const PlanOptions options =
          on_cuda(Way{CudaLaunch::staged, Algorithm::implicit_gemm}, precision);
      CAPTURE(factor, to_string(precision));
      DeviceNetwork run(network, options);
      run.set_inputs(inputs);
      run.run();
      check_all_operators(network, options, inputs, run);
      // From now on scales are guessed right.
      const auto first = run.output(0);
      run.run();
      CHECK((run.output(0) == first));
    }
  }
}

TEST_CASE("cuda: every light operator errs by no more than its bound, and nchw gives the same") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const CudaLaunch launch : kLaunches) {
      Network network = test::light_operators(Layout::nhwc, dtype);
      const test::Outputs inputs = test::random_inputs(network, {});
      DeviceNetwork run(network, on_cuda(launch));
      run.set_inputs(inputs);
      run.run();
      CHECK(run.guards_intact());
      CAPTURE(to_string(dtype), to_string(launch));
      // All values are outputs, so that nothing is fused.
      const FusedNetwork fused = fuse(network);
      std::map<std::string, std::vector<std::byte>> values;
      std::vector<std::string> names;
      for (std::size_t i = 0; i < network.inputs.size(); ++i) {
        names.push_back(network.inputs[i].name);
        values[names.back()] = run.input_bytes(i);
      }
      for (std::size_t i = 0; i < network.outputs.size(); ++i) {
        values[network.outputs[i]] = run.bytes(i);
      }
      for (std::size_t i = 0; i < fused.operators.size(); ++i) {
        const FusedOperator& op = fused.operators[i];
        std::vector<const void*> reads;
        for (const ValueId value : op.reads) reads.push_back(values.at(names[value]).data());
        names.push_back(op.value());
        const OperatorCheck check = check_operator(op, run.plan.lowering().nodes[i].cut, reads,
                                                   values.at(op.value()).data());
        CAPTURE(check.name, check.text);
        CHECK(check.right());
      }
      network.layout = Layout::nchw;
      DeviceNetwork in_nchw(network, on_cuda(launch));
      in_nchw.set_inputs(inputs);
      in_nchw.run();
      CHECK(in_nchw.guards_intact());
      for (std::size_t i = 0; i < network.outputs.size(); ++i) {
        CAPTURE(network.outputs[i]);
        const bool same = in_nchw.output(i) == run.output(i);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("cuda: a network gives one result, run by run, on two streams and from a graph") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  const Network network = make_network("resnet18", {.image = 96, .dtype = DataType::f16});
  const test::Outputs inputs = test::random_inputs(network, {});
  for (const Way& way : kWays) {
    CAPTURE(text_of(way));
    DeviceNetwork one(network, on_cuda(way)), two(network, on_cuda(way));
    one.set_inputs(inputs);
    two.set_inputs(inputs);
    // What a plan of smaller tasks asks of the same kernels must not be held against the larger.
    const Plan smaller =
        Plan::create(make_network("resnet18", {.image = 32, .dtype = DataType::f16}), on_cuda(way));
    one.run();
    const std::vector<std::byte> wanted = one.bytes(0);
    std::size_t others = 0;
    for (int i = 0; i < 1000; ++i) {
      one.run();
      others += one.bytes(0) != wanted;
    }
    CHECK(others == 0);

    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) {
      require_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    for (int i = 0; i < 50; ++i) {  // neither waits for blocks that the other keeps from starting
      one.enqueue(streams[0]);
      two.enqueue(streams[1]);
    }
    one.plan.wait(one.workspace.get(), streams[0]);
    two.plan.wait(two.workspace.get(), streams[1]);
    CHECK(one.bytes(0) == wanted);
    CHECK(two.bytes(0) == wanted);

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    require_cuda(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
    one.enqueue(streams[0]);
    require_cuda(cudaStreamEndCapture(streams[0], &graph));
    require_cuda(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 20; ++i) require_cuda(cudaGraphLaunch(executable, streams[0]));
    one.plan.wait(one.workspace.get(), streams[0]);
    CHECK(one.bytes(0) == wanted);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
    CHECK(one.guards_intact());
  }
}

TEST_CASE("cuda: a run of a network records a trace of all tasks") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  const Network network = make_network("resnet18", {.image = 64});
  DeviceNetwork run(network, on_cuda(CudaLaunch::persistent));
  run.set_inputs(test::random_inputs(network, {}));
  Trace trace;
  run.enqueue(nullptr, &trace);
  const std::vector<Task>& tasks = run.plan.lowering().graph.tasks;
  REQUIRE(trace.records.size() == tasks.size());
  for (const TraceRecord& record : trace.records) {
    REQUIRE(record.fetch_ns <= record.ready_ns);
    REQUIRE(record.ready_ns < record.end_ns);
    const Task& task = tasks[run.plan.lowering().mapping.order[record.position]];
    const bool convolution =
        std::holds_alternative<SmallGemmCut>(run.plan.lowering().nodes[task.node].cut);
    REQUIRE(record.has_phases() == convolution);
    if (!convolution) continue;
    REQUIRE(record.ready_ns <= record.phase_ns.front());
    REQUIRE(std::is_sorted(record.phase_ns.begin(), record.phase_ns.end()));
    REQUIRE(record.phase_ns.back() <= record.end_ns);
  }
}

TEST_CASE("cuda: a network whose tasks wait for what never comes is given up, with a report") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  const Network network = make_network("resnet18", {.image = 64});
  PlanOptions options = on_cuda(CudaLaunch::persistent);
  options.wait_budget_ms = 50;
  DeviceNetwork run(network, options);
  run.set_inputs(test::random_inputs(network, {}));
  run.run();
  const std::vector<std::byte> wanted = run.bytes(0);
  // The counters are one behind: as if a task had not signalled.
  std::vector<std::byte> all = run.workspace.download<std::byte>();
  constexpr std::size_t kCounters = 512;  // behind the header
  for (std::size_t i = 0; i < run.plan.lowering().graph.counter_totals.size(); ++i) {
    std::uint32_t count;
    std::memcpy(&count, all.data() + kCounters + i * sizeof count, sizeof count);
    --count;
    std::memcpy(all.data() + kCounters + i * sizeof count, &count, sizeof count);
  }
  require_cuda(cudaMemcpy(run.workspace.get(), all.data(), all.size(), cudaMemcpyHostToDevice));
  run.enqueue();
  std::string message;
  try {
    run.plan.wait(run.workspace.get());
  } catch (const Error& error) {
    CHECK(error.status() == Status::timeout);
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("missing") != std::string::npos);
  run.run();  // it starts afresh
  CHECK(run.bytes(0) == wanted);
}

TEST_CASE("cuda: networks that cannot run there are refused by name") {
  if (!runs_networks()) SKIP("no CUDA device of compute capability 8.0 or more");
  const auto refusal = [](Network network, PlanOptions options) {
    try {
      Plan::create(network, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const PlanOptions options = on_cuda(CudaLaunch::persistent);
  const Network network = make_network("resnet18", {.image = 64});
  Network of_i8 = network;
  of_i8.dtype = DataType::i8;
  CHECK(refusal(of_i8, options) == "network: storage type i8, must be f32, f16 or bf16");
  CHECK(refusal(network, on_cuda(CudaLaunch::one_block_per_task)) ==
        "network on cuda: launch one_block_per_task, must be persistent or staged");
  PlanOptions direct = options;
  direct.tiling.algorithm = Algorithm::direct;
  CHECK(refusal(network, direct) ==
        "network on cuda: conv1 by the algorithm asked for in one launch, must be automatic, or "
        "launched in stages");
  PlanOptions no_tasks = on_cuda({CudaLaunch::staged, Algorithm::winograd});
  CHECK(refusal(network, no_tasks) == "conv1: winograd: filter 7x7, must be 3x3");
  PlanOptions many = options;
  many.num_blocks = 100'000;
  CHECK(refusal(network, many).find("num_blocks = 100000: must be at most") == 0);
}
