// SPDX-License-Identifier: Apache-2.0
// What becomes of the sums of direct tasks on tensor cores: the epilogue, and stores to y in
// vectors as wide as its filters and their places allow.
#pragma once

#include "tasks/cuda/activation.cuh"
#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

/// A thread has kRun neighbouring filters of each of some pixels.
template <class Stored, int kRun>
struct MmaOutputs {
  const TaskArgs& a;
  const std::int64_t image;  // numbers of y in front of it
  const int width;           // of vectors of filters

  __device__ MmaOutputs(const TaskArgs& args, int image_idx)
      : a(args), image(image_idx * image_size(args)), width(width_of(args)) {}

  /// `outputs`: [pixel][filter] from the k-th filter on. `places`: numbers of a pixel's image in
  /// front of it; less than 0 if there is no such pixel.
  template <int kPixels>
  __device__ void finish(const int (&places)[kPixels], int k,
                         float (&outputs)[kPixels * kRun]) const {
    if (a.scale != nullptr || a.bias != nullptr || a.residual != nullptr) {
      in_vectors([&]<int kWidth>() { add_tensors<kWidth>(places, k, outputs); });
    }
    activate(a.activation, outputs);
    in_vectors([&]<int kWidth>() { store<kWidth>(places, k, outputs); });
  }

 private:
  static constexpr int kWidest = 16 / static_cast<int>(sizeof(Stored));
  template <int kWidth>
  static constexpr bool kDivides = kWidth <= kWidest&& kRun % kWidth == 0;

  // The widest that suits.
  static __device__ int width_of(const TaskArgs& args) {
    const auto suits = [&]<int kWidth>() {
      return args.k % kWidth == 0 &&
             are_aligned<Vec<kWidth, Stored>>(reinterpret_cast<const Stored*>(args.y),
                                              reinterpret_cast<const Stored*>(args.scale),
                                              reinterpret_cast<const Stored*>(args.bias),
                                              reinterpret_cast<const Stored*>(args.residual));
    };
    if constexpr (kDivides<8>) {
      if (suits.template operator()<8>()) return 8;
    }
    if constexpr (kDivides<4>) {
      if (suits.template operator()<4>()) return 4;
    }
    return suits.template operator()<2>() ? 2 : 1;
  }

  // body.operator()<kWidth>()
  template <class Body>
  __device__ void in_vectors(Body body) const {
    if constexpr (kDivides<8>) {
      if (width == 8) [[likely]]
        return body.template operator()<8>();
    }
    if constexpr (kDivides<4>) {
      if (width == 4) [[likely]]
        return body.template operator()<4>();
    }
    width == 2 ? body.template operator()<2>() : body.template operator()<1>();
  }

  static __device__ std::int64_t image_size(const TaskArgs& args) {
    return static_cast<std::int64_t>(args.p) * args.q * args.k;
  }

  // Calls body(first output, pixel, first filter) of every vector.
  template <int kWidth, int kCount, class Body>
  __device__ void for_vectors(int k, float (&)[kCount], Body body) const {
#pragma unroll
    for (int i = 0; i < kCount; i += kWidth) {
      body(i, i / kRun, k + i % kRun);
    }
  }

  template <int kWidth, int kPixels, int kCount>
  __device__ void add_tensors(const int (&places)[kPixels], int k, float (&outputs)[kCount]) const {
    const auto* const scale = reinterpret_cast<const Stored*>(a.scale);
    const auto* const bias = reinterpret_cast<const Stored*>(a.bias);
    const auto* const residual = reinterpret_cast<const Stored*>(a.residual) + image;
    for_vectors<kWidth>(k, outputs, [&](int i, int pixel, int filter) {
      const auto factors = load_if<kWidth>(scale != nullptr && filter < a.k, scale + filter);
      const auto added = load_if<kWidth>(bias != nullptr && filter < a.k, bias + filter);
      const auto more = load_if<kWidth>(a.residual != nullptr && filter < a.k && places[pixel] >= 0,
                                        residual + (places[pixel] + filter));
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        float& output = outputs[i + j];
        if (scale != nullptr) output *= static_cast<float>(factors.lane[j]);
        output += static_cast<float>(added.lane[j]);
        output += static_cast<float>(more.lane[j]);
      }
    });
  }

  template <int kWidth, int kPixels, int kCount>
  __device__ void store(const int (&places)[kPixels], int k, float (&outputs)[kCount]) const {
    auto* const y = reinterpret_cast<Stored*>(a.y) + image;
    for_vectors<kWidth>(k, outputs, [&](int i, int pixel, int filter) {
      if (places[pixel] < 0 || filter >= a.k) return;
      Vec<kWidth> vector;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) vector.lane[j] = outputs[i + j];
      cuda::store(y + (places[pixel] + filter), vector);
    });
  }
};

}  // namespace megaconv::cuda
