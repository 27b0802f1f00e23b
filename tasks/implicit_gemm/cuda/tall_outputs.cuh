// SPDX-License-Identifier: Apache-2.0
// The epilogue of tall tiles: from a consumer's sums to outputs in shared memory, where storers
// find them. The rows of a matrix instruction are padded pixels, its columns filters.
#pragma once

#include <cuda_fp16.h>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"
#include "tasks/implicit_gemm/cuda/operand_rows.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape of tall tiles.
template <class Shape>
class TallOutputs : Shape {
  using Shape::kFloats;
  using typename Shape::Number, typename Shape::Numbers, typename Shape::Stored;
  using Pair = Vec<2, Stored>;

 public:
  /// What undoes the scales of operands, the smaller factor first, so that no step overflows where
  /// the result does not.
  struct Unscaling {
    float first, second;
    __device__ Unscaling(float x_scale, float w_scale)
        : first(inverse_of_scale(fmaxf(x_scale, w_scale))),
          second(inverse_of_scale(fminf(x_scale, w_scale))) {}
  };
  static __device__ float scale_of_filters(const TaskArgs& a) {
    if constexpr (Numbers::kScaled) return footer_of_filters<Numbers::kSplit>(a).scale;
    return 1;
  }
  /// Puts a warpgroup's outputs where storers find them, and have put the residual if there is one;
  /// its sums are zero then. This thread has, of padded pixels p and p + 8, filters 8 i + 2 q and
  /// the next. `first_k`: the first filter. kPitch: bytes from a padded pixel to the next.
  template <int kFilters, int kPitch>
  static __device__ __forceinline__ void put(const TaskArgs& a, const Unscaling& unscaling,
                                             int first_k, float (&sums)[kFilters / 2],
                                             std::byte* outputs) {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32, filter = lane % 4 * 2;
    std::byte* const own =
        outputs + (warp * 16 + lane / 4) * kPitch + filter * static_cast<int>(sizeof(Stored));
    const auto pair_of = [&](int i) -> Pair& {  // of sums 2 i and the next
      constexpr int kEightFilters = 8 * sizeof(Stored);
      return *reinterpret_cast<Pair*>(own + i % 2 * (8 * kPitch) + i / 2 * kEightFilters);
    };
    if constexpr (Numbers::kScaled) {
#pragma unroll
      for (float& sum : sums) sum = sum * unscaling.first * unscaling.second;
    }
    apply_terms<kFilters>(a, first_k + filter, sums);
    if (a.residual != nullptr) {
#pragma unroll
      for (int i = 0; i < kFilters / 4; ++i) {
        const Pair residual = pair_of(i);
        sums[2 * i] += static_cast<float>(residual.lane[0]);
        sums[2 * i + 1] += static_cast<float>(residual.lane[1]);
      }
    }
    if constexpr (kFloats) {
      activate(a.activation, sums);
#pragma unroll
      for (int i = 0; i < kFilters / 4; ++i) pair_of(i) = {{sums[2 * i], sums[2 * i + 1]}};
    } else {
      if (bends(a.activation)) activate(a.activation, sums);
      std::uint32_t pairs[kFilters / 4];
#pragma unroll
      for (int i = 0; i < kFilters / 4; ++i) pairs[i] = numbers(&sums[2 * i]);
      if (cuts_off(a.activation)) {
#pragma unroll
        for (std::uint32_t& pair : pairs) pair = cut_off<Number>(a.activation, pair);
      }
      // Row r of matrix m, which lane 8 m + r points to: eight filters of a padded pixel.
      std::byte* const row = outputs + (warp * 16 + lane % 16) * kPitch + lane / 16 * 16;
#pragma unroll
      for (int i = 0; i < kFilters / 4; i += 4) {
        store_matrices(row + i * 8, {pairs[i], pairs[i + 1], pairs[i + 2], pairs[i + 3]});
      }
    }
#pragma unroll
    for (float& sum : sums) sum = 0.0f;
  }

 private:
  // Scale and bias, of filters from `first` on, an even one. Filters behind the last, which nobody
  // stores, have the last one's: loads that ask whether there is something come one by one.
  template <int kFilters>
  static __device__ __forceinline__ void apply_terms(const TaskArgs& a, int first,
                                                     float (&sums)[kFilters / 2]) {
    const auto for_pairs = [&](const float* terms, const auto& apply) {
      if (terms == nullptr) return;
      const auto apply_all = [&](const auto& pair_from) {
#pragma unroll
        for (int i = 0; i < kFilters / 2; i += 4) {
          const Pair pair = pair_from(first + 2 * i);
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const auto term = static_cast<float>(pair.lane[j]);
            apply(sums[i + j], term), apply(sums[i + 2 + j], term);
          }
        }
      };
      const auto* const vector = reinterpret_cast<const Stored*>(terms);
      if (a.k % 2 == 0 && are_aligned<Pair>(terms)) {
        apply_all([&](int k) { return *reinterpret_cast<const Pair*>(&vector[min(k, a.k - 2)]); });
      } else {
        apply_all([&](int k) {
          return Pair{{vector[min(k, a.k - 1)], vector[min(k + 1, a.k - 1)]}};
        });
      }
    };
    for_pairs(a.scale, [](float& sum, float scale) { sum *= scale; });
    for_pairs(a.bias, [](float& sum, float bias) { sum += bias; });
  }
  static __device__ std::uint32_t numbers(const float* sums) {
    const Vec<2, Number> both{{static_cast<Number>(sums[0]), static_cast<Number>(sums[1])}};
    return *reinterpret_cast<const std::uint32_t*>(&both);
  }
  // Four matrices of 8 x 8 numbers of 16 bits, of which thread 4 i + j has row i, columns 2 j and
  // the next.
  struct Matrices {
    std::uint32_t numbers[4];
  };
  static __device__ void store_matrices(void* row, const Matrices& m) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(row))),
                 "r"(m.numbers[0]), "r"(m.numbers[1]), "r"(m.numbers[2]), "r"(m.numbers[3])
                 : "memory");
  }
};

}  // namespace megaconv::cuda
