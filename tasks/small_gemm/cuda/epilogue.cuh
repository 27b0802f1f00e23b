// SPDX-License-Identifier: Apache-2.0
// From sums in shared memory, [warp over sums][pixel][filter], to outputs: those of all warps in
// their order, scale, bias, residual, activation. A thread has four filters of a pixel at a time.
// Of sums that tasks share, [task][pixel][filter]: SumExchange has brought them.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/small_gemm.hpp"

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
  __half* y_halves;
};

template <class Products>
class SmallGemmEpilogue {
 public:
  using Stored = typename Products::Stored;

  /// Before the wait: bias and scale to shared memory, [2][filter], and where this thread's first
  /// outputs are.
  __device__ SmallGemmEpilogue(const SmallGemmArgs& a, const SmallGemmShare& share,
                               const SmallGemmTensors<Stored>& tensors, char* shared)
      : a_(a), share_(share), tensors_(tensors), shared_(shared) {
    const int thread = static_cast<int>(threadIdx.x);
    float* const vectors = this->vectors();
    if (thread < a.own_filters) {
      const int filter = share.first_filter + thread;
      const bool exists = filter < a.k;
      vectors[thread] = tensors.bias != nullptr && exists ? tensors.bias[filter] : 0.0f;
      if (a.scales_at != 0) {
        const auto* const scales = reinterpret_cast<const float*>(tensors.u + a.scales_at);
        vectors[a.own_filters + thread] = exists ? scales[filter] : 0.0f;
      }
    }
    const int blocks = a.own_filters / kVector;
    pixel_ = thread / blocks;
    filter_ = (thread - pixel_ * blocks) * kVector;
    stride_ = kSmallGemmThreads / blocks;
    num_pixels_ = share.first_filter + filter_ < a.k ? share.rows * share.cols : 0;
    to_ = static_cast<std::int64_t>(share.image) * a.p * a.q * a.k + share.first_filter + filter_;
    sums_at_ = pixel_ * a.summand_pitch + filter_;
    find_outputs();
  }

  /// Behind the wait: the residual of this thread's first outputs, to shared memory, where it stays
  /// while products need the registers. Part of the thread's next group of copies.
  __device__ void copy_residual() const {
    if (!has_residual()) return;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (pixel_ + i * stride_ >= num_pixels_) break;
      __pipeline_memcpy_async(&copied_residual(i), tensors_.residual + to_ + output_[i],
                              sizeof(Residual));
    }
  }

  /// Behind a barrier of the block, which has written its sums, and behind this thread's copies.
  /// The sums are those of `scale` times x.
  __device__ void write_outputs(const float* sums, float scale) {
    sums += sums_at_;
    const float factor = 1 / scale;
    const auto bias = *reinterpret_cast<const Vec<kVector>*>(vectors() + filter_);
    Residual residual[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      residual[i] = {};
      if (has_residual() && pixel_ + i * stride_ < num_pixels_) residual[i] = copied_residual(i);
    }
    Vec<kVector> scales = zero<kVector>();
    if (a_.scales_at != 0) {
      scales = *reinterpret_cast<const Vec<kVector>*>(vectors() + a_.own_filters + filter_);
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
        store_output(value[i], to_ + output_[i], residual[i], activation);
      }
      sums += kAtOnce * to_next;
      pixel_ += kAtOnce * stride_;
      find_outputs();
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (!has_residual() || pixel_ + i * stride_ >= num_pixels_) continue;
        residual[i] = *reinterpret_cast<const Residual*>(tensors_.residual + to_ + output_[i]);
      }
    }
  }

 private:
  static constexpr int kVector = static_cast<int>(kOutputVector);
  static constexpr int kAtOnce = static_cast<int>(kOutputsAtOnce);

  // As it is stored: two numbers of 16 bits would take a register each.
  struct alignas(kVector * sizeof(Stored)) Residual {
    std::uint32_t word[kVector * sizeof(Stored) / sizeof(std::uint32_t)];
    __device__ float number(int i) const {
      Stored numbers[kVector];
      memcpy(numbers, word, sizeof numbers);
      return static_cast<float>(numbers[i]);
    }
  };

  __device__ float* vectors() const { return reinterpret_cast<float*>(shared_ + a_.vectors_at); }
  // As vectors.
  __device__ bool has_residual() const {
    return tensors_.residual != nullptr && a_.k % kVector == 0;
  }
  // Of this thread's first outputs.
  __device__ Residual& copied_residual(int i) const {
    return reinterpret_cast<Residual*>(
        shared_ + a_.residual_at)[i * kSmallGemmThreads + static_cast<int>(threadIdx.x)];
  }

  __device__ void find_outputs() {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int pixel = pixel_ + i * stride_, row = row_of(share_, pixel);
      output_[i] = ((share_.row + row) * a_.q + share_.col + pixel - row * share_.cols) * a_.k;
    }
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

  __device__ void store_output(Vec<kVector> value, std::int64_t output, const Residual& residual,
                               const ActivationTerms& activation) const {
    if (a_.k % kVector == 0) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (tensors_.residual != nullptr) value.lane[i] += residual.number(i);
      }
      activate(activation, value.lane);
      store<kVector>(tensors_.y + output, value);
      if constexpr (Products::kConverts) {
        if (tensors_.y_halves != nullptr) store_halves(value, output);
      }
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

  // As those who read x convert it, in vectors: K is a multiple of eight.
  __device__ void store_halves(const Vec<kVector>& value, std::int64_t output) const {
    ToHalves<Products::kPairs, false> to_halves(1);
    Vec<kVector / 2, std::uint32_t> high, rest;
    to_halves.convert(value.lane, high.lane, rest.lane);
    constexpr int kParts = Products::kPairs ? 2 : 1;
    const int filter = share_.first_filter + filter_;
    __half* const to = tensors_.y_halves + kParts * output - (kParts - 1) * filter;
    *reinterpret_cast<Vec<kVector / 2, std::uint32_t>*>(to) = high;
    if constexpr (Products::kPairs) {
      *reinterpret_cast<Vec<kVector / 2, std::uint32_t>*>(to + a_.k) = rest;
    }
  }

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  const SmallGemmTensors<Stored> tensors_;
  char* shared_;
  int filter_, pixel_, stride_, num_pixels_, sums_at_;
  std::int64_t to_;      // the first output of this thread's filters in the image
  int output_[kAtOnce];  // from there
};

}  // namespace megaconv::cuda
