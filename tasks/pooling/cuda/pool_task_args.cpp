// SPDX-License-Identifier: Apache-2.0
#include "tasks/pooling/cuda/pool_task_args.hpp"

#include "megaconv/error.hpp"
#include "tasks/pooling/pooling.hpp"

namespace megaconv::cuda {
namespace {

constexpr std::int64_t kMostExtent = 0x7fffffff;
constexpr std::int64_t kMostOutputs = std::int64_t{1} << 30;

void check_padded(const char* axis, std::int64_t value) {
  if (value > kMostExtent) {
    throw Error(Status::unsupported, "pooling on CUDA: " + std::to_string(value) + " " + axis +
                                         " with padding, must be less than 2^31");
  }
}

}  // namespace

PoolTaskArgs node_args(const PoolCut& cut, const NodePlaces& places) {
  PoolCut counted = cut;
  derive_counts(counted);
  const PoolProblem& a = counted.problem;
  check_padded("rows", a.h + 2 * a.pad_h);
  check_padded("columns", a.w + 2 * a.pad_w);
  // All of them are less than 2^31; y has at most 2^40 elements.
  const std::int64_t pixels = std::int64_t{cut.rows_per_group} * cut.cols_per_group;
  const std::int64_t outputs = pixels * cut.channels_per_task;
  if (outputs > kMostOutputs) {
    throw Error(Status::unsupported, "pooling on CUDA: tasks of " + std::to_string(outputs) +
                                         " outputs, must be at most 2^30; use smaller groups");
  }
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  PoolTaskArgs args{};
  args.x = places.x;
  args.y = places.y;
  args.c = i32(a.c);
  args.h = i32(a.h);
  args.w = i32(a.w);
  args.p = i32(a.p());
  args.q = i32(a.q());
  args.r = i32(a.r);
  args.s = i32(a.s);
  args.pad_h = i32(a.pad_h);
  args.pad_w = i32(a.pad_w);
  args.stride_h = i32(a.stride_h);
  args.stride_w = i32(a.stride_w);
  args.rows_per_group = i32(cut.rows_per_group);
  args.cols_per_group = i32(cut.cols_per_group);
  args.channels_per_task = i32(cut.channels_per_task);
  args.mode = a.mode;
  args.layout = a.layout;
  return args;
}

SecondOutput second_output(const PoolCut& cut, const NodePlaces& places, std::int64_t) {
  const PoolTaskArgs args = node_args(cut, places);
  SecondOutput second{};
  second.y = args.y;
  second.channels = args.c;
  second.window = {.r = args.r,
                   .s = args.s,
                   .pad_h = args.pad_h,
                   .pad_w = args.pad_w,
                   .stride_h = args.stride_h,
                   .stride_w = args.stride_w,
                   .p = args.p,
                   .q = args.q,
                   .averages = args.mode == PoolMode::average};
  return second;
}

}  // namespace megaconv::cuda
