// SPDX-License-Identifier: Apache-2.0
// In the place of the one with PTX: the lanes of a warp tell each other what they hold.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "tests/emulated_cuda/simt.hpp"
#include "tests/emulated_cuda/tensor_core.hpp"

namespace megaconv::cuda {

inline void load_matrices(std::uint32_t (&matrices)[4], const void* row) {
  const std::array<const void*, 32>& rows = test::exchange(row);
  const std::size_t lane = threadIdx.x % 32;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto* const numbers = static_cast<const std::byte*>(rows[i * 8 + lane / 4]);
    if (test::shared_address(numbers) % 16 != 0) throw std::runtime_error("ldmatrix: misaligned");
    std::memcpy(&matrices[i], numbers + lane % 4 * 4, sizeof matrices[i]);
  }
}

// The four sums of this thread. row(index, low, high): numbers of a row of the first operand or a
// column of the second, of which its four lanes have some in two of their words.
template <class Row>
void add_products_of_lane(float (&d)[4], Row row) {
  const std::size_t lane = threadIdx.x % 32;
  const std::array<float, 16> rows[2] = {row(lane / 4, 0, 2), row(lane / 4, 1, 3)};
  const std::array<float, 16> columns[2] = {row(lane % 4 * 2, 4, 5), row(lane % 4 * 2 + 1, 4, 5)};
  for (std::size_t i = 0; i < 4; ++i) {
    d[i] = test::add_products(d[i], rows[i / 2], columns[i % 2]);
  }
}

// `float_of`: of the 16 bits of a number.
template <class FloatOf>
void mma_16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
            FloatOf float_of) {
  using Words = std::array<std::uint32_t, 6>;
  const std::array<Words, 32>& lanes = test::exchange(Words{a[0], a[1], a[2], a[3], b[0], b[1]});
  // 16 channels of a row, of which its four lanes have two each in two matrices.
  const auto row = [&](std::size_t index, std::size_t low, std::size_t high) {
    std::array<float, 16> numbers;
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint32_t pair = lanes[index * 4 + i % 8 / 2][i < 8 ? low : high];
      numbers[i] = float_of(static_cast<std::uint16_t>(pair >> i % 2 * 16));
    }
    return numbers;
  };
  add_products_of_lane(d, row);
}

inline void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma_16(d, a, b, [](std::uint16_t bits) { return test::float_of_half(bits); });
}
inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma_16(d, a, b, [](std::uint16_t bits) { return __uint_as_float(std::uint32_t{bits} << 16); });
}

inline void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  using Words = std::array<std::uint32_t, 6>;
  const std::array<Words, 32>& lanes = test::exchange(Words{a[0], a[1], a[2], a[3], b[0], b[1]});
  const auto row = [&](std::size_t index, std::size_t low, std::size_t high) {
    std::array<float, 16> numbers{};
    for (std::size_t i = 0; i < 8; ++i) {
      numbers[i] = __uint_as_float(lanes[index * 4 + i % 4][i < 4 ? low : high] & ~0x1fffu);
    }
    return numbers;
  };
  add_products_of_lane(d, row);
}

inline std::uint32_t round_to_tf32(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}

}  // namespace megaconv::cuda
