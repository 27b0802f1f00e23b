// SPDX-License-Identifier: Apache-2.0
// Consumers of tall tiles: two warpgroups, each with the products of half of a tile's padded pixels
// and all of its filters. Padded pixels are the rows of their matrix instructions, filters the
// columns: these come in any number of sixteens.
#pragma once

#include <type_traits>

#include "tasks/implicit_gemm/cuda/in_place_taps.cuh"
#include "tasks/implicit_gemm/cuda/tall_convert.cuh"
#include "tasks/implicit_gemm/cuda/tall_outputs.cuh"
#include "tasks/implicit_gemm/cuda/tall_split.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape of tall tiles.
template <class Shape>
class TallConsumers : InPlaceTaps<Shape> {
  using Shape::kConvertsRows, Shape::kGroupsOfPlaces, Shape::kHelpers, Shape::kSplitsRows;
  using Shape::kThreads;
  using typename Shape::Course, typename Shape::OutputCursor, typename Shape::Shared;
  using typename Shape::Walk;
  using Taps = InPlaceTaps<Shape>;
  using Taps::multiply_k_block, Taps::multiply_taps;
  using typename Taps::FilterCursor, typename Taps::InputCursor;
  using Outputs = TallOutputs<Shape>;
  static constexpr int kPlaces = kTallPlaces / kGroupsOfPlaces;
  static_assert(kPlaces == 64, "rows of a matrix instruction");
  using Converting = std::conditional_t<kSplitsRows, SplittingTaps<Shape>, ConvertingTaps<Shape>>;

 public:
  /// With as many filters as the plan's tiles have, at most kFilters. (Matrix instructions must not
  /// run across calls.)
  template <int kFilters = Shape::kFilters, class Source, class Wait, class Note>
  static __device__ __forceinline__ void consume_filters(const TaskArgs& a, const Course& course,
                                                         float x_scale, const Source& source,
                                                         const Shared& shared, Wait wait,
                                                         Note note) {
    constexpr int kStep = 16;
    if (a.gemm_filters == kFilters) {
      consume<kFilters>(a, course, x_scale, source, shared, wait, note);
    } else if constexpr (kFilters > kStep) {
      consume_filters<kFilters - kStep>(a, course, x_scale, source, shared, wait, note);
    }
  }

 private:
  template <int kFilters, class Source, class Wait, class Note>
  static __device__ __forceinline__ void consume(const TaskArgs& a, const Course& course,
                                                 float x_scale, const Source& source,
                                                 const Shared& shared, Wait wait, Note note) {
    constexpr int kRowBytes = k_block_bytes_in_place(kTallPlaces, Shape::kOperands);
    const int warpgroup = warpgroup_index() - kHelpers / 128;
    const bool speaker = threadIdx.x % 32 == 0;
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    auto& ring = shared.barriers.output[warpgroup];
    const std::byte* const own_x = shared.x + warpgroup * kPlaces * kRowBytes;
    const std::uint64_t first_x = wgmma_swizzled_operand<kRowBytes>(own_x);
    const std::uint64_t first_u = wgmma_swizzled_operand<kRowBytes>(shared.u);
    const ClusterBarriers input_everywhere{shared.cluster, shared.barriers.input.empty};
    InputCursor input;
    FilterCursor filter;
    OutputCursor output(a);
    [[maybe_unused]] std::conditional_t<kConvertsRows, Converting, float> converting(x_scale);
    float sums[kFilters / 2] = {};
    std::uint64_t free_ns = source.now();
    for (Task task; tasks.next(task); tasks.advance(), free_ns = source.now()) {
      const Walk walk(a, task);
      wait();
      const float w_scale = Outputs::scale_of_filters(a);
      if constexpr (kConvertsRows) converting.begin();
      const auto first_filter = filter;  // of the task
      for (int tile = 0; tile < walk.num_tiles; ++tile) {
        if (course.keeps_them_all) {
          filter = {};
        } else if (course.keeps_filters) {
          filter = first_filter;
        }
        const bool is_last = tile + 1 == walk.num_tiles;
        const bool keeps = course.keeps_them_all || (course.keeps_filters && !is_last);
        if constexpr (kConvertsRows) {
          converting.template multiply<kFilters>(sums, course.chunks, keeps, input, filter, own_x,
                                                 first_u, input_everywhere, shared);
        } else {
          multiply_taps(course.chunks, keeps, input, filter, input_everywhere, shared,
                        [&](int of_input, int of_filter) {
                          multiply_k_block<kFilters, kRowBytes>(
                              sums, advance_lower(first_x, of_input * (kTallPlaces * kRowBytes)),
                              advance_lower(first_u, of_filter * (kFilters * kRowBytes)));
                        });
        }
        const typename Outputs::Unscaling unscaling(x_scale, w_scale);
        if (a.residual != nullptr) {
          shared.barriers.residual[warpgroup].wait_full(output.residual());
        }
        // Sums of filters from `first` on to the storer, through a stage that has room for kAtOnce.
        const auto hand_over = [&]<int kAtOnce>(auto& outputs, int first) {
          constexpr int kOfThese = sizeof(outputs) / sizeof(float) * 2;
          constexpr int kPitch = output_pitch_of_tall(kAtOnce, sizeof(typename Shape::Stored));
          ring.wait_empty(output.at);
          Outputs::template put<kOfThese, kPitch>(
              a, unscaling, walk.first_k + first, outputs,
              reinterpret_cast<std::byte*>(shared.outputs) +
                  (warpgroup * output.stages + output.at.stage) * (kPlaces * kPitch));
          __syncwarp();
          if (speaker) ring.arrive_full(output.at.stage);
          output.advance();
        };
        if (may_leave_in_parts(Shape::kOperands, kFilters) && output.in_parts()) {
          const auto hand_over_part = [&]<int kOfPart>(int first) {
            float part[kOfPart / 2];
#pragma unroll
            for (int i = 0; i < kOfPart / 2; ++i) {
              part[i] = sums[first / 2 + i], sums[first / 2 + i] = 0.0f;
            }
            hand_over.template operator()<kColumnsOfPart>(part, first);
          };
          constexpr int kRest = kFilters % kColumnsOfPart;
#pragma unroll
          for (int first = 0; first < kFilters - kRest; first += kColumnsOfPart) {
            hand_over_part.template operator()<kColumnsOfPart>(first);
          }
          if constexpr (kRest != 0) hand_over_part.template operator()<kRest>(kFilters - kRest);
        } else {
          hand_over.template operator()<kFilters>(sums, 0);
        }
      }
      if constexpr (kConvertsRows) {
        const MagnitudeBits most = __reduce_max_sync(0xffffffffu, converting.largest());
        if (speaker) note(task, (static_cast<int>(threadIdx.x) - kHelpers) / 32, most);
      }
      if (threadIdx.x == kThreads - 128) tasks.record(free_ns);
      __syncwarp();
      if (speaker) tasks.leave();
    }
  }
};

}  // namespace megaconv::cuda
