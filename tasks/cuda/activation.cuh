// SPDX-License-Identifier: Apache-2.0
// The activation of an epilogue, on sums of a thread.
#pragma once

#include "tasks/activation.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

/// NaN stays.
__device__ inline float clamped(float least, float most, float v) {
  const float raised = v < least ? least : v;
  return raised > most ? most : raised;
}

/// Activations that are no straight lines.
__device__ inline float gated(const ActivationTerms& terms, float v) {
  const float size = fabsf(v);
  float share;
  if (terms.bend == Bend::line) {
    share = clamped(0, 1, fmaf(terms.alpha, v, terms.beta));
  } else {
    float far;  // the gate of -|x|
    if (terms.bend == Bend::logistic) {
      const float bounded = size > kFarthest ? kFarthest : size;
      const float power = __expf(-bounded * fmaf(terms.beta, bounded * bounded, terms.alpha));
      far = __fdividef(power, 1 + power);
    } else {
      const float t = __fdividef(1, fmaf(kErfStep, size, 1));
      const float sum = fmaf(fmaf(fmaf(fmaf(kErf5, t, kErf4), t, kErf3), t, kErf2), t, kErf1) * t;
      far = 0.5f * sum * __expf(-0.5f * size * size);
    }
    share = v < 0 ? far : 1 - far;
  }
  if (!terms.times_x) return share;
  return share == 0 ? 0 : v * share;
}

/// The same of four sums. Out of line: most layers have none, and a copy for each of a tile's
/// would push the code that they need out of the instruction cache. All by value: what has an
/// address would be in local memory, which takes longer than a tile.
__device__ __noinline__ inline Vec<4> gated(ActivationTerms terms, Vec<4> values) {
#pragma unroll
  for (float& value : values.lane) value = gated(terms, value);
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
/// Many at once ask once whether something bends them.
template <int kWidth>
__device__ inline void activate(const ActivationTerms& terms, float (&values)[kWidth]) {
  if (terms.bend == Bend::none) [[likely]] {
#pragma unroll
    for (float& value : values) value = cut_off(terms, value);
  } else if (terms.bend == Bend::slope) {
#pragma unroll
    for (float& value : values) value = value < 0 ? terms.slope * value : value;
  } else {
#pragma unroll
    for (int first = 0; first < kWidth; first += 4) {
      Vec<4> four = zero<4>();
#pragma unroll
      for (int i = 0; i < 4 && first + i < kWidth; ++i) four.lane[i] = values[first + i];
      four = gated(terms, four);
#pragma unroll
      for (int i = 0; i < 4 && first + i < kWidth; ++i) values[first + i] = four.lane[i];
    }
  }
}
__device__ inline float activate(const ActivationTerms& terms, float v) {
  float values[] = {v};
  activate(terms, values);
  return values[0];
}

}  // namespace megaconv::cuda
