// SPDX-License-Identifier: Apache-2.0
// The largest of outputs that lie in vectors, as storers find them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "tasks/pooling/cuda/pool_numbers.cuh"

namespace megaconv::cuda {

/// The largest of each number of vectors of 16 bytes. A NaN stays.
template <class Stored>
__device__ inline uint4 larger(const uint4& a, const uint4& b) {
  constexpr int kPair = static_cast<int>(sizeof(std::uint32_t) / sizeof(Stored));
  const std::uint32_t from[2][4] = {{a.x, a.y, a.z, a.w}, {b.x, b.y, b.z, b.w}};
  std::uint32_t to[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kPair == 2) {
      using Pair = std::conditional_t<std::is_same_v<Stored, __half>, __half2, __nv_bfloat162>;
      const Pair most = __hmax2_nan(reinterpret_cast<const Pair&>(from[0][i]),
                                    reinterpret_cast<const Pair&>(from[1][i]));
      to[i] = reinterpret_cast<const std::uint32_t&>(most);
    } else {
      Vec<1> most{{__uint_as_float(from[0][i])}};
      add_to_pool<true>(most, Vec<1>{{__uint_as_float(from[1][i])}}, true);
      to[i] = __float_as_uint(most.lane[0]);
    }
  }
  return {to[0], to[1], to[2], to[3]};
}
template <class Stored>
__device__ inline uint4 largest(const uint4& a, const uint4& b, const uint4& c, const uint4& d) {
  return larger<Stored>(larger<Stored>(a, b), larger<Stored>(c, d));
}

}  // namespace megaconv::cuda
