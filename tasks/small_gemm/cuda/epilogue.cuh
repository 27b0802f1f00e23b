// SPDX-License-Identifier: Apache-2.0
// From sums in shared memory, [warp over sums][pixel][filter], to outputs: those of all warps in
// their order, scale, bias, residual, activation. A thread has four filters of a pixel at a time.
#pragma once

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

/// Row in its tile of a pixel, of less than 2^10: exact, since a quotient and a half is never as
/// near to the next whole number as three roundings are to it.
__device__ inline int row_of(const SmallGemmShare& share, int pixel) {
  return static_cast<int>((static_cast<float>(pixel) + 0.5f) * share.reciprocal);
}

/// The tensors of a node.
template <class Stored>
struct SmallGemmTensors {
  const Stored* x;
  const char* u;
  const float* bias;
  const Stored* residual;
  Stored* y;
};

/// Distance of a pixel's sums in shared memory, without conflicts of banks, and of a warp's.
__device__ inline int sum_pitch(const SmallGemmArgs& a) { return a.filters_per_task + 4; }
__device__ inline int sums_of_warp(const SmallGemmArgs& a) {
  return ((a.rows_per_group * a.cols_per_group - 1) / 8 + 1) * 8 * sum_pitch(a);
}

template <class Stored>
class SmallGemmEpilogue {
 public:
  /// Before the wait: bias and scale to `vectors`, [2][filter], and where this thread's first
  /// outputs are.
  __device__ SmallGemmEpilogue(const SmallGemmArgs& a, const SmallGemmShare& share,
                               const SmallGemmTensors<Stored>& tensors, float* vectors)
      : a_(a), share_(share), tensors_(tensors), vectors_(vectors) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < a.filters_per_task) {
      const int filter = share.first_filter + thread;
      const bool exists = filter < a.k;
      vectors[thread] = tensors.bias != nullptr && exists ? tensors.bias[filter] : 0.0f;
      if (a.scales_at != 0) {
        const auto* const scales = reinterpret_cast<const float*>(tensors.u + a.scales_at);
        vectors[a.filters_per_task + thread] = exists ? scales[filter] : 0.0f;
      }
    }
    const int blocks = a.filters_per_task / kVector;
    pixel_ = thread / blocks;
    filter_ = (thread - pixel_ * blocks) * kVector;
    stride_ = kSmallGemmThreads / blocks;
    num_pixels_ = share.first_filter + filter_ < a.k ? share.rows * share.cols : 0;
    find_outputs();
  }

  /// Behind the wait: the residual, on its way while the block multiplies.
  __device__ void load_residual() {
    if (tensors_.residual == nullptr || a_.k % kVector != 0) return;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (pixel_ + i * stride_ >= num_pixels_) break;
      residual_[i] = *reinterpret_cast<const Vec<kVector, Stored>*>(tensors_.residual + output_[i]);
    }
  }

  /// Behind a barrier of the block, which has written its sums. They are those of `scale` times x.
  __device__ void write_outputs(const float* sums, float scale) {
#pragma unroll 1
    for (;;) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (pixel_ + i * stride_ >= num_pixels_) return;
        const float* const of_pixel = sums + (pixel_ + i * stride_) * sum_pitch(a_) + filter_;
        store_output(sum_of(of_pixel, 1 / scale), output_[i], residual_[i]);
      }
      pixel_ += kAtOnce * stride_;
      find_outputs();
      load_residual();
    }
  }

 private:
  static constexpr int kVector = 4;  // numbers
  static constexpr int kAtOnce = 4;  // outputs of a thread

  __device__ void find_outputs() {
    const std::int64_t image = static_cast<std::int64_t>(share_.image) * a_.p * a_.q * a_.k;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int pixel = pixel_ + i * stride_, row = row_of(share_, pixel);
      const int at = (share_.row + row) * a_.q + share_.col + pixel - row * share_.cols;
      output_[i] = image + (at * a_.k + share_.first_filter + filter_);
    }
  }

  __device__ Vec<kVector> sum_of(const float* sums, float factor) const {
    Vec<kVector> value = zero<kVector>();
#pragma unroll 4
    for (int warp = 0; warp < a_.sum_warps; ++warp, sums += sums_of_warp(a_)) {
      value = value + *reinterpret_cast<const Vec<kVector>*>(sums);
    }
    const auto bias = *reinterpret_cast<const Vec<kVector>*>(vectors_ + filter_);
    if (a_.scales_at == 0) return value + bias;
    const auto scale =
        *reinterpret_cast<const Vec<kVector>*>(vectors_ + a_.filters_per_task + filter_);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      value.lane[i] = fmaf(value.lane[i] * factor, scale.lane[i], bias.lane[i]);
    }
    return value;
  }

  __device__ void store_output(Vec<kVector> value, std::int64_t output,
                               const Vec<kVector, Stored>& residual) const {
    if (a_.k % kVector == 0) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (tensors_.residual != nullptr) value.lane[i] += static_cast<float>(residual.lane[i]);
        value.lane[i] = activate(a_.activation, value.lane[i]);
      }
      store<kVector>(tensors_.y + output, value);
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (share_.first_filter + filter_ + i >= a_.k) break;
      float one = value.lane[i];
      if (tensors_.residual != nullptr) one += static_cast<float>(tensors_.residual[output + i]);
      tensors_.y[output + i] = static_cast<Stored>(activate(a_.activation, one));
    }
  }

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  const SmallGemmTensors<Stored> tensors_;
  float* vectors_;
  int filter_, pixel_, stride_, num_pixels_;
  std::int64_t output_[kAtOnce];
  Vec<kVector, Stored> residual_[kAtOnce];
};

}  // namespace megaconv::cuda
