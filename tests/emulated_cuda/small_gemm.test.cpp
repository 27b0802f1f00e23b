// SPDX-License-Identifier: Apache-2.0
// Tasks of small-tile implicit GEMM, without a GPU.
#include "tasks/small_gemm/cuda/small_gemm.cuh"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tasks/activation.hpp"
#include "tasks/pooling/cuda/pool_task_args.hpp"
#include "tasks/random_data.hpp"
#include "tasks/reference.hpp"
#include "tasks/small_gemm/cuda/pack_filters.cuh"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/storage.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/dice.hpp"
#include "tests/emulated_cuda/simt.hpp"
#include "tests/emulated_cuda/small_gemm_cluster.hpp"

namespace megaconv {
namespace {

using test::filled;
using test::ThreadOrder;

/// Numbers of x times a power of two that depends on their channel.
void spread_magnitudes(const ConvProblem& a, std::vector<float>& x) {
  constexpr int kExponents[] = {-70, 0, 90, -100, 40, -20};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t channel = i % static_cast<std::size_t>(a.c);
    x[i] = std::ldexp(x[i], kExponents[channel / 64 % std::size(kExponents)]);
  }
}

/// The pixels of x that a task says that it reads. Others need not be there yet.
class ReadPixels {
 public:
  ReadPixels(const SmallGemmCut& cut, const cuda::SmallGemmShare& share)
      : a_(cut.problem),
        image_(share.image),
        rows_(range(share.row, share.rows, a_.stride_h, a_.pad_h, a_.filter_extent_h(), a_.h)),
        cols_(range(share.col, share.cols, a_.stride_w, a_.pad_w, a_.filter_extent_w(), a_.w)) {}

  /// `row`: of all images.
  bool operator()(std::size_t row, std::size_t col) const {
    const std::int64_t h = static_cast<std::int64_t>(row) - image_ * a_.h;
    const auto w = static_cast<std::int64_t>(col);
    return h >= rows_.first && h < rows_.second && w >= cols_.first && w < cols_.second;
  }
  template <class T>
  std::vector<T> poisoned_beyond(const std::vector<T>& x) const {
    std::vector<T> part(x.size());
    std::memset(part.data(), 0xff, part.size() * sizeof(T));  // NaN
    for (std::int64_t h = rows_.first; h < rows_.second; ++h) {
      for (std::int64_t w = cols_.first; w < cols_.second; ++w) {
        const std::int64_t at = ((image_ * a_.h + h) * a_.w + w) * a_.c;
        std::copy_n(x.begin() + at, a_.c, part.begin() + at);
      }
    }
    return part;
  }

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;
  static Range range(std::int64_t first, std::int64_t count, std::int64_t stride, std::int64_t pad,
                     std::int64_t extent, std::int64_t inputs) {
    const std::int64_t begin = first * stride - pad;
    const std::int64_t end = begin + (count - 1) * stride + extent;
    return {std::max<std::int64_t>(begin, 0), std::min(end, inputs)};
  }

  const ConvProblem& a_;
  const std::int64_t image_;
  const Range rows_, cols_;
};

/// Floats in pairs, four of them at a time: some of these wide.
class PairTensor {
 public:
  PairTensor(const std::vector<float>& numbers, std::int64_t row, std::uint64_t seed)
      : row_(static_cast<std::size_t>(row)), halves_(2 * numbers.size()) {
    test::Dice dice(seed);
    for (std::size_t i = 0; i < numbers.size(); i += 4) {
      float most = 0;
      for (std::size_t j = i; j < i + 4; ++j) most = std::max(most, std::fabs(numbers[j]));
      const bool fits = most == 0 || (most >= 0x1p-10f && most < 65504);
      const bool wide = !fits || dice.between(0, 19) == 0;
      for (std::size_t j = i; j < i + 4; ++j) put(j, numbers[j], wide);
    }
  }
  /// Poisoned but for the pixels [h][w] of `channels` that `readable` has.
  template <class IsRead>
  std::vector<std::uint16_t> part(std::int64_t channels, IsRead is_read) const {
    std::vector<std::uint16_t> part(halves_.size(), 0xffff);
    const auto pixel_numbers = static_cast<std::size_t>(channels);
    for (std::size_t i = 0; i < halves_.size(); ++i) {
      const std::size_t row = i / (2 * row_), col = i % row_ / pixel_numbers;
      if (is_read(row, col)) part[i] = halves_[i];
    }
    return part;
  }
  const std::vector<std::uint16_t>& halves() const { return halves_; }
  bool has_wide() const { return has_wide_; }

  /// Of a tensor without rests, but for those of wide numbers: as factors.
  static std::vector<float> numbers(const std::vector<std::uint16_t>& halves, std::int64_t row,
                                    bool with_rests, std::int64_t& num_wide) {
    std::vector<float> numbers(halves.size() / 2);
    const auto in_row = static_cast<std::size_t>(row);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t at = i / in_row * 2 * in_row + i % in_row;
      const std::uint16_t high = halves[at], rest = halves[at + in_row];
      if ((high & 0x7fff) > 0x7c00) {
        const std::uint32_t bits = std::uint32_t{rest} << 16 | (high & 0x1ffu) << 7;
        std::memcpy(&numbers[i], &bits, sizeof bits);
        ++num_wide;
      } else {
        numbers[i] = to_float(float16(high));
        if (with_rests) numbers[i] += to_float(float16(rest)) * 0x1p-11f;
      }
    }
    return numbers;
  }

 private:
  static Float16 float16(std::uint16_t bits) {
    Float16 number;
    std::memcpy(&number, &bits, sizeof bits);
    return number;
  }
  static std::uint16_t bits_of(Float16 number) {
    std::uint16_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
  }
  void put(std::size_t i, float number, bool wide) {
    const std::size_t at = i / row_ * 2 * row_ + i % row_;
    std::uint16_t& high = halves_[at];
    std::uint16_t& rest = halves_[at + row_];
    has_wide_ = has_wide_ || wide;
    if (wide) {
      std::uint32_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      high = static_cast<std::uint16_t>(0x7e00 | (bits >> 7 & 0x1ff));
      rest = static_cast<std::uint16_t>(bits >> 16);
    } else {
      const Float16 rounded = from_float<Float16>(number);
      high = bits_of(rounded);
      rest = bits_of(from_float<Float16>((number - to_float(rounded)) * 0x1p11f));
    }
  }

  std::size_t row_;
  std::vector<std::uint16_t> halves_;
  bool has_wide_ = false;
};
std::int64_t wide_stored = 0;

/// Filters that the device packs.
template <class Products, class T>
std::vector<std::byte> packed_on_device(const SmallGemmCut& cut, const std::vector<T>& w,
                                        ThreadOrder order) {
  std::vector<std::byte> u(packed_bytes(cut), std::byte{0xff});
  const FilterPlaces places(cut);
  for (std::int64_t filter = 0; filter < places.num_blocks * places.filters_per_task; ++filter) {
    typename cuda::FilterPacking<Products>::Shared shared;
    test::run_block(cuda::kFilterPackingThreads, order, [&] {
      cuda::FilterPacking<Products>::run(places, w.data(), u.data(), filter, shared);
    });
  }
  return u;
}

/// What an elementwise operation makes of y, in some of its channels, with others around them.
template <class T>
class Second {
 public:
  Second(const SmallGemmCut& cut, std::uint64_t seed)
      : problem_(cut.problem),
        scale_(filled<float>(cut.problem.k, seed, false)),
        bias_(filled<float>(cut.problem.k, seed + 1, false)),
        y_(static_cast<std::size_t>(cut.problem.y_size() / cut.problem.k * channels())) {
    std::memset(y_.data(), 0xff, y_.size() * sizeof(T));
    stores_ =
        seed % 4 != 0 && !cut.pool && !cut.pairs.y && can_store_second(cut, channels(), kFirst);
    is_affine_ = seed % 4 != 1;
  }
  cuda::SecondOutput output() {
    if (!stores_) return {};
    return {.y = y_.data(),
            .scale = is_affine_ ? scale_.data() : nullptr,
            .bias = is_affine_ ? bias_.data() : nullptr,
            .channels = static_cast<std::int32_t>(channels()),
            .first_channel = static_cast<std::int32_t>(kFirst),
            .least = kLeast,
            .most = kMost,
            .window = {}};
  }
  /// Of y as it was stored: the bits of an elementwise task. All else is as it was.
  std::int64_t wrong_numbers(const std::vector<T>& of) const {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < y_.size(); ++i) {
      T expected;
      std::memset(&expected, 0xff, sizeof expected);
      const std::int64_t pixel = static_cast<std::int64_t>(i) / channels();
      const std::int64_t k = static_cast<std::int64_t>(i) % channels() - kFirst;
      if (stores_ && k >= 0 && k < problem_.k) {
        const auto at = static_cast<std::size_t>(k);
        float number = to_float(of[static_cast<std::size_t>(pixel * problem_.k + k)]);
        if (is_affine_) number = std::fma(scale_[at], number, bias_[at]);
        expected = from_float<T>(number < kLeast ? kLeast : number > kMost ? kMost : number);
      }
      wrong += std::memcmp(&expected, &y_[i], sizeof expected) != 0;
    }
    return wrong;
  }
  bool stores() const { return stores_; }

 private:
  static constexpr std::int64_t kFirst = 8;
  static constexpr float kLeast = -1, kMost = 20;
  std::int64_t channels() const { return problem_.k + 12; }

  const ConvProblem problem_;
  const std::vector<float> scale_, bias_;
  std::vector<T> y_;
  bool stores_, is_affine_;
};
std::int64_t seconds_stored = 0;

/// What a pooling makes of y.
template <class T>
class Pooled {
 public:
  explicit Pooled(const SmallGemmCut& cut)
      : pool_(cut.pool),
        in_pairs_(cut.pairs.pooled),
        y_(static_cast<std::size_t>(pool_ ? pool_->y_size() : 0)) {
    std::memset(y_.data(), 0xff, y_.size() * sizeof(T));
  }
  cuda::SecondOutput output() {
    PoolCut cut;
    cut.problem = *pool_;
    return cuda::second_output(cut, {.y = y_.data()}, 0);
  }
  /// Of y as it was stored: the bits of a pooling task; in pairs without rests.
  std::int64_t wrong_numbers(const std::vector<T>& of) const {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < y_.size(); ++i) {
      const PoolProblem& a = *pool_;
      const auto at = static_cast<std::int64_t>(i), pixel = at / a.c;
      const std::int64_t top = pixel / a.q() % a.p() * a.stride_h - a.pad_h;
      const std::int64_t left = pixel % a.q() * a.stride_w - a.pad_w;
      const bool averages = a.mode == PoolMode::average;
      float result = averages ? 0 : -std::numeric_limits<float>::infinity();
      float count = 0;
      for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + a.r, a.h); ++h) {
        for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + a.s, a.w); ++w) {
          const std::int64_t x = ((pixel / a.q() / a.p() * a.h + h) * a.w + w) * a.c + at % a.c;
          const float number = to_float(of[static_cast<std::size_t>(x)]);
          result = averages ? result + number : std::max(result, number);
          ++count;
        }
      }
      const T expected = from_float<T>(averages ? result / count : result);
      wrong += !stores(expected, i);
    }
    return wrong;
  }

 private:
  bool stores(const T& expected, std::size_t i) const {
    if (!in_pairs_) return std::memcmp(&expected, &y_[i], sizeof expected) == 0;
    const auto row = static_cast<std::size_t>(pool_->q() * pool_->c);
    Float16 high;
    std::memcpy(&high,
                reinterpret_cast<const std::byte*>(y_.data()) + 2 * (i / row * 2 * row + i % row),
                sizeof high);
    return to_float(high) == to_float(from_float<Float16>(to_float(expected)));
  }

  const std::optional<PoolProblem> pool_;
  const bool in_pairs_;
  std::vector<T> y_;
};

/// Sums are right to that, relative to the sum of their magnitudes. Bias: as networks or as
/// convolutions by themselves have it.
template <class Products, class T, class Bias>
void check_with(const SmallGemmCut& cut, std::uint64_t seed, double bound, bool spread,
                const std::vector<float>& filter_factors = {}) {
  const ConvProblem& a = cut.problem;
  CAPTURE(to_string(cut), seed);
  const bool integers = seed % 2 == 0;
  std::vector<T> x = filled<T>(a.x_size(), seed, integers);
  if constexpr (sizeof(T) == 4) {
    if (spread) spread_magnitudes(a, x);
  }
  std::vector<T> w = filled<T>(a.w_size(), seed + 1, integers);
  if constexpr (sizeof(T) == 4) {
    for (std::size_t i = 0; i < w.size() && !filter_factors.empty(); ++i) {
      w[i] *= filter_factors[i / (w.size() / filter_factors.size())];
    }
  }
  const std::vector<T> residual = filled<T>(a.y_size(), seed + 2, integers);
  const std::vector<T> bias = filled<T>(a.k, seed + 3, integers);
  std::vector<double> truth(static_cast<std::size_t>(a.y_size())), magnitude(truth.size());
  reference_convolution(a,
                        {.x = x.data(),
                         .w = w.data(),
                         .bias = a.epilogue.bias ? bias.data() : nullptr,
                         .residual = a.epilogue.residual ? residual.data() : nullptr},
                        truth.data(), magnitude.data());

  const std::vector<std::byte> u = pack_filters(cut, reinterpret_cast<const std::byte*>(w.data()));
  constexpr ThreadOrder kOrders[] = {ThreadOrder::forward, ThreadOrder::backward,
                                     ThreadOrder::shuffled};
  CHECK(packed_on_device<Products>(cut, w, kOrders[seed % 3]) == u);
  std::vector<T> y(truth.size());
  std::memset(y.data(), 0xff, y.size() * sizeof(T));
  std::vector<std::uint16_t> y_pairs(cut.pairs.y ? 2 * y.size() : 0, 0xffff);
  std::optional<PairTensor> x_pairs, residual_pairs;
  if constexpr (sizeof(T) == 4) {
    if (x_in_pairs(cut)) x_pairs.emplace(x, a.w * a.c, seed);
    if (cut.pairs.inputs && a.epilogue.residual)
      residual_pairs.emplace(residual, a.q() * a.k, seed + 1);
  }
  const void* const given_residual =
      residual_pairs ? static_cast<const void*>(residual_pairs->halves().data()) : residual.data();
  // Tasks look for wide pairs only where some were stored before.
  const bool has_wide = x_pairs && x_pairs->has_wide();
  std::uint32_t wide_pairs = has_wide ? 1 : 0;
  cuda::SmallGemmArgs args =
      cuda::node_args(cut, {.residual = a.epilogue.residual ? given_residual : nullptr,
                            .y = cut.pairs.y ? static_cast<void*>(y_pairs.data()) : y.data(),
                            .u = u.data(),
                            .wide_pairs = &wide_pairs});
  Second<T> second(cut, seed / 4);
  seconds_stored += second.stores();
  Pooled<T> pooled(cut);
  args.second = cut.pool ? pooled.output() : second.output();
  std::vector<float> wide_bias;
  for (const T value : bias) wide_bias.push_back(to_float(value));
  const bool is_wide = std::is_same_v<Bias, float>;
  // What a kernel in front writes is there behind the wait. In networks it always is.
  constexpr bool kConstantsWait = std::is_same_v<Bias, typename Products::Stored>;
  std::vector<std::byte> late_u(u.size());
  std::vector<T> late_bias(bias.size());
  const auto hide_constants = [&] {
    std::fill(late_u.begin(), late_u.end(), std::byte{0xff});
    std::memset(late_bias.data(), 0xff, late_bias.size() * sizeof(T));
  };
  const auto wait = [&] {
    __syncthreads();
    if constexpr (kConstantsWait) {
      if (threadIdx.x == 0) late_u = u, late_bias = bias;
      __syncthreads();
    }
  };
  if constexpr (kConstantsWait) args.u = late_u.data();
  if (a.epilogue.bias) {
    args.bias = kConstantsWait ? static_cast<const void*>(late_bias.data())
                : is_wide      ? static_cast<const void*>(wide_bias.data())
                               : bias.data();
  }
  test::SmallGemmCluster cluster(cut);
  const auto run = [&](const SmallGemmCut& of) {
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      for (std::uint32_t block = 0; block < cut.tasks_per_group; block += cut.shares) {
        std::vector<cuda::SmallGemmShare> shares;
        for (std::uint32_t rank = 0; rank < cut.shares; ++rank) {
          shares.push_back(cuda::make_small_gemm_share(of, group, block + rank));
        }
        const ReadPixels reads(cut, shares.front());
        const std::vector<T> readable = reads.poisoned_beyond(x);
        args.x = readable.data();
        std::vector<std::uint16_t> readable_pairs;
        if (x_pairs) {
          readable_pairs = x_pairs->part(a.c, reads);
          args.x = readable_pairs.data();
        }
        hide_constants();
        cluster.run<cuda::SmallGemmTask<Products, Bias, kConstantsWait>>(args, shares,
                                                                         kOrders[seed % 3], wait);
      }
    }
  };
  run(cut);
  const bool as_halves = cut.pairs.y && !cut.pairs.rests;
  const std::int64_t wide_before = wide_stored;
  if constexpr (sizeof(T) == 4) {
    if (cut.pairs.y) {
      y = PairTensor::numbers(y_pairs, a.q() * a.k, cut.pairs.rests, wide_stored);
      CHECK((wide_pairs != 0) == (has_wide || wide_stored > wide_before));
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double relative = sizeof(T) == 2 ? 0x1p-8
                            : as_halves    ? 0x1p-11
                            : cut.pairs.y  ? 0x1p-16
                                           : 0;
    // What is small beside others of its tile, or of another one.
    const bool all_wide = wide_stored - wide_before == std::ssize(y);
    const double absolute = cut.pairs.y && !all_wide ? 0x1p-25 : 0;
    const double rounding = integers ? 0 : std::fabs(truth[i]) * relative + absolute;
    const auto rounded = static_cast<float>(truth[i]);
    const double stored = integers && sizeof(T) == 2 ? to_float(from_float<T>(rounded))
                          : integers && as_halves    ? to_float(from_float<Float16>(rounded))
                                                     : truth[i];
    const double error = std::fabs(to_float(y[i]) - stored);
    const double slope = error_of(a.epilogue.activation).slope;
    const double allowed = integers ? 0 : slope * bound * magnitude[i] + rounding;
    const bool wrong = !(error <= allowed);
    if (wrong) worst = std::isnan(error) ? 1e30 : std::max(worst, error - allowed);
  }
  CHECK(worst == 0);
  CHECK(second.wrong_numbers(y) == 0);
  CHECK(pooled.wrong_numbers(y) == 0);
  if (!cut.pool) return;
  SmallGemmCut pools_only = cut;
  pools_only.stores_y = false;
  Pooled<T> only(cut);
  args.second = only.output();
  args.y = nullptr;  // nobody writes there
  run(pools_only);
  CHECK(only.wrong_numbers(y) == 0);
}

template <class Products, class T>
void check(const SmallGemmCut& cut, std::uint64_t seed, double bound, bool spread = false) {
  if (seed % 4 < 2) return check_with<Products, T, float>(cut, seed, bound, spread);
  check_with<Products, T, typename Products::Stored>(cut, seed, bound, spread);
}

/// In TF32, of filters of which every fifth has the second magnitude.
void check_magnitudes(const SmallGemmCut& cut, float of_filters, float of_fifth) {
  std::vector<float> factors;
  for (std::int64_t k = 0; k < cut.problem.k; ++k) {
    factors.push_back(k % 5 == 4 ? of_fifth : of_filters);
  }
  check_with<cuda::PairTensorProducts, float, float>(cut, 1, 0x1p-10, false, factors);
}

void check_precision(const SmallGemmCut& cut, std::uint64_t seed, bool spread = false) {
  switch (cut.precision) {
    case Precision::f32:
      return check<cuda::PairProducts, float>(cut, seed, 0x1p-20, spread);
    case Precision::tf32:
      if (!cut.pairs.inputs) return check<cuda::Tf32Products, float>(cut, seed, 0x1p-10, spread);
      return check_with<cuda::PairTensorProducts, float, float>(cut, seed, 0x1p-10, spread);
    case Precision::f16:
      return check<cuda::HalfProducts, Float16>(cut, seed, 0x1p-16);
    case Precision::bf16:
      return check<cuda::Bfloat16Products, Bfloat16>(cut, seed, 0x1p-16);
  }
}

/// Tensors in pairs, where they can be.
PairTensors pairs_for(const ConvProblem& problem, Precision precision, test::Dice& dice) {
  const bool can = can_store_pairs(problem) || !problem.epilogue.residual;
  if (precision != Precision::tf32 || !can || dice.between(0, 3) == 0) return {};
  PairTensors pairs{.inputs = true, .y = can_store_pairs(problem) && dice.between(0, 3) > 0};
  pairs.rests = pairs.y && dice.between(0, 1) == 0;
  return pairs;
}

TEST_CASE("emulated CUDA: small-tile implicit GEMM is right, and exact on integers") {
  wide_stored = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    test::Dice dice(seed);
    const auto between = [&](auto least, auto most) { return dice.between(least, most); };
    ConvProblem problem;
    problem.layout = Layout::nhwc;
    constexpr Precision kPrecisions[] = {Precision::f32, Precision::tf32, Precision::f16,
                                         Precision::bf16};
    const Precision precision = kPrecisions[between(0, 3)];
    problem.dtype = precision == Precision::f16    ? DataType::f16
                    : precision == Precision::bf16 ? DataType::bf16
                                                   : DataType::f32;
    problem.n = between(1, 2);
    problem.groups = between(0, 3) == 0 ? between(2, 6) : 1;
    const std::int64_t step = between(0, 2) == 0 ? 1 : 8;
    problem.c = problem.groups * step * between(1, 48 / step / problem.groups + 1);
    problem.k = problem.groups * between(1, 48 / problem.groups);
    if (between(0, 7) == 0) problem.k = problem.groups = problem.c;
    problem.h = between(5, 12);
    problem.w = between(5, 17);
    problem.r = between(1, 3);
    problem.s = between(1, 3);
    problem.dilation_h = between(1, 2);
    problem.dilation_w = between(1, 2);
    problem.pad_h = between(0, std::min<std::int64_t>(2, problem.filter_extent_h() - 1));
    problem.pad_w = between(0, std::min<std::int64_t>(2, problem.filter_extent_w() - 1));
    problem.stride_h = between(1, 3);
    problem.stride_w = between(1, 3);
    problem.epilogue.bias = between(0, 1) == 0;
    const Activation activations[] = {{},    kRelu, clamp(-0.5f, 1.5f), leaky_relu(0.25f),
                                      kSilu, kGelu, kHardSwish};
    problem.epilogue.activation = activations[between(0, seed % 2 == 0 ? 3 : 6)];  // even: exact
    problem.epilogue.residual = between(0, 1) == 0;
    SmallGemmCut cut =
        cut_small_gemm(problem, precision, {static_cast<std::uint32_t>(between(1, 64))});
    cut.pairs = pairs_for(problem, precision, dice);
    derive_counts(cut);
    if (between(0, 1) == 0) {  // another one
      constexpr std::uint32_t kWarps[][3] = {{1, 1, 8}, {1, 2, 4}, {2, 1, 4}, {2, 2, 2},
                                             {1, 4, 2}, {2, 4, 1}, {1, 8, 1}};
      const auto& warps = kWarps[between(0, 6)];
      cut.filter_warps = warps[0];
      cut.pixel_warps = warps[1];
      cut.sum_warps = warps[2];
      cut.cols_per_group = static_cast<std::uint32_t>(between(1, problem.q()));
      cut.rows_per_group =
          static_cast<std::uint32_t>(between(1, std::min<std::int64_t>(problem.p(), 4)));
      while (cut.cols_per_group * cut.rows_per_group > 32 * warps[1]) {
        std::uint32_t& side = cut.rows_per_group > 1 ? cut.rows_per_group : cut.cols_per_group;
        side = ceil_div(side, 2u);
      }
      derive_counts(cut);
    }
    check_precision(cut, seed);
  }
  CHECK(seconds_stored > 10);
}

#if __CUDA_ARCH__ >= 900
TEST_CASE("emulated CUDA: tasks that share sums are right, and exact on integers") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    test::Dice dice(seed);
    const auto between = [&](auto least, auto most) { return dice.between(least, most); };
    const std::uint32_t shares = between(0, 1) == 0 ? 2 : 4;
    ConvProblem problem;
    problem.layout = Layout::nhwc;
    constexpr Precision kPrecisions[] = {Precision::f32, Precision::tf32, Precision::f16,
                                         Precision::bf16};
    const Precision precision = kPrecisions[between(0, 3)];
    problem.dtype = precision == Precision::f16    ? DataType::f16
                    : precision == Precision::bf16 ? DataType::bf16
                                                   : DataType::f32;
    problem.n = between(1, 2);
    problem.c = (shares - 1) * kStepNumbers + between(1, 150);  // also shares of zeros alone
    if (between(0, 1) == 0) problem.c = problem.c / 8 * 8 + 8;
    problem.h = between(2, 7);
    problem.w = between(2, 9);
    problem.r = problem.s = between(0, 1) == 0 ? 1 : 3;
    problem.pad_h = problem.pad_w = problem.r / 2;
    problem.stride_h = problem.stride_w = between(1, 2);
    problem.epilogue.bias = between(0, 1) == 0;
    problem.epilogue.residual = between(0, 1) == 0;
    if (between(0, 1) == 0) problem.epilogue.activation = kRelu;
    constexpr std::uint32_t kWarps[][3] = {{8, 1, 1}, {4, 2, 1}, {4, 1, 2}, {2, 2, 2},
                                           {2, 1, 4}, {1, 2, 4}, {1, 1, 8}, {1, 8, 1}};
    const auto& warps = kWarps[between(0, 7)];
    SmallGemmCut cut{.problem = problem, .precision = precision};
    cut.pairs = pairs_for(problem, precision, dice);
    cut.filter_warps = warps[0];
    cut.pixel_warps = warps[1];
    cut.sum_warps = warps[2];
    cut.shares = shares;
    cut.shared_bytes = 110 << 10;
    cut.problem.k = cut.filters_per_task() * between(1, 2);
    cut.cols_per_group = static_cast<std::uint32_t>(between(1, problem.q()));
    cut.rows_per_group = static_cast<std::uint32_t>(between(1, problem.p()));
    while (cut.cols_per_group * cut.rows_per_group > 32 * warps[1]) {
      std::uint32_t& side = cut.rows_per_group > 1 ? cut.rows_per_group : cut.cols_per_group;
      side = ceil_div(side, 2u);
    }
    if (!fits(cut)) continue;
    derive_counts(cut);
    check_precision(cut, seed, seed % 2 == 1 && between(0, 1) == 0);
  }
}

TEST_CASE("emulated CUDA: tasks that share sums follow each other with a barrier of each block") {
  // One cluster runs all of them, with what they leave in shared memory, and barriers that count
  // on.
  const ConvProblem problem = parse_problem("n2c200h6w5k64r3s3p1+nhwc+f16");
  SmallGemmCut cut{.problem = problem, .precision = Precision::f16, .rows_per_group = 2};
  cut.cols_per_group = 5;
  cut.filter_warps = cut.sum_warps = 2;
  cut.pixel_warps = 2;
  cut.shares = 4;
  derive_counts(cut);
  const std::vector<Float16> x = filled<Float16>(problem.x_size(), 2, true);
  const std::vector<Float16> w = filled<Float16>(problem.w_size(), 3, true);
  std::vector<double> truth(static_cast<std::size_t>(problem.y_size()));
  reference_convolution(problem, {.x = x.data(), .w = w.data()}, truth.data());
  const std::vector<std::byte> u = pack_filters(cut, reinterpret_cast<const std::byte*>(w.data()));
  for (const ThreadOrder order :
       {ThreadOrder::forward, ThreadOrder::backward, ThreadOrder::shuffled}) {
    std::vector<Float16> y(truth.size());
    const cuda::SmallGemmArgs args =
        cuda::node_args(cut, {.x = x.data(), .y = y.data(), .u = u.data()});
    std::vector<std::byte> shared(cut.shares * test::kClusterSharedBytes, std::byte{0xff});
    test::set_shared_memory(shared.data());
    std::vector<cuda::FilterStages::Shared> arrivals(cut.shares);
    test::run_cluster(4, cuda::kSmallGemmThreads, order, [&] {
      std::byte* const own = shared.data() + blockIdx.x * test::kClusterSharedBytes;
      std::byte* const end = own + test::kClusterSharedBytes;
      cuda::FilterStages filters(arrivals[blockIdx.x]);
      const cuda::SumExchange exchange(*(reinterpret_cast<cuda::SumExchange::Shared*>(end) - 1));
      for (std::uint32_t task = blockIdx.x; task < cut.num_groups * cut.tasks_per_group;
           task += 4) {
        __syncthreads();
        const cuda::SmallGemmShare share = cuda::make_small_gemm_share(
            cut, task / cut.tasks_per_group, task % cut.tasks_per_group);
        cuda::SmallGemmTask<cuda::HalfProducts>::run(
            args, share, reinterpret_cast<char*>(own), filters, exchange,
            [](const void* tensor) { return tensor; }, [] { __syncthreads(); }, [](TaskPhase) {});
      }
    });
    bool right = true;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      right = right && y[i].bits == from_float<Float16>(static_cast<float>(truth[i])).bits;
    }
    CHECK(right);
  }
}
#endif

TEST_CASE("emulated CUDA: tasks of small tiles pool their outputs, with the bits of poolings") {
  int beyond = 0, shared = 0, in_pairs = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    test::Dice dice(seed);
    const auto between = [&](auto least, auto most) { return dice.between(least, most); };
    const bool is_half = between(0, 1) == 0;
    ConvProblem problem;
    problem.n = between(1, 2);
    problem.c = between(1, 80);
    problem.h = between(5, 13);
    problem.layout = Layout::nhwc;
    problem.dtype = is_half ? DataType::f16 : DataType::f32;
    problem.w = between(5, 13);
    problem.k = 4 * between(1, 12);
    problem.r = problem.s = 2 * between(0, 1) + 1;
    problem.pad_h = problem.pad_w = between(0, problem.r - 1);
    problem.epilogue.activation = between(0, 1) == 0 ? kRelu : Activation{};
    PoolProblem pool{.mode = between(0, 1) == 0 ? PoolMode::max : PoolMode::average};
    pool.n = problem.n;
    pool.c = problem.k;
    pool.h = problem.p();
    pool.w = problem.q();
    pool.layout = problem.layout;
    pool.dtype = problem.dtype;
    if (between(0, 4) == 0) {
      pool.r = pool.h, pool.s = pool.w;
    } else {
      pool.r = between(1, std::min<std::int64_t>(3, pool.h));
      pool.s = between(1, std::min<std::int64_t>(3, pool.w));
      pool.pad_h = between(0, pool.r - 1);
      pool.pad_w = between(0, pool.s - 1);
      pool.stride_h = between(1, 3);
      pool.stride_w = between(1, 3);
    }
    problem.epilogue.residual = between(0, 1) == 0;
    if (!can_pool(problem, pool)) continue;
    const Precision precision = is_half              ? Precision::f16
                                : between(0, 1) == 0 ? Precision::f32
                                                     : Precision::tf32;
    SmallGemmCut cut;
    try {
      const auto multiprocessors = static_cast<std::uint32_t>(between(1, 64));
      cut = cut_small_gemm(problem, precision, {multiprocessors}, {}, pool);
    } catch (const Error&) {  // a whole image may be too large for a tile, or reach beyond it
      continue;
    }
#if __CUDA_ARCH__ >= 900
    SmallGemmCut in_clusters = cut;
    in_clusters.shares = 2;
    if (can_share(in_clusters) && fits(in_clusters)) derive_counts(cut = in_clusters);
#endif
    if (precision == Precision::tf32 && can_store_pairs(problem) && between(0, 2) > 0) {
      cut.pairs = {.inputs = true, .pooled = between(0, 3) > 0};
      derive_counts(cut);
    }
    in_pairs += cut.pairs.pooled;
    beyond += computed_pixels(cut) > std::int64_t{cut.rows_per_group} * cut.cols_per_group;
    shared += cut.shares > 1;
    check_precision(cut, seed);
  }
  CHECK(beyond > 20);
  CHECK(in_pairs > 5);
  CHECK(shared >= (__CUDA_ARCH__ >= 900 ? 5 : 0));
}

TEST_CASE("emulated CUDA: small-tile implicit GEMM reads nothing that it has not said") {
  // Two K blocks of three rows of five; whole rows of the filter, of which a step has more columns.
  const ConvProblem rows = parse_problem("n2c48h7w7k64r5s5p2+nhwc");
  const SmallGemmCut cut = cut_small_gemm(rows, Precision::f32, {132});
  CHECK(steps_of(cut).row_blocks * steps_of(cut).taps_h > rows.r);
  check<cuda::PairProducts, float>(cut, 1, 0x1p-20);
  const ConvProblem cols = parse_problem("n1c3h9w23k16r3s3p1+nhwc");
  SmallGemmCut of_cols{.problem = cols, .precision = Precision::tf32, .cols_per_group = 8};
  derive_counts(of_cols);
  CHECK(steps_of(of_cols).whole_rows);
  check<cuda::Tf32Products, float>(of_cols, 1, 0x1p-10);
}

TEST_CASE("emulated CUDA: small-tile implicit GEMM takes floats of any magnitude") {
  wide_stored = 0;
  // The last one's x comes as floats, not in pairs.
  for (const std::string shape :
       {"n1c384h3w4k20r3s3p1+nhwc", "n1c3000h1w1k20r1s1p0+nhwc",
        "n1c384h3w4k24r3s3p1+nhwc+residual", "n1c381h3w4k24r3s3p1+nhwc"}) {
    const ConvProblem problem = parse_problem(shape);
    for (const std::uint32_t filters : {1u, 2u}) {
      const auto cut = [&](Precision precision, const PairTensors& pairs = {}) {
        SmallGemmCut made{.problem = problem, .precision = precision};
        made.pairs = pairs;
        made.cols_per_group = static_cast<std::uint32_t>(problem.q());
        made.filter_warps = filters;
        made.sum_warps = SmallGemmCut::kWarps / filters;
        derive_counts(made);
        return made;
      };
      CHECK(steps_of(cut(Precision::f32)).k_blocks() > 1);
      check<cuda::PairProducts, float>(cut(Precision::f32), 1, 0x1p-20, true);
      check<cuda::Tf32Products, float>(cut(Precision::tf32), 1, 0x1p-10, true);
      const PairTensors inputs{.inputs = true};
      check<cuda::PairTensorProducts, float>(cut(Precision::tf32, inputs), 1, 0x1p-10, true);
      if (!can_store_pairs(problem)) continue;
      for (const bool rests : {false, true}) {
        const PairTensors all{.inputs = true, .y = true, .rests = rests};
        check<cuda::PairTensorProducts, float>(cut(Precision::tf32, all), 1, 0x1p-10, true);
      }
    }
  }
  CHECK(wide_stored > 100);
}

TEST_CASE("emulated CUDA: small-tile implicit GEMM stores pairs as wide as they need be") {
  const ConvProblem problem = parse_problem("n1c64h4w5k64r1s1p0+nhwc");
  const auto wide_of = [&](float least, float most) {
    SmallGemmCut cut{.problem = problem, .precision = Precision::tf32};
    cut.pairs = {.inputs = true, .y = true};
    cut.cols_per_group = 5;
    derive_counts(cut);
    wide_stored = 0;
    check_magnitudes(cut, least, most);
    return wide_stored;
  };
  CHECK(wide_of(0, 0) == 0);
  CHECK(wide_of(1, 1) == 0);
  CHECK(wide_of(0x1p-30f, 1) == 0);            // small beside others of its tile
  CHECK(wide_of(0x1p-30f, 0x1p-30f) == 1280);  // all of them
  CHECK(wide_of(0x1p20f, 0x1p20f) == 1280);
  CHECK(wide_of(1, 0x1p20f) > 0);
  CHECK(wide_of(1, 0x1p20f) < 1280);
}

}  // namespace
}  // namespace megaconv
