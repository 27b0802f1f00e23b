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

/// What a task computes: pixels of whole rows, and channels.
struct ElementwiseShare {
  std::int64_t first_pixel;
  int pixels, first_channel, end_channel;

  __device__ ElementwiseShare(const ElementwiseArgs& a, std::uint32_t group) {
    const bool older = group < a.older_tasks;
    const std::uint32_t i = older ? group : group - a.older_tasks;
    const auto chunks = static_cast<std::uint32_t>(older ? a.older_chunks : a.last_chunks);
    const std::uint32_t band = i / chunks;
    const auto bands = static_cast<std::uint32_t>((a.h - 1) / a.rows_per_group + 1);
    const int row = static_cast<int>(band % bands) * a.rows_per_group;
    first_pixel = (static_cast<std::int64_t>(band / bands) * a.h + row) * a.w;
    pixels = min(a.rows_per_group, a.h - row) * a.w;
    first_channel =
        (older ? 0 : a.older_channels) + static_cast<int>(i % chunks) * a.channels_per_task;
    const int end = older ? a.older_channels : a.c;
    end_channel = min(a.channels_per_task, end - first_channel) + first_channel;
  }
};

/// Stored: float, __half or __nv_bfloat16. A block of kThreads runs it.
template <class Stored, int kThreads>
struct ElementwiseTask {
  /// tensor(x): the pointer that ElementwiseInput::x stands for. wait(): returns to all threads
  /// when tensors may be read.
  template <class Tensor, class Wait>
  static __device__ void run(const ElementwiseArgs& a, std::uint32_t group, Tensor tensor,
                             Wait wait) {
    const ElementwiseShare share(a, group);
    a.vectors ? run_outputs<16 / static_cast<int>(sizeof(Stored))>(a, share, tensor, wait)
              : run_outputs<1>(a, share, tensor, wait);
  }

 private:
  /// What a thread has of kWidth channels for all its pixels.
  template <int kWidth>
  struct Channels {
    const Stored* x;  ///< of the task's first pixel
    int pitch;        ///< from pixel to pixel
    Vec<kWidth> scale, bias;
  };

  template <int kWidth, class Tensor>
  static __device__ Channels<kWidth> look_up(const ElementwiseArgs& a,
                                             const ElementwiseShare& share, int channel,
                                             Tensor tensor) {
    const ElementwiseInput input =
        a.inputs[static_cast<unsigned>(channel) / static_cast<unsigned>(a.channel_step)];
    Channels<kWidth> of{nullptr, input.channels, zero<kWidth>(), zero<kWidth>()};
    of.x = static_cast<const Stored*>(tensor(input.x)) + share.first_pixel * input.channels +
           (channel - input.first_channel);
    if (a.scale != nullptr) {
      of.scale = load<kWidth>(a.scale + channel);
      of.bias = load<kWidth>(a.bias + channel);
    }
    return of;
  }

  template <int kWidth, class Tensor, class Wait>
  static __device__ void run_outputs(const ElementwiseArgs& a, const ElementwiseShare& share,
                                     Tensor tensor, Wait wait) {
    // A thread has the same channels of all its pixels: it looks them up once, and the first of
    // them before the wait.
    const int blocks = (share.end_channel - share.first_channel) / kWidth;
    const int lanes = min(blocks, kThreads), at_once = kThreads / lanes;
    const int own = static_cast<int>(threadIdx.x) / lanes;
    int channel = share.first_channel + static_cast<int>(threadIdx.x) % lanes * kWidth;
    Channels<kWidth> channels = look_up<kWidth>(a, share, channel, tensor);
    wait();
    if (own >= at_once) return;
#pragma unroll 1
    while (true) {
      run_pixels(a, share, channels, channel, own, at_once);
      channel += lanes * kWidth;
      if (channel >= share.end_channel) return;
      channels = look_up<kWidth>(a, share, channel, tensor);
    }
  }

  template <int kWidth>
  static __device__ void run_pixels(const ElementwiseArgs& a, const ElementwiseShare& share,
                                    const Channels<kWidth>& of, int channel, int own, int at_once) {
    const std::int64_t at = share.first_pixel * a.c + channel;
    const bool affine = a.scale != nullptr, adds = a.residual != nullptr;
    const Stored* const residual = static_cast<const Stored*>(a.residual) + (adds ? at : 0);
    Stored* const y = static_cast<Stored*>(a.y) + at;
#pragma unroll 1
    for (int pixel = own; pixel < share.pixels; pixel += kAtOnce * at_once) {
      Vec<kWidth, Stored> values[kAtOnce], residuals[kAtOnce];
      const auto for_each = [&](auto visit) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) visit(i, pixel + i * at_once);
      };
      for_each([&](int i, std::int64_t p) {  // all of them on their way at once
        values[i] = load_if<kWidth>(p < share.pixels, of.x + p * of.pitch);
        residuals[i] = load_if<kWidth>(p < share.pixels && adds, residual + p * a.c);
      });
      for_each([&](int i, std::int64_t p) {
        if (p >= share.pixels) return;
        Vec<kWidth> value = to_floats(values[i]);
        if (affine) {
#pragma unroll
          for (int j = 0; j < kWidth; ++j) {
            value.lane[j] = fmaf(of.scale.lane[j], value.lane[j], of.bias.lane[j]);
          }
        }
        if (adds) value = value + to_floats(residuals[i]);
#pragma unroll
        for (float& number : value.lane) number = clamped(a.least, a.most, number);
        store<kWidth>(y + p * a.c, value);
      });
    }
  }

  static constexpr int kAtOnce = 4;  // outputs of a thread
};

/// Of a node: `args` has places in `memory`.
template <class Stored, int kThreads, class Wait>
__device__ __forceinline__ void run_task(ElementwiseArgs args, const NetworkMemory& memory,
                                         std::uint32_t group, std::uint32_t, Wait wait) {
  become_pointers(memory, args.residual, args.y, args.scale, args.bias);
  ElementwiseTask<Stored, kThreads>::run(
      args, group, [&](const void* place) { return pointer_to(memory, place); }, wait);
}

}  // namespace megaconv::cuda
