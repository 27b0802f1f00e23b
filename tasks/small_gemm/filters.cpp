// SPDX-License-Identifier: Apache-2.0
// Filters in the order in which the lanes of warps hold them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/storage.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

constexpr std::int64_t kLanes = 32, kQuarters = 4, kHalf = 8, kInstructions = 2;
constexpr std::int64_t kQuarter = kStepNumbers / kQuarters;

// A power of two that brings the largest finite number of a filter just below 2^15.
float scale_of(const float* w, std::int64_t count) {
  float most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::isfinite(w[i])) most = std::max(most, std::fabs(w[i]));
  }
  return most == 0 ? 1.0f : std::ldexp(1.0f, std::clamp(14 - std::ilogb(most), -100, 100));
}

// Where the number of a filter is that a step has at that place; -1: nowhere.
class FilterPlaces {
 public:
  explicit FilterPlaces(const SmallGemmCut& cut) : cut_(cut), steps_(steps_of(cut)) {}

  std::int64_t at(std::int64_t block, std::int64_t filter, std::int64_t k_block, std::int64_t step,
                  std::int64_t number) const {
    const ConvProblem& a = cut_.problem;
    const std::int64_t channels = a.c / a.groups;
    const std::int64_t chunk = step % steps_.chunks, tap = step / steps_.chunks;
    const std::int64_t row = k_block % steps_.row_blocks * steps_.taps_h + tap / steps_.taps_w;
    std::int64_t col = tap % steps_.taps_w;
    std::int64_t channel =
        (k_block / steps_.row_blocks * steps_.chunks + chunk) * kStepNumbers + number;
    if (steps_.whole_rows) {
      col = channel / steps_.pixel;
      channel %= steps_.pixel;
    }
    if (filter >= a.k || row >= a.r || col >= a.s || channel >= steps_.channels) return -1;
    channel += channels_of_block(cut_, block).begin - filter / (a.k / a.groups) * channels;
    if (channel < 0 || channel >= channels) return -1;  // of another conv group
    return ((filter * a.r + row) * a.s + col) * channels + channel;
  }
  const SumSteps& steps() const { return steps_; }

 private:
  const SmallGemmCut& cut_;
  const SumSteps steps_;
};

// Calls put(filter, place, part) for every packed number in turn.
template <class Put>
void for_each_packed(const SmallGemmCut& cut, Put put) {
  const FilterPlaces places(cut);
  const std::int64_t parts = parts_of(cut);
  for (std::int64_t block = 0; block < cut.tasks_per_group / cut.shares; ++block) {
    for (std::int64_t k_block = 0; k_block < cut.shares * places.steps().k_blocks(); ++k_block) {
      for (std::int64_t tile = 0; tile < cut.filter_warps; ++tile) {
        const std::int64_t first =
            block * cut.filters_per_task() + tile * SmallGemmCut::kWarpFilters;
        for (std::int64_t step = 0; step < places.steps().per_block(); ++step) {
          for (std::int64_t i = 0; i < parts * kInstructions * kLanes * kQuarter; ++i) {
            const std::int64_t part = i / (kInstructions * kLanes * kQuarter);
            const std::int64_t instruction = i / (kLanes * kQuarter) % kInstructions;
            const std::int64_t lane = i / kQuarter % kLanes, word = i / 2 % 4;
            const std::int64_t filter = first + word % 2 * kHalf + lane / kQuarters;
            const std::int64_t number =
                lane % kQuarters * kQuarter + (instruction * 2 + word / 2) * 2 + i % 2;
            put(filter, places.at(block, filter, k_block, step, number), part);
          }
        }
      }
    }
  }
}

}  // namespace

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
  if (!converts(cut)) {
    const auto* const numbers = reinterpret_cast<const std::uint16_t*>(w);
    for_each_packed(cut, [&](std::int64_t, std::int64_t place, std::int64_t) {
      *to++ = place < 0 ? std::uint16_t{0} : numbers[place];
    });
    return packed;
  }
  const auto* const numbers = reinterpret_cast<const float*>(w);
  const std::int64_t count = a.c / a.groups * a.r * a.s;
  std::vector<float> scale;
  for (std::int64_t k = 0; k < a.k; ++k) {
    scale.push_back(scale_of(numbers + k * count, count));
    const float inverse = 1.0f / scale.back();
    std::memcpy(packed.data() + scales_at(cut) + k * std::int64_t{sizeof inverse}, &inverse,
                sizeof inverse);
  }
  for_each_packed(cut, [&](std::int64_t filter, std::int64_t place, std::int64_t part) {
    const float value = place < 0 ? 0.0f : numbers[place] * scale[static_cast<std::size_t>(filter)];
    const Float16 high = from_float<Float16>(value);
    const bool rest = part == 1 && std::isfinite(value);
    const float left = rest ? (value - to_float(high)) * 0x1p11f : 0.0f;
    *to++ = part == 0 ? high.bits : from_float<Float16>(left).bits;
  });
  return packed;
}

}  // namespace megaconv
