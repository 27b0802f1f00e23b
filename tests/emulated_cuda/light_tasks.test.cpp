// SPDX-License-Identifier: Apache-2.0
// Elementwise and pixelwise tasks and rearrangements of CUDA, and nodes of every room, without a
// GPU.
#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "tasks/cpu/operators.hpp"
#include "tasks/cuda/operators.hpp"
#include "tasks/elementwise/cpu/elementwise.hpp"
#include "tasks/operators.hpp"
#include "tasks/pixelwise/cpu/pixelwise.hpp"
#include "tasks/pixelwise/reference.hpp"
#include "tasks/rearrangement/cpu/rearrangement.hpp"
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
    if (seed % 4 < 3) {  // which need not be those of tasks
      const std::int64_t step = seed % 4 == 0 ? 8 : 1;
      const std::int64_t channels = static_cast<std::int64_t>(seed) / 4 % a.c() / step * step;
      cut.channels_per_task = static_cast<std::uint32_t>(std::max(step, channels));
    } else {
      cut.channels_per_task = static_cast<std::uint32_t>(a.c());
    }
    derive_counts(cut);
    CAPTURE(seed, to_string(a), cut.rows_per_group, cut.channels_per_task);
    std::deque<FencedBuffer> x;
    cuda::NodePlaces places;
    for (const std::int64_t channels : a.channels) {
      x.push_back(tensor(a.n * channels * a.h * a.w, a.dtype));
      x.back().fill({}, seed + 100 * x.size());
      places.inputs.push_back(x.back().data());
    }
    FencedBuffer residual = tensor(a.y_size(), a.dtype), y = tensor(a.y_size(), a.dtype);
    FencedBuffer scale = tensor(a.c(), DataType::f32), bias = tensor(a.c(), DataType::f32);
    FencedBuffer on_cpu = tensor(a.y_size(), a.dtype);
    residual.fill({}, seed + 1000);
    scale.fill({}, seed + 2000);
    bias.fill({}, seed + 3000);
    if (a.residual) places.residual = residual.data();
    if (a.affine) places.scale = scale.floats(), places.bias = bias.floats();
    places.y = y.data();
    const std::vector<cuda::ElementwiseInput> table = cuda::node_table(cut, places);
    places.table = table.data();
    const cuda::ElementwiseArgs args = cuda::node_args(cut, places);
    run_groups(a.dtype, cut.num_groups, seed, [&](auto number, std::uint32_t group) {
      cuda::ElementwiseTask<decltype(number), kThreads>::run(
          args, group, [](const void* pointer) { return pointer; }, [] {});
    });
    const bool whole =
        std::all_of(x.begin(), x.end(), [](FencedBuffer& part) { return part.fences_whole(); });
    REQUIRE((whole && residual.fences_whole() && y.fences_whole() && y.all_written()));
    const cpu::ElementwiseKernels& kernels = cpu::elementwise_kernels_for();
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      kernels.run(a.dtype)({.cut = &cut,
                            .x = places.inputs.data(),
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
    const cuda::PixelwiseArgs args = cuda::node_args(
        cut, {.x = x.data(), .residual = multiplies ? b.data() : nullptr, .y = y.data()});
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
  const cuda::PixelwiseArgs args = cuda::node_args(cut, {.x = x.data(), .y = y.data()});
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
    const cuda::RearrangementArgs args = cuda::node_args(cut, {.x = x.data(), .y = y.data()});
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

TEST_CASE(
    "emulated CUDA: a node of every room runs in the memory of any run, by the same arguments") {
  constexpr Layout kNhwc = Layout::nhwc;
  const Cut cuts[] = {
      cut_operator(PoolProblem{.c = 8, .h = 5, .w = 6, .layout = kNhwc}, 4),
      cut_operator(ElementwiseProblem{.h = 5,
                                      .w = 6,
                                      .channels = {8, 3},
                                      .affine = true,
                                      .residual = true,
                                      .layout = kNhwc},
                   4),
      cut_operator(
          RearrangementProblem{
              .does = {.repeat_h = 2, .top = 1}, .c = 8, .h = 5, .w = 6, .layout = kNhwc},
          4),
      cut_operator(PixelwiseProblem{.does = {.function = PixelFunction::multiply},
                                    .c = 8,
                                    .h = 5,
                                    .w = 6,
                                    .layout = kNhwc},
                   4)};
  for (std::uint32_t room = 0; room < std::size(cuts); ++room) {
    const Cut& cut = cuts[room];
    // In its own piece each, behind numbers of others.
    enum Piece : std::uint32_t { kX, kSecond, kResidual, kScale, kBias, kY, kNumPieces };
    constexpr std::size_t kBefore = 16, kNumbers = 1000;
    const auto place = [](Piece piece) {
      return reinterpret_cast<float*>(cuda::place_in(piece, kBefore * sizeof(float)));
    };
    cuda::NodePlaces places{.x = place(kX),
                            .residual = place(kResidual),
                            .y = place(kY),
                            .inputs = {place(kX), place(kSecond)}};
    if (num_scales(cut) > 0) places.scale = place(kScale), places.bias = place(kBias);
    const std::vector<std::byte> table = cuda::make_node_table(cut, places);
    places.table = table.data();
    const cuda::NodeArgs args = cuda::make_node_args(cut, places);
    REQUIRE(args.index == cuda::kFirstRoom + room);
    const cpu::NodeTasks on_cpu = cpu::make_node_tasks(cut, cpu::kernels_for());
    for (std::uint64_t run = 0; run < 2; ++run) {
      std::vector<FencedBuffer> buffers;
      cuda::NetworkMemory memory{};
      for (std::uint32_t piece = 0; piece < kNumPieces; ++piece) {
        buffers.emplace_back(kBefore + kNumbers);
        buffers.back().fill({}, 10 * run + piece);
        memory.piece[piece] = static_cast<std::byte*>(buffers.back().data());
      }
      FencedBuffer truth = buffers[kY].copy();
      const auto at = [&](Piece piece) { return buffers[piece].floats() + kBefore; };
      const void* const inputs[] = {at(kX), at(kSecond)};
      const cpu::TaskArgs cpu_args{.x = at(kX),
                                   .scale = at(kScale),
                                   .bias = at(kBias),
                                   .residual = at(kResidual),
                                   .y = truth.floats() + kBefore,
                                   .inputs = inputs};
      const auto run_all = [&](std::uint32_t groups, std::uint32_t blocks) {
        for (std::uint32_t i = 0; i < groups * blocks; ++i) {
          const Task task{.group = i / blocks, .block = i % blocks};
          on_cpu.run(cpu_args, task, nullptr);
          int waits = 0;
          test::run_block(kThreads, ThreadOrder::forward, [&] {
            args.visit_from<cuda::kFirstRoom>([&](const auto& of_room) {
              cuda::run_task<float, kThreads>(of_room, memory, task.group, task.block,
                                              [&] { ++waits; });
            });
          });
          REQUIRE(waits == kThreads);
        }
      };
      std::visit(
          [&](const auto& of_room) {
            std::uint32_t blocks = 1;
            if constexpr (requires { of_room.tasks_per_group; }) blocks = of_room.tasks_per_group;
            run_all(of_room.num_groups, blocks);
          },
          cut);
      CAPTURE(room, run);
      CHECK(buffers[kY].same_numbers(truth));
    }
  }
}

TEST_CASE("a node's arguments are those of one room, or none") {
  CHECK(cuda::NodeArgs().index == cuda::NodeArgs::kCount);
  bool visited = false;
  const auto visit = [&](const auto&) { visited = true; };
  cuda::NodeArgs().visit_from<0>(visit);
  cuda::NodeArgs(cuda::SmallGemmArgs{}).visit_from<cuda::kFirstRoom>(visit);
  CHECK(!visited);
  cuda::PixelwiseArgs pixelwise{};
  pixelwise.c = 7;
  const cuda::NodeArgs args(pixelwise);
  CHECK(args.as<cuda::PixelwiseArgs>().c == 7);
  args.visit_from<cuda::kFirstRoom>([&](const auto& of_room) {
    visited = std::is_same_v<decltype(of_room), const cuda::PixelwiseArgs&>;
  });
  CHECK(visited);
}

TEST_CASE("CUDA tasks of light operators refuse what they have none for") {
  PixelwiseCut cut{.problem = {.does = {}, .c = 8}};
  derive_counts(cut);
  CHECK(test::error_of([&] { cuda::node_args(cut, {}); }, Status::unsupported) ==
        "pixelwise on CUDA: layout nchw, must be nhwc");
  RearrangementCut moved{.problem = {.does = {}, .c = 1 << 20, .h = 1 << 5, .w = 1 << 6}};
  derive_counts(moved);
  CHECK(test::error_of([&] { cuda::node_args(moved, {}); }, Status::unsupported) ==
        "rearrangement on CUDA: an image of 2147483648 numbers, must be at most 2^30");
}

}  // namespace megaconv
