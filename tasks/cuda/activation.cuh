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

/// The same of many sums. Out of line, one by one: most layers have none, and a copy for each of a
/// tile's would push the code that they need out of the instruction cache. Terms by value:
/// arguments of a kernel whose address is known elsewhere would be copied to local memory.
__device__ __noinline__ inline void gate(ActivationTerms terms, float* values, int count) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) values[i] = gated(terms, values[i]);
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
  } else if (terms.bend == Bend::slope) {  // in registers: memory would take longer than a tile
#pragma unroll
    for (float& value : values) value = value < 0 ? terms.slope * value : value;
  } else {
    alignas(16) float in_memory[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) in_memory[i] = values[i];
    gate(terms, in_memory, kWidth);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = in_memory[i];
  }
}
__device__ inline float activate(const ActivationTerms& terms, float v) {
  float values[] = {v};
  activate(terms, values);
  return values[0];
}

}  // namespace megaconv::cuda
