// SPDX-License-Identifier: Apache-2.0
// CUDA pooling tasks, without a GPU.
#include "tasks/pooling/cuda/pooling.cuh"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tasks/pooling/cpu/pooling.hpp"
#include "tasks/pooling/pooling.hpp"
#include "tasks/pooling/reference.hpp"
#include "tasks/random_data.hpp"
#include "tasks/storage.hpp"
#include "tests/catch.hpp"
#include "tests/dice.hpp"
#include "tests/emulated_cuda/on_device.hpp"
#include "tests/emulated_cuda/simt.hpp"

namespace megaconv {
namespace {

using test::OnDevice;
using test::ThreadOrder;

constexpr int kThreads = 64;

/// A tensor between two guard bands, all of the same NaN.
template <class T>
struct Tensor {
  static constexpr std::size_t kGuard = 64;
  explicit Tensor(std::int64_t size, std::size_t shift = 0)
      : count(static_cast<std::size_t>(size)), first(kGuard + shift) {
    all.resize(count + first + kGuard);
    std::memset(all.data(), 0xff, all.size() * sizeof(T));
  }
  T* data() { return all.data() + first; }
  bool guards_whole() {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(all.data());
    const auto whole = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin * sizeof(T); i < end * sizeof(T); ++i) {
        if (bytes[i] != 0xff) return false;
      }
      return true;
    };
    return whole(0, first) && whole(first + count, all.size());
  }
  std::size_t count, first;
  std::vector<T> all;
};

/// Fills, pools on "CUDA" and on the CPU, and compares the bits; whole numbers also with the truth.
template <class T>
void check(const PoolProblem& problem, const PoolCut& cut, std::size_t shift, std::uint64_t seed) {
  Tensor<T> x(problem.x_size(), shift), y(problem.y_size(), shift), on_cpu(problem.y_size());
  const bool integers = seed % 2 == 0;
  for (std::size_t i = 0; i < x.count; ++i) {
    const Filling filling{.kind = integers ? Filling::Kind::integers : Filling::Kind::normal};
    float value = filling.at(seed, i);
    if (seed % 5 == 1 && random_bits(seed, i) % 17 == 0) {
      value = -std::numeric_limits<float>::infinity();
    }
    if (seed % 5 == 3 && random_bits(seed, i) % 29 == 0) {
      value = std::numeric_limits<float>::quiet_NaN();
    }
    x.data()[i] = from_float<T>(value);
  }
  const cuda::PoolTaskArgs args = cuda::node_args(cut, {.x = x.data(), .y = y.data()});
  constexpr ThreadOrder kOrders[] = {ThreadOrder::forward, ThreadOrder::backward,
                                     ThreadOrder::shuffled};
  const cpu::PoolArgs cpu_args{.cut = &cut, .x = x.data(), .y = on_cpu.data()};
  for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
    for (std::uint32_t block = 0; block < cut.tasks_per_group; ++block) {
      test::run_block(kThreads, kOrders[seed % 3], [&] {
        cuda::PoolingTask<typename OnDevice<T>::Type, kThreads>::run(args, group, block, [] {});
      });
      cpu::pool_kernels_for().run(problem.dtype)(cpu_args, group, block, nullptr);
    }
  }
  REQUIRE((x.guards_whole() && y.guards_whole()));
  std::vector<double> truth(y.count);
  reference_pooling(problem, x.data(), truth.data());
  const bool exact =
      problem.mode == PoolMode::max ||
      (integers && problem.pad_h + problem.pad_w == 0 && problem.r * problem.s % 3 != 0);
  std::size_t wrong = 0, unlike_cpu = 0, nans = 0;
  for (std::size_t i = 0; i < y.count; ++i) {
    const float value = to_float(y.data()[i]);
    if (std::isnan(truth[i])) {  // any NaN
      ++nans;
      wrong += !std::isnan(value);
      continue;
    }
    unlike_cpu += std::memcmp(y.data() + i, on_cpu.data() + i, sizeof(T)) != 0;
    wrong += exact && value != to_float(from_float<T>(static_cast<float>(truth[i])));
  }
  CHECK(wrong == 0);
  CHECK(unlike_cpu == 0);
  CHECK((nans == 0 || seed % 5 == 1 || seed % 5 == 3));
}

TEST_CASE("emulated CUDA: pooling tasks give the CPU's bits, and whole numbers are exact") {
  for (std::uint64_t seed = 0; seed < 480; ++seed) {
    test::Dice dice(seed);
    const auto between = [&](auto least, auto most) { return dice.between(least, most); };
    PoolProblem problem;
    problem.mode = between(0, 1) == 0 ? PoolMode::max : PoolMode::average;
    problem.layout = between(0, 1) == 0 ? Layout::nchw : Layout::nhwc;
    problem.dtype = static_cast<DataType>(between(0, 2));
    problem.n = between(1, 2);
    // Of all channels, and those of a task: alone, in words, in 16 bytes.
    const auto step = std::int64_t{1} << between(0, 3);
    problem.c = step * between(1, 24 / step);
    problem.h = between(4, 12);
    problem.w = between(4, 17);
    problem.r = between(1, 4);
    problem.s = between(1, 4);
    if (between(0, 3) == 0) problem.r = problem.s = 3;
    if (between(0, 7) == 0) problem.r = problem.h, problem.s = problem.w;
    if (between(0, 1) == 0) {
      problem.pad_h = between(0, problem.r - 1);
      problem.pad_w = between(0, problem.s - 1);
    }
    problem.stride_h = between(1, 5);
    problem.stride_w = between(1, 5);
    PoolCut cut{.problem = problem};
    cut.rows_per_group = static_cast<std::uint32_t>(between(1, problem.p()));
    cut.cols_per_group = static_cast<std::uint32_t>(between(1, problem.q()));
    cut.channels_per_task = static_cast<std::uint32_t>(
        between(0, 7) == 0 ? between(1, problem.c) : step * between(1, problem.c / step));
    derive_counts(cut);
    // Tensors may begin anywhere: then channels are not aligned.
    const auto shift = static_cast<std::size_t>(between(0, 3) == 0 ? between(1, 3) : 0);
    CAPTURE(seed, to_string(problem), cut.rows_per_group, cut.cols_per_group, cut.channels_per_task,
            shift);
    with_storage(problem.dtype, [&](auto number) {
      if constexpr (sizeof(number) > 1) check<decltype(number)>(problem, cut, shift, seed);
    });
  }
}

}  // namespace
}  // namespace megaconv
