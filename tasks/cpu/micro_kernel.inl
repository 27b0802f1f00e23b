// SPDX-License-Identifier: Apache-2.0
// The one inner loop of Winograd's GEMM and of direct convolution.
//
//   out[block][row][lane] = sum over panels, c:  a[panel.offset + 16 row + c] * u[block][c'][lane]
//
// (or, in words of several channels, the sum of as many such products; products.inl.)
//
// A panel is `rows` x up to 16 channels, its rows one lane block (64 bytes) apart: tiles of V, or
// neighbouring pixels of a direct task's input patch. u streams: c' runs on through all panels. It
// is read once for every kMaxRows rows, from L2 if all goes well: while rows are multiplied, the u
// of the next call is fetched into it. Sums stay in registers; an output is summed in the same
// order whatever the number of rows, so results do not depend on how tiles are grouped.
#pragma once

#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/products.inl"

namespace megaconv::cpu::MEGACONV_ISA {

// The largest tile of sums that leaves registers for u and for a broadcast of a.
#if MEGACONV_LANES == 16
inline constexpr int kMaxRows = 14, kMaxBlocks = 2;  // 28 of 32 registers
#elif MEGACONV_LANES == 8
inline constexpr int kMaxRows = 6, kMaxBlocks = 1;  // 12 of 16
#elif defined(__aarch64__)
inline constexpr int kMaxRows = 6, kMaxBlocks = 1;  // 24 of 32
#else
inline constexpr int kMaxRows = 3, kMaxBlocks = 1;  // 12 of 16
#endif
static_assert(kMaxBlocks <= kMaxKernelBlocks);

/// What a micro-kernel multiplies. Distances in words: floats, or several narrow numbers.
struct MicroArgs {
  const float* a;
  const Panel* panels;
  Size num_panels;
  const float* u;                 ///< [block][head and c'][16]
  Size u_block;                   ///< from one block of u to the next
  float* out;                     ///< [block][row][16]
  Size out_block;                 ///< from one block of out to the next
  const float* next_u;            ///< what is fetched of the next call's u; null: nothing
  Size fetch_lines;               ///< of it with each word: 1 or kMaxBlocks
  const float* next_a = nullptr;  ///< first rows of the next call, which are fetched; null: none
  bool adds = false;              ///< to the floats that `out` holds
};

/// kFetchLines: of the next call's u, with each word.
template <class Product, int kRows, int kBlocks, int kFetchLines>
void micro_kernel(const MicroArgs& args) {
  constexpr int kVecs = kBlocks * kBlockVecs;
  Vec sums[kRows][kVecs];
  unroll<kRows>([&](auto row) __attribute__((always_inline)) {
    unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
      sums[row][j] =
          Product::start(args.u + j / kBlockVecs * args.u_block + j % kBlockVecs * kLanes);
    });
  });
  const float* u = args.u + Product::kHeads * kBlock;
  const Size u_block = args.u_block;
  const float* next_u = args.next_u;
  const Panel* const last = args.panels + args.num_panels;
  for (const Panel* panel = args.panels; panel != last; ++panel) {
    const float* a = args.a + panel->offset;
    // The next rows are up to pages away, where no hardware looks ahead.
    const float* const next_a = panel + 1 != last ? args.a + panel[1].offset : args.next_a;
    if (next_a != nullptr) {
      unroll<kRows>([&](auto row)
                        __attribute__((always_inline)) { fetch_to_l1(next_a + row * kBlock); });
    }
    for (const float* const end = a + panel->words; a != end; ++a, u += kBlock) {
      unroll<kFetchLines>([&](auto i)
                              __attribute__((always_inline)) { fetch_to_l2(next_u + i * kBlock); });
      next_u += kFetchLines * kBlock;
      Vec filters[kVecs];
      unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
        filters[j] = load(u + j / kBlockVecs * u_block + j % kBlockVecs * kLanes);
      });
      unroll<kRows>([&](auto row) __attribute__((always_inline)) {
        const Vec input = Product::broadcast_word(a + row * kBlock);
        unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
          sums[row][j] = Product::multiply_add(sums[row][j], input, filters[j]);
        });
      });
    }
  }
  unroll<kVecs>([&](auto j) __attribute__((always_inline)) {
    float* const out = args.out + j / kBlockVecs * args.out_block + j % kBlockVecs * kLanes;
    if (args.adds) {
      unroll<kRows>([&](auto row) __attribute__((always_inline)) {
        sums[row][j] += load(out + row * kBlock);
      });
    }
    unroll<kRows>([&](auto row)
                      __attribute__((always_inline)) { store(out + row * kBlock, sums[row][j]); });
  });
}

using MicroKernel = void (*)(const MicroArgs&);

/// Micro-kernels by number of rows - 1.
template <class Product, int kBlocks, int kFetchLines, int... kRow>
struct MicroKernelTable {
  MicroKernel by_rows[sizeof...(kRow)] = {micro_kernel<Product, kRow + 1, kBlocks, kFetchLines>...};
};
template <class Product, int kBlocks, int kFetchLines, int... kRow>
constexpr auto make_micro_kernels() {
  if constexpr (sizeof...(kRow) == kMaxRows) {
    return MicroKernelTable<Product, kBlocks, kFetchLines, kRow...>{};
  } else {
    return make_micro_kernels<Product, kBlocks, kFetchLines, kRow...,
                              static_cast<int>(sizeof...(kRow))>();
  }
}
template <class Product, int kBlocks, int kFetchLines>
inline constexpr auto kMicroKernels = make_micro_kernels<Product, kBlocks, kFetchLines>();

template <class Product, int kBlocks>
const MicroKernel* micro_kernels_for(Size fetch_lines) {
  if (fetch_lines == 0) return kMicroKernels<Product, kBlocks, 0>.by_rows;
  return fetch_lines == 1 ? kMicroKernels<Product, kBlocks, 1>.by_rows
                          : kMicroKernels<Product, kBlocks, kMaxBlocks>.by_rows;
}

/// Multiplies 1 to kMaxRows rows, 64 bytes apart in a and out, by 1 to kMaxBlocks lane blocks of u.
template <class Product>
MEGACONV_INLINE void multiply_few_rows(const MicroArgs& args, Size rows, Size blocks) {
  const Size fetch_lines = args.next_u == nullptr ? 0 : args.fetch_lines;
  const MicroKernel* const kernels = blocks == 1
                                         ? micro_kernels_for<Product, 1>(fetch_lines)
                                         : micro_kernels_for<Product, kMaxBlocks>(fetch_lines);
  kernels[rows - 1](args);
}

/// Of `rows` rows those that the first kernel multiplies. They are shared out evenly: 16 are 8 + 8,
/// not 14 + 2.
MEGACONV_INLINE Size first_rows(Size rows) { return ceil_div(rows, ceil_div(rows, kMaxRows)); }

/// Multiplies `rows` rows, 64 bytes apart in a and out, by `blocks` (1 to kMaxBlocks) lane blocks
/// of u.
template <class Product>
MEGACONV_INLINE void multiply_rows(MicroArgs args, Size rows, Size blocks) {
  while (rows > 0) {
    const Size part = first_rows(rows);
    multiply_few_rows<Product>(args, part, blocks);
    args.next_u = nullptr;  // fetched
    args.a += part * kBlock;
    args.out += part * kBlock;
    rows -= part;
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
