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

/// The same, for sums: on tensor cores' machines a zero may change its sign.
__device__ inline float activate(const ActivationTerms& terms, float v) {
  if (terms.bends) return v < 0 ? terms.slope * v : v;
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(terms.least));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(terms.most));
  return v;
#else
  return clamped(terms.least, terms.most, v);
#endif
}
template <int kWidth>
__device__ inline void activate(const ActivationTerms& terms, float (&values)[kWidth]) {
  if (terms.bends) {
#pragma unroll
    for (float& value : values) value = activate(terms, value);
  } else {
#pragma unroll
    for (float& value : values) value = activate(terms, value);
  }
}

}  // namespace megaconv::cuda
