// SPDX-License-Identifier: Apache-2.0
// Checks and times the openCNN tasks on a GPU, without a graph: every task of a stage in one
// launch.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 -I. -Iinclude tests/cuda/opencnn_device.cu tasks/reference.cpp
//        mapping/problem.cpp -o opencnn_device
//   ./opencnn_device [check|few|time|all]      few: for compute-sanitizer
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/mapping.hpp"
#include "tasks/cuda/opencnn.cuh"
#include "tasks/reference.hpp"

namespace {

using namespace megaconv;
using namespace megaconv::cuda;

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

template <OutputLayout kOutput, Layout kLayout>
__global__ __launch_bounds__(kBlockThreads,
                             1) void one_task_kernel(__grid_constant__ const TaskArgs args,
                                                     unsigned num_blocks) {
  extern __shared__ __align__(16) unsigned char shared[];
  OpencnnTask<kOutput, kLayout>::run(args, blockIdx.x / num_blocks, blockIdx.x % num_blocks,
                                     shared);
}

template <OutputLayout kOutput, Layout kLayout>
__global__ __launch_bounds__(kBlockThreads,
                             1) void persistent_kernel(__grid_constant__ const TaskArgs args,
                                                       unsigned num_blocks, unsigned num_tasks) {
  extern __shared__ __align__(16) unsigned char shared[];
  for (unsigned task = blockIdx.x; task < num_tasks; task += gridDim.x) {
    OpencnnTask<kOutput, kLayout>::run(args, task / num_blocks, task % num_blocks, shared);
    __syncthreads();
  }
}

template <Layout kLayout>
__global__ __launch_bounds__(kBlockThreads) void filter_kernel(
    __grid_constant__ const TaskArgs args) {
  OpencnnFilterTransform<kLayout>::run(args, blockIdx.x);
}

TaskArgs args_of(const ConvProblem& p) {
  TaskArgs args = {};
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  args.n = narrow(p.n);
  args.c = narrow(p.c);
  args.h = narrow(p.h);
  args.w_in = narrow(p.w);
  args.k = narrow(p.k);
  args.r = args.s = 3;
  args.p = narrow(p.p());
  args.q = narrow(p.q());
  args.pad_h = narrow(p.pad_h);
  args.pad_w = narrow(p.pad_w);
  args.stride_h = args.stride_w = args.dilation_h = args.dilation_w = args.groups = 1;
  args.layout = p.layout;
  args.relu = p.epilogue.relu;
  args.tiles_h = (args.p + 1) / 2;
  args.tiles_w = (args.q + 1) / 2;
  args.num_tiles = args.n * args.tiles_h * args.tiles_w;
  return args;
}

/// One variant's launches.
struct Variant {
  OutputLayout output;
  Layout layout;
  std::string name;
  std::function<void(const TaskArgs&, unsigned filter_tasks)> transform_filters;
  /// grid = 0: one block per task.
  std::function<void(const TaskArgs&, unsigned num_groups, unsigned num_blocks, unsigned grid)>
      convolve;
};

const char* name_of(OutputLayout output) {
  constexpr const char* kNames[] = {"baseline", "optSTS64", "optSTS64_compact", "optLDS64"};
  return kNames[static_cast<int>(output)];
}

template <OutputLayout kOutput, Layout kLayout>
Variant make_variant() {
  using Task = OpencnnTask<kOutput, kLayout>;
  constexpr int kSharedBytes = sizeof(typename Task::SharedStorage);
  for (const void* kernel : {reinterpret_cast<const void*>(one_task_kernel<kOutput, kLayout>),
                             reinterpret_cast<const void*>(persistent_kernel<kOutput, kLayout>)}) {
    check_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "shared memory");
  }
  return {kOutput, kLayout, std::string(to_string(kLayout)) + " " + name_of(kOutput),
          [](const TaskArgs& args, unsigned filter_tasks) {
            filter_kernel<kLayout><<<filter_tasks, kBlockThreads>>>(args);
          },
          [](const TaskArgs& args, unsigned num_groups, unsigned num_blocks, unsigned grid) {
            const unsigned num_tasks = num_groups * num_blocks;
            if (grid == 0) {
              one_task_kernel<kOutput, kLayout>
                  <<<num_tasks, kBlockThreads, kSharedBytes>>>(args, num_blocks);
            } else {
              persistent_kernel<kOutput, kLayout>
                  <<<grid, kBlockThreads, kSharedBytes>>>(args, num_blocks, num_tasks);
            }
          }};
}

template <Layout kLayout>
void add_variants(std::vector<Variant>& variants) {
  variants.push_back(make_variant<OutputLayout::baseline, kLayout>());
  variants.push_back(make_variant<OutputLayout::optSTS64, kLayout>());
  variants.push_back(make_variant<OutputLayout::optSTS64_compact, kLayout>());
  variants.push_back(make_variant<OutputLayout::optLDS64, kLayout>());
}

constexpr float kNan = NAN;

/// Device floats between fences of NaN.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::int64_t size) : size_(static_cast<std::size_t>(size)) {
    check_cuda(cudaMalloc(&floats_, (size_ + 2 * kFence) * sizeof(float)), "cudaMalloc");
    poison();
  }
  ~DeviceBuffer() { cudaFree(floats_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  float* data() { return floats_ + kFence; }
  void poison() {
    const std::vector<float> nans(size_ + 2 * kFence, kNan);
    copy_in(nans.data(), floats_, nans.size());
  }
  void write(const std::vector<float>& values) { copy_in(values.data(), data(), values.size()); }
  std::vector<float> read() { return copy_out(data(), size_); }
  bool fences_whole() {
    const auto is_nan = [](float value) { return std::isnan(value); };
    const std::vector<float> front = copy_out(floats_, kFence);
    const std::vector<float> back = copy_out(data() + size_, kFence);
    return std::all_of(front.begin(), front.end(), is_nan) &&
           std::all_of(back.begin(), back.end(), is_nan);
  }

 private:
  static constexpr std::size_t kFence = 1024;
  static void copy_in(const float* from, float* to, std::size_t size) {
    check_cuda(cudaMemcpy(to, from, size * sizeof(float), cudaMemcpyHostToDevice), "copy in");
  }
  static std::vector<float> copy_out(const float* from, std::size_t size) {
    std::vector<float> values(size);
    check_cuda(cudaMemcpy(values.data(), from, size * sizeof(float), cudaMemcpyDeviceToHost),
               "copy out");
    return values;
  }
  std::size_t size_;
  float* floats_ = nullptr;
};

struct Layer {
  Layer(const ConvProblem& problem, bool integers)
      : tiling{.problem = problem, .algorithm = Algorithm::winograd, .m = 2},
        x(static_cast<std::size_t>(problem.x_size())),
        w(static_cast<std::size_t>(problem.w_size())),
        bias(static_cast<std::size_t>(problem.k)),
        residual(static_cast<std::size_t>(problem.y_size())),
        reference(residual.size()),
        magnitude(residual.size()) {
    if (integers) {
      fill_integers(x, 1);
      fill_integers(w, 2, 0.5, 4);
      fill_integers(bias, 3);
      fill_integers(residual, 4);
    } else {
      fill_normal(x, 1);
      fill_normal(w, 2);
      fill_normal(bias, 3);
      fill_normal(residual, 4);
    }
    reference_convolution(problem, x.data(), w.data(), bias.data(), residual.data(),
                          reference.data(), magnitude.data());
  }

  Tiling tiling;
  std::vector<float> x, w, bias, residual;
  std::vector<double> reference, magnitude;
};

bool check(const Layer& layer, const Variant& variant, unsigned grid, bool exact, double& worst) {
  const ConvProblem& p = layer.tiling.problem;
  DeviceBuffer x(p.x_size()), w(p.w_size()), bias(p.k), residual(p.y_size()), y(p.y_size()),
      u(opencnn::u_size(p));
  x.write(layer.x);
  w.write(layer.w);
  bias.write(layer.bias);
  residual.write(layer.residual);

  TaskArgs args = args_of(p);
  args.x = x.data();
  args.w = w.data();
  args.bias = p.epilogue.bias ? bias.data() : nullptr;
  args.residual = p.epilogue.residual ? residual.data() : nullptr;
  args.y = y.data();
  args.u = u.data();
  variant.transform_filters(args, static_cast<unsigned>(opencnn::num_filter_tasks(p)));
  variant.convolve(args, static_cast<unsigned>(opencnn::num_groups(p)),
                   static_cast<unsigned>(opencnn::num_blocks(p)), grid);
  check_cuda(cudaGetLastError(), "launch");
  check_cuda(cudaDeviceSynchronize(), "run");

  const std::vector<float> result = y.read();
  const ErrorReport error =
      compare(layer.tiling, result.data(), layer.reference.data(), layer.magnitude.data());
  const ErrorBound bound = exact ? ErrorBound{} : error_bound(layer.tiling);
  worst = std::max(worst, error.relative_l2);
  const bool good = bound.covers(error) && y.fences_whole() && u.fences_whole();
  if (!good) {
    std::printf("FAIL %s, %s, grid %u, %s: %s%s\n", to_string(p).c_str(), variant.name.c_str(),
                grid, exact ? "integers" : "normal", to_string(error).c_str(),
                y.fences_whole() && u.fences_whole() ? "" : ", fence written");
  }
  return good;
}

int check_all(const std::vector<Variant>& variants, bool few) {
  std::vector<const char*> shapes = {"n2c17h4w5k65p1+bias+residual+relu"};
  if (!few) {
    for (const char* shape :
         {"n33c11h6w5k65p0+bias+relu", "n34c9h7w9k70p1+residual", "n1c1h1k1p1", "n5c9h3k17p0",
          "n32c8h8k64p1", "n3c5h9w7k71p1+bias", "n2c3h12w4k130p3",
          "n66c20h4w7k6p2+bias+residual+relu", "n7c64h14w10k63p0x3+relu", "n64c256h14k256"}) {
      shapes.push_back(shape);
    }
  }
  int failures = 0, runs = 0;
  for (const char* shape : shapes) {
    for (const bool exact : {false, true}) {
      double worst = 0;
      for (const Layout layout : {Layout::chwn, Layout::nchw, Layout::nhwc}) {
        ConvProblem problem = parse_problem(shape);
        problem.layout = layout;
        const Layer layer(problem, exact);
        for (const Variant& variant : variants) {
          if (variant.layout != layout) continue;
          for (const unsigned grid : {0u, 3u}) {
            failures += !check(layer, variant, grid, exact, worst);
            ++runs;
          }
        }
      }
      std::printf("%s %s: relative L2 at most %.2e\n", shape, exact ? "integers" : "normal", worst);
    }
  }
  std::printf("%d of %d runs failed\n", failures, runs);
  return failures;
}

/// Median of 20 samples of 5 runs each, in microseconds.
template <class Run>
float median_us(const Run& run) {
  constexpr int kSamples = 20, kRuns = 5;
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "event");
  check_cuda(cudaEventCreate(&end), "event");
  for (int i = 0; i < 3 * kRuns; ++i) run();
  std::vector<float> samples;
  for (int i = 0; i < kSamples; ++i) {
    cudaEventRecord(begin);
    for (int j = 0; j < kRuns; ++j) run();
    cudaEventRecord(end);
    check_cuda(cudaEventSynchronize(end), "run");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    samples.push_back(ms * 1000 / kRuns);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

void time_all(const std::vector<Variant>& variants) {
  int num_sms = 0;
  check_cuda(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, 0), "device");
  constexpr const char* kLayers[] = {"n64c64h56k64", "n64c128h28k128", "n64c256h14k256",
                                     "n64c512h7k512"};
  std::printf("%-24s", "us: run (without F, pers.)");
  for (const char* layer : kLayers) std::printf(" %22s", layer);
  std::printf("\n");
  for (const Variant& variant : variants) {
    std::printf("%-24s", variant.name.c_str());
    for (const char* shape : kLayers) {
      ConvProblem p = parse_problem(shape);
      p.layout = variant.layout;
      std::vector<float> x_values(static_cast<std::size_t>(p.x_size())),
          w_values(static_cast<std::size_t>(p.w_size()));
      fill_normal(x_values, 1);
      fill_normal(w_values, 2);
      DeviceBuffer x(p.x_size()), w(p.w_size()), y(p.y_size()), u(opencnn::u_size(p));
      x.write(x_values);
      w.write(w_values);
      TaskArgs args = args_of(p);
      args.x = x.data();
      args.w = w.data();
      args.y = y.data();
      args.u = u.data();
      const auto filter_tasks = static_cast<unsigned>(opencnn::num_filter_tasks(p));
      const auto num_groups = static_cast<unsigned>(opencnn::num_groups(p));
      const auto num_blocks = static_cast<unsigned>(opencnn::num_blocks(p));
      const float whole = median_us([&] {
        variant.transform_filters(args, filter_tasks);
        variant.convolve(args, num_groups, num_blocks, 0);
      });
      const float alone = median_us([&] { variant.convolve(args, num_groups, num_blocks, 0); });
      const float persistent = median_us(
          [&] { variant.convolve(args, num_groups, num_blocks, static_cast<unsigned>(num_sms)); });
      std::printf(" %7.1f (%5.1f, %5.1f)", whole, alone, persistent);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "all";
  std::vector<Variant> variants;
  add_variants<Layout::chwn>(variants);
  add_variants<Layout::nchw>(variants);
  add_variants<Layout::nhwc>(variants);
  int failures = 0;
  if (what != "time") failures = check_all(variants, what == "few");
  if (what == "time" || what == "all") time_all(variants);
  return failures == 0 ? 0 : 1;
}
