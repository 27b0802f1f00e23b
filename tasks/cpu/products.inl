// SPDX-License-Identifier: Apache-2.0
// How a micro-kernel multiplies: by floats, by pairs of BF16 numbers, or by four INT8 numbers.
//
// All take words of 32 bits, a row's broadcast to all lanes and one of every filter, and leave sums
// of 32 bits. A word has as many neighbouring channels as fit, the first in its lowest bits.
//
// A product of two BF16 numbers has 16 bits, so it is exact in FP32; VDPBF16PS adds both of a pair
// with one rounding each, as multiply-adds of floats do; only denormal numbers count as zero.
//
// VPDPBUSD adds four products of an unsigned and a signed byte to a 32-bit integer, without
// saturation. So the patch holds x + 128, its zeros are 128, and sums start from -128 times the sum
// of the filter: an extra lane block, the "head", in front of each block of U. No sum leaves 32
// bits on its way: after some of the products it is the sum of those x w and of -128 w of the
// others, each 2^14 at most, and DataType::i8 has fewer than 2^17. Machines without the instruction
// do the same in more steps.
#pragma once

#include "tasks/cpu/storage.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Bits in all lanes.
MEGACONV_INLINE Vec splat(std::uint32_t bits) { return __builtin_bit_cast(Vec, Words{} + bits); }
MEGACONV_INLINE Vec broadcast_bits(const float* word) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, word, sizeof bits);
  return splat(bits);
}

struct FloatProduct {
  static constexpr Size kChannels = 1;  ///< of a word
  static constexpr Size kHeads = 0;     ///< lane blocks of a block of U before its words
  using Single = FloatProduct;          ///< reads words of one channel each

  /// What a sum starts from; head: lanes of U's head.
  static MEGACONV_INLINE Vec start(const float*) { return Vec{}; }
  /// Words of a pixel outside of the image.
  static MEGACONV_INLINE Vec zero() { return Vec{}; }
  /// The words of `count` neighbouring pixels (kLanes or fewer, then zeros), from the first of
  /// `channels` channels on, which are `stride` apart; zeros where there is none.
  template <class T>
  static MEGACONV_INLINE Vec read_words(const T* from, Size, Size channels, Size count) {
    return channels <= 0 ? Vec{} : read_some(from, count);
  }
  /// kLanes words of one pixel, whose channels are neighbours; zeros past the last.
  template <class T>
  static MEGACONV_INLINE Vec read_pixel(const T* from, Size channels) {
    return channels >= kLanes ? read(from) : read_first(from, max_of(channels, 0));
  }
  static MEGACONV_INLINE Vec broadcast_word(const float* word) { return broadcast(*word); }
  static MEGACONV_INLINE Vec multiply_add(Vec sum, Vec input, Vec filters) {
    return sum + input * filters;
  }
  /// Where a lane block of one channel goes, among words from `words` on; write() takes it.
  static MEGACONV_INLINE float* channel(float* words, Size) { return words; }
};

#if defined(__AVX512BF16__)
/// One channel in a lane block of pairs; the even one must be written before the odd one.
struct PairChannel {
  float* words;
  bool odd;
  MEGACONV_INLINE PairChannel operator+(Size lane) const { return {words + lane, odd}; }
};
/// `v`: floats of values that BF16 has.
MEGACONV_INLINE void write(PairChannel to, Vec v) {
  const Words bits = __builtin_bit_cast(Words, v);
  store(to.words, to.odd ? (bits & 0xffff0000) | load<Words>(to.words) : bits >> 16);
}

struct Bf16PairProduct {
  static constexpr Size kChannels = 2;
  static constexpr Size kHeads = 0;
  using Single = FloatProduct;

  static MEGACONV_INLINE Vec start(const float*) { return Vec{}; }
  static MEGACONV_INLINE Vec zero() { return Vec{}; }
  static MEGACONV_INLINE Vec read_words(const Bfloat16* from, Size stride, Size channels,
                                        Size count) {
    const auto bits = [count](const Bfloat16* channel) __attribute__((always_inline)) {
      return __builtin_convertvector(load_some_bits(channel, count), Words);
    };
    Words words{};
    if (channels > 0) words = bits(from);
    if (channels > 1) words |= bits(from + stride) << 16;
    return __builtin_bit_cast(Vec, words);
  }
  static MEGACONV_INLINE Vec read_pixel(const Bfloat16* from, Size channels) {
    if (channels >= 2 * kLanes) return load(from);
    const __mmask32 first = (std::uint32_t{1} << max_of(channels, 0)) - 1;
    return __builtin_bit_cast(Vec, _mm512_maskz_loadu_epi16(first, from));
  }
  static MEGACONV_INLINE Vec broadcast_word(const float* word) { return broadcast_bits(word); }
  static MEGACONV_INLINE Vec multiply_add(Vec sum, Vec input, Vec filters) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, input),
                            __builtin_bit_cast(__m512bh, filters));
  }
  static MEGACONV_INLINE PairChannel channel(float* words, Size channel) {
    return {words, channel % 2 != 0};
  }
};
#endif

/// Words are single INT8 channels, as 32-bit integers.
struct IntProduct {
  static constexpr Size kChannels = 1;
  static constexpr Size kHeads = 0;
  using Single = IntProduct;

  static MEGACONV_INLINE Vec zero() { return Vec{}; }
  static MEGACONV_INLINE Vec read_words(const Int8* from, Size, Size channels, Size count) {
    if (channels <= 0) return Vec{};
    return __builtin_bit_cast(Vec, widened_ints(load_some_bits(from, count)));
  }
  static MEGACONV_INLINE Vec read_pixel(const Int8* from, Size channels) {
    return read_words(from, 0, channels, min_of(channels, kLanes));
  }
  static MEGACONV_INLINE Vec broadcast_word(const float* word) { return broadcast_bits(word); }
  static MEGACONV_INLINE Vec multiply_add(Vec sum, Vec input, Vec filters) {
    return __builtin_bit_cast(
        Vec, __builtin_bit_cast(Ints, sum) +
                 __builtin_bit_cast(Ints, input) * __builtin_bit_cast(Ints, filters));
  }
  static MEGACONV_INLINE float* channel(float* words, Size) { return words; }
};

/// One channel in a lane block of quads; those before it must be written before.
struct QuadChannel {
  float* words;
  int place;
  MEGACONV_INLINE QuadChannel operator+(Size lane) const { return {words + lane, place}; }
};
/// `v`: integers of values that INT8 has.
MEGACONV_INLINE void write(QuadChannel to, Vec v) {
  const Words bits = (__builtin_bit_cast(Words, v) & 0xff) << (8 * to.place);
  store(to.words, to.place == 0 ? bits : bits | load<Words>(to.words));
}

/// Sums of products of neighbouring 16-bit integers.
using Shorts = std::int16_t __attribute__((vector_size(sizeof(std::int32_t) * kLanes)));
MEGACONV_INLINE Ints multiply_add_pairs(Shorts a, Shorts b) {
#if MEGACONV_LANES == 16
  return __builtin_bit_cast(
      Ints, _mm512_madd_epi16(__builtin_bit_cast(__m512i, a), __builtin_bit_cast(__m512i, b)));
#elif MEGACONV_LANES == 8
  return __builtin_bit_cast(
      Ints, _mm256_madd_epi16(__builtin_bit_cast(__m256i, a), __builtin_bit_cast(__m256i, b)));
#else
  const Ints pa = __builtin_bit_cast(Ints, a), pb = __builtin_bit_cast(Ints, b);
  return (pa << 16 >> 16) * (pb << 16 >> 16) + (pa >> 16) * (pb >> 16);
#endif
}

/// Words of four channels as they are.
struct Int8Quads {
  static constexpr Size kChannels = 4;
  static constexpr Size kHeads = 0;
  using Single = IntProduct;

  static MEGACONV_INLINE Vec zero() { return Vec{}; }
  static MEGACONV_INLINE Vec read_words(const Int8* from, Size stride, Size channels, Size count) {
    const auto bits = [count](const Int8* channel) __attribute__((always_inline)) {
      return widened_words(load_some_bits(channel, count));
    };
    Words words{};
    if (channels > 0) words = bits(from);
    if (channels > 1) words |= bits(from + stride) << 8;
    if (channels > 2) words |= bits(from + 2 * stride) << 16;
    if (channels > 3) words |= bits(from + 3 * stride) << 24;
    return __builtin_bit_cast(Vec, words);
  }
  static MEGACONV_INLINE Vec read_pixel(const Int8* from, Size channels) {
    return load_first_quads(from, max_of(0, min_of(channels, 4 * kLanes)));
  }
  static MEGACONV_INLINE QuadChannel channel(float* words, Size channel) {
    return {words, static_cast<int>(channel % 4)};
  }
};

struct Int8QuadProduct : Int8Quads {
  static constexpr Size kHeads = 1;

  static MEGACONV_INLINE Vec start(const float* head) { return load(head); }
  static MEGACONV_INLINE Vec zero() { return splat(0x80808080); }
  static MEGACONV_INLINE Vec read_words(const Int8* from, Size stride, Size channels, Size count) {
    return offset(Int8Quads::read_words(from, stride, channels, count));
  }
  static MEGACONV_INLINE Vec read_pixel(const Int8* from, Size channels) {
    return offset(Int8Quads::read_pixel(from, channels));
  }
  static MEGACONV_INLINE Vec broadcast_word(const float* word) { return broadcast_bits(word); }
  static MEGACONV_INLINE Vec multiply_add(Vec sum, Vec input, Vec filters) {
#if defined(__AVX512VNNI__)
    return __builtin_bit_cast(Vec, _mm512_dpbusd_epi32(__builtin_bit_cast(__m512i, sum),
                                                       __builtin_bit_cast(__m512i, input),
                                                       __builtin_bit_cast(__m512i, filters)));
#else
    const Words x = __builtin_bit_cast(Words, input);
    const Shorts w = __builtin_bit_cast(Shorts, filters);
    const Shorts even = __builtin_bit_cast(Shorts, x & 0x00ff00ff);
    const Shorts odd = __builtin_bit_cast(Shorts, x >> 8 & 0x00ff00ff);
    return __builtin_bit_cast(Vec, __builtin_bit_cast(Ints, sum) +
                                       multiply_add_pairs(even, w << 8 >> 8) +
                                       multiply_add_pairs(odd, w >> 8));
#endif
  }

 private:
  /// x + 128.
  static MEGACONV_INLINE Vec offset(Vec x) {
    return __builtin_bit_cast(Vec, __builtin_bit_cast(Words, x) ^ 0x80808080);
  }
};

/// What direct tasks multiply by when tensors are stored as T, and what becomes of their sums.
template <class T>
struct Products {
  using Direct = FloatProduct;
  using Depthwise = FloatProduct;
  static MEGACONV_INLINE Vec number(Vec sum) { return sum; }
  static MEGACONV_INLINE Vec scaled(Vec sum, Vec scale, Vec bias) { return sum * scale + bias; }
};
#if defined(__AVX512BF16__)
template <>
struct Products<Bfloat16> : Products<float> {
  using Direct = Bf16PairProduct;
};
#endif
template <>
struct Products<Int8> {
  using Direct = Int8QuadProduct;
  using Depthwise = IntProduct;
  static MEGACONV_INLINE Vec number(Vec sum) {
    return __builtin_convertvector(__builtin_bit_cast(Ints, sum), Vec);
  }
  static MEGACONV_INLINE Vec scaled(Vec sum, Vec scale, Vec bias) {
    return fused_multiply_add(number(sum), scale, bias);
  }
};

}  // namespace megaconv::cpu::MEGACONV_ISA
