// SPDX-License-Identifier: Apache-2.0
// The cases of CUDA's tasks that run without a GPU. Sizes are such as the compiled kernels have
// room for. What cpu_cases.cpp says of changes and of drawing goes for these, too.
#include <algorithm>

#include "tests/checksums/draw.hpp"

namespace megaconv::checksums {
namespace {

// Of one case. An emulated thread block takes milliseconds.
constexpr std::int64_t kMostProducts = 300'000, kMostTasks = 60;

enum class Products { fma, split, f16 };

const char* draw_layout(Dice& dice) { return dice.one_of({"+nchw", "+nhwc"}); }

std::string draw_suffixes(Dice& dice) {
  std::string text = draw_layout(dice);
  text += draw_epilogue(dice);
  return text;
}

Shape small_winograd_shape(Dice& dice) {
  Shape shape;
  do {
    const std::int64_t most_channels = dice.chance(20) ? 140 : 50;
    shape = winograd_shape(dice, 12, most_channels);
  } while (shape.products() > kMostProducts);
  return shape;
}

const char* points_text(bool low_error) { return low_error ? "low-error" : "integer"; }

// GEMM tasks have room for 64 tiles x 128 filters or 128 x 64, tensor cores' for 128 x 128.
// Transform tasks take whole runs of tiles, 4 or 16, or all of a group.
void draw_winograd(Dice& dice, Case& item, Products products) {
  const bool fma = products == Products::fma;
  const Shape shape = small_winograd_shape(dice);
  item.problem = to_string(shape, draw_suffixes(dice));
  WinogradSizes sizes;
  do {
    sizes.m = products == Products::f16 ? 4 : dice.one_of({2, 4});
    const std::int64_t run = fma ? 4 : 16;
    sizes.group_tiles = std::min(num_tiles(shape, sizes.m),
                                 dice.chance(50) ? dice.between(1, 128) : 16 * dice.between(1, 8));
    const std::int64_t most_filters = fma && sizes.group_tiles > 64 ? 4 : 8;
    sizes.input_channels = dice.part_of(shape.channel_blocks());
    sizes.gemm_filters = dice.part_of(std::min(most_filters, shape.filter_blocks()));
    sizes.gemm_positions = dice.part_of((sizes.m + 2) * (sizes.m + 2));
    sizes.output_filters = dice.part_of(shape.filter_blocks());
    sizes.transform_tiles = std::min(sizes.group_tiles, run * dice.between(1, 8));
  } while (num_tasks(shape, sizes) > kMostTasks);
  const bool low_error = products == Products::f16 || (!fma && sizes.m == 2) || dice.chance(60);
  const char* const arithmetic = fma ? "fma" : products == Products::split ? "split-f16" : "f16";
  const std::int64_t tiles = num_tiles(shape, sizes.m);
  const std::int64_t num_groups = (tiles + sizes.group_tiles - 1) / sizes.group_tiles;
  const std::string policy = draw_policy(dice, item, true);
  const std::string window = draw_window(dice, item, policy, num_groups);
  item.configuration = "algo=winograd,tile=" + std::to_string(sizes.m) +
                       ",points=" + points_text(low_error) + ",arithmetic=" + arithmetic + ',' +
                       to_string(sizes) + ',' + window + ',' + policy;
}

void draw_opencnn(Dice& dice, Case& item) {
  const Shape shape = small_winograd_shape(dice);
  std::string suffixes = dice.one_of({"+nchw", "+nhwc", "+chwn"});
  suffixes += draw_epilogue(dice);
  item.problem = to_string(shape, suffixes);
  item.configuration = "algo=opencnn,output-layout=";
  item.configuration += dice.one_of({"baseline", "optSTS64", "optSTS64_compact", "optLDS64"});
  item.configuration += ',' + draw_policy(dice, item, false);
}

Shape direct_shape(Dice& dice) {
  Shape shape;
  shape.n = dice.between(1, 2);
  shape.c = dice.between(1, 50);
  shape.k = dice.between(1, dice.chance(20) ? 140 : 50);
  shape.r = dice.one_of({1, 3, 3, 2, 5, 7});
  shape.s = dice.chance(75) ? shape.r : dice.between(1, 7);
  shape.stride_h = dice.chance(60) ? 1 : dice.between(2, 3);
  shape.stride_w = dice.chance(75) ? shape.stride_h : dice.between(1, 3);
  shape.dilation_h = dice.chance(70) ? 1 : dice.between(2, 3);
  shape.dilation_w = dice.chance(75) ? shape.dilation_h : dice.between(1, 3);
  if (dice.chance(25)) {
    shape.groups = shape.k = shape.c;  // depthwise
  } else if (dice.chance(25)) {
    shape.groups = dice.between(2, 4);
    shape.c = dice.between(1, 20) * shape.groups;
    shape.k = dice.between(1, 40) * shape.groups;
  }
  shape.pad_h = dice.between(0, shape.extent_h());
  shape.pad_w = dice.between(0, shape.extent_w());
  draw_image(dice, shape, 16);
  return shape;
}

// Tasks of one conv group, of at most so many lane blocks of filters, rows and columns.
void draw_direct(Dice& dice, Case& item) {
  struct Room {
    std::int64_t blocks, rows, cols;
  };
  std::string sizes;
  Shape shape;
  std::int64_t tasks = 0;
  do {
    shape = direct_shape(dice);
    const Room room = shape.depthwise()
                          ? Room{2, 8, 32}
                          : dice.one_of({Room{8, 8, 8}, Room{4, 8, 16}, Room{4, 14, 16},
                                         Room{8, 8, 16}, Room{2, 16, 16}});
    const std::int64_t rows = dice.part_of(std::min(room.rows, shape.p()));
    const std::int64_t cols = dice.part_of(std::min(room.cols, shape.q()));
    const std::int64_t own =
        shape.depthwise() ? shape.filter_blocks() : shape.filter_blocks() / shape.groups;
    std::int64_t filters = dice.part_of(std::min(room.blocks, own));
    while (own % filters != 0) --filters;
    tasks = shape.n * ((shape.p() + rows - 1) / rows) * ((shape.q() + cols - 1) / cols) *
            (shape.filter_blocks() / filters);
    sizes = joined({{"gemm-filters", filters}, {"rows", rows}, {"cols", cols}});
  } while (shape.products() > kMostProducts || tasks > kMostTasks);
  item.problem = to_string(shape, draw_suffixes(dice));
  item.configuration = "algo=direct," + sizes + ',' + draw_policy(dice, item, false);
}

// Tasks of 64 or 128 filters or of all there are; stripes that filters reach at most 128 padded
// pixels far in; whole steps of 8 padded pixels. One product in NHWC takes an odd number of
// channels: where x can be copied in vectors, tasks of another kind would be meant. Filters of up
// to three taps have at most 48 channels: with more, tasks of 64 filters wait for ever.
void draw_implicit_gemm(Dice& dice, Case& item, Products products) {
  constexpr std::int64_t kMostReach = 128, kStep = 8, kMostChannelsOfFewTaps = 48;
  const std::string layout = draw_layout(dice);
  Shape shape;
  std::int64_t cols = 0, reach = 0, pitch = 0;
  do {
    shape.n = dice.between(1, 3);
    shape.c = dice.between(1, 50);
    shape.k = dice.chance(40) ? dice.between(65, 200) : dice.between(1, 64);
    shape.r = dice.one_of({1, 3, 3, 2, 5});
    shape.s = dice.chance(75) ? shape.r : dice.between(1, 5);
    if (shape.r * shape.s <= 3) shape.c = std::min(shape.c, kMostChannelsOfFewTaps);
    if (products == Products::f16 && layout == "+nhwc") shape.c |= 1;
    shape.dilation_h = dice.chance(80) ? 1 : 2;
    shape.dilation_w = dice.chance(80) ? 1 : 2;
    shape.pad_h = dice.between(0, shape.extent_h() - 1);
    shape.pad_w = dice.between(0, shape.extent_w() - 1);
    draw_image(dice, shape, 14);
    cols = dice.chance(50) ? shape.q() : dice.between((shape.q() + 3) / 4, shape.q());
    pitch = cols == shape.q() ? shape.w + shape.pad_w : cols + shape.extent_w() - 1;
    reach = (shape.extent_h() - 1) * pitch + shape.extent_w() - 1;
  } while (shape.products() > kMostProducts || reach > kMostReach);
  const std::int64_t places = shape.n * (shape.h + shape.pad_h) * pitch;
  const std::int64_t steps = (places + kStep - 1) / kStep;
  const std::int64_t group = kStep * dice.part_of(steps);
  const std::int64_t wanted = dice.one_of({4, 8, 8});
  const std::int64_t filters = std::min(wanted, shape.filter_blocks());
  item.problem = to_string(shape, layout + draw_epilogue(dice));
  item.configuration = std::string("algo=implicit-gemm,arithmetic=") +
                       (products == Products::split ? "split-f16" : "f16") + ',' +
                       joined({{"gemm-filters", filters}, {"cols", cols}, {"places", group}}) +
                       ',' + draw_policy(dice, item, false);
}

void draw_for_sm75(Dice& dice, Case& item) {
  const std::int64_t kind = dice.between(1, 3);
  if (kind == 1) {
    draw_winograd(dice, item, Products::fma);
  } else if (kind == 2) {
    draw_opencnn(dice, item);
  } else {
    draw_direct(dice, item);
  }
}

void draw_for_sm90(Dice& dice, Case& item) {
  const Products products = dice.one_of({Products::split, Products::f16});
  const std::int64_t kind = dice.between(1, 5);
  if (kind == 1) {
    draw_winograd(dice, item, Products::fma);
  } else if (kind <= 3) {
    draw_winograd(dice, item, products);
  } else {
    draw_implicit_gemm(dice, item, products);
  }
}

}  // namespace

Case emulated_case(EmulatedCode code, std::uint64_t seed, std::uint64_t index) {
  Case item;
  item.seed = mixed(seed) + mixed(static_cast<std::uint64_t>(code)) + index;
  Dice dice(item.seed);
  switch (code) {
    case EmulatedCode::sm75:
      draw_for_sm75(dice, item);
      break;
    case EmulatedCode::sm80:
      draw_winograd(dice, item, dice.one_of({Products::split, Products::f16}));
      break;
    case EmulatedCode::sm90:
      draw_for_sm90(dice, item);
      break;
  }
  // Magnitudes that no guess of a scale suits.
  if (dice.chance(25)) item.x_exponent = dice.one_of({-60, -20, -6, 11, 40});
  if (dice.chance(25)) item.w_exponent = dice.one_of({-40, -9, 3, 30});
  return item;
}

}  // namespace megaconv::checksums
