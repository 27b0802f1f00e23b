// SPDX-License-Identifier: Apache-2.0
// In the place of the one with PTX: products are computed when they are waited for, from what is in
// shared memory then. Descriptors of operands are Hopper's, without swizzling or in rows of 128
// bytes.
#pragma once

#include <cuda_fp16.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/emulated_cuda/simt.hpp"
#include "tests/emulated_cuda/tensor_core.hpp"

namespace megaconv::cuda {

inline std::uint64_t wgmma_operand(const void* start, int channel_stride) {
  return static_cast<std::uint64_t>(test::shared_address(start) >> 4) |
         static_cast<std::uint64_t>(channel_stride >> 4) << 16;
}
inline constexpr std::uint64_t kSwizzled = std::uint64_t{1} << 62;
template <int kRowBytes>
std::uint64_t wgmma_swizzled_operand(const void* start) {
  static_assert(kRowBytes == 128, "no other rows are emulated");
  return static_cast<std::uint64_t>(test::shared_address(start) >> 4) | kSwizzled;
}
inline std::uint64_t advance(std::uint64_t operand, int num_bytes) {
  return operand + static_cast<std::uint64_t>(num_bytes / 16);
}

// The 16 channels of a row of an operand.
inline std::array<float, 16> wgmma_row(std::uint64_t operand, int index) {
  std::array<std::uint16_t, 16> numbers;
  const std::uint64_t start = (operand & 0x3fff) << 4;
  if ((operand & kSwizzled) != 0) {
    for (std::uint64_t octet = 0; octet < 2; ++octet) {
      const std::uint64_t address = start + static_cast<std::uint64_t>(index) * 128 + octet * 16;
      std::memcpy(&numbers[octet * 8], test::shared_memory(address ^ (address >> 7 & 7) << 4), 16);
    }
  } else {
    const std::byte* const first = test::shared_memory(start) + index * 16;
    std::memcpy(&numbers[0], first, 16);
    std::memcpy(&numbers[8], first + ((operand >> 16 & 0x3fff) << 4), 16);
  }
  std::array<float, 16> row;
  for (std::size_t i = 0; i < 16; ++i) row[i] = test::float_of_half(numbers[i]);
  return row;
}

// Of every thread: its part of the products. Instructions wait for all threads of a warp, as the
// real ones do: one of them may tell others what holds for all.
using WgmmaBatch = std::vector<std::function<void()>>;
inline WgmmaBatch open_products[1024];
inline std::vector<WgmmaBatch> products[1024];

inline void wgmma_fence() { test::wait_for_warp(); }
inline void wgmma_commit() {
  products[threadIdx.x].push_back(std::move(open_products[threadIdx.x]));
  open_products[threadIdx.x].clear();
}
template <int kPending>
void wgmma_wait() {
  auto& batches = products[threadIdx.x];
  while (batches.size() > kPending) {
    for (const auto& product : batches.front()) product();
    batches.erase(batches.begin());
  }
  test::wait_for_warp();
}

inline int warpgroup_index() { return static_cast<int>(threadIdx.x) / 128; }
inline void warpgroup_sync(int) { test::wait_for_warpgroup(); }
template <int kRegisters>
void increase_registers() {}
template <int kRegisters>
void decrease_registers() {}

template <int kN, class Number = __half>
void wgmma(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b, int keep = 1) {
  static_assert(std::is_same_v<Number, __half>, "only FP16 is emulated");
  float* const sums = d;
  open_products[threadIdx.x].push_back([=] {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first_row = warp * 16 + lane / 4;
    const std::array<float, 16> rows[2] = {wgmma_row(a, first_row), wgmma_row(a, first_row + 8)};
    for (int column = 0; column < kN; column += 8) {
      for (int next = 0; next < 2; ++next) {
        const std::array<float, 16> other = wgmma_row(b, column + lane % 4 * 2 + next);
        for (int half = 0; half < 2; ++half) {
          float& sum = sums[column / 2 + half * 2 + next];
          sum = test::add_products(keep != 0 ? sum : 0.0f, rows[half], other);
        }
      }
    }
  });
}

}  // namespace megaconv::cuda
