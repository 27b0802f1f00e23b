// SPDX-License-Identifier: Apache-2.0
// How a micro-kernel multiplies: by floats, or by pairs of BF16 numbers.
//
// Both take words of 32 bits, a row's broadcast to all lanes and one of every filter. A pair's word
// has two neighbouring channels, the even one in its lower half; VDPBF16PS adds both products to
// the sum. A product of two BF16 numbers has 16 bits, so it is exact in FP32, and each is added
// with one rounding, as multiply-adds of floats do; only denormal numbers count as zero.
#pragma once

#include "tasks/cpu/storage.inl"

namespace megaconv::cpu::MEGACONV_ISA {

struct FloatProduct {
  static constexpr Size kChannels = 1;  ///< of a word

  /// The words of `count` neighbouring pixels (kLanes or fewer, then zeros), from the first of
  /// `channels` channels on, which are `stride` apart; zeros where there is none.
  template <class T>
  static MEGACONV_INLINE Vec read_words(const T* from, Size, Size channels, Size count) {
    return channels <= 0 ? Vec{} : count == kLanes ? read(from) : read_first(from, count);
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

  static MEGACONV_INLINE Vec read_words(const Bfloat16* from, Size stride, Size channels,
                                        Size count) {
    const auto bits = [count](const Bfloat16* channel) __attribute__((always_inline)) {
      const NarrowBits all =
          count == kLanes ? load<NarrowBits>(channel) : load_first_bits(channel, count);
      return __builtin_convertvector(all, Words);
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
  static MEGACONV_INLINE Vec broadcast_word(const float* word) {
    int bits;
    __builtin_memcpy(&bits, word, sizeof bits);
    return __builtin_bit_cast(Vec, _mm512_set1_epi32(bits));
  }
  static MEGACONV_INLINE Vec multiply_add(Vec sum, Vec input, Vec filters) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, input),
                            __builtin_bit_cast(__m512bh, filters));
  }
  static MEGACONV_INLINE PairChannel channel(float* words, Size channel) {
    return {words, channel % 2 != 0};
  }
};
#endif

/// What direct tasks multiply by when tensors are stored as T.
template <class T>
struct DirectProduct {
  using Type = FloatProduct;
};
#if defined(__AVX512BF16__)
template <>
struct DirectProduct<Bfloat16> {
  using Type = Bf16PairProduct;
};
#endif

}  // namespace megaconv::cpu::MEGACONV_ISA
