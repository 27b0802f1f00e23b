// SPDX-License-Identifier: Apache-2.0
// Which CUDA kernels `auto` picks on three GPUs, planned without them (docs/notebook/builds.md).
//
//   picked_kernels <problems     a problem string a line, in any layout and storage type
//
// Takes each problem in 8 variants (f32, tf32, f16 and bf16; nchw and nhwc), with its batch and
// with batch 1. Prints lines of CSV: file of the kernels, instance in it, launch, and how many of
// these plans take it.
//
//   picked_kernels --plans <problems
//
// prints what each of them is cut into, on a CPU, too, in stages or not, with its estimated time
// and the costs of its stages to the last bit. So diff says which choices a change of the
// heuristics or of the costs has moved.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "megaconv/lowering.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/cost_model.hpp"
#include "tasks/direct/direct_shapes.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/launch.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

struct Gpu {
  const char* name;
  Target target;
};

// What cuda_target() says of an H200 with its three instruction sets (MEGACONV_CUDA_ISA).
constexpr std::size_t kHalfOfL2 = std::size_t{25} << 20;
constexpr Gpu kGpus[] = {{"wgmma",
                          {.backend = Backend::cuda,
                           .workers = 264,
                           .cache_bytes_per_worker = kHalfOfL2 / 264,
                           .split_f16 = true,
                           .multiprocessors = 132}},
                         {"mma",
                          {.backend = Backend::cuda,
                           .workers = 264,
                           .cache_bytes_per_worker = kHalfOfL2 / 264,
                           .split_f16 = true}},
                         {"fma",
                          {.backend = Backend::cuda,
                           .workers = 528,
                           .cache_bytes_per_worker = kHalfOfL2 / 528,
                           .multiprocessors = 132}}};

std::string tile_text(std::uint32_t filters, std::uint32_t pixels) {
  return std::to_string(filters) + " filters x " + std::to_string(pixels);
}

// The instances of a variant, as the sets of runtime/cuda choose them.
std::string instance(const Tiling&, const WinogradCut& cut) {
  const std::uint32_t filters = cut.filter_blocks_per_gemm_task * Tiling::kLaneBlock;
  return "F(" + std::to_string(cut.m) + "), " + to_string(cut.points) + ", " +
         (filters <= 64 ? "64" : "128") + " filters";
}
std::string instance(const Tiling& tiling, const DirectCut& cut) {
  if (tiling.problem.depthwise()) return "depthwise";
  const std::uint32_t filters = cut.filter_blocks_per_gemm_task * Tiling::kLaneBlock;
  for (const DirectShape& shape : kDirectShapes) {
    if (shape.is_compiled_for(size_of(tiling.problem.dtype)) &&
        shape.has_room(cut.rows_per_group, cut.cols_per_group, filters)) {
      return tile_text(shape.filters(), shape.rows()) + " x " + std::to_string(shape.cols());
    }
  }
  return "none";
}
std::string instance(const Tiling&, const SmallGemmCut&) { return "any"; }
std::string instance(const Tiling& tiling, const ImplicitGemmCut& cut) {
  if (cut.operands != Operands::loaded) {
    return std::string(to_string(cut.operands)) + (channel_shares(tiling) > 1 ? ", split-K" : "");
  }
  const ImplicitGemmTile tile =
      implicit_gemm_tile(cut.filter_blocks_per_gemm_task, cut.places_per_group, tiling.arithmetic);
  return tile_text(tile.filters, tile.places);
}
template <class Cut>
std::string instance(const Tiling&, const Cut&) {
  return "";
}

const char* launch_text(CudaLaunch launch) {
  return launch == CudaLaunch::staged ? "staged" : "persistent";
}

using Picks = std::map<std::string, int>;

void plan(const ConvProblem& problem, Precision precision, const Gpu& gpu, Picks& picks) {
  PlanOptions options;
  options.backend = Backend::cuda;
  options.tiling.precision = precision;
  std::string kernel;
  try {
    const LaunchChoice choice = choose_launch(problem, options, gpu.target);
    const Tiling& tiling = choice.tiling;
    kernel = std::string(to_string(tiling.algorithm())) + ',' + to_string(tiling.arithmetic) + ',' +
             to_string(problem.dtype) + ' ' + to_string(problem.layout) + ",\"" +
             std::visit([&](const auto& cut) { return instance(tiling, cut); }, tiling.cut) +
             "\"," + launch_text(choice.options.cuda_launch);
  } catch (const Error& error) {
    kernel = std::string("refused,,,\"") + to_string(error.status()) + "\",";
  }
  ++picks[std::string(gpu.name) + ',' + kernel];
}

void plan_all(ConvProblem problem, const Gpu& gpu, Picks& picks) {
  for (const std::int64_t batch : {problem.n, std::int64_t{1}}) {
    problem.n = batch;
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      problem.layout = layout;
      problem.dtype = DataType::f32;
      plan(problem, Precision::f32, gpu, picks);
      plan(problem, Precision::tf32, gpu, picks);
      problem.dtype = DataType::f16;
      plan(problem, Precision::f32, gpu, picks);
      problem.dtype = DataType::bf16;
      plan(problem, Precision::f32, gpu, picks);
    }
  }
}

std::string bits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, " %a", value);
  return text;
}

// One plan in a line: problem, target, launch, tiling, estimate, costs of stages.
void print_plan(const ConvProblem& problem, const char* name, const Target& target,
                const PlanOptions& options) {
  std::string line = to_string(problem) + ' ' + name + ' ' + to_string(options.tiling.precision) +
                     (options.cuda_launch == CudaLaunch::staged ? " staged: " : ": ");
  try {
    const auto [launched, reason, tiling] = choose_launch(problem, options, target);
    line += launch_text(launched.cuda_launch) + (' ' + to_string(tiling)) + "estimate" +
            bits(estimate_ms(problem, options, target));
    TaskGraph graph;
    add_convolution(graph, "", tiling);
    for (const Stage& stage : graph.stages) {
      line +=
          '\n' + std::string(to_string(stage.role)) + bits(stage.operations) + bits(stage.bytes);
      for (const Traffic& traffic : stage.traffic) line += bits(traffic.bytes);
    }
  } catch (const Error& error) {
    line += error.what();
  }
  std::replace(line.begin(), line.end(), '\n', ';');
  std::puts(line.c_str());
}

void print_plans(ConvProblem problem) {
  constexpr Target kCpu{.backend = Backend::cpu, .workers = 2};
  constexpr std::pair<Layout, DataType> kKinds[] = {{Layout::nchw, DataType::f32},
                                                    {Layout::nhwc, DataType::f32},
                                                    {Layout::nchw, DataType::f16},
                                                    {Layout::nhwc, DataType::f16},
                                                    {Layout::nhwc, DataType::bf16}};
  for (const auto& [layout, dtype] : kKinds) {
    problem.layout = layout;
    problem.dtype = dtype;
    for (const Precision precision : {Precision::f32, Precision::tf32}) {
      for (const CudaLaunch launch : {CudaLaunch::automatic, CudaLaunch::staged}) {
        PlanOptions options{.backend = Backend::cpu, .cuda_launch = launch};
        options.tiling.precision = precision;
        print_plan(problem, "cpu", kCpu, options);
        options.backend = Backend::cuda;
        for (const Gpu& gpu : kGpus) print_plan(problem, gpu.name, gpu.target, options);
      }
    }
  }
}

int run(bool plans) {
  if (plans) {
    for (std::string line; std::getline(std::cin, line);) print_plans(parse_problem(line));
    return 0;
  }
  Picks picks;
  for (std::string line; std::getline(std::cin, line);) {
    for (const Gpu& gpu : kGpus) plan_all(parse_problem(line), gpu, picks);
  }
  std::puts("isa,algorithm,arithmetic,tensors,instance,launch,picks");
  for (const auto& [kernel, count] : picks) std::printf("%s,%d\n", kernel.c_str(), count);
  return 0;
}

}  // namespace
}  // namespace megaconv

int main(int argc, char** argv) {
  try {
    return megaconv::run(argc == 2 && std::strcmp(argv[1], "--plans") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "picked_kernels: %s\n", error.what());
    return 2;
  }
}
