// SPDX-License-Identifier: Apache-2.0
// Hopper's warpgroup matrix instruction, as far as it is used here: FP16 or BF16 operands in shared
// memory, FP32 sums in registers (PTX ISA, "Asynchronous warpgroup level matrix instructions").
// libcu++ has no wrappers for it. sm_90a only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace megaconv::cuda {

/// Descriptor of an operand in shared memory without swizzling, rows x 16 channels from `start` on:
/// 8 rows x 8 channels lie in 128 contiguous bytes, the next 8 rows right after them, the next 8
/// channels `channel_stride` bytes on (a multiple of 16).
__device__ inline std::uint64_t wgmma_operand(const void* start, int channel_stride) {
  constexpr std::uint64_t kRowStride = 128;
  const auto field = [](std::uint64_t bytes) { return (bytes & 0x3ffff) >> 4; };
  return field(__cvta_generic_to_shared(start)) |
         field(static_cast<std::uint64_t>(channel_stride)) << 16 | field(kRowStride) << 32;
}

/// The operand `num_bytes` further on, a multiple of 16.
__device__ inline std::uint64_t advance(std::uint64_t operand, int num_bytes) {
  return operand + static_cast<std::uint64_t>(num_bytes / 16);
}

/// Orders this warpgroup's register accesses before the instructions that follow.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes a batch of instructions.
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending batches are unfinished.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// This thread's warpgroup in its block, in a way that lets the compiler know that it is the same
/// in all threads of a warp: operands then need no moves to uniform registers.
__device__ inline int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
}

/// A barrier of the threads of one warpgroup of 128.
__device__ inline void warpgroup_sync(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}

/// Moves a warpgroup's limit of registers a thread; all its warps call it. What others gave up may
/// be taken: increase_registers waits for it.
template <int kRegisters>
__device__ inline void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Sum registers of an instruction, 16 at a time: their numbers in its text, and the operands.
#define MEGACONV_SUMS(d, i)                                                                   \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7]), "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]),        \
      "+f"(d[i + 11]), "+f"(d[i + 12]), "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15])
#define MEGACONV_SUM_NUMBERS_32                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19," \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MEGACONV_SUM_NUMBERS_64                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19," \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37," \
  "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55," \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define MEGACONV_SUM_NUMBERS_128                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19," \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37," \
  "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55," \
  "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73," \
  "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91," \
  "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107,"   \
  "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122," \
  "%123, %124, %125, %126, %127"
// The instruction of kN columns for either type. A type's name cannot be an operand of asm.
#define MEGACONV_WGMMA_OF(type, n, numbers, a_number, b_number, ...)                             \
  asm volatile(                                                                                  \
      "{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n"                                                 \
      "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" numbers "}, " a_number \
      ", " b_number ", p, 1, 1, 0, 0;\n}"                                                        \
      : __VA_ARGS__                                                                              \
      : "l"(a), "l"(b))
#define MEGACONV_WGMMA(...)                 \
  if constexpr (kHalf) {                    \
    MEGACONV_WGMMA_OF("f16", __VA_ARGS__);  \
  } else {                                  \
    MEGACONV_WGMMA_OF("bf16", __VA_ARGS__); \
  }

/// d += a b: 64 rows x kN columns, 16 channels, of Number (__half or __nv_bfloat16). Row of d[i] in
/// the warpgroup: warp * 16 + lane / 4 + i / 2 % 2 * 8; column: i / 4 * 8 + lane % 4 * 2 + i % 2.
template <int kN, class Number = __half>
__device__ inline void wgmma(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b) {
  static_assert(kN == 64 || kN == 128 || kN == 256);
  constexpr bool kHalf = std::is_same_v<Number, __half>;
  static_assert(kHalf || std::is_same_v<Number, __nv_bfloat16>);
  if constexpr (kN == 64) {
    MEGACONV_WGMMA("64", MEGACONV_SUM_NUMBERS_32, "%32", "%33", MEGACONV_SUMS(d, 0),
                   MEGACONV_SUMS(d, 16))
  } else if constexpr (kN == 128) {
    MEGACONV_WGMMA("128", MEGACONV_SUM_NUMBERS_64, "%64", "%65", MEGACONV_SUMS(d, 0),
                   MEGACONV_SUMS(d, 16), MEGACONV_SUMS(d, 32), MEGACONV_SUMS(d, 48))
  } else {
    MEGACONV_WGMMA("256", MEGACONV_SUM_NUMBERS_128, "%128", "%129", MEGACONV_SUMS(d, 0),
                   MEGACONV_SUMS(d, 16), MEGACONV_SUMS(d, 32), MEGACONV_SUMS(d, 48),
                   MEGACONV_SUMS(d, 64), MEGACONV_SUMS(d, 80), MEGACONV_SUMS(d, 96),
                   MEGACONV_SUMS(d, 112))
  }
}

#undef MEGACONV_WGMMA
#undef MEGACONV_WGMMA_OF
#undef MEGACONV_SUM_NUMBERS_128
#undef MEGACONV_SUM_NUMBERS_64
#undef MEGACONV_SUM_NUMBERS_32
#undef MEGACONV_SUMS

}  // namespace megaconv::cuda
