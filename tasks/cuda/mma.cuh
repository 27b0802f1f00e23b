// SPDX-License-Identifier: Apache-2.0
// The matrix instruction of a warp, as far as it is used here: FP16 operands, FP32 sums, all in
// registers (PTX ISA, "Warp level matrix multiply-accumulate instructions"). sm_80 and later.
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
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace megaconv::cuda
