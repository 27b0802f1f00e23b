// SPDX-License-Identifier: Apache-2.0
// From sums in shared memory, [warp over sums][pixel][filter], to outputs: those of all warps in
// their order, scale, bias, residual, activation. A thread has four filters of a pixel at a time.
// What it stores may also be an operand of an elementwise operation, whose output it stores then.
// Of sums that tasks share, [task][pixel][filter]: SumExchange has brought them.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/quotient.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

/// Row in its tile of a pixel.
__device__ inline int row_of(const SmallGemmShare& share, int pixel) {
  return quotient(pixel, share.reciprocal);
}

/// The tensors of a node.
template <class Stored, class Bias>
struct SmallGemmTensors {
  const Stored* x;
  const char* u;
  const Bias* bias;
  const Stored* residual;
  Stored* y;
};

template <class Stored, class Bias>
class SmallGemmEpilogue {
 public:
  /// Before the wait: bias and scale, and those of a second output, on their way to `vectors`,
  /// [2 or 4][filter], with the thread's next group of copies, and where this thread's first
  /// outputs are. tensor(pointer): what a pointer of the arguments stands for.
  template <class Tensor>
  __device__ SmallGemmEpilogue(const SmallGemmArgs& a, const SmallGemmShare& share,
                               const SmallGemmTensors<Stored, Bias>& tensors, Tensor tensor,
                               float* vectors)
      : a_(a), share_(share), tensors_(tensors), vectors_(vectors) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < a.own_filters) {
      const int filter = share.first_filter + thread;
      copy_vector(vectors + thread, tensors.bias, filter);
      if (a.scales_at != 0) {
        const auto* const scales = reinterpret_cast<const float*>(tensors.u + a.scales_at);
        copy_vector(vectors + a.own_filters + thread, scales, filter);
      }
      if (a.second.scale != nullptr) {
        float* const of_second = vectors + 2 * a.own_filters + thread;
        copy_vector(of_second, static_cast<const float*>(tensor(a.second.scale)), filter);
        copy_vector(of_second + a.own_filters, static_cast<const float*>(tensor(a.second.bias)),
                    filter);
      }
    }
    const int vector_bits = a.own_bits - kVectorBits;
    pixel_ = thread >> vector_bits;
    filter_ = (thread - (pixel_ << vector_bits)) * kVector;
    stride_ = kSmallGemmThreads >> vector_bits;
    num_pixels_ = share.first_filter + filter_ < a.k ? share.rows * share.cols : 0;
    to_ = static_cast<std::int64_t>(share.image) * a.p * a.q * a.k + share.first_filter + filter_;
    sums_at_ = pixel_ * a.summand_pitch + filter_;
    find_outputs();
  }

  /// Behind the products, which need the registers: the residual, on its way while warps hand in
  /// their sums.
  __device__ void load_residual() {
    const bool exists = tensors_.residual != nullptr && a_.k % kVector == 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      residual_[i] = {};
      if (!exists || pixel_ + i * stride_ >= num_pixels_) continue;
      residual_[i] = *reinterpret_cast<const Residual*>(tensors_.residual + to_ + output_[i]);
    }
  }

  /// Behind a barrier of the block, which has written its sums. They are those of `scale` times x.
  template <class Tensor>
  __device__ void write_outputs(const float* sums, float scale, Tensor tensor) {
    sums += sums_at_;
    auto* const second = static_cast<Stored*>(const_cast<void*>(tensor(a_.second.y)));
    const float factor = 1 / scale;
    const auto bias = *reinterpret_cast<const Vec<kVector>*>(vectors_ + filter_);
    Vec<kVector> scales = zero<kVector>();
    if (a_.scales_at != 0) {
      scales = *reinterpret_cast<const Vec<kVector>*>(vectors_ + a_.own_filters + filter_);
    }
    const ActivationTerms activation = a_.activation;
    const int to_next = stride_ * a_.summand_pitch;
#pragma unroll 1
    while (pixel_ < num_pixels_) {
      Vec<kVector> value[kAtOnce];
      add_sums(value, sums, to_next);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (pixel_ + i * stride_ >= num_pixels_) return;
        if (a_.scales_at == 0) {
          value[i] = value[i] + bias;
        } else {
#pragma unroll
          for (int n = 0; n < kVector; ++n) {
            value[i].lane[n] = fmaf(value[i].lane[n] * factor, scales.lane[n], bias.lane[n]);
          }
        }
        store_output(value[i], to_ + output_[i], residual_[i], activation);
        if (second != nullptr) store_second(second, value[i], pixel_ + i * stride_);
      }
      sums += kAtOnce * to_next;
      pixel_ += kAtOnce * stride_;
      find_outputs();
      load_residual();
    }
  }

 private:
  static constexpr int kVectorBits = 2, kVector = 1 << kVectorBits;  // numbers
  static constexpr int kAtOnce = 4;                                  // outputs of a thread

  // As it is stored: two numbers of 16 bits would take a register each.
  struct alignas(kVector * sizeof(Stored)) Residual {
    std::uint32_t word[kVector * sizeof(Stored) / sizeof(std::uint32_t)];
    __device__ float number(int i) const {
      Stored numbers[kVector];
      memcpy(numbers, word, sizeof numbers);
      return static_cast<float>(numbers[i]);
    }
  };

  // A number of a vector over filters; 0 where it has none.
  template <class Number>
  __device__ void copy_vector(float* to, const Number* vector, int filter) const {
    const bool exists = vector != nullptr && filter < a_.k;
    if constexpr (sizeof(Number) == sizeof *to) {
      const void* const from = exists ? vector + filter : static_cast<const void*>(tensors_.u);
      __pipeline_memcpy_async(to, from, sizeof *to, exists ? 0 : sizeof *to);
    } else {
      *to = exists ? static_cast<float>(vector[filter]) : 0.0f;
    }
  }

  __device__ void find_outputs() {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) output_[i] = place_of(pixel_ + i * stride_) * a_.k;
  }
  // Of a pixel of the tile, in the image.
  __device__ int place_of(int pixel) const {
    const int row = row_of(share_, pixel);
    return (share_.row + row) * a_.q + share_.col + pixel - row * share_.cols;
  }

  // The sums of all warps, or of all tasks that share them, in their order.
  __device__ void add_sums(Vec<kVector> (&value)[kAtOnce], const float* sums, int to_next) const {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) value[i] = zero<kVector>();
#pragma unroll 1
    for (int n = 0; n < a_.summands; ++n, sums += a_.summand_stride) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (pixel_ + i * stride_ >= num_pixels_) break;
        value[i] = value[i] + *reinterpret_cast<const Vec<kVector>*>(sums + i * to_next);
      }
    }
  }

  // `value` is what is stored, where filters come in vectors.
  __device__ void store_output(Vec<kVector>& value, std::int64_t output, const Residual& residual,
                               const ActivationTerms& activation) const {
    if (a_.k % kVector == 0) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (tensors_.residual != nullptr) value.lane[i] += residual.number(i);
      }
      activate(activation, value.lane);
      store<kVector>(tensors_.y + output, value);
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (share_.first_filter + filter_ + i >= a_.k) break;
      float one = value.lane[i];
      if (tensors_.residual != nullptr) one += static_cast<float>(tensors_.residual[output + i]);
      tensors_.y[output + i] = static_cast<Stored>(activate(activation, one));
    }
  }

  // The same bits as elementwise tasks, which read `value` as it was stored. Filters come in
  // vectors.
  __device__ void store_second(Stored* y, Vec<kVector> value, int pixel) const {
    const SecondOutput& second = a_.second;
    const float* const scales = vectors_ + 2 * a_.own_filters + filter_;
    const float* const biases = scales + a_.own_filters;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      float number = static_cast<float>(static_cast<Stored>(value.lane[i]));
      if (second.scale != nullptr) number = fmaf(scales[i], number, biases[i]);
      value.lane[i] = clamped(second.least, second.most, number);
    }
    const std::int64_t before = static_cast<std::int64_t>(share_.image) * a_.p * a_.q;
    store<kVector>(y + (before + place_of(pixel)) * second.channels + second.first_channel +
                       share_.first_filter + filter_,
                   value);
  }

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  const SmallGemmTensors<Stored, Bias> tensors_;
  float* vectors_;
  int filter_, pixel_, stride_, num_pixels_, sums_at_;
  std::int64_t to_;      // the first output of this thread's filters in the image
  int output_[kAtOnce];  // from there
  Residual residual_[kAtOnce];
};

}  // namespace megaconv::cuda
