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

/// Activations that are no straight lines. Out of line: most sums have none.
__device__ __noinline__ inline float gated(Bend gate, bool times_x, float alpha, float beta,
                                           float v) {
  const float size = fabsf(v);
  float share;
  if (gate == Bend::line) {
    share = clamped(0, 1, fmaf(alpha, v, beta));
  } else {
    float far;  // the gate of -|x|
    if (gate == Bend::logistic) {
      const float bounded = size > kFarthest ? kFarthest : size;
      const float power = __expf(-bounded * fmaf(beta, bounded * bounded, alpha));
      far = __fdividef(power, 1 + power);
    } else {
      const float t = __fdividef(1, fmaf(kErfStep, size, 1));
      const float sum = fmaf(fmaf(fmaf(fmaf(kErf5, t, kErf4), t, kErf3), t, kErf2), t, kErf1) * t;
      far = 0.5f * sum * __expf(-0.5f * size * size);
    }
    share = v < 0 ? far : 1 - far;
  }
  if (!times_x) return share;
  return share == 0 ? 0 : v * share;
}

/// Of a sum that something bends.
__device__ inline float bent(const ActivationTerms& terms, float v) {
  if (terms.bend == Bend::slope) return v < 0 ? terms.slope * v : v;
  return gated(terms.bend, terms.times_x, terms.alpha, terms.beta, v);
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
__device__ inline float activate(const ActivationTerms& terms, float v) {
  return terms.bend == Bend::none ? cut_off(terms, v) : bent(terms, v);
}
/// Many at once: a branch for each would take as long as storing them.
template <int kWidth>
__device__ inline void activate(const ActivationTerms& terms, float (&values)[kWidth]) {
  if (terms.bend == Bend::none) {
#pragma unroll
    for (float& value : values) value = cut_off(terms, value);
  } else {
#pragma unroll
    for (float& value : values) value = bent(terms, value);
  }
}

}  // namespace megaconv::cuda
