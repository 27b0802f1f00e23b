// SPDX-License-Identifier: Apache-2.0
// Plans on a CUDA device, against double and against the CPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/reference.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tests/cuda/layer.hpp"

using namespace megaconv;
using megaconv::test::DeviceBuffer;
using megaconv::test::DeviceLayer;
using megaconv::test::have_device;
using megaconv::test::Layer;
using megaconv::test::require_cuda;
using megaconv::test::uses_tensor_cores;

namespace {

PlanOptions on_cuda(std::uint32_t m = 4, Arithmetic arithmetic = Arithmetic::fma) {
  PlanOptions options;
  options.backend = Backend::cuda;
  options.tiling.algorithm = Algorithm::winograd;
  options.tiling.m = m;
  options.tiling.arithmetic = arithmetic;
  options.cuda_launch = CudaLaunch::persistent;
  return options;
}

constexpr Arithmetic kTensorCores[] = {Arithmetic::split_f16, Arithmetic::f16};

std::vector<float> run_on_cpu_plan(const Layer& layer) {
  PlanOptions options;
  options.tiling.algorithm = Algorithm::winograd;
  options.tiling.m = 4;
  options.tiling.points = Points::integer;
  const Plan plan = Plan::create(layer.problem, options);
  std::vector<float> y(layer.residual.size());
  std::vector<std::byte> space(plan.workspace_bytes() + 64);
  void* aligned = space.data();
  std::size_t room = space.size();
  std::align(64, plan.workspace_bytes(), aligned, room);
  Tensors t;
  t.x = layer.x.data();
  t.w = layer.w.data();
  if (layer.problem.epilogue.bias) t.bias = layer.bias.data();
  if (layer.problem.epilogue.residual) t.residual = layer.residual.data();
  t.y = y.data();
  plan.execute(t, aligned, plan.workspace_bytes());
  return y;
}

const char* const kOddShapes[] = {
    "n1c1h1w1k1",           "n2c3h5w7k2",        "n1c16h14k16",      "n3c20h13w9k37+bias+relu",
    "n2c64h28k64+residual", "n1c130h9w31k129",   "n5c40h8k200+bias", "n2c17h6w5k65p0",
    "n1c33h10k48p2+relu",   "n2c8h7w3k8p3+bias", "n4c96h14k160",     "n1c256h7k256",
};

// Tensors of 16 bits on odd shapes, within the error bound.
template <class T>
void check_stored(const char* dtype) {
  for (const char* text : kOddShapes) {
    for (const char* layout : {"+nchw", "+nhwc"}) {
      const Layer layer(parse_problem(std::string(text) + layout + dtype), false);
      std::vector<double> magnitude;
      const std::vector<double> truth = layer.reference(&magnitude);
      DeviceLayer<T> device(layer);
      for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
        PlanOptions options = on_cuda(4, Arithmetic::f16);
        options.cuda_launch = launch;
        const Plan plan = Plan::create(layer.problem, options);
        const std::vector<T> y = device.run(plan);
        const Tiling& tiling = plan.lowering().tiling();
        const ErrorReport report = compare(tiling, y.data(), truth.data(), magnitude.data());
        CAPTURE(text, layout, dtype, static_cast<int>(launch), to_string(report));
        CHECK(error_bound(tiling).covers(report));
      }
    }
  }
}

// Floats on odd shapes, within the error bound.
void check_odd_shapes(const std::vector<PlanOptions>& all) {
  for (const char* text : kOddShapes) {
    for (const char* layout : {"+nchw", "+nhwc"}) {
      const Layer layer(parse_problem(std::string(text) + layout), false);
      std::vector<double> magnitude;
      const std::vector<double> truth = layer.reference(&magnitude);
      DeviceLayer device(layer);
      for (const PlanOptions& options : all) {
        const Plan plan = Plan::create(layer.problem, options);
        const std::vector<float> y = device.run(plan);
        const Tiling& tiling = plan.lowering().tiling();
        const ErrorReport report = compare(tiling, y.data(), truth.data(), magnitude.data());
        CAPTURE(text, layout, to_string(tiling), to_string(report));
        CHECK(error_bound(tiling).covers(report));
      }
    }
  }
}

// The same bits whether a plan transforms filters once or in every run.
void check_prepared_filters(const std::vector<PlanOptions>& all) {
  const Layer layer(parse_problem("n2c20h13w9k70"), false);
  DeviceLayer device(layer);
  for (PlanOptions options : all) {
    const std::vector<float> expected = device.run(Plan::create(layer.problem, options));
    options.tiling.filters = FilterMode::prepared;
    CAPTURE(to_string(options.tiling.arithmetic));
    CHECK((device.run_prepared(Plan::create(layer.problem, options)) == expected));
  }
}

}  // namespace

TEST_CASE("cuda: Winograd takes tensors of 16 bits, and multiplies in FP16") {
  if (!uses_tensor_cores()) SKIP("no device on whose tensor cores plans multiply");
  check_stored<Float16>("+f16");
  check_stored<Bfloat16>("+bf16");
}

TEST_CASE("cuda: every tile size and layout is within its error bound on odd shapes") {
  if (!have_device()) SKIP("no CUDA device");
  check_odd_shapes({on_cuda(2), on_cuda(4)});
}

TEST_CASE(
    "cuda: tensor cores are within their error bound on odd shapes, every tile size and layout") {
  if (!uses_tensor_cores()) SKIP("no device on whose tensor cores plans multiply");
  check_odd_shapes({on_cuda(2, Arithmetic::split_f16), on_cuda(4, Arithmetic::split_f16),
                    on_cuda(4, Arithmetic::f16)});
}

TEST_CASE("cuda: integer data gives the same bits as the CPU, for every launch, policy and grid") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* text : {"n3c20h13w9k37+bias+relu+residual", "n2c70h17w22k140+nhwc"}) {
    const Layer layer(parse_problem(text), true);
    const std::vector<float> expected = run_on_cpu_plan(layer);
    const std::vector<double> truth = layer.reference();
    CHECK(std::equal(expected.begin(), expected.end(), truth.begin()));
    DeviceLayer device(layer);
    for (const char* const policy : {"interleaved", "blended", "staged", "depth_first",
                                     "critical_path", "random_topological"}) {
      for (const std::uint32_t blocks : {1u, 2u, 7u, 131u, 0u}) {
        for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::one_block_per_task}) {
          PlanOptions options = on_cuda();
          options.tiling.points = Points::integer;
          options.tiling.group_tiles = 5;
          options.mapping.policy = policy;
          options.num_blocks = blocks;
          options.cuda_launch = launch;
          CAPTURE(text, policy, blocks, static_cast<int>(launch));
          CHECK((device.run(Plan::create(layer.problem, options)) == expected));
        }
      }
    }
    PlanOptions options = on_cuda();
    options.tiling.points = Points::integer;
    options.tiling.whole_tensors = true;
    options.mapping.policy = "staged";
    options.cuda_launch = CudaLaunch::staged;
    CHECK((device.run(Plan::create(layer.problem, options)) == expected));
  }
}

// Tasks of fewer tiles than a group write runs of V side by side; the last run of a group is short.
TEST_CASE("cuda: on tensor cores it makes no difference how many tiles a transform task has") {
  if (!uses_tensor_cores()) SKIP("no device on whose tensor cores plans multiply");
  for (const char* text : {"n3c40h29w27k70", "n3c40h29w28k40+relu"}) {
    for (const char* layout : {"+nchw", "+nhwc"}) {
      const Layer layer(parse_problem(std::string(text) + layout), false);
      std::vector<double> magnitude;
      const std::vector<double> truth = layer.reference(&magnitude);
      DeviceLayer device(layer);
      for (const Arithmetic arithmetic : kTensorCores) {
        std::vector<float> first;
        for (const std::uint32_t tiles : {128u, 64u, 32u, 16u, 48u, 200u}) {
          for (const CudaLaunch launch : {CudaLaunch::staged, CudaLaunch::persistent}) {
            PlanOptions options = on_cuda(4, arithmetic);
            options.tiling.tiles_per_transform_task = tiles;
            options.cuda_launch = launch;
            const Plan plan = Plan::create(layer.problem, options);
            const std::vector<float> y = device.run(plan);
            const ErrorReport report =
                compare(plan.lowering().tiling(), y.data(), truth.data(), magnitude.data());
            CAPTURE(text, layout, to_string(arithmetic), tiles, to_string(report));
            CHECK(error_bound(plan.lowering().tiling()).covers(report));
            if (first.empty()) first = y;
            CHECK((y == first));
          }
        }
        PlanOptions options = on_cuda(4, arithmetic);
        options.tiling.tiles_per_transform_task = 24;
        CHECK_THROWS_WITH(
            Plan::create(layer.problem, options),
            ContainsSubstring("24 tiles, must be a multiple of 16 or the whole group"));
      }
    }
  }
}

// The guesses suit |V| from 1 to 2^13 and |U| from 2^-7 to 2^6
// (tasks/winograd/cuda/winograd_tensor.cuh); all else is computed again.
TEST_CASE("cuda: Winograd on tensor cores is as accurate at any magnitude of x and w") {
  if (!uses_tensor_cores()) SKIP("no device on whose tensor cores plans multiply");
  struct Exponents {
    int x, w;
  };
  for (const char* layout : {"+nchw", "+nhwc"}) {
    for (const auto [of_x, of_w] :
         {Exponents{-60, 0}, {-20, 30}, {-6, -9}, {0, 0}, {0, -40}, {11, 3}, {40, -40}}) {
      Layer layer(parse_problem(std::string("n3c70h21w18k140") + layout), false);
      for (float& value : layer.x) value = std::ldexp(value, of_x);
      for (float& value : layer.w) value = std::ldexp(value, of_w);
      std::vector<double> magnitude;
      const std::vector<double> truth = layer.reference(&magnitude);
      DeviceLayer device(layer);
      for (const Arithmetic arithmetic : kTensorCores) {
        std::vector<float> first;
        const auto check = [&](const Plan& plan, const std::vector<float>& y) {
          const ErrorReport report =
              compare(plan.lowering().tiling(), y.data(), truth.data(), magnitude.data());
          CAPTURE(layout, of_x, of_w, to_string(arithmetic), plan.describe(), to_string(report));
          CHECK(error_bound(plan.lowering().tiling()).covers(report));
          if (first.empty()) first = y;
          CHECK((y == first));
        };
        PlanOptions options = on_cuda(4, arithmetic);
        for (const CudaLaunch launch :
             {CudaLaunch::staged, CudaLaunch::persistent, CudaLaunch::one_block_per_task}) {
          options.cuda_launch = launch;
          const Plan plan = Plan::create(layer.problem, options);
          check(plan, device.run(plan));
          check(plan, device.run(plan));  // by the scale of x that was right
        }
        options.tiling.filters = FilterMode::prepared;
        const Plan plan = Plan::create(layer.problem, options);
        check(plan, device.run_prepared(plan));
      }
    }
  }
}

TEST_CASE("cuda: on tensor cores an infinity or a NaN reaches no Winograd tile but its own") {
  if (!uses_tensor_cores()) SKIP("no device on whose tensor cores plans multiply");
  for (const Arithmetic arithmetic : kTensorCores) {
    for (const float value :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Layer layer(parse_problem("n1c32h40k64"), false);
      layer.x[5 * 40 * 40 + 20 * 40 + 20] = value;  // channel 5, row 20, column 20
      std::vector<double> magnitude;
      const std::vector<double> truth = layer.reference(&magnitude);
      DeviceLayer device(layer);
      const Plan plan = Plan::create(layer.problem, on_cuda(4, arithmetic));
      const std::vector<float> y = device.run(plan);
      // In units of FP32's rounding.
      const double most = 0x1p-24 * error_bound(plan.lowering().tiling()).worst_element;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t row = i / 40 % 40, col = i % 40;
        const bool near = row >= 16 && row < 24 && col >= 16 && col < 24;  // the tiles around it
        const bool touched = row >= 19 && row <= 21 && col >= 19 && col <= 21;
        if (touched) CHECK_FALSE(std::isfinite(y[i]));
        if (!near) CHECK(std::abs(y[i] - truth[i]) <= most * magnitude[i]);
      }
    }
  }
}

TEST_CASE("cuda: openCNN's output layouts are right in every memory order, on odd shapes") {
  if (!have_device()) SKIP("no CUDA device");
  for (const char* text : {"n1c1h1w1k1", "n3c20h13w9k37+bias+relu", "n33c9h6k130+residual",
                           "n2c17h6w5k65p0", "n1c33h10k48p2+relu"}) {
    for (const char* layout : {"+nchw", "+nhwc", "+chwn"}) {
      const ConvProblem problem = parse_problem(std::string(text) + layout);
      for (const bool integers : {false, true}) {
        const Layer layer(problem, integers);
        std::vector<double> magnitude;
        const std::vector<double> truth = layer.reference(&magnitude);
        DeviceLayer device(layer);
        for (const OutputLayout output : {OutputLayout::baseline, OutputLayout::optSTS64,
                                          OutputLayout::optSTS64_compact, OutputLayout::optLDS64}) {
          for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::staged}) {
            PlanOptions options;
            options.backend = Backend::cuda;
            options.tiling.algorithm = Algorithm::opencnn;
            options.tiling.output_layout = output;
            options.cuda_launch = launch;
            const Plan plan = Plan::create(problem, options);
            const std::vector<float> y = device.run(plan);
            const Tiling& tiling = plan.lowering().tiling();
            const ErrorReport report = compare(tiling, y.data(), truth.data(), magnitude.data());
            CAPTURE(text, layout, integers, to_string(output), to_string(report));
            CHECK(error_bound(tiling).covers(report));
            if (integers) CHECK(std::equal(y.begin(), y.end(), truth.begin()));
          }
        }
      }
    }
  }
}

TEST_CASE("cuda: prepared filters give the same bits as filters transformed in every run",
          "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  PlanOptions opencnn = on_cuda(0);
  opencnn.tiling.algorithm = Algorithm::opencnn;
  check_prepared_filters({opencnn, on_cuda(4)});
}

TEST_CASE("cuda: tensor cores give the same bits with prepared filters", "[sanitizer]") {
  if (!uses_tensor_cores()) SKIP("no device on whose tensor cores plans multiply");
  check_prepared_filters({on_cuda(4, Arithmetic::split_f16), on_cuda(4, Arithmetic::f16)});
}

TEST_CASE("cuda: 1,000 runs in one workspace give one result") {
  if (!have_device()) SKIP("no CUDA device");
  const Layer layer(parse_problem("n4c64h28k64+nhwc"), false);
  DeviceLayer device(layer);
  const Plan plan = Plan::create(layer.problem, on_cuda());
  DeviceBuffer workspace(plan.workspace_bytes());
  const std::vector<float> first = device.run(plan, workspace);
  const Tensors tensors = device.tensors();
  for (int repeat = 0; repeat < 1000; ++repeat) {
    require_cuda(cudaMemsetAsync(tensors.y, 0xff, first.size() * sizeof(float)));
    plan.execute(tensors, workspace.get(), workspace.bytes());
    if (repeat % 50 == 49) {
      std::vector<float> y(first.size());
      require_cuda(
          cudaMemcpy(y.data(), tensors.y, y.size() * sizeof(float), cudaMemcpyDeviceToHost));
      REQUIRE((y == first));
    }
  }
  plan.wait(workspace.get());
}

TEST_CASE("cuda: a captured run can be replayed, also after other plans used the workspace") {
  if (!have_device()) SKIP("no CUDA device");
  const Layer layer(parse_problem("n2c32h20k48"), true);
  DeviceLayer device(layer);
  PlanOptions options = on_cuda();
  options.tiling.points = Points::integer;
  const Plan plan = Plan::create(layer.problem, options);
  const Plan other = Plan::create(layer.problem, on_cuda(2));
  DeviceBuffer workspace(std::max(plan.workspace_bytes(), other.workspace_bytes()));
  const std::vector<float> expected = run_on_cpu_plan(layer);

  cudaStream_t stream;
  require_cuda(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  RunOptions run;
  run.stream = stream;
  plan.execute(device.tensors(), workspace.get(), workspace.bytes(), run);
  require_cuda(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay;
  require_cuda(cudaGraphInstantiate(&replay, graph, 0));
  const Tensors tensors = device.tensors();
  for (int repeat = 0; repeat < 6; ++repeat) {
    if (repeat == 3) other.execute(tensors, workspace.get(), workspace.bytes(), run);
    require_cuda(cudaMemsetAsync(tensors.y, 0xff, expected.size() * sizeof(float), stream));
    require_cuda(cudaGraphLaunch(replay, stream));
    plan.wait(workspace.get(), stream);
    std::vector<float> y(expected.size());
    require_cuda(cudaMemcpy(y.data(), tensors.y, y.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK((y == expected));
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("cuda: plans run side by side on several streams") {
  if (!have_device()) SKIP("no CUDA device");
  const Layer layer(parse_problem("n4c64h28k64"), true);
  const std::vector<float> expected = run_on_cpu_plan(layer);
  PlanOptions options = on_cuda();
  options.tiling.points = Points::integer;
  const Plan plan = Plan::create(layer.problem, options);
  constexpr int kStreams = 4;
  std::vector<std::unique_ptr<DeviceLayer<>>> layers;
  std::vector<std::unique_ptr<DeviceBuffer>> workspaces;
  cudaStream_t streams[kStreams];
  for (auto& stream : streams) {
    require_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    layers.push_back(std::make_unique<DeviceLayer<>>(layer));
    workspaces.push_back(std::make_unique<DeviceBuffer>(plan.workspace_bytes()));
  }
  require_cuda(cudaDeviceSynchronize());
  for (int repeat = 0; repeat < 20; ++repeat) {
    for (int s = 0; s < kStreams; ++s) {
      RunOptions run;
      run.stream = streams[s];
      plan.execute(layers[s]->tensors(), workspaces[s]->get(), workspaces[s]->bytes(), run);
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    plan.wait(workspaces[s]->get(), streams[s]);
    std::vector<float> y(expected.size());
    require_cuda(cudaMemcpy(y.data(), layers[s]->tensors().y, y.size() * sizeof(float),
                            cudaMemcpyDeviceToHost));
    CHECK((y == expected));
    cudaStreamDestroy(streams[s]);
  }
}

TEST_CASE(
    "cuda: an injected deadlock ends in a report within twice the budget, and the plan lives on") {
  if (!have_device()) SKIP("no CUDA device");
  const Layer layer(parse_problem("n1c16h12k16"), true);
  DeviceLayer device(layer);
  PlanOptions options = on_cuda();
  options.tiling.points = Points::integer;
  options.num_blocks = 1;
  options.wait_budget_ms = 200;
  const Plan plan = Plan::create(layer.problem, options);
  DeviceBuffer workspace(plan.workspace_bytes());
  const std::vector<float> expected = device.run(plan, workspace);
  // The header's first counter starts one signal short: the tasks that wait on it can never be
  // ready.
  const auto counters = static_cast<std::byte*>(workspace.get()) + 512;
  std::uint32_t value = 0;
  require_cuda(cudaMemcpy(&value, counters, sizeof(value), cudaMemcpyDeviceToHost));
  --value;
  require_cuda(cudaMemcpy(counters, &value, sizeof(value), cudaMemcpyHostToDevice));
  const auto begin = std::chrono::steady_clock::now();
  plan.execute(device.tensors(), workspace.get(), workspace.bytes());
  CHECK_THROWS_WITH(
      plan.wait(workspace.get()),
      ContainsSubstring("G[0,0] waited 200 ms on counter 0") && ContainsSubstring("missing:"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(400));
  CHECK((device.run(plan, workspace) == expected));
}

TEST_CASE("cuda: a run that leaves out tasks, in a workspace changed in part, is reported") {
  if (!have_device()) SKIP("no CUDA device");
  const Layer layer(parse_problem("n1c16h12k16"), true);
  DeviceLayer device(layer);
  for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::one_block_per_task}) {
    PlanOptions options = on_cuda();
    options.tiling.points = Points::integer;
    options.cuda_launch = launch;
    const Plan plan = Plan::create(layer.problem, options);
    DeviceBuffer workspace(plan.workspace_bytes());
    const std::vector<float> expected = device.run(plan, workspace);
    auto* const ticket = static_cast<std::byte*>(workspace.get()) + 128;
    for (const int value : {0x01, 0x7f, 0xff}) {
      require_cuda(cudaMemset(ticket, value, 128));
      plan.execute(device.tensors(), workspace.get(), workspace.bytes());
      CHECK_THROWS_WITH(plan.wait(workspace.get()), ContainsSubstring("tasks were left out"));
      CHECK((device.run(plan, workspace) == expected));
      CHECK((device.run(plan, workspace) == expected));
    }
  }
}

TEST_CASE("cuda: bad arguments are named before anything is enqueued") {
  if (!have_device()) SKIP("no CUDA device");
  const Layer layer(parse_problem("n1c16h12k16"), true);
  DeviceLayer device(layer);
  const Plan plan = Plan::create(layer.problem, on_cuda());
  DeviceBuffer workspace(plan.workspace_bytes());
  Tensors tensors = device.tensors();
  CHECK_THROWS_WITH(plan.execute(tensors, workspace.get(), plan.workspace_bytes() - 1),
                    ContainsSubstring("must be at least"));
  CHECK_THROWS_WITH(
      plan.execute(tensors, static_cast<std::byte*>(workspace.get()) + 4, plan.workspace_bytes()),
      ContainsSubstring("not aligned"));
  tensors.x = layer.x.data();
  CHECK_THROWS_WITH(plan.execute(tensors, workspace.get(), workspace.bytes()),
                    ContainsSubstring("x is a host pointer"));
  // A failure that the caller left behind is reported as the caller's.
  void* none = nullptr;
  CHECK(cudaMalloc(&none, std::size_t{1} << 60) != cudaSuccess);
  CHECK_THROWS_WITH(plan.execute(device.tensors(), workspace.get(), workspace.bytes()),
                    ContainsSubstring("earlier CUDA call"));
  cudaGetLastError();
  CHECK_NOTHROW(device.run(plan, workspace));
}

TEST_CASE("cuda: a trace has every task with its times in order", "[sanitizer]") {
  if (!have_device()) SKIP("no CUDA device");
  const Layer layer(parse_problem("n4c64h28k64"), false);
  DeviceLayer device(layer);
  const Plan plan = Plan::create(layer.problem, on_cuda());
  DeviceBuffer workspace(plan.workspace_bytes());
  Trace trace;
  RunOptions run;
  run.trace = &trace;
  plan.execute(device.tensors(), workspace.get(), workspace.bytes(), run);
  REQUIRE(trace.records.size() == plan.lowering().mapping.order.size());
  for (std::uint32_t p = 0; p < trace.records.size(); ++p) {
    CHECK(trace.records[p].position == p);
    CHECK(trace.records[p].worker < trace.num_workers);
    CHECK(trace.records[p].fetch_ns <= trace.records[p].ready_ns);
    CHECK(trace.records[p].ready_ns <= trace.records[p].end_ns);
  }
}
