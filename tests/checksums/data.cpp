// SPDX-License-Identifier: Apache-2.0
#include "tests/checksums/data.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/checksums/dice.hpp"

namespace megaconv::checksums {
namespace {

// An IEEE format, whose numbers are made of their three fields.
struct Format {
  int fraction_bits, bias;
};
constexpr Format kFloat{23, 127}, kFloat16{10, 15}, kBfloat16{7, 127};
// Magnitudes are so far apart that sums are rounded, in 16 bits, too: their order shows.
constexpr unsigned kBinades = 12;

// Any sign and fraction, magnitudes of 2^-11 to 2, times 2^exponent; too small ones are denormal.
// One in eight is zero.
std::uint64_t draw_number(Dice& dice, const Format& format, int exponent) {
  const std::uint64_t bits = dice.bits();
  if (bits >> 61 == 0) return 0;
  const auto below = static_cast<int>((bits >> 45 & 0xffffu) % kBinades);
  const auto field = static_cast<std::uint64_t>(std::max(0, format.bias - below + exponent));
  const std::uint64_t fraction = (bits >> 8) & ((std::uint64_t{1} << format.fraction_bits) - 1);
  const std::uint64_t sign = bits & 1u;
  const int exponent_bits = std::bit_width(static_cast<unsigned>(format.bias)) + 1;
  return sign << (exponent_bits + format.fraction_bits) | field << format.fraction_bits | fraction;
}

template <class Word>
void fill(Bytes& bytes, Dice& dice, const Format& format, int exponent) {
  auto* const to = static_cast<std::byte*>(bytes.get());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
    const auto word = static_cast<Word>(draw_number(dice, format, exponent));
    std::memcpy(to + at, &word, sizeof(Word));
  }
}

Bytes draw_tensor(std::uint64_t seed, std::int64_t elements, DataType dtype, int exponent) {
  Bytes bytes(static_cast<std::size_t>(elements) * size_of(dtype));
  Dice dice(seed);
  switch (dtype) {
    case DataType::f16:
      fill<std::uint16_t>(bytes, dice, kFloat16, exponent);
      break;
    case DataType::bf16:
      fill<std::uint16_t>(bytes, dice, kBfloat16, exponent);
      break;
    default:
      fill<std::uint32_t>(bytes, dice, kFloat, exponent);
      break;
  }
  return bytes;
}

// Whole numbers of -most to most; -128 with 127, too.
Bytes draw_bytes(std::uint64_t seed, std::int64_t elements, int most) {
  Bytes bytes(static_cast<std::size_t>(elements));
  Dice dice(seed);
  auto* const to = static_cast<signed char*>(bytes.get());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    to[at] = static_cast<signed char>(dice.between(most == 127 ? -128 : -most, most));
  }
  return bytes;
}

}  // namespace

Bytes::Bytes(std::size_t size, std::byte value)
    : size_(size), lines_((size + sizeof(Line) - 1) / sizeof(Line)) {
  if (size != 0) std::memset(static_cast<void*>(lines_.data()), static_cast<int>(value), size);
}

// Of i8 with a scale over the whole range, else so small that few outputs saturate.
Data::Data(const ConvProblem& p, const Case& item) : x(0), w(0), scale(0), bias(0), residual(0) {
  const bool i8 = p.dtype == DataType::i8;
  const std::uint64_t seed = item.seed * 8;
  if (i8) {
    x = draw_bytes(seed, p.x_size(), p.epilogue.scale ? 127 : 3);
    w = draw_bytes(seed + 1, p.w_size(), p.epilogue.scale ? 127 : 2);
  } else {
    x = draw_tensor(seed, p.x_size(), p.dtype, item.x_exponent);
    w = draw_tensor(seed + 1, p.w_size(), p.dtype, item.w_exponent);
  }
  const DataType vectors = p.vector_type();
  if (p.epilogue.scale) scale = draw_tensor(seed + 2, p.k, vectors, i8 ? -9 : 0);
  if (p.epilogue.bias) bias = draw_tensor(seed + 3, p.k, vectors, i8 ? 4 : item.x_exponent);
  if (p.epilogue.residual) {
    residual = i8 ? draw_bytes(seed + 4, p.y_size(), 40)
                  : draw_tensor(seed + 4, p.y_size(), p.dtype, item.x_exponent);
  }
}

std::uint64_t hash(const void* bytes, std::size_t size) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  const auto* const begin = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) sum = (sum ^ begin[i]) * 0x100000001b3u;
  return sum;
}

}  // namespace megaconv::checksums
