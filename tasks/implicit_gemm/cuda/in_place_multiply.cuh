// SPDX-License-Identifier: Apache-2.0
// Consumers of implicit GEMM on operands in place: two warpgroups, each with the products of 64
// filters and half of a tile's padded pixels, or with half of a wide tile's filters. (Those of tall
// tiles: tall_multiply.cuh.)
#pragma once

#include "tasks/cuda/wgmma.cuh"
#include "tasks/implicit_gemm/cuda/implicit_gemm_walk.cuh"
#include "tasks/implicit_gemm/cuda/in_place_outputs.cuh"
#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"
#include "tasks/implicit_gemm/cuda/in_place_taps.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape, narrow or wide.
template <class Shape>
class InPlaceConsumers : InPlaceTaps<Shape> {
  using Shape::first_filter_of, Shape::first_output_of, Shape::first_place_of;
  using Shape::kConsumers, Shape::kConverters, Shape::kFilters, Shape::kGroupsOfPlaces;
  using Shape::kHelpers, Shape::kLead, Shape::kMostWidth, Shape::kOperands, Shape::kPending;
  using Shape::kRows, Shape::kSameInput, Shape::kSharesChannels, Shape::kThreads, Shape::kWide;
  using Shape::num_chunks;
  using typename Shape::Barriers, typename Shape::Course, typename Shape::Number;
  using typename Shape::OutputCursor, typename Shape::OutputRow, typename Shape::Shared;
  using typename Shape::Walk;
  using Taps = InPlaceTaps<Shape>;
  using Taps::free_input, Taps::in_register, Taps::multiply_k_block, Taps::multiply_taps;
  using typename Taps::FilterCursor, typename Taps::InputCursor;
  using Outputs = InPlaceOutputs<Shape>;

 public:
  /// With the width that the plan has, at most kWidth. (Matrix instructions must not run across
  /// calls.)
  template <int kWidth = kMostWidth, class Source, class Wait>
  static __device__ __forceinline__ void consume_width(const TaskArgs& a, const Course& course,
                                                       float x_scale, const Source& source,
                                                       const Shared& shared, Wait wait) {
    constexpr int kTile = kGroupsOfPlaces * kWidth;
    constexpr int kNarrower = kWidth - tile_step_in_place(kTile) / kGroupsOfPlaces;
    if (a.tile_places == kTile) {
      consume<kWidth>(a, course, x_scale, source, shared, wait);
    } else if constexpr (kNarrower > 0) {
      consume_width<kNarrower>(a, course, x_scale, source, shared, wait);
    }
  }

 private:
  // One warpgroup's share of all tiles, kWidth padded pixels each. wait() comes before what it
  // reads itself.
  template <int kWidth, class Source, class Wait>
  static __device__ __forceinline__ void consume(const TaskArgs& a, const Course& course,
                                                 float x_scale, const Source& source,
                                                 const Shared& shared, Wait wait) {
    // One after the other. A stage has clusters, whose blocks have one each.
    constexpr bool kAllShares = kSharesChannels && Source::kTakesAllShares;
    const int warpgroup = warpgroup_index() - (kHelpers + kConverters) / 128;
    const bool speaker = threadIdx.x % 32 == 0;
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    auto& ring = shared.barriers.output[warpgroup];
    InputCursor input;
    FilterCursor filter;
    OutputCursor output(a);
    typename Outputs::Finish finish(a);
    ClusterBarriers input_everywhere;
    if constexpr (kSameInput) input_everywhere = {shared.cluster, shared.barriers.input.empty};
    float sums[kWidth / 2] = {};
    std::uint64_t free_ns = source.now();
    for (Task task; tasks.next(task); tasks.advance(), free_ns = source.now()) {
      const Walk walk(a, task);
      wait();
      finish.begin(a, x_scale, walk.first_k + first_filter_of(warpgroup));
      const auto first_filter = filter;  // of the task
      for (int tile = 0; tile < walk.num_tiles; ++tile) {
        if (course.keeps_them_all) {
          filter = {};
        } else if (course.keeps_filters) {
          filter = first_filter;
        }
        const bool is_last = tile + 1 == walk.num_tiles;
        const bool keeps = course.keeps_them_all || (course.keeps_filters && !is_last);
        const auto multiply_share = [&](int chunks) {
          multiply<kWidth, kAllShares>(a, course, chunks, warpgroup, keeps, input, filter, sums,
                                       input_everywhere, shared);
        };
        if constexpr (kSharesChannels) {
          if (!multiply_shares<kWidth, kAllShares>(a, course, shared, sums, multiply_share)) {
            continue;
          }
        } else {
          multiply_share(course.chunks);
        }
        // The residual first: behind the other wait ptxas takes all that follows for divergent.
        if (finish.has_residual()) {
          shared.barriers.residual[warpgroup].wait_full(output.residual());
        }
        // Sums to the storer, through the next of the stages that begin at `stages`.
        const auto hand_over = [&](auto& outputs, OutputRow* stages, int stage_rows) {
          constexpr int kPlaces = sizeof(outputs) / sizeof(float) * 2;
          ring.wait_empty(output.at);
          Outputs::template put<kPlaces>(finish, outputs, stages + output.at.stage * stage_rows);
          ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
          __syncwarp();
          if (speaker) ring.arrive_full(output.at.stage);
          output.advance();
        };
        if (may_leave_in_parts(kOperands, kWidth) && output.in_parts()) {
          constexpr int kPart = kColumnsOfPart, kStageRows = kRows * kPart;
#pragma unroll
          for (int first = 0; first < kWidth; first += kPart) {
            float part[kPart / 2];
#pragma unroll
            for (int i = 0; i < kPart / 2; ++i) {
              part[i] = sums[first / 2 + i], sums[first / 2 + i] = 0.0f;
            }
            hand_over(part, shared.outputs + warpgroup * output.stages * kStageRows, kStageRows);
          }
        } else {
          hand_over(sums, shared.outputs + first_output_of(warpgroup, kWidth), 0);
        }
      }
      if (threadIdx.x == kThreads - 128) tasks.record(free_ns);
      __syncwarp();
      if (speaker) tasks.leave();
    }
  }

  // Adds the products of a tile, of all shares of its channels or of the block's own. False in
  // blocks of a cluster whose sums have gone to the first one. (Sums are zero wherever products
  // begin, else ptxas would make each matrix instruction wait for the one before. So it would
  // behind the loop over shares, if there were two of chunks.)
  template <int kWidth, bool kAllShares, class MultiplyShare>
  static __device__ __forceinline__ bool multiply_shares(const TaskArgs& a, const Course& course,
                                                         const Shared& shared,
                                                         float (&sums)[kWidth / 2],
                                                         MultiplyShare multiply_share) {
    const BlockCluster& cluster = shared.cluster;
    const int thread = static_cast<int>(threadIdx.x) - (kHelpers + kConverters);
    if constexpr (!kAllShares) {
      multiply_share(course.chunks);
    } else {
      const int share_chunks = num_chunks(a, a.share_k_blocks);
      float before[kWidth / 2] = {};
      for (int left = course.chunks;;) {
        const int chunks = min(left, share_chunks);
        multiply_share(chunks);
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) sums[i] += before[i];
        left -= chunks;
        if (left == 0) break;
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) before[i] = sums[i], sums[i] = 0.0f;
      }
    }
    if (cluster.rank() != 0) {
      float* const own = shared.partial_sums + (cluster.rank() - 1) * kWidth / 2 * kConsumers;
      float* const to = cluster.at(0, own) + thread;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) to[i * kConsumers] = sums[i], sums[i] = 0.0f;
      __syncwarp();
      if (thread % 32 == 0) cluster.arrive(0, &shared.barriers.partial_sums);
      return false;
    }
    if (cluster.size() > 1) cluster.wait(&shared.barriers.partial_sums);
    for (int other = 0; other < cluster.size() - 1; ++other) {
      const float* const from = shared.partial_sums + other * kWidth / 2 * kConsumers + thread;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) sums[i] += from[i * kConsumers];
    }
    return true;
  }

  // Adds the products of some chunks of a tile.
  template <int kWidth, bool kAllShares>
  static __device__ __forceinline__ void multiply(const TaskArgs& a, const Course& course,
                                                  int chunks, int warpgroup, bool keeps_filters,
                                                  InputCursor& input, FilterCursor& filter,
                                                  float (&sums)[kWidth / 2],
                                                  const ClusterBarriers& input_everywhere,
                                                  const Shared& shared) {
    if (kWide || (!kAllShares && course.taps == 1)) {
      constexpr int kRowBytes = k_block_bytes_in_place(kGroupsOfPlaces * kWidth, kOperands);
      const auto input_bytes = static_cast<std::uint32_t>(in_register(shared.input_bytes));
      const std::uint64_t first_x = wgmma_swizzled_operand<kRowBytes>(
          shared.x + first_place_of(warpgroup, kWidth) * kRowBytes);
      const std::uint64_t first_u =
          wgmma_swizzled_operand<kRowBytes>(shared.u + first_filter_of(warpgroup) * kRowBytes);
      multiply_taps(chunks, keeps_filters, input, filter, input_everywhere, shared,
                    [&](int of_input, int of_filter) {
                      multiply_k_block<kWidth, kRowBytes>(
                          sums, advance_lower(first_u, of_filter * (kFilters * kRowBytes)),
                          advance_lower(first_x, of_input * input_bytes));
                    });
    } else {
      multiply_runs<kWidth>(a, course, chunks, warpgroup, keeps_filters, input, filter, sums,
                            input_everywhere, shared);
    }
  }

  // Of chunks whose taps share their input.
  template <int kWidth>
  static __device__ __forceinline__ void multiply_runs(
      const TaskArgs& a, const Course& course, int chunks, int warpgroup, bool keeps_filters,
      InputCursor& input, FilterCursor& filter, float (&sums)[kWidth / 2],
      const ClusterBarriers& input_everywhere, const Shared& shared) {
    Barriers& barriers = shared.barriers;
    const int input_stages = in_register(shared.input_stages);
    const int filter_stages = in_register(shared.filter_stages);
    const int taps = in_register(course.taps);
    // Taps that are being multiplied, at most kPending; those before are given back.
    int pending = 0, oldest_filter = filter.stage, oldest_input = input.stage, oldest_tap = 0;
    const auto release = [&] {
      const bool speaker = threadIdx.x % 32 == 0;
      if (speaker && !keeps_filters) barriers.filter.arrive_empty(oldest_filter);
      if (++oldest_filter == filter_stages) oldest_filter = 0;
      if (++oldest_tap == taps) {
        free_input(oldest_input, speaker, input_everywhere, barriers);
        if (++oldest_input == input_stages) oldest_input = 0;
        oldest_tap = 0;
      }
    };
    constexpr int kRowBytes = k_block_bytes_in_place(kGroupsOfPlaces * kWidth, kOperands);
    const int first_place = first_place_of(warpgroup, kWidth);
    const std::uint64_t first_u =
        wgmma_swizzled_operand<kRowBytes>(shared.u + first_filter_of(warpgroup) * kRowBytes);
    TapOffsets offsets(a, kRowBytes);
    const bool leads = course.has_lead && warpgroup == 0;
    const bool follows = course.has_lead && warpgroup != 0;
    // Where a stage of input is for two taps, those that are pending would hold most stages, and
    // few would be on their way.
    const bool drains = taps < kPending;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (drains) {
        wgmma_wait<1>();
#pragma unroll 1
        for (; pending > 1; --pending) release();
      }
      if (follows) barriers.lead.wait_full(input);
      barriers.input.wait_full(input);
      const int stage = input.stage;
      const std::uint64_t places = wgmma_swizzled_operand<kRowBytes>(
          shared.x + stage * shared.input_bytes + first_place * kRowBytes);
      input.advance(input_stages);
      offsets.restart();
      for (int tap = 0; tap < taps; ++tap) {
        barriers.filter.wait_full(filter);
        const std::uint64_t u = advance_lower(first_u, filter.stage * (kFilters * kRowBytes));
        const std::uint64_t x = advance_lower(places, offsets.next());
        filter.advance(filter_stages);
        wgmma_fence();
        multiply_k_block<kWidth, kRowBytes>(sums, u, x);
        wgmma_commit();
        if (leads && tap == kLead - 1 && threadIdx.x % 32 == 0) barriers.lead.arrive_full(stage);
        wgmma_wait<kPending>();
        if (++pending > kPending) --pending, release();
      }
    }
    wgmma_wait<0>();
#pragma unroll 1
    for (; pending > 0; --pending) release();
  }
};

}  // namespace megaconv::cuda
