// SPDX-License-Identifier: Apache-2.0
// openCNN's filter transform: U = G w G^T, in the order in which opencnn.cuh reads it.
#pragma once

#include <cstdint>

#include "tasks/cuda/task_args.hpp"
#include "tasks/opencnn/cuda/opencnn_transforms.cuh"
#include "tasks/opencnn/opencnn_blocking.hpp"

namespace megaconv::cuda {

/// Transforms kFilters filters of kChannels channels; `block` counts those of U, channels fastest.
template <Layout kLayout>
struct OpencnnFilterTransform {
  static __device__ void run(const TaskArgs& args, std::uint32_t block) {
    using namespace opencnn;
    const int channel_blocks = (args.c + kChannels - 1) / kChannels;
    const int thread = static_cast<int>(threadIdx.x), filter = thread % kFilters;
    const int k = static_cast<int>(block) / channel_blocks * kFilters + filter;
    float* u = args.u + static_cast<std::int64_t>(block) * (kPositions * kChannels * kFilters);

    // Four channels at a time: threads are [channel][filter].
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int channel = thread / kFilters;
      const int c =
          static_cast<int>(block) % channel_blocks * kChannels + half * kHalfChannels + channel;
      float u_position[kPositions] = {};
      if (k < args.k && c < args.c) transform(args, k, c, u_position);
#pragma unroll
      for (int position = 0; position < kPositions; ++position) {
        u[((half * kPositions + position) * kHalfChannels + channel) * kFilters + filter] =
            u_position[position];
      }
    }
  }

 private:
  static_assert(kBlockThreads == opencnn::kHalfChannels * opencnn::kFilters);

  static __device__ void transform(const TaskArgs& args, int k, int c,
                                   float (&u)[opencnn::kPositions]) {
    constexpr int kTaps = kWinogradR * kWinogradR;
    const std::int64_t channels = args.c, filters = args.k;
    const std::int64_t first = kLayout == Layout::nchw   ? (k * channels + c) * kTaps
                               : kLayout == Layout::nhwc ? k * kTaps * channels + c
                                                         : c * kTaps * filters + k;
    const std::int64_t tap_stride = kLayout == Layout::nchw   ? 1
                                    : kLayout == Layout::nhwc ? channels
                                                              : filters;
    float columns[3][4];  // (G w)^T
#pragma unroll
    for (int s = 0; s < 3; ++s) {
      float column[3];
#pragma unroll
      for (int r = 0; r < 3; ++r) column[r] = __ldg(args.w + first + (r * 3 + s) * tap_stride);
      opencnn::filter_transform_1d(column, columns[s]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float row[3] = {columns[0][i], columns[1][i], columns[2][i]};
      float u_row[4];
      opencnn::filter_transform_1d(row, u_row);
#pragma unroll
      for (int j = 0; j < 4; ++j) u[i * 4 + j] = u_row[j];
    }
  }
};

}  // namespace megaconv::cuda
