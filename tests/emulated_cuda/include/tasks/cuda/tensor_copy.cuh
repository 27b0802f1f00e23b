// SPDX-License-Identifier: Apache-2.0
// In the place of the one that asks TMA: copies of boxes, number by number.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

namespace megaconv::cuda {

inline constexpr int kSwizzleSpan = 1024;

inline void prefetch_map(const CUtensorMap&) {}

inline void copy_box(void* to, const CUtensorMap& map, const std::int32_t (&first)[4],
                     std::uint64_t* barrier) {
  static const std::byte zeros[sizeof(std::uint64_t)] = {};
  if (reinterpret_cast<std::uintptr_t>(map.tensor) % 16 != 0 || map.strides[1] % 16 != 0 ||
      map.box[0] * map.strides[0] % 16 != 0 || reinterpret_cast<std::uintptr_t>(to) % 128 != 0) {
    throw std::runtime_error("emulated task: a box that is not aligned");
  }
  auto* next = static_cast<std::byte*>(to);
  const auto bytes = static_cast<std::uint32_t>(map.strides[0]);
  std::int32_t at[4];
  for (at[3] = 0; at[3] < map.box[3]; ++at[3]) {
    for (at[2] = 0; at[2] < map.box[2]; ++at[2]) {
      for (at[1] = 0; at[1] < map.box[1]; ++at[1]) {
        for (at[0] = 0; at[0] < map.box[0]; ++at[0], next += bytes) {
          const std::byte* from = map.tensor;
          for (int i = 0; i < 4; ++i) {
            const std::int64_t place = std::int64_t{first[i]} + at[i];
            if (place < 0 || place >= map.sizes[i]) from = nullptr;
            if (from != nullptr) from += place * map.strides[i];
          }
          ::cuda::ptx::copy_later({next, from != nullptr ? from : zeros, bytes, barrier});
        }
      }
    }
  }
}

}  // namespace megaconv::cuda
