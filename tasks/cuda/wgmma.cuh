// SPDX-License-Identifier: Apache-2.0
// Hopper's warpgroup matrix instruction, as far as it is used here: FP16, BF16 or TF32 operands in
// shared memory, FP32 sums in registers (PTX ISA, "Asynchronous warpgroup level matrix
// instructions"). libcu++ has no wrappers for it. sm_90a only.
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

/// What an instruction takes of a row: 16 channels of 16 bits, 8 of TF32.
inline constexpr int kWgmmaRowBytes = 32;

/// Descriptor of an operand in rows of 64 or 128 bytes, of which TMA has permuted 16 at
/// a time (CU_TENSOR_MAP_SWIZZLE_64B, 128B): any row of a swizzled tensor in shared memory, since
/// the permutation is one of addresses. The next channels are kWgmmaRowBytes further on.
template <int kRowBytes>
__device__ inline std::uint64_t wgmma_swizzled_operand(const void* start) {
  static_assert(kRowBytes == 64 || kRowBytes == 128);
  constexpr std::uint64_t kEightRows = 8 * kRowBytes, kSwizzle = kRowBytes == 128 ? 1 : 2;
  return (__cvta_generic_to_shared(start) & 0x3ffff) >> 4 | std::uint64_t{1} << 16 |
         (kEightRows >> 4) << 32 | kSwizzle << 62;
}

/// The operand `num_bytes` further on, a multiple of 16.
__device__ inline std::uint64_t advance(std::uint64_t operand, int num_bytes) {
  return operand + static_cast<std::uint64_t>(num_bytes / 16);
}
/// The same of a number that is not known while compiling, in fewer instructions: the address is in
/// the lower word, which it never overflows.
__device__ inline std::uint64_t advance_lower(std::uint64_t operand, std::uint32_t num_bytes) {
  const std::uint64_t upper = operand >> 32 << 32;
  return upper | (static_cast<std::uint32_t>(operand) + num_bytes / 16);
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

// Sum registers of an instruction, 8 at a time: their numbers in its text, and the operands.
#define MEGACONV_SUMS(d, i)                                                                   \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define MEGACONV_FOUR_SUMS(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MEGACONV_NUMBERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MEGACONV_SUMS_8(d) MEGACONV_SUMS(d, 0)
#define MEGACONV_NUMBERS_16 MEGACONV_NUMBERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MEGACONV_SUMS_16(d) MEGACONV_SUMS_8(d), MEGACONV_SUMS(d, 8)
#define MEGACONV_NUMBERS_24 MEGACONV_NUMBERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MEGACONV_SUMS_24(d) MEGACONV_SUMS_16(d), MEGACONV_SUMS(d, 16)
#define MEGACONV_NUMBERS_32 MEGACONV_NUMBERS_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MEGACONV_SUMS_32(d) MEGACONV_SUMS_24(d), MEGACONV_SUMS(d, 24)
#define MEGACONV_NUMBERS_36 MEGACONV_NUMBERS_32 ", %32, %33, %34, %35"
#define MEGACONV_SUMS_36(d) MEGACONV_SUMS_32(d), MEGACONV_FOUR_SUMS(d, 32)
#define MEGACONV_NUMBERS_40 MEGACONV_NUMBERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MEGACONV_SUMS_40(d) MEGACONV_SUMS_32(d), MEGACONV_SUMS(d, 32)
#define MEGACONV_NUMBERS_44 MEGACONV_NUMBERS_40 ", %40, %41, %42, %43"
#define MEGACONV_SUMS_44(d) MEGACONV_SUMS_40(d), MEGACONV_FOUR_SUMS(d, 40)
#define MEGACONV_NUMBERS_48 MEGACONV_NUMBERS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define MEGACONV_SUMS_48(d) MEGACONV_SUMS_40(d), MEGACONV_SUMS(d, 40)
#define MEGACONV_NUMBERS_52 MEGACONV_NUMBERS_48 ", %48, %49, %50, %51"
#define MEGACONV_SUMS_52(d) MEGACONV_SUMS_48(d), MEGACONV_FOUR_SUMS(d, 48)
#define MEGACONV_NUMBERS_56 MEGACONV_NUMBERS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define MEGACONV_SUMS_56(d) MEGACONV_SUMS_48(d), MEGACONV_SUMS(d, 48)
#define MEGACONV_NUMBERS_60 MEGACONV_NUMBERS_56 ", %56, %57, %58, %59"
#define MEGACONV_SUMS_60(d) MEGACONV_SUMS_56(d), MEGACONV_FOUR_SUMS(d, 56)
#define MEGACONV_NUMBERS_64 MEGACONV_NUMBERS_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MEGACONV_SUMS_64(d) MEGACONV_SUMS_56(d), MEGACONV_SUMS(d, 56)
#define MEGACONV_NUMBERS_68 MEGACONV_NUMBERS_64 ", %64, %65, %66, %67"
#define MEGACONV_SUMS_68(d) MEGACONV_SUMS_64(d), MEGACONV_FOUR_SUMS(d, 64)
#define MEGACONV_NUMBERS_72 MEGACONV_NUMBERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define MEGACONV_SUMS_72(d) MEGACONV_SUMS_64(d), MEGACONV_SUMS(d, 64)
#define MEGACONV_NUMBERS_76 MEGACONV_NUMBERS_72 ", %72, %73, %74, %75"
#define MEGACONV_SUMS_76(d) MEGACONV_SUMS_72(d), MEGACONV_FOUR_SUMS(d, 72)
#define MEGACONV_NUMBERS_80 MEGACONV_NUMBERS_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define MEGACONV_SUMS_80(d) MEGACONV_SUMS_72(d), MEGACONV_SUMS(d, 72)
#define MEGACONV_NUMBERS_84 MEGACONV_NUMBERS_80 ", %80, %81, %82, %83"
#define MEGACONV_SUMS_84(d) MEGACONV_SUMS_80(d), MEGACONV_FOUR_SUMS(d, 80)
#define MEGACONV_NUMBERS_88 MEGACONV_NUMBERS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define MEGACONV_SUMS_88(d) MEGACONV_SUMS_80(d), MEGACONV_SUMS(d, 80)
#define MEGACONV_NUMBERS_92 MEGACONV_NUMBERS_88 ", %88, %89, %90, %91"
#define MEGACONV_SUMS_92(d) MEGACONV_SUMS_88(d), MEGACONV_FOUR_SUMS(d, 88)
#define MEGACONV_NUMBERS_96 MEGACONV_NUMBERS_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define MEGACONV_SUMS_96(d) MEGACONV_SUMS_88(d), MEGACONV_SUMS(d, 88)
#define MEGACONV_NUMBERS_100 MEGACONV_NUMBERS_96 ", %96, %97, %98, %99"
#define MEGACONV_SUMS_100(d) MEGACONV_SUMS_96(d), MEGACONV_FOUR_SUMS(d, 96)
#define MEGACONV_NUMBERS_104 MEGACONV_NUMBERS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define MEGACONV_SUMS_104(d) MEGACONV_SUMS_96(d), MEGACONV_SUMS(d, 96)
#define MEGACONV_NUMBERS_108 MEGACONV_NUMBERS_104 ", %104, %105, %106, %107"
#define MEGACONV_SUMS_108(d) MEGACONV_SUMS_104(d), MEGACONV_FOUR_SUMS(d, 104)
#define MEGACONV_NUMBERS_112 MEGACONV_NUMBERS_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define MEGACONV_SUMS_112(d) MEGACONV_SUMS_104(d), MEGACONV_SUMS(d, 104)
#define MEGACONV_NUMBERS_116 MEGACONV_NUMBERS_112 ", %112, %113, %114, %115"
#define MEGACONV_SUMS_116(d) MEGACONV_SUMS_112(d), MEGACONV_FOUR_SUMS(d, 112)
#define MEGACONV_NUMBERS_120 MEGACONV_NUMBERS_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define MEGACONV_SUMS_120(d) MEGACONV_SUMS_112(d), MEGACONV_SUMS(d, 112)
#define MEGACONV_NUMBERS_124 MEGACONV_NUMBERS_120 ", %120, %121, %122, %123"
#define MEGACONV_SUMS_124(d) MEGACONV_SUMS_120(d), MEGACONV_FOUR_SUMS(d, 120)
#define MEGACONV_NUMBERS_128 MEGACONV_NUMBERS_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define MEGACONV_SUMS_128(d) MEGACONV_SUMS_120(d), MEGACONV_SUMS(d, 120)
// The instruction of kN columns for each type, whose name cannot be an operand of asm; those of 16
// bits could be transposed.
#define MEGACONV_WGMMA_OF(type, n, count, a_number, b_number, keep_number, transposed)   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, " keep_number                           \
               ", 0;\n"                                                                  \
               "wgmma.mma_async.sync.aligned.m64n" #n type " {" MEGACONV_NUMBERS_##count \
               "}, " a_number ", " b_number ", p, 1, 1" transposed ";\n}"                \
               : MEGACONV_SUMS_##count(d)                                                \
               : "l"(a), "l"(b), "r"(keep))
#define MEGACONV_WGMMA(n, count, a_number, b_number, keep_number)                                \
  if constexpr (kN == n && std::is_same_v<Number, __half>) {                                     \
    MEGACONV_WGMMA_OF("k16.f32.f16.f16", n, count, a_number, b_number, keep_number, ", 0, 0");   \
  } else if constexpr (kN == n && std::is_same_v<Number, __nv_bfloat16>) {                       \
    MEGACONV_WGMMA_OF("k16.f32.bf16.bf16", n, count, a_number, b_number, keep_number, ", 0, 0"); \
  } else if constexpr (kN == n) {                                                                \
    MEGACONV_WGMMA_OF("k8.f32.tf32.tf32", n, count, a_number, b_number, keep_number, "");        \
  }

// The same of FP16 numbers, with rows in registers.
#define MEGACONV_WGMMA_OF_ROWS(n, count, a0, a1, a2, a3, b_number, keep_number)                 \
  if constexpr (kN == n) {                                                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, " keep_number                                \
                 ", 0;\n"                                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #n                                         \
                 "k16.f32.f16.f16 {" MEGACONV_NUMBERS_##count "}, {" a0 ", " a1 ", " a2 ", " a3 \
                                                              "}, " b_number ", p, 1, 1, 0;\n}" \
                 : MEGACONV_SUMS_##count(d)                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));              \
  }

/// d += a b, or d = a b if what was in d is not to be kept: 64 rows x kN columns, kWgmmaRowBytes of
/// Number (__half, __nv_bfloat16, or float, of which TF32's bits are taken). Row of d[i] in the
/// warpgroup: warp * 16 + lane / 4 + i / 2 % 2
/// * 8; column: i / 4 * 8 + lane % 4 * 2 + i % 2.
template <int kN, class Number = __half>
__device__ inline void wgmma(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b, int keep = 1) {
  static_assert(kN > 0 && kN <= 256 && (kN % 16 == 0 || (kN % 8 == 0 && kN > 64)));
  static_assert(std::is_same_v<Number, __half> || std::is_same_v<Number, __nv_bfloat16> ||
                std::is_same_v<Number, float>);
  MEGACONV_WGMMA(16, 8, "%8", "%9", "%10")
  MEGACONV_WGMMA(32, 16, "%16", "%17", "%18")
  MEGACONV_WGMMA(48, 24, "%24", "%25", "%26")
  MEGACONV_WGMMA(64, 32, "%32", "%33", "%34")
  MEGACONV_WGMMA(72, 36, "%36", "%37", "%38")
  MEGACONV_WGMMA(80, 40, "%40", "%41", "%42")
  MEGACONV_WGMMA(88, 44, "%44", "%45", "%46")
  MEGACONV_WGMMA(96, 48, "%48", "%49", "%50")
  MEGACONV_WGMMA(104, 52, "%52", "%53", "%54")
  MEGACONV_WGMMA(112, 56, "%56", "%57", "%58")
  MEGACONV_WGMMA(120, 60, "%60", "%61", "%62")
  MEGACONV_WGMMA(128, 64, "%64", "%65", "%66")
  MEGACONV_WGMMA(136, 68, "%68", "%69", "%70")
  MEGACONV_WGMMA(144, 72, "%72", "%73", "%74")
  MEGACONV_WGMMA(152, 76, "%76", "%77", "%78")
  MEGACONV_WGMMA(160, 80, "%80", "%81", "%82")
  MEGACONV_WGMMA(168, 84, "%84", "%85", "%86")
  MEGACONV_WGMMA(176, 88, "%88", "%89", "%90")
  MEGACONV_WGMMA(184, 92, "%92", "%93", "%94")
  MEGACONV_WGMMA(192, 96, "%96", "%97", "%98")
  MEGACONV_WGMMA(200, 100, "%100", "%101", "%102")
  MEGACONV_WGMMA(208, 104, "%104", "%105", "%106")
  MEGACONV_WGMMA(216, 108, "%108", "%109", "%110")
  MEGACONV_WGMMA(224, 112, "%112", "%113", "%114")
  MEGACONV_WGMMA(232, 116, "%116", "%117", "%118")
  MEGACONV_WGMMA(240, 120, "%120", "%121", "%122")
  MEGACONV_WGMMA(248, 124, "%124", "%125", "%126")
  MEGACONV_WGMMA(256, 128, "%128", "%129", "%130")
}

/// The same of FP16 numbers with rows in registers, 64 rows x kN columns, 16 channels, of which
/// this thread has, of rows r = warp * 16 + lane / 4 and r + 8, channels c = lane % 4 * 2 and the
/// next: a[0] is (r, c), a[1] (r + 8, c), a[2] (r, c + 8), a[3] (r + 8, c + 8). They stay as they
/// are until the instruction ends.
template <int kN>
__device__ inline void wgmma_rows(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b,
                                  int keep = 1) {
  static_assert(kN > 0 && kN <= 256 && kN % 16 == 0);
  MEGACONV_WGMMA_OF_ROWS(16, 8, "%8", "%9", "%10", "%11", "%12", "%13")
  MEGACONV_WGMMA_OF_ROWS(32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
  MEGACONV_WGMMA_OF_ROWS(48, 24, "%24", "%25", "%26", "%27", "%28", "%29")
  MEGACONV_WGMMA_OF_ROWS(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
  MEGACONV_WGMMA_OF_ROWS(80, 40, "%40", "%41", "%42", "%43", "%44", "%45")
  MEGACONV_WGMMA_OF_ROWS(96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
  MEGACONV_WGMMA_OF_ROWS(112, 56, "%56", "%57", "%58", "%59", "%60", "%61")
  MEGACONV_WGMMA_OF_ROWS(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
  MEGACONV_WGMMA_OF_ROWS(144, 72, "%72", "%73", "%74", "%75", "%76", "%77")
  MEGACONV_WGMMA_OF_ROWS(160, 80, "%80", "%81", "%82", "%83", "%84", "%85")
  MEGACONV_WGMMA_OF_ROWS(176, 88, "%88", "%89", "%90", "%91", "%92", "%93")
  MEGACONV_WGMMA_OF_ROWS(192, 96, "%96", "%97", "%98", "%99", "%100", "%101")
  MEGACONV_WGMMA_OF_ROWS(208, 104, "%104", "%105", "%106", "%107", "%108", "%109")
  MEGACONV_WGMMA_OF_ROWS(224, 112, "%112", "%113", "%114", "%115", "%116", "%117")
  MEGACONV_WGMMA_OF_ROWS(240, 120, "%120", "%121", "%122", "%123", "%124", "%125")
  MEGACONV_WGMMA_OF_ROWS(256, 128, "%128", "%129", "%130", "%131", "%132", "%133")
}

#undef MEGACONV_WGMMA
#undef MEGACONV_WGMMA_OF_ROWS
#undef MEGACONV_WGMMA_OF
#undef MEGACONV_SUMS
#undef MEGACONV_FOUR_SUMS
#undef MEGACONV_NUMBERS_8
#undef MEGACONV_SUMS_8
#undef MEGACONV_NUMBERS_16
#undef MEGACONV_SUMS_16
#undef MEGACONV_NUMBERS_24
#undef MEGACONV_SUMS_24
#undef MEGACONV_NUMBERS_32
#undef MEGACONV_SUMS_32
#undef MEGACONV_NUMBERS_36
#undef MEGACONV_SUMS_36
#undef MEGACONV_NUMBERS_40
#undef MEGACONV_SUMS_40
#undef MEGACONV_NUMBERS_44
#undef MEGACONV_SUMS_44
#undef MEGACONV_NUMBERS_48
#undef MEGACONV_SUMS_48
#undef MEGACONV_NUMBERS_52
#undef MEGACONV_SUMS_52
#undef MEGACONV_NUMBERS_56
#undef MEGACONV_SUMS_56
#undef MEGACONV_NUMBERS_60
#undef MEGACONV_SUMS_60
#undef MEGACONV_NUMBERS_64
#undef MEGACONV_SUMS_64
#undef MEGACONV_NUMBERS_68
#undef MEGACONV_SUMS_68
#undef MEGACONV_NUMBERS_72
#undef MEGACONV_SUMS_72
#undef MEGACONV_NUMBERS_76
#undef MEGACONV_SUMS_76
#undef MEGACONV_NUMBERS_80
#undef MEGACONV_SUMS_80
#undef MEGACONV_NUMBERS_84
#undef MEGACONV_SUMS_84
#undef MEGACONV_NUMBERS_88
#undef MEGACONV_SUMS_88
#undef MEGACONV_NUMBERS_92
#undef MEGACONV_SUMS_92
#undef MEGACONV_NUMBERS_96
#undef MEGACONV_SUMS_96
#undef MEGACONV_NUMBERS_100
#undef MEGACONV_SUMS_100
#undef MEGACONV_NUMBERS_104
#undef MEGACONV_SUMS_104
#undef MEGACONV_NUMBERS_108
#undef MEGACONV_SUMS_108
#undef MEGACONV_NUMBERS_112
#undef MEGACONV_SUMS_112
#undef MEGACONV_NUMBERS_116
#undef MEGACONV_SUMS_116
#undef MEGACONV_NUMBERS_120
#undef MEGACONV_SUMS_120
#undef MEGACONV_NUMBERS_124
#undef MEGACONV_SUMS_124
#undef MEGACONV_NUMBERS_128
#undef MEGACONV_SUMS_128

}  // namespace megaconv::cuda
