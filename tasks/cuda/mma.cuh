// SPDX-License-Identifier: Apache-2.0
// The matrix instructions of a warp, as far as they are used here: operands of FP16, BF16 or TF32,
// FP32 sums, all in registers (PTX ISA, "Warp level matrix multiply-accumulate instructions").
// sm_80 and later.
#pragma once

#include <cstdint>

namespace megaconv::cuda {

/// Four matrices of 8 rows x 8 FP16 numbers from shared memory, which the warp then holds: of
/// matrix i, this thread has two neighbours of row lane / 4, from column lane % 4 * 2 on. `row`: 16
/// bytes, aligned; that of lane l is row l % 8 of matrix l / 8.
__device__ inline void load_matrices(std::uint32_t (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// d += a b^T: a of 16 rows, b of 8, both of 16 channels. Matrices of a, as load_matrices() gives
/// them: rows 0 to 7 and 8 to 15 of the first eight channels, then of the others; of b: the first
/// eight channels, and the others. Row of d[i]: lane / 4 + i / 2 * 8; column: lane % 4 * 2 + i % 2.
__device__ inline void mma(float (&d)[4], const std::uint32_t (&a)[4],
                           const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The same of BF16 numbers.
__device__ inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// d += a b^T of TF32 numbers: a of 16 rows, b of 8, both of 8 channels. This thread has of a the
/// rows lane / 4 and that + 8 at channel lane % 4, then the same at channel lane % 4 + 4; of b row
/// lane / 4 at these two channels. d as above. The 13 last bits of a float are not read.
__device__ inline void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The TF32 number nearest to a float; of two, the one farther from 0.
__device__ inline std::uint32_t round_to_tf32(float value) {
  std::uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return rounded;
}

}  // namespace megaconv::cuda
