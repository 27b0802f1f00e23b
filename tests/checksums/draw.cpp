// SPDX-License-Identifier: Apache-2.0
#include "tests/checksums/draw.hpp"

#include <algorithm>

namespace megaconv::checksums {
namespace {

std::int64_t ceil_div(std::int64_t dividend, std::int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

std::string pair_text(const char* letter, std::int64_t vertical, std::int64_t horizontal) {
  return letter + std::to_string(vertical) + 'x' + std::to_string(horizontal);
}

}  // namespace

std::string to_string(const Shape& a, const std::string& suffixes) {
  const auto part = [](const char* letter, std::int64_t value) {
    return letter + std::to_string(value);
  };
  return part("n", a.n) + part("c", a.c) + part("h", a.h) + part("w", a.w) + part("k", a.k) +
         part("r", a.r) + part("s", a.s) + pair_text("p", a.pad_h, a.pad_w) +
         pair_text("u", a.stride_h, a.stride_w) + pair_text("d", a.dilation_h, a.dilation_w) +
         part("g", a.groups) + suffixes;
}

void draw_image(Dice& dice, Shape& shape, std::int64_t most_extent) {
  const auto least = [](std::int64_t extent, std::int64_t pad) {
    return std::max<std::int64_t>(1, extent - 2 * pad);
  };
  const std::int64_t least_h = least(shape.extent_h(), shape.pad_h);
  const std::int64_t least_w = least(shape.extent_w(), shape.pad_w);
  shape.h = dice.between(least_h, least_h + most_extent);
  shape.w =
      dice.chance(30) ? std::max(shape.h, least_w) : dice.between(least_w, least_w + most_extent);
}

Shape winograd_shape(Dice& dice, std::int64_t most_extent, std::int64_t most_channels) {
  Shape shape;
  shape.n = dice.between(1, 3);
  shape.c = dice.chance(20) ? dice.one_of({16, 32, 48}) : dice.between(1, most_channels);
  shape.k = dice.chance(20) ? dice.one_of({16, 32, 64}) : dice.between(1, most_channels);
  shape.pad_h = dice.chance(60) ? 1 : dice.between(0, 3);
  shape.pad_w = dice.chance(70) ? shape.pad_h : dice.between(0, 3);
  draw_image(dice, shape, most_extent);
  return shape;
}

std::string draw_epilogue(Dice& dice) {
  std::string text;
  if (dice.chance(50)) text += "+bias";
  if (dice.chance(40)) text += "+residual";
  if (dice.chance(40)) text += "+relu";
  return text;
}

std::string joined(std::initializer_list<std::pair<const char*, std::int64_t>> values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (!text.empty()) text += ',';
    text += name + ('=' + std::to_string(value));
  }
  return text;
}

std::string draw_policy(Dice& dice, Case& item, bool has_distances) {
  const std::string policy = dice.one_of({"interleaved", "interleaved", "blended", "staged",
                                          "depth_first", "critical_path", "random_topological"});
  std::string text = "policy=" + policy;
  if (policy == "random_topological") {
    item.policy_seed = static_cast<std::uint64_t>(dice.between(1, 1'000'000));
  }
  if (policy == "interleaved" || policy == "blended") {
    const std::int64_t dig = dice.between(1, 40), dgo = dice.between(1, 40);
    if (has_distances) text += ',' + joined({{"dig", dig}, {"dgo", dgo}});
    text += ',' + joined({{"m-groups", dice.between(1, 5)}});
  }
  return text;
}

std::int64_t num_tiles(const Shape& shape, std::int64_t m) {
  return shape.n * ceil_div(shape.p(), m) * ceil_div(shape.q(), m);
}

std::int64_t num_tasks(const Shape& shape, const WinogradSizes& sizes) {
  const std::int64_t chunks = ceil_div(sizes.group_tiles, sizes.transform_tiles);
  const std::int64_t positions = (sizes.m + 2) * (sizes.m + 2);
  return ceil_div(num_tiles(shape, sizes.m), sizes.group_tiles) *
         (chunks * ceil_div(shape.channel_blocks(), sizes.input_channels) +
          ceil_div(positions, sizes.gemm_positions) *
              ceil_div(shape.filter_blocks(), sizes.gemm_filters) +
          chunks * ceil_div(shape.filter_blocks(), sizes.output_filters));
}

// Most orders need more slots than we would guess, depth first needs one of each. What is refused
// is part of the list, too, but there should be little of it.
std::string draw_window(Dice& dice, Case& item, const std::string& policy,
                        std::int64_t num_groups) {
  const bool any = policy.find("depth_first") != std::string::npos;
  const bool some = policy.find("m-groups") != std::string::npos && num_groups > 6;
  if (!dice.chance(60) || !(any || some)) return "window=whole";
  const std::int64_t least = any ? 1 : num_groups - 1;
  item.v_slots = static_cast<std::uint32_t>(dice.between(least, num_groups));
  item.m_slots = static_cast<std::uint32_t>(dice.between(least, num_groups));
  return "window=auto";
}

std::string to_string(const WinogradSizes& sizes) {
  return joined({{"group-tiles", sizes.group_tiles},
                 {"input-channels", sizes.input_channels},
                 {"gemm-filters", sizes.gemm_filters},
                 {"gemm-positions", sizes.gemm_positions},
                 {"output-filters", sizes.output_filters},
                 {"transform-tiles", sizes.transform_tiles}});
}

}  // namespace megaconv::checksums
