// SPDX-License-Identifier: Apache-2.0
// Filters in the order in which the lanes of warps hold them.
#include <cstring>

#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

constexpr std::int64_t kLanes = 32, kQuarters = 4, kHalf = 8;

// The nearest number of TF32, ties to even: ten bits of mantissa.
float round_to_tf32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  if (finite) bits = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

std::size_t packed_bytes(const SmallGemmCut& cut) {
  const std::int64_t tiles = cut.filters_per_task() / SmallGemmCut::kWarpFilters;
  return u64(cut.tasks_per_group * tiles * steps_of(cut).total() * kFilterStepBytes);
}

std::vector<std::byte> pack_filters(const SmallGemmCut& cut, const std::byte* w) {
  const ConvProblem& a = cut.problem;
  const SumSteps sum = steps_of(cut);
  const auto size = static_cast<std::int64_t>(size_of(a.dtype));
  const std::int64_t quarter = kStepBytes / kQuarters / size;  // numbers of a lane in a step
  const std::int64_t channels = a.c / a.groups, filters = a.k / a.groups;
  std::vector<std::byte> packed(packed_bytes(cut));
  std::byte* to = packed.data();
  const auto put = [&](std::int64_t filter, std::int64_t tap_h, std::int64_t tap_w,
                       std::int64_t number, const ChannelRange& range) {
    std::byte* const at = to;
    to += size;
    if (filter >= a.k || number >= sum.numbers) return;
    std::int64_t from;
    if (sum.whole_rows) {
      from = (filter * a.r + tap_h) * a.s * channels + number;
    } else {
      const std::int64_t channel = range.begin + number - filter / filters * channels;
      if (channel < 0 || channel >= channels) return;  // of another conv group
      from = ((filter * a.r + tap_h) * a.s + tap_w) * channels + channel;
    }
    std::memcpy(at, w + from * size, static_cast<std::size_t>(size));
    if (cut.precision == Precision::tf32) {
      float value;
      std::memcpy(&value, at, sizeof value);
      value = round_to_tf32(value);
      std::memcpy(at, &value, sizeof value);
    }
  };
  const std::int64_t tiles = cut.filters_per_task() / SmallGemmCut::kWarpFilters;
  for (std::int64_t tile = 0; tile < cut.tasks_per_group * tiles; ++tile) {
    const ChannelRange range = channels_of_block(cut, tile / tiles);
    for (std::int64_t step = 0; step < sum.total(); ++step) {
      const std::int64_t tap = step / sum.chunks, chunk = step % sum.chunks;
      for (std::int64_t half = 0; half < 2; ++half) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
          const std::int64_t filter =
              tile * SmallGemmCut::kWarpFilters + half * kHalf + lane / kQuarters;
          const std::int64_t first = (chunk * kQuarters + lane % kQuarters) * quarter;
          for (std::int64_t i = 0; i < quarter; ++i) {
            put(filter, tap / sum.taps_w, tap % sum.taps_w, first + i, range);
          }
        }
      }
    }
  }
  return packed;
}

}  // namespace megaconv
