// SPDX-License-Identifier: Apache-2.0
// Which CUDA kernels `auto` picks on three GPUs, planned without them (docs/notebook/builds.md).
//
//   picked_kernels <problems     a problem string a line, in any layout and storage type
//
// Takes each problem in 8 variants (f32, tf32, f16 and bf16; nchw and nhwc), with its batch and
// with batch 1. Prints lines of CSV: file of the kernels, instance in it, launch, and how many of
// these plans take it.
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <variant>

#include "megaconv/lowering.hpp"
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

using Picks = std::map<std::string, int>;

void plan(const ConvProblem& problem, Precision precision, const Gpu& gpu, Picks& picks) {
  PlanOptions options;
  options.backend = Backend::cuda;
  options.tiling.precision = precision;
  std::string kernel;
  try {
    const LaunchChoice choice = choose_launch(problem, options, gpu.target);
    const Tiling tiling = make_tiling(problem, choice.options.tiling, gpu.target);
    kernel = std::string(to_string(tiling.algorithm())) + ',' + to_string(tiling.arithmetic) + ',' +
             to_string(problem.dtype) + ' ' + to_string(problem.layout) + ",\"" +
             std::visit([&](const auto& cut) { return instance(tiling, cut); }, tiling.cut) +
             "\"," + (choice.options.cuda_launch == CudaLaunch::staged ? "staged" : "persistent");
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

int run() {
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

int main() {
  try {
    return megaconv::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "picked_kernels: %s\n", error.what());
    return 2;
  }
}
