// SPDX-License-Identifier: Apache-2.0
// The activation of an epilogue, on sums of a thread.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "tasks/activation.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

/// NaN stays.
__device__ inline float clamped(float least, float most, float v) {
  const float raised = v < least ? least : v;
  return raised > most ? most : raised;
}

/// Activations that bend something, of several sums side by side: each alone would be a long chain.
/// Out of line: most layers have none, and what they never reach keeps their code from the
/// instruction cache. All by value: what has an address would be in local memory, which takes
/// longer than a tile.
template <int kCount>
__device__ __noinline__ Vec<kCount> bent(ActivationTerms terms, Vec<kCount> values) {
  const auto for_all = [&](const auto& activated) {
#pragma unroll
    for (float& v : values.lane) v = activated(v);
  };
  const auto gated = [&](float v, float share) {
    if (!terms.times_x) return share;
    return share == 0 ? 0 : v * share;
  };
  // By the gate of -|x|.
  const auto gated_by = [&](float v, float far) { return gated(v, v < 0 ? far : 1 - far); };
  if (terms.bend == Bend::slope) {
    for_all([&](float v) { return v < 0 ? terms.slope * v : v; });
  } else if (terms.bend == Bend::line) {
    for_all([&](float v) { return gated(v, clamped(0, 1, fmaf(terms.alpha, v, terms.beta))); });
  } else if (terms.bend == Bend::logistic) {
    for_all([&](float v) {
      const float size = fabsf(v), bounded = size > kFarthest ? kFarthest : size;
      const float power = __expf(-bounded * fmaf(terms.beta, bounded * bounded, terms.alpha));
      return gated_by(v, __fdividef(power, 1 + power));
    });
  } else {
    for_all([&](float v) {
      const float size = fabsf(v), t = __fdividef(1, fmaf(kErfStep, size, 1));
      const float sum = fmaf(fmaf(fmaf(fmaf(kErf5, t, kErf4), t, kErf3), t, kErf2), t, kErf1) * t;
      return gated_by(v, 0.5f * sum * __expf(-0.5f * size * size));
    });
  }
  return values;
}
/// Of one that nothing bends: on tensor cores' machines a zero may change its sign.
__device__ inline float cut_off(const ActivationTerms& terms, float v) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(terms.least));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(terms.most));
  return v;
#else
  return clamped(terms.least, terms.most, v);
#endif
}
/// Whether it changes what lies within its bounds, and whether it has any.
__device__ inline bool bends(const ActivationTerms& terms) { return terms.bend != Bend::none; }
__device__ inline bool cuts_off(const ActivationTerms& terms) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return terms.least > -kInfinity || terms.most < kInfinity;
}
/// Of two numbers of 16 bits at once, which a word has. They may be rounded before: that keeps
/// their order.
template <class Number>
__device__ inline std::uint32_t cut_off(const ActivationTerms& terms, std::uint32_t numbers) {
  using Pair = std::conditional_t<std::is_same_v<Number, __half>, __half2, __nv_bfloat162>;
  const auto least = static_cast<Number>(terms.least), most = static_cast<Number>(terms.most);
  Pair pair = *reinterpret_cast<const Pair*>(&numbers);
  pair = __hmin2_nan(__hmax2_nan(pair, Pair(least, least)), Pair(most, most));
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
/// Many at once ask once whether something bends them, or cuts them off.
template <int kWidth>
__device__ inline void activate(const ActivationTerms& terms, float (&values)[kWidth]) {
  if (!bends(terms)) [[likely]] {
    if (!cuts_off(terms)) return;
#pragma unroll
    for (float& value : values) value = cut_off(terms, value);
  } else {
    constexpr int kAtOnce = kWidth % 8 == 0 ? 8 : kWidth % 4 == 0 ? 4 : kWidth % 2 == 0 ? 2 : 1;
#pragma unroll
    for (int first = 0; first < kWidth; first += kAtOnce) {
      Vec<kAtOnce> some;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) some.lane[i] = values[first + i];
      some = bent(terms, some);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) values[first + i] = some.lane[i];
    }
  }
}
__device__ inline float activate(const ActivationTerms& terms, float v) {
  float values[] = {v};
  activate(terms, values);
  return values[0];
}

}  // namespace megaconv::cuda
