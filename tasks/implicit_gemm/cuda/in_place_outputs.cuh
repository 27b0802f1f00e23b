// SPDX-License-Identifier: Apache-2.0
// The epilogue of implicit GEMM on operands in place: from a consumer's sums to outputs in shared
// memory, where storers find them.
#pragma once

#include <cuda_fp16.h>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"
#include "tasks/implicit_gemm/cuda/operand_rows.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape, narrow or wide.
template <class Shape>
class InPlaceOutputs : Shape {
  using Shape::kFloats, Shape::kGroupsOfPlaces, Shape::kRowFilters, Shape::kVectorFilters;
  using Shape::kVectors;
  using Shape::permuted;
  using typename Shape::Number, typename Shape::Numbers, typename Shape::OutputRow;
  using typename Shape::Stored;

  // The first of the two filters, eight apart, whose sums this thread has.
  static __device__ int own_filter(int first_k) {
    return first_k + static_cast<int>(threadIdx.x) % 128 / 32 * 16 +
           static_cast<int>(threadIdx.x) % 32 / 4;
  }

 public:
  /// From sums to outputs: the scales of operands undone, the smaller factor first, so that no step
  /// overflows where the result does not; scale, bias, residual and activation.
  class Finish {
   public:
    __device__ explicit Finish(const TaskArgs& a)
        : activation_(a.activation),
          has_terms_(Numbers::kScaled || a.scale != nullptr || a.bias != nullptr),
          has_residual_(a.residual != nullptr) {}
    __device__ bool has_residual() const { return has_residual_; }
    __device__ const ActivationTerms& activation() const { return activation_; }
    /// Of a task's filters.
    __device__ void begin(const TaskArgs& a, float x_scale, int first_k) {
      if (first_k == first_k_) return;
      float second = 1.0f;
      if constexpr (Numbers::kScaled) {
        const float of_input = 1.0f / x_scale, of_filter = 1.0f / footer_of_filters(a).scale;
        first_ = fminf(of_input, of_filter), second = fmaxf(of_input, of_filter);
      }
      const auto of_filter = [&](const float* vector, int k, float otherwise) {
        return vector != nullptr && k < a.k
                   ? static_cast<float>(reinterpret_cast<const Stored*>(vector)[k])
                   : otherwise;
      };
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int k = own_filter(first_k) + half * 8;
        scale_[half] = second * of_filter(a.scale, k, 1.0f);
        bias_[half] = of_filter(a.bias, k, 0.0f);
      }
      first_k_ = first_k;
    }
    /// What comes before the residual.
    template <int kCount>
    __device__ void begin_with(float (&sums)[kCount]) const {
      if (!has_terms_) return;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if constexpr (Numbers::kScaled) sums[i] *= first_;
        sums[i] = sums[i] * scale_[i / 2 % 2] + bias_[i / 2 % 2];
      }
    }

   private:
    float first_ = 1, scale_[2] = {}, bias_[2] = {};
    int first_k_ = -1;
    const ActivationTerms& activation_;
    const bool has_terms_, has_residual_;
  };

  /// Puts a warpgroup's outputs where storers find them, and have put the residual if there is one;
  /// its sums are zero then. This thread has, of filters f and f + 8, padded pixels 8 i + 2 q and
  /// the next.
  template <int kWidth>
  static __device__ __forceinline__ void put(const Finish& finish, float (&sums)[kWidth / 2],
                                             OutputRow* outputs) {
    if constexpr (kFloats) {
      put_floats<kWidth>(finish, sums, outputs);
    } else {
      put_numbers<kWidth>(finish, sums, outputs);
    }
  }

 private:
  // Four matrices of 8 x 8 numbers of 16 bits, or two, of which thread 4 i + j has row i, columns
  // 2 j and the next: their columns become rows of 16 bytes. Row r of matrix m goes to where thread
  // 8 m + r points.
  static __device__ void store_transposed(void* row, const std::uint32_t (&matrices)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(row))),
                 "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
                 : "memory");
  }
  static __device__ void store_transposed(void* row, const std::uint32_t (&matrices)[2]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(row))),
                 "r"(matrices[0]), "r"(matrices[1])
                 : "memory");
  }

  // The other way.
  static __device__ void load_transposed(const void* row, std::uint32_t (&matrices)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
  }
  static __device__ void load_transposed(const void* row, std::uint32_t (&matrices)[2]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(matrices[0]), "=r"(matrices[1])
                 : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
  }

  // Of a filter four padded pixels at a time, 2 apart, with seven neighbouring filters: in all
  // banks.
  template <int kWidth>
  static __device__ __forceinline__ void put_floats(const Finish& finish, float (&sums)[kWidth / 2],
                                                    OutputRow* outputs) {
    const int filter = own_filter(0), pair = static_cast<int>(threadIdx.x) % 4 * 2;
    const int vector = filter % kRowFilters / kVectorFilters;
    OutputRow* const row = outputs + filter / kRowFilters * kGroupsOfPlaces * kWidth + pair;
    float* to[2][2];  // [the second filter][the second padded pixel]
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i / 2][i % 2] =
          reinterpret_cast<float*>(&row[i % 2][permuted(pair + i % 2, vector + i / 2 * 2)]) +
          filter % kVectorFilters;
    }
    const auto place_of = [&](int i) {
      constexpr int kEight = 8 * sizeof(OutputRow) / sizeof(float);
      return &to[i / 2 % 2][i % 2][i / 4 * kEight];
    };
    finish.begin_with(sums);
    if (finish.has_residual()) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) sums[i] += *place_of(i);
    }
    activate(finish.activation(), sums);
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      *place_of(i) = sums[i];
      sums[i] = 0.0f;
    }
  }
  template <int kWidth>
  static __device__ __forceinline__ void put_numbers(const Finish& finish,
                                                     float (&sums)[kWidth / 2],
                                                     OutputRow* outputs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    // Row r of matrix m, which lane 8 m + r points to: eight filters of a padded pixel.
    const int row = lane / 16 * 8 + lane % 8, vector = warp * 2 + lane / 8 % 2;
    uint4* const to = &outputs[row][permuted(row, vector)];
    // Pairs of numbers. Of filters f and f + 8, of eight padded pixels, or of these and the next:
    // their pairs, and where these are.
    std::uint32_t pairs[kWidth / 4];
    const auto for_all = [&](const auto& call) {
#pragma unroll
      for (int place = 0; place + 16 <= kWidth; place += 16) {
        call(*reinterpret_cast<std::uint32_t(*)[4]>(&pairs[place / 4]), to + place * kVectors);
      }
      if constexpr (kWidth % 16 != 0) {
        call(*reinterpret_cast<std::uint32_t(*)[2]>(&pairs[kWidth / 4 - 2]),
             to + (kWidth - 8) * kVectors);
      }
    };
    finish.begin_with(sums);
    if (finish.has_residual()) {
      for_all([&](auto& some, const uint4* rows) { load_transposed(rows, some); });
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        sums[i] +=
            static_cast<float>(reinterpret_cast<const Vec<2, Number>*>(&pairs[i / 2])->lane[i % 2]);
      }
    }
    if (bends(finish.activation())) activate(finish.activation(), sums);
#pragma unroll
    for (int i = 0; i < kWidth / 4; ++i) {
      const Vec<2, Number> both{
          {static_cast<Number>(sums[2 * i]), static_cast<Number>(sums[2 * i + 1])}};
      sums[2 * i] = sums[2 * i + 1] = 0.0f;
      pairs[i] = *reinterpret_cast<const std::uint32_t*>(&both);
    }
    if (cuts_off(finish.activation())) {
#pragma unroll
      for (std::uint32_t& pair : pairs) pair = cut_off<Number>(finish.activation(), pair);
    }
    for_all([&](const auto& some, uint4* rows) { store_transposed(rows, some); });
  }
};

}  // namespace megaconv::cuda
