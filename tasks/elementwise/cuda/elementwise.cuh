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
  /// tensor(word): the pointer that ElementwiseInput::x stands for.
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
    const int blocks = a.c / kWidth, count = rows * a.w * blocks;
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
      const std::int64_t pixel = first + i / blocks;
      const int channel = i % blocks * kWidth;
      const ElementwiseInput input = a.inputs[find(a, channel)];
      const auto* const x = static_cast<const Stored*>(tensor(input.x));
      Vec<kWidth> value =
          load<kWidth>(x + pixel * input.channels + (channel - input.first_channel));
      const std::int64_t at = pixel * a.c + channel;
      if (a.scale != nullptr) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          value.lane[j] = fmaf(a.scale[channel + j], value.lane[j], a.bias[channel + j]);
        }
      }
      if (a.residual != nullptr) {
        value = value + load<kWidth>(static_cast<const Stored*>(a.residual) + at);
      }
#pragma unroll
      for (float& number : value.lane) number = clamped(a.least, a.most, number);
      store<kWidth>(static_cast<Stored*>(a.y) + at, value);
    }
  }

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

}  // namespace megaconv::cuda
