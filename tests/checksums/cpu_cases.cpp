// SPDX-License-Identifier: Apache-2.0
// The cases of the CPU. Every change here makes a list that no older one can be compared with. No
// expression draws twice: in which order it would, a compiler may choose.
#include <algorithm>

#include "tests/checksums/draw.hpp"

namespace megaconv::checksums {
namespace {

// Of one case, so that thousands take seconds.
constexpr std::int64_t kMostProducts = 8'000'000, kMostTasks = 2'000;

const char* draw_layout(Dice& dice) { return dice.one_of({"+nchw", "+nhwc"}); }

std::string workers_text(Dice& dice) {
  return ",workers=" + std::to_string(dice.chance(60) ? 1 : dice.between(2, 4));
}

Shape small_winograd_shape(Dice& dice) {
  Shape shape;
  do {
    const std::int64_t most_extent = dice.chance(20) ? 56 : 24;
    const std::int64_t most_channels = dice.chance(20) ? 200 : 60;
    shape = winograd_shape(dice, most_extent, most_channels);
  } while (shape.products() > kMostProducts);
  return shape;
}

// What is larger than 16 MiB is stored past the caches: y of many pixels,
Shape shape_of_large_y(Dice& dice) {
  Shape shape;
  shape.c = dice.between(1, 3);
  shape.k = dice.one_of({16, 24, 32});
  shape.pad_h = shape.pad_w = 1;
  shape.h = dice.between(520, 580);
  shape.w = dice.between(520, 580);
  return shape;
}
// and U of many channels and filters.
Shape shape_of_large_u(Dice& dice) {
  Shape shape;
  shape.c = dice.between(300, 340);
  shape.k = dice.between(500, 540);
  shape.pad_h = shape.pad_w = 1;
  shape.h = dice.between(3, 7);
  shape.w = dice.between(3, 7);
  return shape;
}

// Types that Winograd takes, and all parts of an epilogue.
std::string draw_float_suffixes(Dice& dice) {
  std::string text = draw_layout(dice);
  text += dice.one_of({"+f32", "+f32", "+f16", "+bf16"});
  text += draw_epilogue(dice);
  if (dice.chance(30)) text += "+scale";
  return text;
}

std::string tile_text(Dice& dice, std::int64_t m) {
  return "tile=" + std::to_string(m) + ",points=" + dice.one_of({"low-error", "integer"});
}

void draw_winograd(Dice& dice, Case& item, const Shape& shape) {
  item.problem = to_string(shape, draw_float_suffixes(dice));
  WinogradSizes sizes;
  do {
    sizes.m = dice.one_of({2, 4, 6});
    const std::int64_t positions = (sizes.m + 2) * (sizes.m + 2);
    sizes.group_tiles = std::min(num_tiles(shape, sizes.m), dice.between(1, 60));
    sizes.input_channels = dice.part_of(shape.channel_blocks());
    sizes.gemm_filters = dice.part_of(shape.filter_blocks());
    sizes.gemm_positions = dice.part_of(positions);
    sizes.output_filters = dice.part_of(shape.filter_blocks());
    sizes.transform_tiles = dice.part_of(sizes.group_tiles);
  } while (num_tasks(shape, sizes) > kMostTasks);
  const std::int64_t tiles = num_tiles(shape, sizes.m);
  const std::int64_t num_groups = (tiles + sizes.group_tiles - 1) / sizes.group_tiles;
  const std::string policy = draw_policy(dice, item, true);
  const std::string window = draw_window(dice, item, policy, num_groups);
  item.configuration = "algo=winograd," + tile_text(dice, sizes.m) + ",arithmetic=fma," +
                       to_string(sizes) + ',' + window + ',' + policy;
  item.configuration += workers_text(dice);
}

void draw_fused_winograd(Dice& dice, Case& item, const Shape& shape) {
  item.problem = to_string(shape, draw_float_suffixes(dice));
  const std::int64_t m = dice.one_of({2, 4, 6});
  const std::int64_t tiles = std::min(num_tiles(shape, m), dice.between(1, 60));
  item.configuration = "algo=fused-winograd," + tile_text(dice, m);
  item.configuration += ",group-tiles=" + std::to_string(tiles) + ',';
  item.configuration += draw_policy(dice, item, false);
  item.configuration += workers_text(dice);
}

void draw_conv_groups(Dice& dice, Shape& shape) {
  if (dice.chance(50)) {  // depthwise, or with several filters for each channel
    shape.groups = shape.c;
    shape.k = shape.c * (dice.chance(70) ? 1 : dice.between(2, 3));
    return;
  }
  shape.groups = dice.between(2, 4);
  shape.c = dice.between(1, 40) * shape.groups;
  shape.k = dice.between(1, 40) * shape.groups;
}

Shape any_shape(Dice& dice) {
  Shape shape;
  shape.n = dice.between(1, 3);
  shape.c = dice.between(1, dice.chance(20) ? 200 : 60);
  shape.k = dice.between(1, dice.chance(20) ? 200 : 60);
  shape.r = dice.one_of({1, 1, 3, 3, 3, 2, 5, 7});
  shape.s = dice.chance(75) ? shape.r : dice.between(1, 7);
  shape.stride_h = dice.chance(60) ? 1 : dice.between(2, 3);
  shape.stride_w = dice.chance(75) ? shape.stride_h : dice.between(1, 3);
  shape.dilation_h = dice.chance(70) ? 1 : dice.between(2, 3);
  shape.dilation_w = dice.chance(75) ? shape.dilation_h : dice.between(1, 3);
  if (dice.chance(40)) draw_conv_groups(dice, shape);
  shape.pad_h = dice.between(0, shape.extent_h());
  shape.pad_w =
      dice.chance(60) ? std::min(shape.pad_h, shape.extent_w()) : dice.between(0, shape.extent_w());
  draw_image(dice, shape, dice.chance(20) ? 80 : 24);
  return shape;
}

Shape small_direct_shape(Dice& dice) {
  Shape shape;
  do {
    shape = any_shape(dice);
  } while (shape.products() > kMostProducts);
  return shape;
}

void draw_direct(Dice& dice, Case& item, const Shape& shape) {
  std::string suffixes = draw_layout(dice);
  suffixes += dice.one_of({"+f32", "+f16", "+bf16", "+i8"});
  suffixes += draw_epilogue(dice);
  if (dice.chance(40)) suffixes += "+scale";
  item.problem = to_string(shape, suffixes);
  std::int64_t rows = 0, cols = 0, filters = 0;
  const auto tasks = [&] {
    return shape.n * ((shape.p() + rows - 1) / rows) * ((shape.q() + cols - 1) / cols) *
           ((shape.filter_blocks() + filters - 1) / filters);
  };
  do {
    rows = dice.part_of(shape.p());
    cols = dice.part_of(shape.q());
    filters = dice.part_of(shape.filter_blocks());
  } while (tasks() > kMostTasks);
  item.configuration = "algo=direct,";
  item.configuration += joined({{"gemm-filters", filters}, {"rows", rows}, {"cols", cols}}) + ',';
  item.configuration += draw_policy(dice, item, false);
  item.configuration += workers_text(dice);
}

}  // namespace

Case cpu_case(std::uint64_t seed, std::uint64_t index) {
  Case item;
  item.seed = mixed(seed) + index;
  Dice dice(item.seed);
  const std::int64_t kind = dice.between(1, 20);
  const bool direct = kind > 11;
  const Shape shape = index % 250 == 100   ? shape_of_large_y(dice)
                      : index % 250 == 200 ? shape_of_large_u(dice)
                      : direct             ? small_direct_shape(dice)
                                           : small_winograd_shape(dice);
  if (direct) {
    draw_direct(dice, item, shape);
  } else if (kind > 8) {
    draw_fused_winograd(dice, item, shape);
  } else {
    draw_winograd(dice, item, shape);
  }
  item.prepared = dice.chance(50);
  item.residual_in_y = item.problem.find("+residual") != std::string::npos && dice.chance(30);
  // Inputs and outputs of 16 bits that are too small to be normal, or too large to be finite.
  const bool i8 = item.problem.find("+i8") != std::string::npos;
  if (!i8 && dice.chance(25)) item.x_exponent = dice.one_of({-4, -8, -12, 10});
  return item;
}

}  // namespace megaconv::checksums
