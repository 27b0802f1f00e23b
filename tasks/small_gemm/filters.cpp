// SPDX-License-Identifier: Apache-2.0
// Filters in the order in which the lanes of warps hold them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/filter_places.hpp"
#include "tasks/storage.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Calls put(filter, place, part) for every packed number in turn, and skip() behind a K block.
template <class Put, class Skip>
void for_each_packed(const SmallGemmCut& cut, Put put, Skip skip) {
  const FilterPlaces of(cut);
  for (std::int64_t block = 0; block < of.num_blocks; ++block) {
    for (std::int64_t k_block = 0; k_block < of.k_blocks; ++k_block) {
      for (std::int64_t tile = 0; tile < cut.filter_warps; ++tile) {
        const std::int64_t first = block * of.filters_per_task + tile * SmallGemmCut::kWarpFilters;
        for (std::int64_t step = 0; step < of.steps; ++step) {
          for (std::int64_t i = 0; i < of.parts * FilterPlaces::kPartNumbers; ++i) {
            const std::int64_t part = i / FilterPlaces::kPartNumbers;
            const std::int64_t instruction =
                i / FilterPlaces::kInstructionNumbers % FilterPlaces::kInstructions;
            const std::int64_t lane = i / FilterPlaces::kLaneNumbers % FilterPlaces::kLanes;
            const std::int64_t word = i / 2 % 4;
            const std::int64_t filter =
                first + word % 2 * FilterPlaces::kHalfFilters + lane / FilterPlaces::kQuarters;
            const std::int64_t number =
                lane % FilterPlaces::kQuarters * (kStepNumbers / FilterPlaces::kQuarters) +
                (instruction * 2 + word / 2) * 2 + i % 2;
            put(filter, of.at(block, filter, k_block, step, number), part);
          }
        }
      }
      skip();
    }
  }
}

}  // namespace

float filter_scale(const float* w, std::int64_t count) {
  float most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::isfinite(w[i])) most = std::max(most, std::fabs(w[i]));
  }
  return most == 0 ? 1.0f : std::ldexp(1.0f, std::clamp(14 - std::ilogb(most), -100, 100));
}

std::uint16_t half_of(float value, bool rest) {
  const Float16 high = from_float<Float16>(value);
  if (!rest) return high.bits;
  const float left = std::isfinite(value) ? (value - to_float(high)) * 0x1p11f : 0.0f;
  return from_float<Float16>(left).bits;
}

FilterPlaces::FilterPlaces(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  sum = steps_of(cut);
  filters = a.k;
  rows = a.r;
  cols = a.s;
  channels = a.c / a.groups;
  group_filters = a.k / a.groups;
  channel_step = channel_step_of(a);
  filters_per_task = cut.filters_per_task();
  num_blocks = cut.tasks_per_group / cut.shares;
  k_blocks = cut.shares * sum.k_blocks();
  steps = sum.per_block();
  parts = parts_of(cut);
  scales_at = converts(cut) ? megaconv::scales_at(cut) : 0;
}

std::int64_t scales_at(const SmallGemmCut& cut) {
  return cut.tasks_per_group * steps_of(cut).k_blocks() * memory_of(cut).filter_bytes;
}

std::size_t packed_bytes(const SmallGemmCut& cut) {
  const std::int64_t scales = converts(cut) ? cut.problem.k * std::int64_t{sizeof(float)} : 0;
  return u64(scales_at(cut) + scales);
}

std::vector<std::byte> pack_filters(const SmallGemmCut& cut, const std::byte* w) {
  const ConvProblem& a = cut.problem;
  std::vector<std::byte> packed(packed_bytes(cut));
  auto* to = reinterpret_cast<std::uint16_t*>(packed.data());
  const SumSteps sum = steps_of(cut);
  const std::int64_t others = (expand_filter_bytes(cut, sum) + input_vector_bytes(cut, sum)) / 2;
  const auto skip = [&] { to += others; };
  if (!converts(cut)) {
    const auto* const numbers = reinterpret_cast<const std::uint16_t*>(w);
    for_each_packed(
        cut,
        [&](std::int64_t, std::int64_t place, std::int64_t) {
          *to++ = place < 0 ? std::uint16_t{0} : numbers[place];
        },
        skip);
    return packed;
  }
  const auto* const numbers = reinterpret_cast<const float*>(w);
  const std::int64_t count = a.c / a.groups * a.r * a.s;
  std::vector<float> scale;
  for (std::int64_t k = 0; k < a.k; ++k) {
    scale.push_back(filter_scale(numbers + k * count, count));
    const float inverse = 1.0f / scale.back();
    std::memcpy(packed.data() + scales_at(cut) + k * std::int64_t{sizeof inverse}, &inverse,
                sizeof inverse);
  }
  for_each_packed(
      cut,
      [&](std::int64_t filter, std::int64_t place, std::int64_t part) {
        const float value =
            place < 0 ? 0.0f : numbers[place] * scale[static_cast<std::size_t>(filter)];
        *to++ = half_of(value, part == 1);
      },
      skip);
  return packed;
}

}  // namespace megaconv
