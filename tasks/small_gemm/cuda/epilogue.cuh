// SPDX-License-Identifier: Apache-2.0
// From sums in shared memory, [warp over sums][pixel][filter], to outputs: those of all warps in
// their order, scale, bias, residual, activation. A thread has four filters of a pixel at a time.
// What it stores may also be an operand of an elementwise operation, whose output it stores then,
// or of a pooling. Of sums that tasks share, [task][pixel][filter]: SumExchange has brought them.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/pooling/cuda/pool_numbers.cuh"
#include "tasks/small_gemm/cuda/quotient.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/cuda/stored_pairs.cuh"

namespace megaconv::cuda {

/// Row in its tile of a pixel.
__device__ inline int row_of(const SmallGemmShare& share, int pixel) {
  return quotient(pixel, share.reciprocal);
}

template <class Products, class Bias>
class SmallGemmEpilogue {
 public:
  using Stored = typename Products::Stored;

  /// Where this thread's first outputs are. `vectors`: shared memory, [2 or 4][filter].
  /// tensor(pointer): what a pointer of the arguments stands for.
  template <class Tensor>
  __device__ SmallGemmEpilogue(const SmallGemmArgs& a, const SmallGemmShare& share, Tensor tensor,
                               float* vectors)
      : a_(a), share_(share), vectors_(vectors) {
    find_first();
    if constexpr (Products::kLeavesRegisters) find_outputs();
    if constexpr (Products::kLeavesRegisters) find_tensors(tensor);
  }

  /// Bias and scale, and those of a second output, on their way to `vectors`: those in FP32 with
  /// the thread's next group of copies, others up to put_bias().
  template <class Tensor>
  __device__ void load_vectors(Tensor tensor) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread >= a_.own_filters) return;
    const int filter = share_.first_filter + thread;
    const auto* const readable = static_cast<const char*>(tensor(a_.u));
    const auto copy_floats = [&](int to, const void* from) {
      const bool exists = from != nullptr && filter < a_.k;
      const void* number = readable;
      if (exists) number = static_cast<const float*>(from) + filter;
      __pipeline_memcpy_async(vectors_ + to * a_.own_filters + thread, number, sizeof(float),
                              exists ? 0 : sizeof(float));
    };
    const void* const bias = tensor(a_.bias);
    if constexpr (kBiasComesLater) {
      if (bias != nullptr && filter < a_.k) bias_ = static_cast<const Bias*>(bias)[filter];
    } else {
      copy_floats(0, bias);
    }
    if (a_.scales_at != 0) copy_floats(1, readable + a_.scales_at);
    if (a_.second.scale != nullptr) {
      copy_floats(2, tensor(a_.second.scale));
      copy_floats(3, tensor(a_.second.bias));
    }
  }
  /// Behind what need not wait for it, and before a barrier of the block.
  __device__ void put_bias() {
    if constexpr (kBiasComesLater) {
      const int thread = static_cast<int>(threadIdx.x);
      if (thread < a_.own_filters) vectors_[thread] = static_cast<float>(bias_);
    }
  }

  /// Behind the products: the residual, on its way while warps hand in their sums.
  template <class Tensor>
  __device__ void load_residual(Tensor tensor) {
    if constexpr (!Products::kLeavesRegisters) {
      find_first();
      find_tensors(tensor);
    }
    if constexpr (!Products::kLeavesRegisters) find_outputs();
    load_residuals();
  }

  /// Behind a barrier of the block, which has written its sums. For a second output, what was
  /// stored is left where an output's first sum was, as a float. Tasks that pool only leave it
  /// there.
  template <class Tensor>
  __device__ void write_outputs(float* sums, Tensor tensor) {
    if (a_.k % kVector != 0) [[unlikely]] {
      return write_numbers(a_, share_, vectors_, sums, tensor(a_.y), tensor(a_.residual));
    }
    // A thread reads about four vectors of sums in all. They come at once.
    a_.summands < kAtOnce ? write<kAtOnce, 1>(sums) : write<1, kAtOnce>(sums);
    if constexpr (Products::kStoresPairs) {
      if (a_.y_in_pairs && needs_wide()) {
        note_wide(tensor);
        write_wide(sums);
      }
    }
  }

  /// Behind write_outputs() of the same sums. The same bits as tasks of their own, which read
  /// outputs as they were stored. Filters come in vectors.
  template <class Tensor>
  __device__ void write_second(const float* sums, Tensor tensor) {
    if (a_.second.y == nullptr) [[likely]]
      return;
    if (a_.second.window.r == 0) return write_elementwise(sums, tensor);
    __syncthreads();  // windows have outputs of other threads
    write_own(sums);
    a_.second.window.averages ? write_pooled<false>(sums, tensor)
                              : write_pooled<true>(sums, tensor);
  }

 private:
  static constexpr int kVectorBits = 2, kVector = 1 << kVectorBits;  // numbers
  static constexpr int kAtOnce = 4;                                  // outputs of a thread
  static constexpr bool kBiasComesLater = sizeof(Bias) != sizeof(float);

  // Of outputs that this thread has written.
  template <class Tensor>
  __device__ void write_elementwise(const float* sums, Tensor tensor) {
    const SecondOutput& second = a_.second;
    auto* const y = static_cast<Stored*>(const_cast<void*>(tensor(second.y))) +
                    static_cast<std::int64_t>(share_.image) * a_.p * a_.q * second.channels +
                    second.first_channel + share_.first_filter + filter_;
    const float* const scales = vectors_ + 2 * a_.own_filters + filter_;
    const auto scale = *reinterpret_cast<const Vec<kVector>*>(scales);
    const auto bias = *reinterpret_cast<const Vec<kVector>*>(scales + a_.own_filters);
    find_first();
    for (int pixel = pixel_; pixel < num_pixels_; pixel += stride_) {
      auto value =
          *reinterpret_cast<const Vec<kVector>*>(sums + pixel * a_.summand_pitch + filter_);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        float number = value.lane[i];
        if (second.scale != nullptr) number = fmaf(scale.lane[i], number, bias.lane[i]);
        value.lane[i] = clamped(second.least, second.most, number);
      }
      const std::int64_t place = place_of(pixel, a_.q);
      store<kVector>(y + place * second.channels, value);
    }
  }

  // To y, of a task that pools, what no other task writes there.
  __device__ void write_own(const float* sums) {
    find_first();
#pragma unroll 1
    for (int pixel = pixel_; pixel < num_pixels_; pixel += stride_) {
      const int row = row_of(share_, pixel) - share_.own_row;
      const int col = pixel - (row + share_.own_row) * share_.cols - share_.own_col;
      if (static_cast<unsigned>(row) >= static_cast<unsigned>(share_.own_rows) ||
          static_cast<unsigned>(col) >= static_cast<unsigned>(share_.own_cols)) {
        continue;
      }
      const auto value =
          *reinterpret_cast<const Vec<kVector>*>(sums + pixel * a_.summand_pitch + filter_);
      store<kVector>(y_ + to_ + output_at(pixel, y_row()), value);
    }
  }
  template <bool kMax, class Tensor>
  __device__ void write_pooled(const float* sums, Tensor tensor) {
    write_pooled_as<kMax>(sums, tensor, false);
    if constexpr (Products::kStoresPairs) {
      if (a_.pooled_in_pairs && needs_wide()) {
        note_wide(tensor);
        write_pooled_as<kMax>(sums, tensor, true);
      }
    }
  }
  template <bool kMax, class Tensor>
  __device__ void write_pooled_as(const float* sums, Tensor tensor, bool wide) {
    constexpr int kNumbers = kMax ? 4 : 8;  // at a time: averages are of whole rows of images
    const PoolWindow& window = a_.second.window;
    auto* const y = static_cast<Stored*>(const_cast<void*>(tensor(a_.second.y))) +
                    static_cast<std::int64_t>(share_.image) * window.p * window.q * a_.k +
                    (Products::kStoresPairs ? 0 : share_.first_filter);
    const int vector_bits = a_.own_bits - kVectorBits;
    const int outputs = (share_.pooled_rows * share_.pooled_cols) << vector_bits;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < outputs; i += kSmallGemmThreads) {
      const int pixel = i >> vector_bits, filter = (i - (pixel << vector_bits)) * kVector;
      if (share_.first_filter + filter >= a_.k) continue;
      const int row = share_.pooled_row + pixel / share_.pooled_cols;
      const int col = share_.pooled_col + pixel % share_.pooled_cols;
      const int top = row * window.stride_h - window.pad_h;
      const int left = col * window.stride_w - window.pad_w;
      const int first_row = max(top, 0), end_row = min(top + window.r, a_.p);
      const int first_col = max(left, 0), end_col = min(left + window.s, a_.q);
      Vec<kVector> result = empty_pool<kVector, kMax>();
#pragma unroll 1
      for (int h = first_row; h < end_row; ++h) {
        const float* from =
            sums + filter +
            ((h - share_.row) * share_.cols + first_col - share_.col) * a_.summand_pitch;
#pragma unroll 1
        for (int w = first_col; w < end_col; w += kNumbers, from += kNumbers * a_.summand_pitch) {
          Vec<kVector> numbers[kNumbers];
#pragma unroll
          for (int j = 0; j < kNumbers; ++j) {
            numbers[j] = *reinterpret_cast<const Vec<kVector>*>(
                w + j < end_col ? from + j * a_.summand_pitch : from);
          }
#pragma unroll
          for (int j = 0; j < kNumbers; ++j) {
            add_to_pool<kMax>(result, numbers[j], w + j < end_col);
          }
        }
      }
      if constexpr (!kMax) {
        const auto count = static_cast<float>((end_row - first_row) * (end_col - first_col));
#pragma unroll
        for (float& number : result.lane) number /= count;
      }
      if constexpr (Products::kStoresPairs) {
        const int channel = share_.first_filter + filter;
        if (a_.pooled_in_pairs) {
          auto* const high =
              reinterpret_cast<std::uint16_t*>(y) + (2 * row * window.q + col) * a_.k + channel;
          wide ? store_wide(high, window.q * a_.k, result)
               : store_pairs(high, window.q * a_.k, result, false);
        } else {
          store<kVector>(y + (row * window.q + col) * a_.k + channel, result);
        }
      } else {
        store<kVector>(y + (static_cast<std::int64_t>(row) * window.q + col) * a_.k + filter,
                       result);
      }
    }
  }
  static __device__ Vec<kVector> as_stored(Vec<kVector> value) {
#pragma unroll
    for (float& number : value.lane) number = static_cast<float>(static_cast<Stored>(number));
    return value;
  }

  // Whether what this thread has stored has to be wide. By all threads of a warp, whose numbers may
  // all be small: to ask the block would be a barrier.
  __device__ bool needs_wide() const {
    const bool any_large = __any_sync(~0u, to_pairs_.has_large());
    return any_large ? to_pairs_.has_too_large() : to_pairs_.has_any_but_zeros();
  }

  template <class Tensor>
  __device__ void note_wide(Tensor tensor) const {
    *static_cast<std::uint32_t*>(const_cast<void*>(tensor(a_.wide_pairs))) = 1;
  }

  // As it is stored: two numbers of 16 bits would take a register each.
  struct alignas(kVector * sizeof(Stored)) Residual {
    std::uint32_t word[kVector * sizeof(Stored) / sizeof(std::uint32_t)];
    __device__ Vec<kVector> numbers() const {
      if constexpr (Products::kStoresPairs) {
        return StoredPairs<kVector>{{word[0], word[1]}, {word[2], word[3]}}.numbers();
      }
      Stored stored[kVector];
      memcpy(stored, word, sizeof stored);
      Vec<kVector> numbers;
#pragma unroll
      for (int i = 0; i < kVector; ++i) numbers.lane[i] = static_cast<float>(stored[i]);
      return numbers;
    }
  };

  __device__ void find_first() {
    const int thread = static_cast<int>(threadIdx.x), vector_bits = a_.own_bits - kVectorBits;
    pixel_ = thread >> vector_bits;
    filter_ = (thread - (pixel_ << vector_bits)) * kVector;
    stride_ = kSmallGemmThreads >> vector_bits;
    const int first = share_.first_filter + filter_;
    num_pixels_ = first < a_.k ? share_.rows * share_.cols : 0;
    to_ = static_cast<std::int64_t>(share_.image) * a_.p * a_.q * a_.k;
    if constexpr (!Products::kStoresPairs) to_ += first;
  }
  template <class Tensor>
  __device__ void find_tensors(Tensor tensor) {
    y_ = static_cast<Stored*>(const_cast<void*>(tensor(a_.y)));
    residuals_ = a_.k % kVector == 0 ? static_cast<const Stored*>(tensor(a_.residual)) : nullptr;
  }
  template <int kOutputs = kAtOnce>
  __device__ void find_outputs() {
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) output_[i] = output_at(pixel_ + i * stride_, y_row());
  }
  __device__ int y_row() const { return Products::kStoresPairs ? a_.y_row : a_.q; }
  // In the image, of a pixel of the tile: this thread's first filter. Rows of so many pixels.
  __device__ int output_at(int pixel, int row_pixels) const {
    const int place = place_of(pixel, row_pixels) * a_.k;
    return Products::kStoresPairs ? place + share_.first_filter + filter_ : place;
  }
  __device__ int place_of(int pixel, int row_pixels) const {
    const int row = row_of(share_, pixel);
    return (share_.row + row) * row_pixels + share_.col + pixel - row * share_.cols;
  }

  template <int kOutputs = kAtOnce>
  __device__ void load_residuals() {
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) residual_[i] = {};
    if constexpr (Products::kStoresPairs) {
      if (residuals_ != nullptr) load_pairs<kOutputs>();
    } else {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        if (residuals_ == nullptr || pixel_ + i * stride_ >= num_pixels_) continue;
        residual_[i] = *reinterpret_cast<const Residual*>(residuals_ + to_ + output_[i]);
      }
    }
  }
  // What is the same for all is found once: each look at an argument delays the loads behind it.
  template <int kOutputs>
  __device__ void load_pairs() {
    const auto* const high = reinterpret_cast<const std::uint16_t*>(residuals_ + to_);
    const int to_rests = a_.q * a_.k;
    int from[kOutputs];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) from[i] = output_[i];
    if (!a_.y_in_pairs) [[unlikely]] {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) from[i] = output_at(pixel_ + i * stride_, 2 * a_.q);
    }
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      if (pixel_ + i * stride_ >= num_pixels_) continue;
      const auto highs = *reinterpret_cast<const Halves*>(high + from[i]);
      const auto rests = *reinterpret_cast<const Halves*>(high + from[i] + to_rests);
      residual_[i] = {{highs.lane[0], highs.lane[1], rests.lane[0], rests.lane[1]}};
    }
  }

  // The high ones or the rests of a thread's filters.
  using Halves = Vec<kVector / 2, std::uint32_t>;
  __device__ void store_pairs(std::uint16_t* high, int to_rests, const Vec<kVector>& value,
                              bool with_rests) {
    const auto pairs = to_pairs_.convert(value, with_rests);
    *reinterpret_cast<Halves*>(high) = {{pairs.high[0], pairs.high[1]}};
    if (with_rests) *reinterpret_cast<Halves*>(high + to_rests) = {{pairs.rest[0], pairs.rest[1]}};
  }
  static __device__ void store_wide(std::uint16_t* high, int to_rests, const Vec<kVector>& value) {
#pragma unroll
    for (int n = 0; n < kVector; ++n) {
      const WidePair wide(value.lane[n]);
      high[n] = wide.high;
      high[to_rests + n] = wide.rest;
    }
  }
  __device__ std::uint16_t* y_pairs(int output) const {
    return reinterpret_cast<std::uint16_t*>(y_ + to_) + output;
  }

  // Once more what this thread has written, as wide pairs. Rare, so it is short rather than fast.
  __device__ void write_wide(const float* sums) {
    find_first();
#pragma unroll 1
    for (; pixel_ < num_pixels_; pixel_ += stride_) {
      find_outputs<1>();
      load_residuals<1>();
      const Vec<kVector> residual = residual_[0].numbers();
#pragma unroll
      for (int n = 0; n < kVector; ++n) {
        const int filter = filter_ + n;
        float number = 0;
        const float* from = sums + pixel_ * a_.summand_pitch + filter;
#pragma unroll 1
        for (int i = 0; i < a_.summands; ++i, from += a_.summand_stride) number += *from;
        number = fmaf(number, vectors_[a_.own_filters + filter], vectors_[filter]);
        if (residuals_ != nullptr) number += residual.lane[n];
        const WidePair wide(activate(a_.activation, number));
        std::uint16_t* const high = y_pairs(output_[0]) + n;
        high[0] = wide.high;
        high[a_.q * a_.k] = wide.rest;
      }
    }
  }

  // So many outputs at a time, and so many sums of each.
  template <int kOutputs, int kSums>
  __device__ void write(float* sums) {
    if (pixel_ >= num_pixels_) return;
    const bool has_second = a_.second.y != nullptr, pools = a_.second.window.r != 0;
    const int pitch = a_.summand_pitch, to_next = stride_ * pitch;
    const int summands = a_.summands, summand_stride = a_.summand_stride;
    const bool in_pairs = Products::kStoresPairs && a_.y_in_pairs, with_rests = a_.stores_rests;
    const int to_rests = a_.q * a_.k;
    const ActivationTerms activation = a_.activation;
    const auto bias = *reinterpret_cast<const Vec<kVector>*>(vectors_ + filter_);
    Vec<kVector> scales = zero<kVector>();
    if constexpr (Products::kConverts) {
      scales = *reinterpret_cast<const Vec<kVector>*>(vectors_ + a_.own_filters + filter_);
    }
    sums += pixel_ * pitch + filter_;
#pragma unroll 1
    for (;;) {
      Vec<kVector> value[kOutputs];
#pragma unroll
      for (auto& sum : value) sum = zero<kVector>();
      const float* from = sums;
#pragma unroll 1
      for (int n = 0; n < summands; n += kSums, from += kSums * summand_stride) {
        Vec<kVector> part[kOutputs][kSums];
        for_each<kOutputs, kSums>([&](int i, int m) {
          part[i][m] = zero<kVector>();
          if (pixel_ + i * stride_ >= num_pixels_) return;
          part[i][m] =
              *reinterpret_cast<const Vec<kVector>*>(from + i * to_next + m * summand_stride);
        });
        for_each<kOutputs, kSums>([&](int i, int m) { value[i] = value[i] + part[i][m]; });
      }
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        if (pixel_ + i * stride_ >= num_pixels_) return;
        add_bias_and_residual(value[i], scales, bias, residual_[i]);
        activate(activation, value[i].lane);
        if (!pools)
          in_pairs ? store_pairs(y_pairs(output_[i]), to_rests, value[i], with_rests)
                   : store<kVector>(y_ + to_ + output_[i], value[i]);
        if (has_second) *reinterpret_cast<Vec<kVector>*>(sums + i * to_next) = as_stored(value[i]);
      }
      pixel_ += kOutputs * stride_;
      if (pixel_ >= num_pixels_) return;
      sums += kOutputs * to_next;
      find_outputs<kOutputs>();
      load_residuals<kOutputs>();
    }
  }
  template <int kOutputs, int kSums, class Visit>
  static __device__ void for_each(Visit visit) {
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
#pragma unroll
      for (int m = 0; m < kSums; ++m) visit(i, m);
    }
  }

  // Where filters do not come in vectors.
  static __device__ void write_numbers(const SmallGemmArgs& a, const SmallGemmShare& share,
                                       const float* vectors, const float* sums, const void* y,
                                       const void* residuals) {
    const int filters = min(a.own_filters, a.k - share.first_filter);
    const int outputs = share.rows * share.cols * filters;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < outputs; i += kSmallGemmThreads) {
      const int pixel = i / filters, filter = i % filters;
      float number = 0;
      const float* from = sums + pixel * a.summand_pitch + filter;
#pragma unroll 1
      for (int n = 0; n < a.summands; ++n, from += a.summand_stride) number += *from;
      number = Products::kConverts ? fmaf(number, vectors[a.own_filters + filter], vectors[filter])
                                   : number + vectors[filter];
      const int row = row_of(share, pixel);
      const std::int64_t output =
          ((static_cast<std::int64_t>(share.image) * a.p + share.row + row) * a.q + share.col +
           pixel - row * share.cols) *
              a.k +
          share.first_filter + filter;
      if (residuals != nullptr) {
        number += static_cast<float>(static_cast<const Stored*>(residuals)[output]);
      }
      static_cast<Stored*>(const_cast<void*>(y))[output] =
          static_cast<Stored>(activate(a.activation, number));
    }
  }

  __device__ void add_bias_and_residual(Vec<kVector>& value, const Vec<kVector>& scales,
                                        const Vec<kVector>& bias, const Residual& stored) const {
    const auto add_bias = [&](int n) {
      value.lane[n] = Products::kConverts ? fmaf(value.lane[n], scales.lane[n], bias.lane[n])
                                          : value.lane[n] + bias.lane[n];
    };
    if constexpr (Products::kStoresPairs) {  // to convert what is not there would take too long
#pragma unroll
      for (int n = 0; n < kVector; ++n) add_bias(n);
      if (residuals_ != nullptr) value = value + stored.numbers();
    } else {
      const Vec<kVector> residual = stored.numbers();
#pragma unroll
      for (int n = 0; n < kVector; ++n) {
        add_bias(n);
        if (residuals_ != nullptr) value.lane[n] += residual.lane[n];
      }
    }
  }

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  float* const vectors_;
  Bias bias_ = static_cast<Bias>(0.0f);
  int output_[kAtOnce];  // in the image, of the first filter
  int filter_, pixel_, stride_, num_pixels_;
  std::int64_t to_;
  Stored* y_;
  const Stored* residuals_;
  Residual residual_[kAtOnce];
  ToStoredPairs to_pairs_;
};

}  // namespace megaconv::cuda
