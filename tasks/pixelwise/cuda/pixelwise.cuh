// SPDX-License-Identifier: Apache-2.0
// Pixelwise tasks in nhwc. A thread has 16 bytes of y at a time, or one number where channels do
// not come in these; of softmax, a warp has a pixel. Arithmetic is in FP32 and y is rounded once
// more, to its type: roundings_of() (tasks/pixelwise/pixelwise.hpp) says how exact that is.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tasks/activation.hpp"
#include "tasks/cuda/vec.cuh"
#include "tasks/pixelwise/cuda/pixelwise_args.hpp"

namespace megaconv::cuda {

/// Stored: float, __half or __nv_bfloat16. A block of kThreads runs it.
template <class Stored, int kThreads>
class PixelwiseTask {
 public:
  static __device__ void run(const PixelwiseArgs& a, std::uint32_t group) {
    const auto bands = static_cast<std::uint32_t>((a.h - 1) / a.rows_per_group + 1);
    const int row = static_cast<int>(group % bands) * a.rows_per_group;
    const int pixels = min(a.rows_per_group, a.h - row) * a.w;
    const std::int64_t image = group / bands;
    const std::int64_t first = ((image * a.h + row) * a.w) * a.c;
    const auto* const x = static_cast<const Stored*>(a.x) + first;
    auto* const y = static_cast<Stored*>(a.y) + first;
    const auto* const b = static_cast<const Stored*>(a.b) + (a.per_channel ? image * a.c : first);
    if (a.function == PixelFunction::softmax) return softmax(a, x, y, pixels);
    if (a.function == PixelFunction::local_response_norm) {
      return local_response_norm(a, x, y, pixels);
    }
    a.vectors ? map<16 / static_cast<int>(sizeof(Stored))>(a, x, b, y, pixels)
              : map<1>(a, x, b, y, pixels);
  }

 private:
  static constexpr int kWarps = kThreads / 32;

  /// y of x by itself, or of x and b.
  template <int kWidth>
  static __device__ void map(const PixelwiseArgs& a, const Stored* x, const Stored* b, Stored* y,
                             int pixels) {
    const int count = pixels * a.c;
    const bool multiplies = a.function == PixelFunction::multiply;
    for (int i = static_cast<int>(threadIdx.x) * kWidth; i < count; i += kThreads * kWidth) {
      Vec<kWidth> value = load<kWidth>(x + i);
      Vec<kWidth> second{};
      if (multiplies) second = load<kWidth>(b + (a.per_channel ? i % a.c : i));
#pragma unroll
      for (int j = 0; j < kWidth; ++j) value.lane[j] = of(a, value.lane[j], second.lane[j]);
      store<kWidth>(y + i, value);
    }
  }

  // A NaN stays.
  static __device__ float of(const PixelwiseArgs& a, float v, float b) {
    switch (a.function) {
      case PixelFunction::multiply:
        return v * b;
      case PixelFunction::leaky_relu:
        return v < 0 ? a.alpha * v : v;
      case PixelFunction::sigmoid:
        return 1 / (1 + expf(-v));
      case PixelFunction::hard_sigmoid: {
        const float line = fmaf(a.alpha, v, a.beta);
        return line < 0 ? 0 : line > 1 ? 1 : line;
      }
      case PixelFunction::hard_swish:
        return v <= -3 ? 0 : v >= 3 ? v : v * (v + 3) / 6;
      case PixelFunction::gelu: {
        const float share = 0.5f * erfcf(static_cast<float>(-kRootOfHalf) * v);
        return share == 0 ? 0 : v * share;
      }
      case PixelFunction::gelu_tanh: {
        constexpr auto kLinear = static_cast<float>(kTanhLinear);
        const float share =
            1 / (1 + expf(-v * fmaf(static_cast<float>(kTanhCubic), v * v, kLinear)));
        return share == 0 ? 0 : v * share;
      }
      default:
        return tanhf(v);
    }
  }

  static __device__ void softmax(const PixelwiseArgs& a, const Stored* x, Stored* y, int pixels) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int pixel = static_cast<int>(threadIdx.x) / 32; pixel < pixels; pixel += kWarps) {
      const std::int64_t first = static_cast<std::int64_t>(pixel) * a.c;
      float largest = static_cast<float>(x[first]), sum = 0;
      for (int c = lane; c < a.c; c += 32) {
        largest = fmaxf(largest, static_cast<float>(x[first + c]));
      }
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, apart));
      }
      for (int c = lane; c < a.c; c += 32) sum += expf(static_cast<float>(x[first + c]) - largest);
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
      for (int c = lane; c < a.c; c += 32) {
        y[first + c] = static_cast<Stored>(expf(static_cast<float>(x[first + c]) - largest) / sum);
      }
    }
  }

  static __device__ void local_response_norm(const PixelwiseArgs& a, const Stored* x, Stored* y,
                                             int pixels) {
    const int count = pixels * a.c;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      const int c = i % a.c;
      float squares = 0;
      for (int j = max(-a.before, -c); j <= min(a.behind, a.c - 1 - c); ++j) {
        const auto value = static_cast<float>(x[i + j]);
        squares = fmaf(value, value, squares);
      }
      const float base = fmaf(a.alpha, squares, a.bias), root = sqrtf(base);
      // The usual power; two roots are faster, and nearer to the truth.
      const float power = a.beta == 0.75f ? root * sqrtf(root) : powf(base, a.beta);
      y[i] = static_cast<Stored>(static_cast<float>(x[i]) / power);
    }
  }
};

/// Of a node: `args` has places in `memory`.
template <class Stored, int kThreads, class Wait>
__device__ __forceinline__ void run_task(PixelwiseArgs args, const NetworkMemory& memory,
                                         std::uint32_t group, std::uint32_t, Wait wait) {
  become_pointers(memory, args.x, args.b, args.y);
  wait();
  PixelwiseTask<Stored, kThreads>::run(args, group);
}

}  // namespace megaconv::cuda
