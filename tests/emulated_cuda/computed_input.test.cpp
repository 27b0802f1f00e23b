// SPDX-License-Identifier: Apache-2.0
// Small tiles of 1x1 filters that compute their x, and what this is made of, without a GPU.
#include "tasks/small_gemm/cuda/computed_input.cuh"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tasks/random_data.hpp"
#include "tasks/reference.hpp"
#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/cuda/small_gemm.cuh"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/dice.hpp"
#include "tests/emulated_cuda/simt.hpp"
#include "tests/emulated_cuda/small_gemm_cluster.hpp"

namespace megaconv {
namespace {

using test::filled;
using test::ThreadOrder;

template <class T>
std::vector<T> stored(const std::vector<double>& numbers) {
  std::vector<T> tensor;
  for (const double number : numbers) tensor.push_back(from_float<T>(static_cast<float>(number)));
  return tensor;
}

/// A convolution's numbers, and what it makes of its x in double.
template <class T>
struct Layer {
  ConvProblem problem;
  std::vector<T> w, bias, residual;

  Layer(const ConvProblem& of, std::uint64_t seed, bool integers, float factor)
      : problem(of),
        w(filled<T>(of.w_size(), seed, integers)),
        bias(filled<T>(of.k, seed + 1, integers, factor)),
        residual(filled<T>(of.y_size(), seed + 2, integers, factor)) {}

  struct Made {
    std::vector<double> y, magnitude;
  };
  Made of(const std::vector<T>& x) const {
    Made made{std::vector<double>(static_cast<std::size_t>(problem.y_size())), {}};
    made.magnitude.resize(made.y.size());
    reference_convolution(problem,
                          {.x = x.data(),
                           .w = w.data(),
                           .bias = problem.epilogue.bias ? bias.data() : nullptr,
                           .residual = problem.epilogue.residual ? residual.data() : nullptr},
                          made.y.data(), made.magnitude.data());
    return made;
  }
  ConvNumbers numbers() const {
    const auto bytes = [](const std::vector<T>& of) {
      return reinterpret_cast<const std::byte*>(of.data());
    };
    return {bytes(w), problem.epilogue.bias ? bytes(bias) : nullptr};
  }
};

/// What the tasks of a cut are held to: the convolutions one after the other.
template <class T>
struct Case {
  SmallGemmCut cut;
  bool integers;
  std::vector<T> x;
  std::vector<Layer<T>> layers;  // in their order
  std::vector<double> truth{}, magnitude{};

  Case(const SmallGemmCut& of, std::uint64_t seed, float factor)
      : cut(of),
        integers(seed % 2 == 0),
        x(filled<T>(first_problem(of).x_size(), seed, integers, factor)) {
    if (of.expand) layers.emplace_back(*of.expand, seed + 10, integers, factor);
    layers.emplace_back(*of.depthwise, seed + 20, integers, factor);
    layers.emplace_back(of.problem, seed + 30, integers, factor);
    std::vector<T> numbers = x, sizes = x;
    for (const Layer<T>& layer : layers) {
      truth = layer.of(numbers).y;
      magnitude = layer.of(sizes).magnitude;
      numbers = stored<T>(truth);
      sizes = stored<T>(magnitude);
    }
  }
};

/// x, poisoned where a task does not say that it reads.
template <class T>
std::vector<T> readable_part(const Case<T>& of, std::uint32_t group, std::uint32_t block) {
  const NodeBuffers buffers{.x = 0, .residual = 3, .y = 2, .u = 1};
  std::vector<Access> accesses;
  small_gemm_accesses(of.cut, buffers)(Role::product, group, block, accesses);
  const auto reads = std::find_if(accesses.begin(), accesses.end(),
                                  [](const Access& access) { return access.buffer == 0; });
  REQUIRE(reads != accesses.end());
  std::vector<T> part(of.x.size());
  std::memset(part.data(), 0xff, part.size() * sizeof(T));  // NaN
  const auto cols = static_cast<std::uint64_t>(first_problem(of.cut).w);
  const auto channels = static_cast<std::uint64_t>(first_problem(of.cut).c);
  for (std::uint64_t row = reads->region.rows.begin; row < reads->region.rows.end; ++row) {
    const std::uint64_t begin = (row * cols + reads->region.cols.begin) * channels;
    const std::uint64_t end = (row * cols + reads->region.cols.end) * channels;
    std::copy(of.x.begin() + static_cast<std::ptrdiff_t>(begin),
              of.x.begin() + static_cast<std::ptrdiff_t>(end),
              part.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return part;
}

/// Sums are right to that, relative to the sum of their magnitudes; of integers exact.
template <class Products, class Loader, class T>
void check_with(const SmallGemmCut& cut, std::uint64_t seed, double bound, float factor) {
  CAPTURE(to_string(cut), seed, factor);
  const Case<T> of(cut, seed, factor);
  const ConvProblem& a = cut.problem;
  const Layer<T>& last = of.layers.back();
  std::vector<std::byte> u = pack_filters(cut, last.numbers().w);
  pack_computed_input(cut, of.layers[of.layers.size() - 2].numbers(), of.layers.front().numbers(),
                      u.data());
  std::vector<T> y(of.truth.size());
  std::memset(y.data(), 0xff, y.size() * sizeof(T));
  std::vector<float> bias;
  for (const T number : last.bias) bias.push_back(to_float(number));
  cuda::SmallGemmArgs args =
      cuda::node_args(cut, {.residual = a.epilogue.residual ? last.residual.data() : nullptr,
                            .y = y.data(),
                            .u = u.data(),
                            .bias = a.epilogue.bias ? bias.data() : nullptr});
  constexpr ThreadOrder kOrders[] = {ThreadOrder::forward, ThreadOrder::backward,
                                     ThreadOrder::shuffled};
  test::SmallGemmCluster cluster(cut);
  for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
    for (std::uint32_t block = 0; block < cut.tasks_per_group; block += cut.shares) {
      const std::vector<T> readable = readable_part(of, group, block);
      args.x = readable.data();
      std::vector<cuda::SmallGemmShare> shares;
      for (std::uint32_t rank = 0; rank < cut.shares; ++rank) {
        shares.push_back(cuda::make_small_gemm_share(cut, group, block + rank));
      }
      cluster.run<cuda::SmallGemmTask<Products, float, false, Loader>>(args, shares,
                                                                       kOrders[seed % 3], [] {});
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double exact = of.truth[i];
    const double wanted =
        sizeof(T) == 2 ? to_float(from_float<T>(static_cast<float>(exact))) : exact;
    const double error = std::fabs(to_float(y[i]) - wanted);
    const double allowed =
        of.integers ? 0
                    : bound * of.magnitude[i] + (sizeof(T) == 2 ? 0x1p-7 * std::fabs(exact) : 0);
    if (!(error <= allowed)) worst = std::isnan(error) ? 1e30 : std::max(worst, error - allowed);
  }
  CHECK(worst == 0);
}

template <class Products, class T>
void check(const SmallGemmCut& cut, std::uint64_t seed, double bound, float factor) {
  if (cut.expand) {
    using Source = cuda::ExpandedSource<Products>;
    return check_with<Products, cuda::ComputedInput<Products, Source>, T>(cut, seed, bound, factor);
  }
  check_with<Products, cuda::ComputedInput<Products>, T>(cut, seed, bound, factor);
}

void check_precision(const SmallGemmCut& cut, std::uint64_t seed, float factor) {
  switch (cut.precision) {
    case Precision::f32:
      return check<cuda::PairProducts, float>(cut, seed, 0x1p-19, factor);
    case Precision::tf32:
      return check<cuda::Tf32Products, float>(cut, seed, 0x1p-9, factor);
    case Precision::f16:  // what is stored between the two may be rounded otherwise
      return check<cuda::HalfProducts, Float16>(cut, seed, 0x1p-9, 1);
    case Precision::bf16:
      return check<cuda::Bfloat16Products, Bfloat16>(cut, seed, 0x1p-6, 1);
  }
}

TEST_CASE("emulated CUDA: tasks that compute their x are right, and exact on integers") {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    test::Dice dice(seed);
    const auto between = [&](auto least, auto most) { return dice.between(least, most); };
    constexpr Precision kPrecisions[] = {Precision::f32, Precision::tf32, Precision::f16,
                                         Precision::bf16};
    const Precision precision = kPrecisions[between(0, 3)];
    ConvProblem first;
    first.layout = Layout::nhwc;
    first.dtype = precision == Precision::f16    ? DataType::f16
                  : precision == Precision::bf16 ? DataType::bf16
                                                 : DataType::f32;
    first.n = between(1, 2);
    first.c = first.k = first.groups = 8 * between(1, 24);
    first.r = first.s = between(0, 1) == 0 ? 3 : 5;
    first.h = between(1, 14);
    first.w = between(1, 14);
    first.pad_h = between(1, 2);
    first.pad_w = between(1, 2);
    first.stride_h = between(1, 2);
    first.stride_w = between(1, 2);
    if (first.p() < 1 || first.q() < 1) continue;
    first.epilogue.bias = between(0, 3) > 0;
    const Activation activations[] = {{}, kRelu, clamp(0, 6), kHardSwish};
    first.epilogue.activation = activations[between(0, seed % 2 == 0 ? 2 : 3)];  // even: exact
    ConvProblem problem;
    problem.layout = first.layout;
    problem.dtype = first.dtype;
    problem.n = first.n;
    problem.c = first.c;
    problem.h = first.p();
    problem.w = first.q();
    problem.r = problem.s = 1;
    problem.pad_h = problem.pad_w = 0;
    problem.epilogue.bias = between(0, 1) == 0;
    problem.epilogue.residual = between(0, 1) == 0;
    problem.k = 8 * between(1, 10);
#if __CUDA_ARCH__ >= 900
    const std::uint32_t shares = between(0, 1) == 0 ? 1 : 4;
#else
    const std::uint32_t shares = 1;
#endif
    if (shares > 1) problem.k = 64, problem.c = first.c = first.k = first.groups = 136;
    constexpr std::uint32_t kWarps[][3] = {{4, 2, 1}, {4, 1, 2}, {2, 2, 2}, {1, 1, 8}, {1, 8, 1}};
    const auto& warps = kWarps[between(0, 4)];
    SmallGemmCut cut{.problem = problem, .precision = precision};
    cut.depthwise = first;
    if (between(0, 2) > 0) {
      ConvProblem expand = problem;
      expand.h = first.h;
      expand.w = first.w;
      expand.c = 8 * between(1, 12);
      expand.k = first.c;
      expand.epilogue = {.bias = between(0, 3) > 0,
                         .activation = activations[between(0, seed % 2 == 0 ? 2 : 3)]};
      cut.expand = expand;
    }
    cut.filter_warps = warps[0];
    cut.pixel_warps = warps[1];
    cut.sum_warps = warps[2];
    cut.shares = shares;
    cut.shared_bytes = between(0, 1) == 0 ? 110 << 10 : 40 << 10;  // the less, the more K blocks
    cut.cols_per_group = static_cast<std::uint32_t>(between(1, problem.q()));
    cut.rows_per_group = static_cast<std::uint32_t>(between(1, problem.p()));
    while (cut.cols_per_group * cut.rows_per_group > 32 * warps[1]) {
      std::uint32_t& side = cut.rows_per_group > 1 ? cut.rows_per_group : cut.cols_per_group;
      side = ceil_div(side, 2u);
    }
    if (!can_share(cut) || !fits(cut)) continue;
    derive_counts(cut);
    // Numbers that FP16 has not, as factors, in floats.
    const bool is_wide = seed % 2 == 1 && between(0, 2) == 0;
    check_precision(cut, seed, is_wide ? (between(0, 1) == 0 ? 1e9f : 1e-9f) : 1.0f);
  }
}

}  // namespace
}  // namespace megaconv
