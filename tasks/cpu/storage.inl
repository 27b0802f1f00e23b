// SPDX-License-Identifier: Apache-2.0
// Vectors of floats from and to memory in every storage type: the only place where task bodies
// convert. Bit for bit what tasks/storage.hpp gives (which task bodies may not call: simd.hpp says
// why; but for the portable ones, which are compiled for every machine).
#pragma once

#include "tasks/cpu/simd.hpp"
#include "tasks/storage.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

using Words = std::uint32_t __attribute__((vector_size(sizeof(std::uint32_t) * kLanes)));
using Ints = std::int32_t __attribute__((vector_size(sizeof(std::int32_t) * kLanes)));

/// The bits of kLanes numbers of a narrow type.
using Halves = std::uint16_t __attribute__((vector_size(sizeof(std::uint16_t) * kLanes)));
using Bytes = std::uint8_t __attribute__((vector_size(sizeof(std::uint8_t) * kLanes)));
template <class T>
struct NarrowVec {
  using Type = Halves;
};
template <>
struct NarrowVec<Int8> {
  using Type = Bytes;
};
template <class T>
using NarrowBits = typename NarrowVec<T>::Type;

#if MEGACONV_LANES == 16
// GCC 12 takes the intrinsics without a mask for uses of something uninitialised; the code is the
// same.
inline constexpr __mmask16 kAllLanes = 0xffff;
#endif

template <class T>
Vec widened(NarrowBits<T> bits);
template <class T>
NarrowBits<T> narrowed(Vec v);

// Between bytes and 32 bits; in two steps, because GCC 12 takes one as so many single numbers.
MEGACONV_INLINE Words widened_words(Bytes bits) {
#if MEGACONV_LANES == 16
  return __builtin_bit_cast(
      Words, _mm512_maskz_cvtepu8_epi32(kAllLanes, __builtin_bit_cast(__m128i, bits)));
#else
  return __builtin_convertvector(__builtin_convertvector(bits, Halves), Words);
#endif
}
MEGACONV_INLINE Ints widened_ints(Bytes bits) {
  return __builtin_bit_cast(Ints, widened_words(bits) << 24) >> 24;
}
MEGACONV_INLINE Bytes lowest_bytes(Words words) {
#if MEGACONV_LANES == 16
  return __builtin_bit_cast(
      Bytes, _mm512_maskz_cvtepi32_epi8(kAllLanes, __builtin_bit_cast(__m512i, words)));
#else
  return __builtin_convertvector(__builtin_convertvector(words, Halves), Bytes);
#endif
}
template <>
MEGACONV_INLINE Vec widened<Int8>(Bytes bits) {
  return __builtin_convertvector(widened_ints(bits), Vec);
}
/// Words whose lowest bytes are the numbers: the last place of the sum with 1.5 * 2^23 is 1.
MEGACONV_INLINE Words rounded_to_int8(Vec v) {
  const Vec in_range = less_of(greater_of(v, broadcast(-128)), broadcast(127));
  return __builtin_bit_cast(Words, in_range + broadcast(0x1.8p23f));
}
template <>
MEGACONV_INLINE Bytes narrowed<Int8>(Vec v) {
#if MEGACONV_LANES == 16
  // What is too small, or no number, becomes the least integer.
  const __m512i ints = _mm512_maskz_cvtps_epi32(kAllLanes, less_of(broadcast(127), v));
  return __builtin_bit_cast(Bytes, _mm512_maskz_cvtsepi32_epi8(kAllLanes, ints));
#else
  return lowest_bytes(rounded_to_int8(v));
#endif
}

template <>
MEGACONV_INLINE Vec widened<Bfloat16>(Halves bits) {
  return __builtin_bit_cast(Vec, __builtin_convertvector(bits, Words) << 16);
}
template <>
MEGACONV_INLINE Halves narrowed<Bfloat16>(Vec v) {
#if defined(__AVX512BF16__)  // denormal numbers become zero, as in products of pairs
  return __builtin_bit_cast(Halves, _mm512_maskz_cvtneps_pbh(kAllLanes, v));
#endif
  const Words bits = __builtin_bit_cast(Words, v);
  const Words rounded = v == v ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000;
  return __builtin_convertvector(rounded >> 16, Halves);
}

#if MEGACONV_LANES == 4
// Not inlined: an input transform has hundreds of them.
MEGACONV_OUT_OF_LINE inline Vec widened_lanes(Halves bits) {
  Vec v;
  for (int i = 0; i < kLanes; ++i) v[i] = to_float(Float16{bits[i]});
  return v;
}
MEGACONV_OUT_OF_LINE inline Halves narrowed_lanes(Vec v) {
  Halves bits;
  for (int i = 0; i < kLanes; ++i) bits[i] = from_float<Float16>(v[i]).bits;
  return bits;
}
#endif

template <>
MEGACONV_INLINE Vec widened<Float16>(Halves bits) {
#if MEGACONV_LANES == 16
  return static_cast<Vec>(_mm512_maskz_cvtph_ps(kAllLanes, __builtin_bit_cast(__m256i, bits)));
#elif MEGACONV_LANES == 8
  return static_cast<Vec>(_mm256_cvtph_ps(__builtin_bit_cast(__m128i, bits)));
#else
  return widened_lanes(bits);
#endif
}
template <>
MEGACONV_INLINE Halves narrowed<Float16>(Vec v) {
#if MEGACONV_LANES == 16
  return __builtin_bit_cast(Halves, _mm512_maskz_cvtps_ph(kAllLanes, v, _MM_FROUND_TO_NEAREST_INT));
#elif MEGACONV_LANES == 8
  return __builtin_bit_cast(Halves, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#else
  return narrowed_lanes(v);
#endif
}

#if MEGACONV_LANES == 16
MEGACONV_INLINE __mmask16 first_lanes(Size count) {
  return static_cast<__mmask16>((1u << count) - 1);
}
#elif MEGACONV_LANES == 8
MEGACONV_INLINE __m256i first_lanes(Size count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

MEGACONV_INLINE Vec read(const float* from) { return load(from); }
template <class T>
MEGACONV_INLINE Vec read(const T* from) {
  return widened<T>(load<NarrowBits<T>>(from));
}

/// Whether instructions load and store some lanes of T.
template <class T>
inline constexpr bool kHasMasks = kLanes == 16 || (kLanes == 8 && sizeof(T) == sizeof(float));

#if MEGACONV_LANES < 16
// Where they do not. Not inlined: callers have dozens of these.

/// Copies fewer than 2 kPart bytes, in parts of a power of two: kPart, which is one, and smaller
/// ones.
template <Size kPart>
MEGACONV_INLINE void copy_bytes(unsigned char* to, const unsigned char* from, Size bytes) {
  if constexpr (kPart > 0) {
    const Size part = bytes & kPart;
    if (part != 0) __builtin_memcpy(to, from, kPart);
    copy_bytes<kPart / 2>(to + part, from + part, bytes);
  }
}
/// Lanes [first, last) of a vector, whose lane 0 would be there; all others are zero.
template <class V, class Number>
MEGACONV_OUT_OF_LINE V load_range(const Number* lane0, Size first, Size last) {
  V v{};
  copy_bytes<sizeof(V)>(reinterpret_cast<unsigned char*>(&v) + first * sizeof(Number),
                        reinterpret_cast<const unsigned char*>(lane0 + first),
                        (last - first) * sizeof(Number));
  return v;
}
template <class V, class Number>
MEGACONV_OUT_OF_LINE void store_range(Number* lane0, V v, Size first, Size last) {
  copy_bytes<sizeof(V)>(reinterpret_cast<unsigned char*>(lane0 + first),
                        reinterpret_cast<const unsigned char*>(&v) + first * sizeof(Number),
                        (last - first) * sizeof(Number));
}
#endif

/// The first `count` (0 to kLanes) numbers, then zeros.
MEGACONV_INLINE Vec read_first(const float* from, Size count) {
#if MEGACONV_LANES == 16
  return static_cast<Vec>(_mm512_maskz_loadu_ps(first_lanes(count), from));
#elif MEGACONV_LANES == 8
  return static_cast<Vec>(_mm256_maskload_ps(from, first_lanes(count)));
#else
  return load_range<Vec>(from, 0, count);
#endif
}
template <class T>
MEGACONV_INLINE NarrowBits<T> load_first_bits(const T* from, Size count) {
#if MEGACONV_LANES == 16
  if constexpr (sizeof(T) == 1) {
    return __builtin_bit_cast(Bytes, _mm_maskz_loadu_epi8(first_lanes(count), from));
  } else {
    return __builtin_bit_cast(Halves, _mm256_maskz_loadu_epi16(first_lanes(count), from));
  }
#else
  if (__builtin_constant_p(count) && count == 1) return NarrowBits<T>{from->bits};
  return load_range<NarrowBits<T>>(from, 0, count);
#endif
}
/// `count` (0 to 4 kLanes) bytes, four to a word, then zeros.
MEGACONV_INLINE Vec load_first_quads(const Int8* from, Size count) {
  if (count == 4 * kLanes) return load(from);
#if MEGACONV_LANES == 16
  return __builtin_bit_cast(Vec, _mm512_maskz_loadu_epi8((std::uint64_t{1} << count) - 1, from));
#else
  Vec v{};
  __builtin_memcpy(&v, from, static_cast<std::size_t>(count));
  return v;
#endif
}
MEGACONV_INLINE void store_first_quads(Int8* to, Vec v, Size count) {
  if (count == 4 * kLanes) return store(to, v);
#if MEGACONV_LANES == 16
  _mm512_mask_storeu_epi8(to, (std::uint64_t{1} << count) - 1, __builtin_bit_cast(__m512i, v));
#else
  __builtin_memcpy(to, &v, static_cast<std::size_t>(count));
#endif
}

template <class T>
MEGACONV_INLINE Vec read_first(const T* from, Size count) {
  return widened<T>(load_first_bits(from, count));
}

/// read_first() and load_first_bits() where most often all lanes are wanted. A mask costs floats
/// nothing; conversions take what they widen from memory without one.
MEGACONV_INLINE Vec read_some(const float* from, Size count) {
  return kLanes < 16 && count == kLanes ? read(from) : read_first(from, count);
}
template <class T>
MEGACONV_INLINE NarrowBits<T> load_some_bits(const T* from, Size count) {
  return count == kLanes ? load<NarrowBits<T>>(from) : load_first_bits(from, count);
}
template <class T>
MEGACONV_INLINE Vec read_some(const T* from, Size count) {
  return widened<T>(load_some_bits(from, count));
}

MEGACONV_INLINE void write(float* to, Vec v) { store(to, v); }
template <class T>
MEGACONV_INLINE void write(T* to, Vec v) {
  store(to, narrowed<T>(v));
}

/// Writes all lanes; if `streams`, a whole cache line past the caches: it need not be read first.
template <class T>
MEGACONV_INLINE void store_line(T* to, Vec v, bool streams) {
  constexpr std::size_t kLineBytes = 64;
  if constexpr (sizeof(T) * kLanes == kLineBytes) {
    if (streams && reinterpret_cast<std::uintptr_t>(to) % kLineBytes == 0) return stream(to, v);
  }
  write(to, v);
}

/// Writes the first `count` (0 to kLanes) lanes.
MEGACONV_INLINE void write_first(float* to, Vec v, Size count) {
#if MEGACONV_LANES == 16
  _mm512_mask_storeu_ps(to, first_lanes(count), v);
#elif MEGACONV_LANES == 8
  _mm256_maskstore_ps(to, first_lanes(count), v);
#else
  store_range(to, v, 0, count);
#endif
}
template <class T>
MEGACONV_INLINE void write_first(T* to, Vec v, Size count) {
  const NarrowBits<T> bits = narrowed<T>(v);
#if MEGACONV_LANES == 16
  if constexpr (sizeof(T) == 1) {
    _mm_mask_storeu_epi8(to, first_lanes(count), __builtin_bit_cast(__m128i, bits));
  } else {
    _mm256_mask_storeu_epi16(to, first_lanes(count), __builtin_bit_cast(__m256i, bits));
  }
#else
  store_range(to, bits, 0, count);
#endif
}

/// Lanes [first, last) of a vector.
struct LaneRange {
  int first, last;
};
#if MEGACONV_LANES == 16
MEGACONV_INLINE __mmask16 mask_of(LaneRange lanes) {
  return static_cast<__mmask16>((1u << lanes.last) - (1u << lanes.first));
}
#elif MEGACONV_LANES == 8
MEGACONV_INLINE __m256i mask_of(LaneRange lanes) {
  return _mm256_andnot_si256(first_lanes(lanes.first), first_lanes(lanes.last));
}
#endif

/// These lanes, and no others, are read from and written to lane0 + lane; the others read are
/// any number.
MEGACONV_INLINE Vec read_lanes(const float* lane0, LaneRange lanes) {
#if MEGACONV_LANES == 16
  return static_cast<Vec>(_mm512_maskz_loadu_ps(mask_of(lanes), lane0));
#elif MEGACONV_LANES == 8
  return static_cast<Vec>(_mm256_maskload_ps(lane0, mask_of(lanes)));
#else
  return load_range<Vec>(lane0, lanes.first, lanes.last);
#endif
}
template <class T>
MEGACONV_INLINE Vec read_lanes(const T* lane0, LaneRange lanes) {
#if MEGACONV_LANES == 16
  if constexpr (sizeof(T) == 1) {
    return widened<T>(__builtin_bit_cast(Bytes, _mm_maskz_loadu_epi8(mask_of(lanes), lane0)));
  } else {
    return widened<T>(__builtin_bit_cast(Halves, _mm256_maskz_loadu_epi16(mask_of(lanes), lane0)));
  }
#else
  return widened<T>(load_range<NarrowBits<T>>(lane0, lanes.first, lanes.last));
#endif
}
MEGACONV_INLINE void write_lanes(float* lane0, Vec v, LaneRange lanes) {
#if MEGACONV_LANES == 16
  _mm512_mask_storeu_ps(lane0, mask_of(lanes), v);
#elif MEGACONV_LANES == 8
  _mm256_maskstore_ps(lane0, mask_of(lanes), v);
#else
  store_range(lane0, v, lanes.first, lanes.last);
#endif
}
template <class T>
MEGACONV_INLINE void write_lanes(T* lane0, Vec v, LaneRange lanes) {
  const NarrowBits<T> bits = narrowed<T>(v);
#if MEGACONV_LANES == 16
  if constexpr (sizeof(T) == 1) {
    _mm_mask_storeu_epi8(lane0, mask_of(lanes), __builtin_bit_cast(__m128i, bits));
  } else {
    _mm256_mask_storeu_epi16(lane0, mask_of(lanes), __builtin_bit_cast(__m256i, bits));
  }
#else
  store_range(lane0, bits, lanes.first, lanes.last);
#endif
}

}  // namespace megaconv::cpu::MEGACONV_ISA
