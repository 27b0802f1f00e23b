// SPDX-License-Identifier: Apache-2.0
// Filters of conv groups that are multiplied as one, in NHWC and of the tensors' own type, for TMA:
//
//   U   [filters][taps][channels of all these groups]   zero where a filter has no channels
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// A lane block of filters, some of their channels.
template <class Stored, int kThreads>
__device__ inline void join_filters_of_groups(const TaskArgs& a, std::uint32_t index) {
  constexpr int kLanes = static_cast<int>(Tiling::kLaneBlock);
  const int chunks = a.filter_channel_chunks, taps = a.r * a.s;
  const int first_k = static_cast<int>(index) / chunks * kLanes;
  const int first_c = static_cast<int>(index) % chunks * a.channels_per_filter_task;
  const int channels = min(a.channels_per_filter_task, a.c_padded - first_c);
  const int filters = min(kLanes, a.k - first_k);
  const int own_c = a.c / a.groups, own_k = a.k / a.groups;  // of a conv group
  const auto* const w = reinterpret_cast<const Stored*>(a.w);
  auto* const u = reinterpret_cast<Stored*>(a.u);
  for (int i = static_cast<int>(threadIdx.x); i < filters * taps * channels; i += kThreads) {
    const int c = first_c + i % channels, tap = i / channels % taps;
    const int k = first_k + i / channels / taps;
    const int from = c - k % a.filters_at_once / own_k * own_c;  // of the filter's channels
    const bool is_own = static_cast<unsigned>(from) < static_cast<unsigned>(own_c);
    const std::int64_t filter_tap = static_cast<std::int64_t>(k) * taps + tap;
    u[filter_tap * a.c_padded + c] =
        is_own ? w[filter_tap * own_c + from] : static_cast<Stored>(0.0f);
  }
  publish_to_copy_engine();
}

}  // namespace megaconv::cuda
