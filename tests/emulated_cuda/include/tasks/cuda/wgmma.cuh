// SPDX-License-Identifier: Apache-2.0
// In the place of the one with PTX: products are computed when they are waited for, from what is in
// shared memory then.
#pragma once

#include <cuda_fp16.h>

#include <array>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "tests/emulated_cuda/simt.hpp"
#include "tests/emulated_cuda/tensor_core.hpp"

namespace megaconv::cuda {

struct WgmmaOperand {
  const char* start;
  int channel_stride;
  std::array<float, 16> row(int index) const {
    std::array<std::uint16_t, 16> numbers;
    const char* const first = start + index / 8 * 128 + index % 8 * 16;
    std::memcpy(&numbers[0], first, 16);
    std::memcpy(&numbers[8], first + channel_stride, 16);
    std::array<float, 16> row;
    for (std::size_t i = 0; i < 16; ++i) row[i] = test::float_of_half(numbers[i]);
    return row;
  }
};
inline WgmmaOperand wgmma_operand(const void* start, int channel_stride) {
  return {static_cast<const char*>(start), channel_stride};
}

// Of every thread: its part of the products.
using WgmmaBatch = std::vector<std::function<void()>>;
inline WgmmaBatch open_products[1024];
inline std::vector<WgmmaBatch> products[1024];

inline void wgmma_fence() {}
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
}

inline int warpgroup_index() { return static_cast<int>(threadIdx.x) / 128; }

template <int kN>
void wgmma(float (&d)[kN / 2], WgmmaOperand a, WgmmaOperand b, int keep = 1) {
  float* const sums = d;
  open_products[threadIdx.x].push_back([=] {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first_row = warp * 16 + lane / 4;
    const std::array<float, 16> rows[2] = {a.row(first_row), a.row(first_row + 8)};
    for (int column = 0; column < kN; column += 8) {
      for (int next = 0; next < 2; ++next) {
        const std::array<float, 16> other = b.row(column + lane % 4 * 2 + next);
        for (int half = 0; half < 2; ++half) {
          float& sum = sums[column / 2 + half * 2 + next];
          sum = test::add_products(keep != 0 ? sum : 0.0f, rows[half], other);
        }
      }
    }
  });
}

}  // namespace megaconv::cuda
