// SPDX-License-Identifier: Apache-2.0
// What a CUDA pooling task is given: host code fills it, device code reads it.
#pragma once

#include <cstdint>

#include "megaconv/pooling.hpp"

namespace megaconv::cuda {

struct PoolTaskArgs {
  const void* x;  ///< device pointers, layout and storage type of the problem
  void* y;
  // PoolProblem, in 32 bits.
  std::int32_t c, h, w, p, q, r, s;
  std::int32_t pad_h, pad_w, stride_h, stride_w;
  // PoolCut.
  std::int32_t rows_per_group, cols_per_group, channels_per_task;
  PoolMode mode;
  Layout layout;
};

/// All but the pointers, which are null. Throws as derive_counts() does, and Error(unsupported) for
/// a padded input of 2^31 rows or columns, or tasks of more than 2^30 outputs.
PoolTaskArgs make_pool_task_args(const PoolCut& cut);

}  // namespace megaconv::cuda
