// SPDX-License-Identifier: Apache-2.0
// Where M keeps the sums of one slot, for who writes and who reads them.
#pragma once

#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// Element (position, tile, filter) lies at
/// position * position_stride + tile * tile_stride + filter * filter_stride.
struct MStrides {
  std::int64_t position, tile, filter;
};
template <Layout kLayout>
__device__ inline MStrides m_strides(const TaskArgs& a) {
  const std::int64_t position = static_cast<std::int64_t>(a.gemm_tiles) * a.k_padded;
  if constexpr (kLayout == Layout::nchw) return {position, 1, a.gemm_tiles};
  return {position, a.k_padded, 1};
}

}  // namespace megaconv::cuda
