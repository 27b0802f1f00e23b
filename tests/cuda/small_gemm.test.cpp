// SPDX-License-Identifier: Apache-2.0
// Single convolutions by small tiles. The networks' are in network.test.cpp.
#include <cstring>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/error_bound.hpp"
#include "tasks/reference.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tests/cuda/layer.hpp"

using namespace megaconv;
using megaconv::test::DeviceBuffer;
using megaconv::test::DeviceLayer;
using megaconv::test::Layer;
using megaconv::test::require_cuda;
using megaconv::test::uses_tensor_cores;

namespace {

PlanOptions small_gemm(Precision precision = Precision::f32) {
  PlanOptions options;
  options.backend = Backend::cuda;
  options.source = PlanSource::heuristic;
  options.tiling.algorithm = Algorithm::small_gemm;
  options.tiling.precision = precision;
  options.tiling.filters = FilterMode::prepared;
  return options;
}

const char* const kShapes[] = {"n1c1h1w1k1",
                               "n2c3h5w7k2",
                               "n3c20h13w9k37+bias+relu",
                               "n2c64h28k64+residual",
                               "n1c130h9w31k129",
                               "n2c17h6w5k65p0",
                               "n1c512h7k256+bias+residual+relu",
                               "n3c20h13w9k37u2+bias",
                               "n1c24h23w31k16r5p3u3x2d2+residual",
                               "n2c3h37w40k24r7u2",
                               "n1c1024h7k2048r1p0",
                               "n1c48h14k48g48+bias",
                               "n2c24h9k36g6",
                               "n1c512h7k512"};

// y against double; it is the same bits in every run, also where the residual is y itself.
template <class T>
void check_layer(const std::string& text, Precision precision) {
  const Layer layer(parse_problem(text), false);
  std::vector<double> magnitude;
  const std::vector<double> truth = layer.reference(&magnitude);
  DeviceLayer<T> device(layer);
  const Plan plan = Plan::create(layer.problem, small_gemm(precision));
  const Tiling& tiling = plan.lowering().tiling();
  CHECK(tiling.algorithm() == Algorithm::small_gemm);
  const std::vector<T> y = device.run_prepared(plan);
  const ErrorReport report = compare(tiling, y.data(), truth.data(), magnitude.data());
  CAPTURE(to_string(tiling), to_string(report));
  CHECK(error_bound(tiling).covers(report));
  const std::vector<T> again = device.run_prepared(plan, layer.problem.epilogue.residual);
  CHECK(std::memcmp(again.data(), y.data(), y.size() * sizeof(T)) == 0);
}

TEST_CASE("cuda: small tiles of one convolution are right for every type", "[sanitizer]") {
  if (!uses_tensor_cores()) SKIP("no device of compute capability 8.0, or not its mma");
  for (const std::string shape : kShapes) {
    check_layer<float>(shape + "+nhwc", Precision::f32);
    check_layer<float>(shape + "+nhwc", Precision::tf32);
    check_layer<Float16>(shape + "+nhwc+f16", Precision::f16);
    check_layer<Bfloat16>(shape + "+nhwc+bf16", Precision::bf16);
  }
}

TEST_CASE(
    "cuda: runs by small tiles that follow each other, and replays, see what is before them") {
  if (!uses_tensor_cores()) SKIP("no device of compute capability 8.0, or not its mma");
  // y of one run is x of the next one, whose blocks start while it runs.
  const ConvProblem problem = parse_problem("n1c64h14k64+nhwc");
  const Layer layer(problem, true);
  const Plan plan = Plan::create(problem, small_gemm());
  const DeviceBuffer x(layer.x), w(layer.w), workspace(plan.workspace_bytes());
  const DeviceBuffer prepared(plan.prepared_filter_bytes());
  const auto bytes = static_cast<std::size_t>(problem.y_size()) * sizeof(float);
  const DeviceBuffer first(bytes), second(bytes);
  const auto run = [&](const DeviceBuffer& from, const DeviceBuffer& to, cudaStream_t stream) {
    RunOptions options;
    options.stream = stream;
    Tensors tensors;
    tensors.x = from.get(), tensors.y = to.get(), tensors.prepared_filters = prepared.get();
    plan.execute(tensors, workspace.get(), workspace.bytes(), options);
  };
  cudaStream_t stream;
  require_cuda(cudaStreamCreate(&stream));
  plan.prepare_filters(w.get(), prepared.get(), stream);
  run(x, first, stream);
  plan.wait(workspace.get(), stream);
  run(first, second, stream);
  plan.wait(workspace.get(), stream);
  const std::vector<float> expected = second.download<float>();

  cudaGraph_t graph;
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  plan.prepare_filters(w.get(), prepared.get(), stream);
  for (int i = 0; i < 20; ++i) run(x, first, stream), run(first, second, stream);
  require_cuda(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replay;
  require_cuda(cudaGraphInstantiate(&replay, graph, 0));
  for (int repeat = 0; repeat < 20; ++repeat) {
    for (const DeviceBuffer* buffer : {&prepared, &first, &second}) {
      require_cuda(cudaMemsetAsync(buffer->get(), 0xff, buffer->bytes(), stream));
    }
    require_cuda(cudaGraphLaunch(replay, stream));
    plan.wait(workspace.get(), stream);
    CHECK(second.download<float>() == expected);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("cuda: plans by small tiles that need less shared memory take none from others") {
  if (!uses_tensor_cores()) SKIP("no device of compute capability 8.0, or not its mma");
  const Layer layer(parse_problem("n1c512h14k512+nhwc"), true);
  DeviceLayer<float> device(layer);
  const Plan plan = Plan::create(layer.problem, small_gemm());
  const std::vector<float> y = device.run_prepared(plan);
  const Plan smaller = Plan::create(parse_problem("n1c8h8k8+nhwc"), small_gemm());
  CHECK(device.run_prepared(plan) == y);
}

TEST_CASE("cuda: small tiles refuse tensors that are not aligned to what is loaded at once") {
  if (!uses_tensor_cores()) SKIP("no device of compute capability 8.0, or not its mma");
  const Plan plan = Plan::create(parse_problem("n1c8h8k8+nhwc+f16"), small_gemm());
  const DeviceBuffer x(4096), y(4096), prepared(plan.prepared_filter_bytes());
  const DeviceBuffer workspace(plan.workspace_bytes());
  const auto refused = [&](std::size_t of_x, std::size_t of_y, const char* text) {
    Tensors tensors;
    tensors.x = static_cast<const char*>(x.get()) + of_x;
    tensors.y = static_cast<char*>(y.get()) + of_y;
    tensors.prepared_filters = prepared.get();
    CHECK_THROWS_WITH(plan.execute(tensors, workspace.get(), workspace.bytes()),
                      ContainsSubstring(text));
  };
  refused(8, 0, "x: its address is 8 bytes past a multiple of 16");
  refused(0, 4, "y: its address is 4 bytes past a multiple of 8");
}

TEST_CASE("cuda: small tiles are launched in stages, without a trace") {
  if (!uses_tensor_cores()) SKIP("no device of compute capability 8.0, or not its mma");
  const ConvProblem problem = parse_problem("n1c8h8k8+nhwc");
  const Plan plan = Plan::create(problem, small_gemm());
  const DeviceBuffer x(4096), y(4096), prepared(plan.prepared_filter_bytes());
  const DeviceBuffer workspace(plan.workspace_bytes());
  Trace trace;
  Tensors tensors;
  tensors.x = x.get(), tensors.y = y.get(), tensors.prepared_filters = prepared.get();
  CHECK_THROWS_WITH(plan.execute(tensors, workspace.get(), workspace.bytes(), {.trace = &trace}),
                    ContainsSubstring("trace: a staged launch records none"));
  CHECK_THROWS_WITH(Plan::create(plan.lowering(), {.backend = Backend::cuda}),
                    "small_gemm: launch persistent, must be staged");
}

}  // namespace
