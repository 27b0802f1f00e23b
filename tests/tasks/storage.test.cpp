// SPDX-License-Identifier: Apache-2.0
// The storage types: every number of the narrow ones, and the vectors of every instruction set.
#include "tasks/storage.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "tests/catch.hpp"
#include "tests/tasks/cpu_layer.hpp"

namespace megaconv {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of 16 bits by the definition of the format: sign, exponent, fraction.
double defined_value(std::uint32_t bits, int fraction_bits) {
  const int bias = (1 << (14 - fraction_bits)) - 1;
  const auto exponent =
      static_cast<int>(bits >> fraction_bits & ((1u << (15 - fraction_bits)) - 1));
  const double fraction = std::ldexp(bits & ((1u << fraction_bits) - 1), -fraction_bits);
  const double size = exponent == 2 * bias + 1 ? (fraction == 0 ? INFINITY : NAN)
                      : exponent == 0          ? std::ldexp(fraction, 1 - bias)
                                               : std::ldexp(1 + fraction, exponent - bias);
  return bits >> 15 != 0 ? -size : size;
}

template <class T>
void check_every_number(DataType dtype, int fraction_bits) {
  std::uint32_t wrong = 0, unrounded = 0;
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const T number{static_cast<std::uint16_t>(bits)};
    const double value = defined_value(bits, fraction_bits);
    const float wide = to_float(number);
    if (std::isnan(value)) {
      wrong += !std::isnan(wide) || !std::isnan(to_float(from_float<T>(wide)));
      continue;
    }
    wrong += wide != value || std::signbit(wide) != std::signbit(value);
    wrong += from_float<T>(wide).bits != bits;
    if ((bits & 0x7fff) == 0x7fff || std::isinf(value)) continue;
    // To the nearest between this number and the next greater in size; in the middle to the even.
    const double next = defined_value(bits + 1, fraction_bits);
    if (std::isinf(next)) continue;
    const auto middle = static_cast<float>((value + next) / 2);
    const float below = std::nextafter(middle, 0.0f), above = std::nextafter(middle, 2 * middle);
    unrounded += from_float<T>(below).bits != bits;
    unrounded += from_float<T>(above).bits != bits + 1;
    unrounded += from_float<T>(middle).bits != (bits & 1 ? bits + 1 : bits);
    const double size = std::max(std::fabs(value), least_normal(dtype));
    unrounded += std::fabs(middle - value) > unit_roundoff(dtype) * size;
  }
  CHECK(wrong == 0);
  CHECK(unrounded == 0);
}

TEST_CASE("narrow numbers are what their formats say, and floats are rounded to the nearest") {
  check_every_number<Float16>(DataType::f16, 10);
  check_every_number<Bfloat16>(DataType::bf16, 7);
}

TEST_CASE("integers of 8 bits are rounded to the nearest, ties to even, and saturate") {
  std::uint32_t wrong = 0;
  for (int value = -128; value < 128; ++value) {
    const Int8 number{static_cast<std::uint8_t>(value & 0xff)};
    const auto exact = static_cast<float>(value);
    wrong += to_float(number) != exact || from_float<Int8>(exact).bits != number.bits;
    if (value == 127) continue;
    const float middle = exact + 0.5f;
    const float even = value % 2 == 0 ? exact : exact + 1;
    wrong += to_float(from_float<Int8>(middle)) != even;
    wrong += to_float(from_float<Int8>(std::nextafter(middle, -200.0f))) != exact;
    wrong += to_float(from_float<Int8>(std::nextafter(middle, 200.0f))) != exact + 1;
  }
  CHECK(wrong == 0);
  for (const float large : {127.5f, 128.0f, 3e9f, 3e38f, kInfinity}) {
    CHECK(to_float(from_float<Int8>(large)) == 127);
    CHECK(to_float(from_float<Int8>(-large - 1)) == -128);
  }
  CHECK(to_float(from_float<Int8>(std::numeric_limits<float>::quiet_NaN())) == -128);
}

TEST_CASE("what is too large for a narrow type becomes infinite") {
  CHECK(to_float(from_float<Float16>(65519.996f)) == 65504);
  CHECK(to_float(from_float<Float16>(65520)) == kInfinity);
  CHECK(to_float(from_float<Float16>(-3e38f)) == -kInfinity);
  CHECK(to_float(from_float<Bfloat16>(0x1.fep127f)) == 0x1.fep127f);
  CHECK(to_float(from_float<Bfloat16>(0x1.ffp127f)) == kInfinity);
}

// A 1x1 depthwise convolution with weights of 1, and a residual: every number of the type is read,
// and sums in the middle between two numbers, or near it, are rounded.
TEST_CASE("tasks convert as the definition does, bit for bit, with every instruction set") {
  for (const char* dtype : {"f16", "bf16"}) {
    for (const char* layout : {"+nchw+", "+nhwc+"}) {
      // 16 channels x 4096 pixels: 2^16 numbers.
      const Tiling tiling =
          make_tiling(parse_problem(std::string("c16h64w64k16g16r1p0+residual") + layout + dtype),
                      {.algorithm = Algorithm::direct}, Target{.workers = 1});
      for (const std::string& isa : cpu::available_isas()) {
        INFO(to_string(tiling) << "isa: " << isa);
        CpuLayer layer(tiling, cpu::kernels_for(isa));
        with_storage(tiling.problem.dtype, [&](auto number) {
          using T = decltype(number);
          if constexpr (sizeof(T) == 2) {
            T* const x = static_cast<T*>(layer.x.data());
            T* const w = static_cast<T*>(layer.w.data());
            T* const residual = static_cast<T*>(layer.residual.data());
            for (int k = 0; k < 16; ++k) w[k] = from_float<T>(1);
            for (std::uint32_t i = 0; i < 1u << 16; ++i) {
              x[i] = T{static_cast<std::uint16_t>(i)};
              // Half the distance to the next number, and a little more or less.
              const float value = to_float(x[i]);
              const float next = to_float(T{static_cast<std::uint16_t>(i ^ 1)});
              const float factor = 1 + static_cast<float>(static_cast<int>(i % 3) - 1) / 256;
              residual[i] = from_float<T>((next - value) / 2 * factor);
            }
            layer.run();
            std::uint32_t wrong = 0;
            for (std::uint32_t i = 0; i < 1u << 16; ++i) {
              const T truth = from_float<T>(to_float(x[i]) + to_float(residual[i]));
              const T got = static_cast<const T*>(layer.y.data())[i];
              const bool same = got.bits == truth.bits ||
                                (std::isnan(to_float(got)) && std::isnan(to_float(truth)));
              wrong += !same;
            }
            CHECK(wrong == 0);
            CHECK(layer.fences_whole());
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace megaconv
