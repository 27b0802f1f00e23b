// SPDX-License-Identifier: Apache-2.0
#include "tasks/reference.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "tasks/activation.hpp"
#include "tasks/ceil_div.hpp"
#include "tasks/strides.hpp"
#include "tasks/tile_errors.hpp"

namespace megaconv {
namespace {

// One image and one conv group, in double. Filters are the lanes, several pixels share a load of
// them: a register block of kPixels x kLanes sums, and as many of absolute values.
constexpr int kPixels = 4;
constexpr int kLanes = 4;
using Sums = double[kPixels][kLanes];

/// Offsets into x [C][H + 2 pad][W + 2 pad], and the sums of kPixels outputs over all C R S terms.
struct Patch {
  const double* x;
  std::int64_t channels, plane;
  std::vector<std::int64_t> taps;  // R S

  template <bool kAbsolute>
  void multiply(const std::int64_t (&pixels)[kPixels], const double* w, Sums& result) const {
    Sums sums = {};
    for (std::int64_t c = 0; c < channels; ++c) {
      for (const std::int64_t tap : taps) {
        const double* at = x + c * plane + tap;
        for (int i = 0; i < kPixels; ++i) {
          const double value = kAbsolute ? std::fabs(at[pixels[i]]) : at[pixels[i]];
          for (int j = 0; j < kLanes; ++j) {
            sums[i][j] += value * (kAbsolute ? std::fabs(w[j]) : w[j]);
          }
        }
        w += kLanes;
      }
    }
    std::copy(&sums[0][0], &sums[0][0] + kPixels * kLanes, &result[0][0]);
  }
};

/// Calls body(i) for i in [0, count) on all CPUs, or on as many threads as the system grants.
template <class Body>
void parallel_for(std::int64_t count, const Body& body) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i);
  };
  std::vector<std::jthread> threads;
  const auto num_cpus = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  try {
    for (std::int64_t i = 1; i < std::min(count, num_cpus); ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
  }
  work();
}

template <class T>
void convolve(const ConvProblem& problem, const Tensors& tensors, double* y, double* magnitude) {
  const auto typed = [](const void* tensor) { return static_cast<const T*>(tensor); };
  const T *const x = typed(tensors.x), *const w = typed(tensors.w);
  using Vector = typename VectorStorage<T>::Type;
  const auto* const scale = static_cast<const Vector*>(tensors.scale);
  const auto* const bias = static_cast<const Vector*>(tensors.bias);
  const T* const residual = typed(tensors.residual);
  const std::int64_t channels = problem.c / problem.groups, filters = problem.k / problem.groups;
  const std::int64_t num_taps = problem.r * problem.s, num_pixels = problem.p() * problem.q();
  const Strides in = x_strides(problem), filter = w_strides(problem);
  const Strides out = y_strides(problem, num_pixels);
  const std::int64_t padded_w = problem.w + 2 * problem.pad_w;
  const std::int64_t plane = (problem.h + 2 * problem.pad_h) * padded_w;
  const std::int64_t blocks_per_group = ceil_div<std::int64_t>(filters, kLanes);

  // wd [groups][filter block][C][R S][kLanes]; xd [N][C][H + 2 pad_h][W + 2 pad_w]
  std::vector<double> wd(problem.groups * blocks_per_group * channels * num_taps * kLanes);
  for (std::int64_t k = 0; k < problem.k; ++k) {
    const std::int64_t block = k / filters * blocks_per_group + k % filters / kLanes;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t tap = 0; tap < num_taps; ++tap) {
        wd[((block * channels + c) * num_taps + tap) * kLanes + k % filters % kLanes] =
            to_float(w[filter.at(k, c, tap)]);
      }
    }
  }
  std::vector<double> xd(problem.n * problem.c * plane);
  for (std::int64_t n = 0; n < problem.n; ++n) {
    for (std::int64_t c = 0; c < problem.c; ++c) {
      for (std::int64_t h = 0; h < problem.h; ++h) {
        for (std::int64_t col = 0; col < problem.w; ++col) {
          xd[(n * problem.c + c) * plane + (h + problem.pad_h) * padded_w + col + problem.pad_w] =
              to_float(x[in.at(n, c, h * problem.w + col)]);
        }
      }
    }
  }
  std::vector<std::int64_t> taps;
  for (std::int64_t r = 0; r < problem.r; ++r) {
    for (std::int64_t s = 0; s < problem.s; ++s) {
      taps.push_back(r * problem.dilation_h * padded_w + s * problem.dilation_w);
    }
  }

  const auto store = [&](std::int64_t n, std::int64_t k, std::int64_t pixel, double sum,
                         double abs_sum) {
    const double products = sum;
    const std::int64_t at = out.at(n, k, pixel);
    if (problem.epilogue.scale) {
      const double factor = to_float(scale[k]);
      sum *= factor;
      abs_sum *= std::fabs(factor);
    }
    if (problem.epilogue.bias) {
      const double term = to_float(bias[k]);
      sum += term;
      abs_sum += std::fabs(term);
    }
    if (problem.epilogue.residual) {
      const double term = to_float(residual[at]);
      sum += term;
      abs_sum += std::fabs(term);
    }
    if constexpr (std::is_same_v<T, Int8>) {
      float value = std::fma(static_cast<float>(products), problem.epilogue.scale ? scale[k] : 1,
                             problem.epilogue.bias ? bias[k] : 0);
      if (problem.epilogue.residual) value += to_float(residual[at]);
      sum = static_cast<double>(value);
    }
    y[at] = activated(problem.epilogue.activation, sum);
    if (std::is_same_v<T, Int8>) y[at] = static_cast<double>(static_cast<float>(y[at]));
    if (magnitude != nullptr) {
      magnitude[at] = abs_sum + error_of(problem.epilogue.activation).offset;
    }
  };
  const std::int64_t num_blocks = problem.groups * blocks_per_group;
  parallel_for(problem.n * num_blocks, [&](std::int64_t job) {
    const std::int64_t n = job / num_blocks, block = job % num_blocks;
    const std::int64_t group = block / blocks_per_group;
    const std::int64_t first = block % blocks_per_group * kLanes;  // filter within the group
    const Patch patch{xd.data() + (n * problem.c + group * channels) * plane, channels, plane,
                      taps};
    const double* wd_block = wd.data() + block * channels * num_taps * kLanes;
    for (std::int64_t pixel = 0; pixel < num_pixels; pixel += kPixels) {
      std::int64_t offsets[kPixels];
      for (int i = 0; i < kPixels; ++i) {
        const std::int64_t at = std::min(pixel + i, num_pixels - 1);
        offsets[i] =
            at / problem.q() * problem.stride_h * padded_w + at % problem.q() * problem.stride_w;
      }
      Sums sums, abs_sums = {};
      patch.multiply<false>(offsets, wd_block, sums);
      if (magnitude != nullptr) patch.multiply<true>(offsets, wd_block, abs_sums);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(kPixels, num_pixels - pixel); ++i) {
        for (std::int64_t j = 0; j < std::min<std::int64_t>(kLanes, filters - first); ++j) {
          store(n, group * filters + first + j, pixel + i, sums[i][j], abs_sums[i][j]);
        }
      }
    }
  });
}

}  // namespace

void reference_convolution(const ConvProblem& problem, const Tensors& tensors, double* y,
                           double* magnitude) {
  with_storage(problem.dtype,
               [&](auto number) { convolve<decltype(number)>(problem, tensors, y, magnitude); });
}

void fill(std::span<float> values, const Filling& filling, std::uint64_t seed) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = filling.at(seed, i);
}

void fill(DataType dtype, void* values, std::int64_t count, const Filling& filling,
          std::uint64_t seed) {
  with_storage(dtype, [&](auto number) {
    using T = decltype(number);
    for (std::int64_t i = 0; i < count; ++i) {
      static_cast<T*>(values)[i] = from_float<T>(filling.at(seed, static_cast<std::uint64_t>(i)));
    }
  });
}

RandomData::RandomData(const ConvProblem& problem) {
  const bool quantised = problem.dtype == DataType::i8 && problem.epilogue.scale;
  const float size = quantised ? 40 : 1;
  const auto terms = static_cast<float>(num_terms(problem));
  x = {.kind = Filling::Kind::relu_normal, .multiple = size};
  w = bias = residual = {.kind = Filling::Kind::normal, .multiple = size};
  scale = {.kind = Filling::Kind::normal,
           .multiple = quantised ? 1 / (size * std::sqrt(terms)) : 1};
}

void fill_normal(std::span<float> values, std::uint64_t seed) {
  fill(values, {.kind = Filling::Kind::normal}, seed);
}

void fill_integers(std::span<float> values, std::uint64_t seed, double density, float multiple) {
  fill(values, {.kind = Filling::Kind::integers, .density = density, .multiple = multiple}, seed);
}

ErrorReport compare(const Tiling& tiling, const void* y, const double* reference,
                    const double* magnitude) {
  return with_storage(tiling.problem.dtype, [&](auto number) {
    using T = decltype(number);
    const TileErrors<T> errors_of(tiling, static_cast<const T*>(y), reference, magnitude);
    ErrorSums sums;
    for (std::int64_t tile = 0; tile < errors_of.num_tiles(); ++tile) sums += errors_of(tile);
    return report(tiling, sums);
  });
}

Mismatch mismatch(DataType dtype, const void* y, const double* reference, std::int64_t count) {
  return with_storage(dtype, [&](auto number) {
    using T = decltype(number);
    const Differs<T> differs{static_cast<const T*>(y), reference};
    Mismatch found;
    for (std::int64_t i = count; i-- > 0;) {
      if (!differs(i)) continue;
      found.first = i;
      ++found.count;
    }
    return found;
  });
}

ErrorReport report(const Tiling& tiling, const ErrorSums& sums) {
  const double scale =
      std::max(sums.reference_squares,
               4 * sums.magnitude_squares / static_cast<double>(num_terms(tiling.problem)));
  return {.relative_l2 = sums.error_squares == 0 ? 0 : std::sqrt(sums.error_squares / scale),
          .worst_element = sums.worst,
          .worst_index = sums.worst_index};
}

std::string to_string(const ErrorReport& report) {
  char text[128];
  std::snprintf(text, sizeof text, "relative L2 %.1e, worst element %.1f u S at %lld",
                report.relative_l2, report.worst_element,
                static_cast<long long>(report.worst_index));
  return text;
}

}  // namespace megaconv
