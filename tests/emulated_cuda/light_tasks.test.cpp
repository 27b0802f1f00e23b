// SPDX-License-Identifier: Apache-2.0
// Elementwise and pixelwise tasks and rearrangements of CUDA, without a GPU.
#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <vector>

#include "tasks/elementwise/cpu/elementwise.hpp"
#include "tasks/elementwise/cuda/elementwise.cuh"
#include "tasks/pixelwise/cpu/pixelwise.hpp"
#include "tasks/pixelwise/cuda/pixelwise.cuh"
#include "tasks/pixelwise/reference.hpp"
#include "tasks/rearrangement/cpu/rearrangement.hpp"
#include "tasks/rearrangement/cuda/rearrangement.cuh"
#include "tasks/strides.hpp"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/on_device.hpp"
#include "tests/emulated_cuda/simt.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/tasks/cpu_layer.hpp"
#include "tests/tasks/random_cuts.hpp"

namespace megaconv {
namespace {

using test::ThreadOrder;

constexpr int kThreads = 64;
constexpr ThreadOrder kOrders[] = {ThreadOrder::forward, ThreadOrder::backward,
                                   ThreadOrder::shuffled};

FencedBuffer tensor(std::int64_t size, DataType dtype) {
  return FencedBuffer(static_cast<std::size_t>(size), dtype);
}

/// Runs all tasks: body(number) of every group, `number` of CUDA's type.
template <class Body>
void run_groups(DataType dtype, std::uint32_t groups, std::uint64_t seed, const Body& body) {
  with_storage(dtype, [&](auto number) {
    for (std::uint32_t group = 0; group < groups; ++group) {
      test::run_block(kThreads, kOrders[seed % 3],
                      [&] { body(typename test::OnDevice<decltype(number)>::Type(), group); });
    }
  });
}

/// Numbers of a tensor in nhwc, in [N][C][H][W].
std::vector<double> in_nchw(FencedBuffer& from, std::int64_t n, std::int64_t c,
                            std::int64_t pixels) {
  const Strides at = strides_of(Layout::nhwc, n, c, pixels);
  std::vector<double> all;
  for (std::int64_t i = 0; i < n * c * pixels; ++i) {
    all.push_back(from[static_cast<std::size_t>(
        i / (c * pixels) * at.image + i / pixels % c * at.channel + i % pixels * at.pixel)]);
  }
  return all;
}

}  // namespace

TEST_CASE("emulated CUDA: elementwise tasks give the CPU's bits") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    ElementwiseCut cut = test::random_elementwise_cut(seed);
    ElementwiseProblem& a = cut.problem;
    a.layout = Layout::nhwc;
    if (seed % 2 == 0) {  // in vectors
      for (std::int64_t& channels : a.channels) channels = (channels + 7) / 8 * 8;
    }
    CAPTURE(seed, to_string(a), cut.rows_per_group);
    std::deque<FencedBuffer> x;
    std::vector<const void*> pointers;
    std::vector<cuda::ElementwiseInput> inputs = cuda::make_elementwise_inputs(cut);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      x.push_back(tensor(a.n * a.channels[i] * a.h * a.w, a.dtype));
      x.back().fill({}, seed + 100 * i);
      pointers.push_back(x.back().data());
      inputs[i].x = std::bit_cast<std::uint64_t>(pointers.back());
    }
    FencedBuffer residual = tensor(a.y_size(), a.dtype), y = tensor(a.y_size(), a.dtype);
    FencedBuffer scale = tensor(a.c(), DataType::f32), bias = tensor(a.c(), DataType::f32);
    FencedBuffer on_cpu = tensor(a.y_size(), a.dtype);
    residual.fill({}, seed + 1000);
    scale.fill({}, seed + 2000);
    bias.fill({}, seed + 3000);
    cuda::ElementwiseArgs args = cuda::make_elementwise_args(cut);
    args.inputs = inputs.data();
    args.residual = a.residual ? residual.data() : nullptr;
    args.scale = a.affine ? scale.floats() : nullptr;
    args.bias = a.affine ? bias.floats() : nullptr;
    args.y = y.data();
    run_groups(a.dtype, cut.num_groups, seed, [&](auto number, std::uint32_t group) {
      cuda::ElementwiseTask<decltype(number), kThreads>::run(
          args, group, [](std::uint64_t place) { return std::bit_cast<const void*>(place); });
    });
    const bool whole =
        std::all_of(x.begin(), x.end(), [](FencedBuffer& part) { return part.fences_whole(); });
    REQUIRE((whole && residual.fences_whole() && y.fences_whole() && y.all_written()));
    const cpu::ElementwiseKernels& kernels = cpu::elementwise_kernels_for();
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      kernels.run(a.dtype)({.cut = &cut,
                            .x = pointers.data(),
                            .residual = args.residual,
                            .scale = args.scale,
                            .bias = args.bias,
                            .y = on_cpu.data()},
                           group);
    }
    REQUIRE(y.same_numbers(on_cpu));
  }
}

TEST_CASE("emulated CUDA: pixelwise tasks err by no more than their roundings") {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    PixelwiseCut cut = test::random_pixelwise_cut(seed);
    PixelwiseProblem& a = cut.problem;
    a.layout = Layout::nhwc;
    if (seed % 3 == 0) a.c = (a.c + 7) / 8 * 8;           // in vectors
    if (seed % (3 * kNumPixelFunctions) == 6) a.c += 64;  // softmax: several numbers a lane
    CAPTURE(seed, to_string(a), cut.rows_per_group);
    const std::int64_t b_pixels = a.per_channel ? 1 : a.h * a.w;
    FencedBuffer x = tensor(a.y_size(), a.dtype), y = tensor(a.y_size(), a.dtype);
    FencedBuffer on_cpu = tensor(a.y_size(), a.dtype), b = tensor(a.n * a.c * b_pixels, a.dtype);
    x.fill({}, seed);
    b.fill({}, seed + 1000);
    const bool multiplies = a.does.function == PixelFunction::multiply;
    cuda::PixelwiseArgs args = cuda::make_pixelwise_args(cut);
    args.x = x.data();
    args.b = multiplies ? b.data() : nullptr;
    args.y = y.data();
    run_groups(a.dtype, cut.num_groups, seed, [&](auto number, std::uint32_t group) {
      cuda::PixelwiseTask<decltype(number), kThreads>::run(args, group);
    });
    REQUIRE((x.fences_whole() && b.fences_whole() && y.fences_whole() && y.all_written()));
    if (multiplies || a.does.function == PixelFunction::leaky_relu) {  // rounded once
      for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
        cpu::run_pixelwise({.cut = &cut, .x = x.data(), .b = args.b, .y = on_cpu.data()}, group);
      }
      REQUIRE(y.same_numbers(on_cpu));
    }
    const std::vector<double> values = in_nchw(y, a.n, a.c, a.h * a.w);
    const std::vector<double> truth =
        reference_pixelwise(a, in_nchw(x, a.n, a.c, a.h * a.w), in_nchw(b, a.n, a.c, b_pixels));
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double rounded = roundings_of(a) * 0x1p-24 * 1.001 * std::fabs(truth[i]) + 0x1p-126;
      const double stored = a.dtype == DataType::f32
                                ? 0
                                : unit_roundoff(a.dtype) * std::max(std::fabs(truth[i]) + rounded,
                                                                    least_normal(a.dtype));
      const double error = std::fabs(values[i] - truth[i]);
      REQUIRE(error <= rounded + stored);
      worst = std::max(worst, error / (rounded + stored));
    }
  }
  CHECK(worst > 0.5);  // the bound is not far from what is met
}

TEST_CASE("emulated CUDA: softmax of large numbers does not overflow, and a NaN spoils its pixel") {
  PixelwiseCut cut{
      .problem = {
          .does = {.function = PixelFunction::softmax}, .c = 4, .w = 3, .layout = Layout::nhwc}};
  derive_counts(cut);
  const std::vector<float> x{std::nanf(""), 1,      1,      1,     3e38f, 0, 0, 0,
                             -3e38f,        -3e38f, -3e38f, -3e38f};
  std::vector<float> y(x.size());
  cuda::PixelwiseArgs args = cuda::make_pixelwise_args(cut);
  args.x = x.data();
  args.y = y.data();
  test::run_block(kThreads, ThreadOrder::forward,
                  [&] { cuda::PixelwiseTask<float, kThreads>::run(args, 0); });
  for (int i = 0; i < 4; ++i) CHECK(std::isnan(y[static_cast<std::size_t>(i)]));
  y.erase(y.begin(), y.begin() + 4);
  CHECK(y == std::vector<float>{1, 0, 0, 0, 0.25f, 0.25f, 0.25f, 0.25f});
}

TEST_CASE("emulated CUDA: rearrangements move the bits that the CPU moves") {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    RearrangementCut cut = test::random_rearrangement_cut(seed);
    RearrangementProblem& a = cut.problem;
    if (seed % 3 == 0) {  // in vectors, where nothing else is in the way
      a.does.groups = 1;
      a.does.channels = (a.does.channels + 7) / 8 * 8;
      a.does.first_channel = a.does.first_channel / 8 * 8;
      a.c = a.does.first_channel + a.does.channels + 8 * static_cast<std::int64_t>(seed % 2);
    }
    CAPTURE(seed, to_string(a), cut.rows_per_group);
    FencedBuffer x = tensor(a.x_size(), a.dtype), y = tensor(a.y_size(), a.dtype);
    FencedBuffer on_cpu = tensor(a.y_size(), a.dtype);
    x.fill({}, seed);
    cuda::RearrangementArgs args = cuda::make_rearrangement_args(cut);
    args.x = x.data();
    args.y = y.data();
    run_groups(a.dtype, cut.num_groups, seed, [&](auto number, std::uint32_t group) {
      cuda::RearrangementTask<decltype(number), kThreads>::run(args, group);
    });
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      cpu::run_rearrangement({.cut = &cut, .x = x.data(), .y = on_cpu.data()}, group);
    }
    REQUIRE((x.fences_whole() && y.fences_whole() && y.all_written()));
    REQUIRE(y.same_numbers(on_cpu));
  }
}

TEST_CASE("CUDA tasks of light operators refuse what they have none for") {
  PixelwiseCut cut{.problem = {.does = {}, .c = 8}};
  derive_counts(cut);
  CHECK(test::error_of([&] { cuda::make_pixelwise_args(cut); }, Status::unsupported) ==
        "pixelwise on CUDA: layout nchw, must be nhwc");
  RearrangementCut moved{.problem = {.does = {}, .c = 1 << 20, .h = 1 << 5, .w = 1 << 6}};
  derive_counts(moved);
  CHECK(test::error_of([&] { cuda::make_rearrangement_args(moved); }, Status::unsupported) ==
        "rearrangement on CUDA: an image of 2147483648 numbers, must be at most 2^30");
}

}  // namespace megaconv
