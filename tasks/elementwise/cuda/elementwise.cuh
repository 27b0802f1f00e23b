// SPDX-License-Identifier: Apache-2.0
// Elementwise tasks: a thread has 16 bytes of y at a time, or one number where channels do not come
// in these. As on a CPU: y = clamp(fma(scale, x, bias) + residual), rounded once; the same bits.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/elementwise/cuda/elementwise_args.hpp"

namespace megaconv::cuda {

/// Stored: float, __half or __nv_bfloat16. A block of kThreads runs it.
template <class Stored, int kThreads>
struct ElementwiseTask {
  /// tensor(x): the pointer that ElementwiseInput::x stands for.
  template <class Tensor>
  static __device__ void run(const ElementwiseArgs& a, std::uint32_t group, Tensor tensor) {
    a.vectors ? run_outputs<16 / static_cast<int>(sizeof(Stored))>(a, group, tensor)
              : run_outputs<1>(a, group, tensor);
  }

 private:
  template <int kWidth, class Tensor>
  static __device__ void run_outputs(const ElementwiseArgs& a, std::uint32_t group, Tensor tensor) {
    const auto bands = static_cast<std::uint32_t>((a.h - 1) / a.rows_per_group + 1);
    const int row = static_cast<int>(group % bands) * a.rows_per_group;
    const int rows = min(a.rows_per_group, a.h - row);
    const std::int64_t first =
        (static_cast<std::int64_t>(group / bands) * a.h + row) * a.w;  // pixel
    // A thread has the same channels of all its pixels: it looks them up once.
    const int blocks = a.c / kWidth, lanes = min(blocks, kThreads), at_once = kThreads / lanes;
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const int own = static_cast<int>(threadIdx.x) / lanes, pixels = rows * a.w;
    if (own >= at_once) return;
#pragma unroll 1
    for (int channel = lane * kWidth; channel < a.c; channel += lanes * kWidth) {
      const ElementwiseInput input = a.inputs[find(a, channel)];
      const Stored* const x = static_cast<const Stored*>(tensor(input.x)) + first * input.channels +
                              (channel - input.first_channel);
      const std::int64_t at = first * a.c + channel;
      const bool affine = a.scale != nullptr, adds = a.residual != nullptr;
      Vec<kWidth> scale = zero<kWidth>(), bias = zero<kWidth>();
      if (affine) scale = load<kWidth>(a.scale + channel), bias = load<kWidth>(a.bias + channel);
      const Stored* const residual = static_cast<const Stored*>(a.residual);
#pragma unroll 1
      for (int pixel = own; pixel < pixels; pixel += kAtOnce * at_once) {
        Vec<kWidth, Stored> values[kAtOnce], residuals[kAtOnce];
        const auto for_each = [&](auto visit) {
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) visit(i, pixel + i * at_once);
        };
        for_each([&](int i, std::int64_t p) {  // all of them on their way at once
          values[i] = residuals[i] = zero<kWidth, Stored>();
          if (p < pixels) values[i] = load_stored<kWidth>(x + p * input.channels);
          if (p < pixels && adds) residuals[i] = load_stored<kWidth>(residual + at + p * a.c);
        });
        for_each([&](int i, std::int64_t p) {
          if (p >= pixels) return;
          Vec<kWidth> value = to_floats(values[i]);
          if (affine) {
#pragma unroll
            for (int j = 0; j < kWidth; ++j) {
              value.lane[j] = fmaf(scale.lane[j], value.lane[j], bias.lane[j]);
            }
          }
          if (adds) value = value + to_floats(residuals[i]);
#pragma unroll
          for (float& number : value.lane) number = clamped(a.least, a.most, number);
          store<kWidth>(static_cast<Stored*>(a.y) + at + p * a.c, value);
        });
      }
    }
  }

  static constexpr int kAtOnce = 4;  // outputs of a thread

  // The tensor that has a channel.
  static __device__ int find(const ElementwiseArgs& a, int channel) {
    int begin = 0, end = a.num_inputs;
#pragma unroll 1
    while (end - begin > 1) {
      const int middle = (begin + end) / 2;
      (a.inputs[middle].first_channel <= channel ? begin : end) = middle;
    }
    return begin;
  }
};

/// Of a node: `args` has places in `memory`.
template <class Stored, int kThreads>
__device__ __forceinline__ void run_task(ElementwiseArgs args, const NetworkMemory& memory,
                                         std::uint32_t group, std::uint32_t) {
  become_pointers(memory, args.residual, args.y, args.scale, args.bias);
  ElementwiseTask<Stored, kThreads>::run(
      args, group, [&](const void* place) { return pointer_to(memory, place); });
}

}  // namespace megaconv::cuda
