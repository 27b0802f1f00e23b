// SPDX-License-Identifier: Apache-2.0
// Products of a tile: rows of x at equal distances, and vectors of filters.
//
//   sums[row][vec] = sum over runs, i:  x[run, row][i] u[run][vec][i]
//
// With AVX-512 it is written in assembly, for GCC. From the same loops in C++ GCC 12 makes moves of
// all sums between them, and of some in each step. Sapphire Rapids, one worker, speed by that:
// n1c24h56k144r1p0 1.04, n1c16h112k96r1p0 1.03, n1c256h14k1024r1p0 1.00, n1c3h224k32u2 1.05.
#pragma once

#include <cstddef>

#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/micro_kernel.inl"
#include "tasks/cpu/simd.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

/// Words between which addresses change, and the next filters are fetched.
inline constexpr int kStepWords = kLanes == 16 ? 4 : 1;

/// What is multiplied. The assembly below has the offsets of its members, and of those of Run.
struct TileProduct {
  const float* x;          ///<  0: the image
  const float* u;          ///<  8: first filter block, [run][word][16]
  Size u_block_bytes;      ///< 16: between filter blocks
  const Run *begin, *end;  ///< 24, 32
  Size first;              ///< 40: in pixels of x: tap (0, 0) of the first row,
  Size step;               ///< 48: bytes of one channel between rows: four times their pixels
  const float* next_u;     ///< 56: what is still to be fetched into the L2,
  const float* end_u;      ///< 64
  Size fetch;              ///< 72: in so many cache lines for kStepWords, one at least
  // With each block this is fetched into the L1 of each row:
  Size pixels_ahead;  ///< 80: so many pixels on, where the next tile is; or,
  Size by_blocks;     ///< 88: if not 0, the next block, and of the next tile only the first
};
static_assert(offsetof(TileProduct, by_blocks) == 88 && offsetof(Run, distance) == 40);

/// Rows between addresses that a loop changes; those between are one to four steps from them.
inline constexpr int kRowsOfBase = 5;

#if MEGACONV_LANES == 16 && !defined(__clang__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wregister"

/// At most 14 rows of two vectors, or 9 of three. All 28 sums are outputs, whether used or not.
template <int kRows, int kVecs>
MEGACONV_INLINE void multiply_tile(TileProduct& product, Vec (&sums)[kRows][kVecs]) {
  static_assert(kRows <= 14 && kVecs <= 3 && kRows * kVecs <= 28);
  register Vec s0 asm("zmm0");
  register Vec s1 asm("zmm1");
  register Vec s2 asm("zmm2");
  register Vec s3 asm("zmm3");
  register Vec s4 asm("zmm4");
  register Vec s5 asm("zmm5");
  register Vec s6 asm("zmm6");
  register Vec s7 asm("zmm7");
  register Vec s8 asm("zmm8");
  register Vec s9 asm("zmm9");
  register Vec s10 asm("zmm10");
  register Vec s11 asm("zmm11");
  register Vec s12 asm("zmm12");
  register Vec s13 asm("zmm13");
  register Vec s14 asm("zmm14");
  register Vec s15 asm("zmm15");
  register Vec s16 asm("zmm16");
  register Vec s17 asm("zmm17");
  register Vec s18 asm("zmm18");
  register Vec s19 asm("zmm19");
  register Vec s20 asm("zmm20");
  register Vec s21 asm("zmm21");
  register Vec s22 asm("zmm22");
  register Vec s23 asm("zmm23");
  register Vec s24 asm("zmm24");
  register Vec s25 asm("zmm25");
  register Vec s26 asm("zmm26");
  register Vec s27 asm("zmm27");
  // zmm0 to 27: sums; 28 to 30: filters; 31: a word of x. rax, rcx, rdx: rows 0, 5 and 10; rsi,
  // rdi: one and three steps. r8, r9: filters, between vectors of them. r10, r11: words and blocks
  // left. r12, r13: next filters. r14: Run.
  asm volatile(R"(
    .set .Lrows, %c[size] / 4
    .set .Lvecs, %c[size] %% 4
    .altmacro
    .macro each_row do, offset:vararg
      \do 0, \offset(%%rax)
      \do 1, \offset(%%rax, %%rsi)
      \do 2, \offset(%%rax, %%rsi, 2)
      \do 3, \offset(%%rax, %%rdi)
      \do 4, \offset(%%rax, %%rsi, 4)
      \do 5, \offset(%%rcx)
      \do 6, \offset(%%rcx, %%rsi)
      \do 7, \offset(%%rcx, %%rsi, 2)
      \do 8, \offset(%%rcx, %%rdi)
      \do 9, \offset(%%rcx, %%rsi, 4)
      \do 10, \offset(%%rdx)
      \do 11, \offset(%%rdx, %%rsi)
      \do 12, \offset(%%rdx, %%rsi, 2)
      \do 13, \offset(%%rdx, %%rdi)
    .endm
    .macro fetch row, address:vararg
      .if \row < .Lrows
        prefetcht0 \address
      .endif
    .endm
    .macro add_product sum, filters
      vfmadd231ps %%zmm\filters, %%zmm31, %%zmm\sum
    .endm
    .macro multiply row, address:vararg
      .if \row < .Lrows
        vbroadcastss \address, %%zmm31
        add_product %%(\row * .Lvecs), 28
        .if .Lvecs > 1
          add_product %%(\row * .Lvecs + 1), 29
        .endif
        .if .Lvecs > 2
          add_product %%(\row * .Lvecs + 2), 30
        .endif
      .endif
    .endm
    .macro word i
      vmovups 64 * \i(%%r8), %%zmm28
      .if .Lvecs > 1
        vmovups 64 * \i(%%r8, %%r9), %%zmm29
      .endif
      .if .Lvecs > 2
        vmovups 64 * \i(%%r8, %%r9, 2), %%zmm30
      .endif
      each_row multiply, 4*\i
    .endm
    .macro advance bytes:vararg
      add \bytes, %%rax
      add \bytes, %%rcx
      add \bytes, %%rdx
    .endm

    .macro clear sums:vararg
      .irp sum, \sums
        .if \sum < .Lrows * .Lvecs
          vpxord %%zmm\sum, %%zmm\sum, %%zmm\sum
        .endif
      .endr
    .endm

    clear 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
    clear 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
    mov 16(%[product]), %%r9
    mov 24(%[product]), %%r14
    mov 56(%[product]), %%r12
    mov 64(%[product]), %%r13
    cmp 32(%[product]), %%r14
    je 10f
  1:                                # a run
    mov 8(%%r14), %%rsi
    mov 40(%[product]), %%rax
    imul %%rsi, %%rax
    imul 48(%[product]), %%rsi
    add 0(%%r14), %%rax
    shl $2, %%rax
    add 0(%[product]), %%rax
    mov 16(%%r14), %%r8
    shl $2, %%r8
    add 8(%[product]), %%r8
    mov 32(%%r14), %%r11
    test %%r11, %%r11
    jz 9f
    lea (%%rsi, %%rsi, 2), %%rdi
    lea (%%rax, %%rsi, 4), %%rcx
    add %%rsi, %%rcx
    lea (%%rcx, %%rsi, 4), %%rdx
    add %%rsi, %%rdx
  2:                                # a block
    mov 80(%[product]), %%rbx
    imul 8(%%r14), %%rbx
    cmpq $0, 88(%[product])
    je 11f
    mov 32(%%r14), %%r10
    dec %%r10
    imul 40(%%r14), %%r10
    sub %%r10, %%rbx
    cmp $1, %%r11
    cmovne 40(%%r14), %%rbx
  11:
    shl $2, %%rbx
    advance %%rbx
    each_row fetch, 0
    neg %%rbx
    advance %%rbx
    mov 24(%%r14), %%r10
    sub $4, %%r10
    jl 6f
  3:                                # four words
    cmp %%r13, %%r12
    jae 5f
    mov 72(%[product]), %%rbx
  4:
    prefetcht1 (%%r12)
    add $64, %%r12
    dec %%rbx
    jnz 4b
  5:
    word 0
    word 1
    word 2
    word 3
    advance $16
    add $256, %%r8
    sub $4, %%r10
    jge 3b
  6:
    add $4, %%r10
    jz 8f
  7:                                # a word
    word 0
    advance $4
    add $64, %%r8
    dec %%r10
    jnz 7b
  8:
    mov 40(%%r14), %%rbx
    sub 24(%%r14), %%rbx
    shl $2, %%rbx
    advance %%rbx
    dec %%r11
    jnz 2b
  9:
    add $48, %%r14
    cmp 32(%[product]), %%r14
    jne 1b
  10:
    mov %%r12, 56(%[product])

    .purgem each_row
    .purgem fetch
    .purgem add_product
    .purgem multiply
    .purgem word
    .purgem advance
    .purgem clear
    .noaltmacro
)"
               : "=v"(s0), "=v"(s1), "=v"(s2), "=v"(s3), "=v"(s4), "=v"(s5), "=v"(s6), "=v"(s7),
                 "=v"(s8), "=v"(s9), "=v"(s10), "=v"(s11), "=v"(s12), "=v"(s13), "=v"(s14),
                 "=v"(s15), "=v"(s16), "=v"(s17), "=v"(s18), "=v"(s19), "=v"(s20), "=v"(s21),
                 "=v"(s22), "=v"(s23), "=v"(s24), "=v"(s25), "=v"(s26), "=v"(s27)
               : [product] "r"(&product), [size] "i"(kRows * 4 + kVecs)
               : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
                 "r14", "zmm28", "zmm29", "zmm30", "zmm31", "cc", "memory");
  const Vec all[] = {s0,  s1,  s2,  s3,  s4,  s5,  s6,  s7,  s8,  s9,  s10, s11, s12, s13,
                     s14, s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27};
  unroll<kRows * kVecs>([&](auto i) __attribute__((always_inline)) {
    sums[i / kVecs][i % kVecs] = all[i];
  });
}

#pragma GCC diagnostic pop

#else

template <int kRow>
MEGACONV_INLINE const float* row_at(const std::byte* base, Size step, Size three_steps) {
  constexpr int kTimes = kRow % kRowsOfBase;
  return reinterpret_cast<const float*>(base + (kTimes == 3 ? three_steps : kTimes * step));
}

template <int kRows, int kVecs>
MEGACONV_INLINE void multiply_tile(TileProduct& product, Vec (&sums)[kRows][kVecs]) {
  constexpr int kBlocks = (kVecs + kBlockVecs - 1) / kBlockVecs;
  constexpr int kBases = (kRows + kRowsOfBase - 1) / kRowsOfBase;
  constexpr Size kFloat = sizeof(float);
  const float* next_u = product.next_u;
  const float* const end_u = product.end_u;
  unroll<kRows * kVecs>([&](auto i) __attribute__((always_inline)) {
    set_zero(sums[i / kVecs][i % kVecs]);
  });
  for (const Run* run = product.begin; run != product.end; ++run) {
    const float* u[kBlocks];
    unroll<kBlocks>([&](auto i) __attribute__((always_inline)) {
      u[i] = product.u + run->u + i * product.u_block_bytes / kFloat;
    });
    Size step = product.step * run->pixel, three = 3 * step;
    const std::byte* x[kBases];
    unroll<kBases>([&](auto i) __attribute__((always_inline)) {
      const float* const row = product.x + run->x + product.first * run->pixel;
      x[i] = reinterpret_cast<const std::byte*>(row) + kRowsOfBase * i * step;
      asm("" : "+r"(x[i]));
    });
    const auto multiply = [&](auto words) __attribute__((always_inline)) {
      if (next_u < end_u) {
        for (Size line = product.fetch; line > 0; --line, next_u += kBlock) fetch_to_l2(next_u);
      }
      unroll<words>([&](auto word) __attribute__((always_inline)) {
        asm("" : "+r"(step), "+r"(three));  // or the compiler has one for every word, in memory
        Vec filters[kVecs];
        unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
          filters[j] = load(u[j / kBlockVecs] + word * kBlock + j % kBlockVecs * kLanes);
        });
        unroll<kRows>([&](auto row) __attribute__((always_inline)) {
          const Vec input = broadcast(row_at<row>(x[row / kRowsOfBase], step, three)[word]);
          unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
            add_product(sums[row][j], input, filters[j]);
          });
        });
      });
      unroll<kBlocks>([&](auto i) __attribute__((always_inline)) {
        u[i] += words * kBlock;
        asm("" : "+r"(u[i]));
      });
      unroll<kBases>([&](auto i) __attribute__((always_inline)) {
        x[i] += words * kFloat;
        asm("" : "+r"(x[i]));  // or the compiler has an address for every row, in memory
      });
    };
    const Size words = run->words, distance = run->distance;
    const Size ahead =
        (product.by_blocks != 0 ? distance : product.pixels_ahead * run->pixel) * kFloat;
    for (Size blocks = run->blocks; blocks > 0; --blocks) {
      if (ahead != 0) {
        unroll<kRows>([&](auto row) __attribute__((always_inline)) {
          fetch_to_l1(row_at<row>(x[row / kRowsOfBase] + ahead, step, three));
        });
      }
      Size left = words;
      for (; left >= kStepWords; left -= kStepWords) multiply(Index<kStepWords>{});
      for (; left > 0; --left) multiply(Index<1>{});
      unroll<kBases>([&](auto i) __attribute__((always_inline)) {
        x[i] += (distance - words) * kFloat;
        asm("" : "+r"(x[i]));
      });
    }
  }
  product.next_u = next_u;
}

#endif

}  // namespace megaconv::cpu::MEGACONV_ISA
