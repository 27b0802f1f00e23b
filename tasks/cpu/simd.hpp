// SPDX-License-Identifier: Apache-2.0
// Vectors of floats for one instruction set, on GCC and Clang vector extensions.
//
// Included by kernels_<isa>.cpp after it has defined MEGACONV_ISA (a namespace) and MEGACONV_LANES.
// The same sources are compiled for several instruction sets into one library, so whatever they
// define must live in namespace megaconv::cpu::MEGACONV_ISA, and they must call no inline function
// of a shared header: the linker keeps one copy of such a function, perhaps the one compiled with
// instructions that the machine does not have. (Hence no std::min here, and extents.hpp.)
#pragma once

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "megaconv/tiling.hpp"

#define MEGACONV_INLINE inline __attribute__((always_inline))
/// One body for all callers. GCC would make another one for each constant argument.
#if defined(__clang__)
#define MEGACONV_OUT_OF_LINE __attribute__((noinline))
#else
#define MEGACONV_OUT_OF_LINE __attribute__((noinline, noclone))
#endif

namespace megaconv::cpu::MEGACONV_ISA {

inline constexpr int kLanes = MEGACONV_LANES;
inline constexpr int kBlock = Tiling::kLaneBlock;
inline constexpr int kBlockVecs = kBlock / kLanes;  ///< vectors of one lane block

using Vec = float __attribute__((vector_size(sizeof(float) * kLanes)));
/// As many doubles as fit a register, and the floats that they come from.
using DoubleVec = double __attribute__((vector_size(sizeof(float) * kLanes)));
using HalfVec = float __attribute__((vector_size(sizeof(float) * kLanes / 2)));

/// Indices and extents; signed, so that distances are too.
using Size = std::ptrdiff_t;

constexpr Size min_of(Size a, Size b) { return a < b ? a : b; }
constexpr Size max_of(Size a, Size b) { return a > b ? a : b; }
constexpr Size ceil_div(Size a, Size b) { return (a + b - 1) / b; }

/// A number that is known when compiling.
template <int kValue>
struct Index {
  constexpr operator int() const { return kValue; }
};

/// Calls body(Index<0>), ..., body(Index<kCount - 1>): a loop whose arrays become registers.
template <int kCount, int kFirst = 0, class Body>
MEGACONV_INLINE void unroll(const Body& body) {
  if constexpr (kFirst < kCount) {
    body(Index<kFirst>{});
    unroll<kCount, kFirst + 1>(body);
  }
}

template <class V = Vec, class Scalar>
MEGACONV_INLINE V load(const Scalar* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class Scalar>
MEGACONV_INLINE void store(Scalar* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}
/// Stores past the caches, to an address that is a multiple of the vector's size. Such stores are
/// not ordered by a later release: end_streaming() must follow in the same task.
MEGACONV_INLINE void stream(float* to, Vec v) {
#if MEGACONV_LANES == 16
  _mm512_stream_ps(to, v);
#elif MEGACONV_LANES == 8
  _mm256_stream_ps(to, v);
#else
  store(to, v);
#endif
}
/// What is larger than this is not in any cache by the time that it is read, so it is stored past
/// them. Zen 4, 32 MiB of L3: 38 MB of U (512 x 512) in 2.5 ms against 6.2, and the GEMM tasks
/// after it, no longer in the way of lines being written back, take 3.4 ms against 3.9; with 9 MB
/// (256 x 256), 0.6 against 0.7, but then the GEMM takes 2.9 against 2.7. Sapphire Rapids, y of 13
/// MB and 11 MB: n1c64h224k64 1.07 times the speed, n1c32h416k64u2 0.97.
inline constexpr Size kCachedBytes = Size{12} << 20;
MEGACONV_INLINE void end_streaming() {
#if MEGACONV_LANES > 4
  _mm_sfence();
#endif
}
/// Starts to bring a cache line into a cache; any address is allowed.
MEGACONV_INLINE void fetch_to_l2(const float* line) { __builtin_prefetch(line, 0, 2); }
MEGACONV_INLINE void fetch_to_l1(const float* line) { __builtin_prefetch(line, 0, 3); }
/// x - 0 is x for every x, so this compiles to a broadcast alone.
MEGACONV_INLINE Vec broadcast(float x) { return x - Vec{}; }

/// a * b + c with one rounding, on every machine.
MEGACONV_INLINE Vec fused_multiply_add(Vec a, Vec b, Vec c) {
#if MEGACONV_LANES == 16
  return static_cast<Vec>(_mm512_fmadd_ps(a, b, c));
#elif MEGACONV_LANES == 8
  return static_cast<Vec>(_mm256_fmadd_ps(a, b, c));
#else
  for (int i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#endif
}

/// sum += a * b, in the register of `sum`. Where a loop of many sums is unrolled GCC 12 would have
/// them change places, and keep some in memory.
MEGACONV_INLINE void add_product(Vec& sum, Vec a, Vec b) {
#if MEGACONV_LANES == 16
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
  sum += a * b;
#endif
}

/// In a register of its own: of many zeros GCC would copy one, which takes time of multiply-adds.
MEGACONV_INLINE void set_zero(Vec& sum) {
#if MEGACONV_LANES == 16
  asm volatile("vpxord %0, %0, %0" : "=v"(sum));
#else
  sum = Vec{};
#endif
}

/// a > b ? a : b, and a < b ? a : b: b where one of them is not a number.
MEGACONV_INLINE Vec greater_of(Vec a, Vec b) {
#if MEGACONV_LANES == 16
  // Without a mask GCC 12 warns of something uninitialised; the code is the same.
  return static_cast<Vec>(_mm512_maskz_max_ps(0xffff, a, b));
#elif MEGACONV_LANES == 8
  return static_cast<Vec>(_mm256_max_ps(a, b));
#else
  return a > b ? a : b;
#endif
}
MEGACONV_INLINE Vec less_of(Vec a, Vec b) {
#if MEGACONV_LANES == 16
  return static_cast<Vec>(_mm512_maskz_min_ps(0xffff, a, b));
#elif MEGACONV_LANES == 8
  return static_cast<Vec>(_mm256_min_ps(a, b));
#else
  return a < b ? a : b;
#endif
}

/// The lanes of one of two vectors: lane l is lane Pattern::of(l) of the 2 kLanes of (a, b).
template <class Pattern, int... kLane>
MEGACONV_INLINE Vec shuffle(Vec a, Vec b, Index<kLane>...) {
  return __builtin_shufflevector(a, b, Pattern::of(kLane)...);
}

// One step of a transpose swaps the off-diagonal quarters of every 2d x 2d block of a pair of rows
// d apart:     a  A A B B        A A C C
//              b  C C D D   ->   B B D D
template <int kDistance>
struct KeepUpper {
  static constexpr int of(int l) { return l & kDistance ? kLanes + l - kDistance : l; }
};
template <int kDistance>
struct KeepLower {
  static constexpr int of(int l) { return l & kDistance ? kLanes + l : l + kDistance; }
};

struct EvenLanes {
  static constexpr int of(int l) { return 2 * l; }
};

template <class Pattern>
MEGACONV_INLINE Vec shuffle(Vec a, Vec b) {
#if MEGACONV_LANES == 16
  return shuffle<Pattern>(a, b, Index<0>{}, Index<1>{}, Index<2>{}, Index<3>{}, Index<4>{},
                          Index<5>{}, Index<6>{}, Index<7>{}, Index<8>{}, Index<9>{}, Index<10>{},
                          Index<11>{}, Index<12>{}, Index<13>{}, Index<14>{}, Index<15>{});
#elif MEGACONV_LANES == 8
  return shuffle<Pattern>(a, b, Index<0>{}, Index<1>{}, Index<2>{}, Index<3>{}, Index<4>{},
                          Index<5>{}, Index<6>{}, Index<7>{});
#else
  return shuffle<Pattern>(a, b, Index<0>{}, Index<1>{}, Index<2>{}, Index<3>{});
#endif
}

/// Transposes kLanes x kLanes floats in registers.
template <int kDistance = kLanes / 2>
MEGACONV_INLINE void transpose(Vec (&rows)[kLanes]) {
  if constexpr (kDistance > 0) {
    unroll<kLanes>([&](auto i) __attribute__((always_inline)) {
      constexpr int kRow = i;
      if constexpr ((kRow & kDistance) == 0) {
        const Vec a = rows[kRow], b = rows[kRow + kDistance];
        rows[kRow] = shuffle<KeepUpper<kDistance>>(a, b);
        rows[kRow + kDistance] = shuffle<KeepLower<kDistance>>(a, b);
      }
    });
    transpose<kDistance / 2>(rows);
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
