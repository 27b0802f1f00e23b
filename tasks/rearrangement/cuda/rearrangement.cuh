// SPDX-License-Identifier: Apache-2.0
// Tasks of rearrangements: they move bits. A thread has 16 bytes of y at a time, or one number
// where channels do not come in these. Neighbouring threads write neighbouring numbers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tasks/rearrangement/cuda/rearrangement_args.hpp"

namespace megaconv::cuda {

/// Stored: a type of the size of the tensors' numbers. A block of kThreads runs it.
template <class Stored, int kThreads>
class RearrangementTask {
 public:
  static __device__ void run(const RearrangementArgs& a, std::uint32_t group) {
    a.vectors ? move<uint4>(a, group) : move<Number>(a, group);
  }

 private:
  using Number = std::conditional_t<sizeof(Stored) == 4, std::uint32_t, std::uint16_t>;

  template <class Word>
  static __device__ void move(const RearrangementArgs& a, std::uint32_t group) {
    constexpr int kNumbers = static_cast<int>(sizeof(Word) / sizeof(Number));
    const auto bands = static_cast<std::uint32_t>((a.p - 1) / a.rows_per_group + 1);
    const int row = static_cast<int>(group % bands) * a.rows_per_group;
    const int pixels = min(a.rows_per_group, a.p - row) * a.q, pieces = a.k / kNumbers;
    const std::int64_t image = group / bands;
    const auto* const x = static_cast<const Number*>(a.x) + image * a.x_image;
    auto* const y = static_cast<Number*>(a.y) + image * a.y_image;
    const bool channels_first = a.y_channel == 1;  // in the order of threads
    for (int i = static_cast<int>(threadIdx.x); i < pixels * pieces; i += kThreads) {
      const int pixel = row * a.q + (channels_first ? i / pieces : i % pixels);
      const int channel = (channels_first ? i % pieces : i / pixels) * kNumbers;
      // Of x, with its rows and columns repeated.
      const int down = pixel / a.q - a.top, right = pixel % a.q - a.left;
      Word word;
      if (down < 0 || right < 0 || down / a.repeat_h >= a.h || right / a.repeat_w >= a.w) {
        word = filled<Word>(a.fill);
      } else {
        const int from = down / a.repeat_h * a.w + right / a.repeat_w;
        const int source =
            a.first_channel + channel % a.groups * (a.k / a.groups) + channel / a.groups;
        word = *reinterpret_cast<const Word*>(x + static_cast<std::int64_t>(from) * a.x_pixel +
                                              static_cast<std::int64_t>(source) * a.x_channel);
      }
      *reinterpret_cast<Word*>(y + static_cast<std::int64_t>(pixel) * a.y_pixel +
                               static_cast<std::int64_t>(channel) * a.y_channel) = word;
    }
  }

  template <class Word>
  static __device__ Word filled(std::uint32_t bits) {
    if constexpr (sizeof(Word) == 16) {
      return {bits, bits, bits, bits};
    } else {
      return static_cast<Word>(bits);
    }
  }
};

/// Of a node: `args` has places in `memory`.
template <class Stored, int kThreads, class Wait>
__device__ __forceinline__ void run_task(RearrangementArgs args, const NetworkMemory& memory,
                                         std::uint32_t group, std::uint32_t, Wait wait) {
  become_pointers(memory, args.x, args.y);
  wait();
  RearrangementTask<Stored, kThreads>::run(args, group);
}

}  // namespace megaconv::cuda
