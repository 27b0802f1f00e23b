// SPDX-License-Identifier: Apache-2.0
// Hopper's copies of boxes of tensors to shared memory by tensor maps (PTX ISA,
// "cp.async.bulk.tensor"). libcu++ has no wrapper of kind im2col. sm_90.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

namespace megaconv::cuda {

/// Rows of 64 bytes are permuted in spans of 512 bytes of shared memory, rows of 128 bytes in spans
/// of 1024.
inline constexpr int kSwizzleSpan = 1024;

/// One thread of a warp, all of which ask. Of no other does ptxas know that it is alone: it would
/// put a loop over threads around each copy.
__device__ inline bool is_elected() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
}

/// Brings a map into TMA's descriptor cache, before the first copy does.
__device__ inline void prefetch_map(const CUtensorMap& tensor) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&tensor) : "memory");
}

/// Pixels of one K block, one after the other in the order of the map's bounding box, from
/// the one at `col`, `row`, `image` on. Each is read so many columns and rows further on, 0 to 255.
struct PixelWalk {
  int channel, col, row, image, cols_on, rows_on;
};
/// Where the tensor has none, zeros. All bytes of the box count on the barrier.
__device__ inline void copy_pixels(void* to, const CUtensorMap& tensor, const PixelWalk& pixels,
                                   std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(
          static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
      "l"(&tensor), "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier))),
      "r"(pixels.channel), "r"(pixels.col), "r"(pixels.row), "r"(pixels.image),
      "h"(static_cast<std::uint16_t>(pixels.cols_on)),
      "h"(static_cast<std::uint16_t>(pixels.rows_on))
      : "memory");
}
/// The same to the first so many blocks of the cluster, where each has what lies at `to` in this
/// one. All bytes count on each block's barrier.
__device__ inline void multicast_pixels(void* to, const CUtensorMap& tensor,
                                        const PixelWalk& pixels, std::uint64_t* barrier,
                                        int blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(
          static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
      "l"(&tensor), "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier))),
      "r"(pixels.channel), "r"(pixels.col), "r"(pixels.row), "r"(pixels.image),
      "h"(static_cast<std::uint16_t>(pixels.cols_on)),
      "h"(static_cast<std::uint16_t>(pixels.rows_on)),
      "h"(static_cast<std::uint16_t>((1 << blocks) - 1))
      : "memory");
}

/// A box of a tensor from `first` on, its coordinates; where the tensor has nothing, zeros.
template <int kDimensions>
__device__ inline void copy_box(void* to, const CUtensorMap& tensor,
                                const std::int32_t (&first)[kDimensions], std::uint64_t* barrier) {
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_cluster, ::cuda::ptx::space_global, to,
                                    &tensor, first, barrier);
}
/// Brings it to the L2 cache.
__device__ inline void prefetch_box(const CUtensorMap& tensor, const std::int32_t (&first)[4]) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(&tensor),
      "r"(first[0]), "r"(first[1]), "r"(first[2]), "r"(first[3])
      : "memory");
}

}  // namespace megaconv::cuda
