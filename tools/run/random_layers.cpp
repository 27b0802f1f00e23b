// SPDX-License-Identifier: Apache-2.0
#include "tools/run/random_layers.hpp"

#include <algorithm>
#include <cmath>

#include "megaconv/error.hpp"
#include "tools/run/dice.hpp"

namespace megaconv::cli {
namespace {

enum class Groups { none, some, depthwise };

// What a layer does, and how often 21 networks have it: ResNet-50 and -101, ResNeXt-50, VGG-16,
// DenseNet-121 and -161, Inception-v3, MobileNetV2 and V3, EfficientNet-B0, ConvNeXt-T, YOLOv3,
// YOLOv8n and m, Mask R-CNN, DeepLabv3, the UNets of SD 1.5 and SDXL, SD's VAE, WaveNet, HiFi-GAN.
struct Family {
  std::int64_t r, s, stride, dilation;
  Groups groups;
  std::int64_t layers;
};
constexpr Family kFamilies[] = {
    {1, 1, 1, 1, Groups::none, 793},    {3, 3, 1, 1, Groups::none, 497},
    {1, 3, 1, 1, Groups::none, 58},     {3, 3, 2, 1, Groups::none, 45},
    {1, 7, 1, 1, Groups::none, 39},     {3, 3, 1, 1, Groups::depthwise, 25},
    {1, 11, 1, 1, Groups::none, 24},    {7, 7, 1, 1, Groups::depthwise, 18},
    {1, 1, 2, 1, Groups::none, 13},     {3, 3, 1, 1, Groups::some, 13},
    {7, 1, 1, 1, Groups::none, 13},     {5, 5, 1, 1, Groups::depthwise, 11},
    {3, 3, 2, 1, Groups::depthwise, 8}, {7, 7, 2, 1, Groups::none, 7},
    {3, 3, 1, 2, Groups::none, 6},      {5, 5, 2, 1, Groups::depthwise, 4},
    {3, 1, 1, 1, Groups::none, 4},      {3, 3, 2, 1, Groups::some, 3},
    {2, 2, 2, 1, Groups::none, 3},      {5, 5, 1, 1, Groups::none, 3},
    {3, 3, 1, 4, Groups::none, 2},      {4, 4, 4, 1, Groups::none, 1},
    {3, 3, 1, 12, Groups::none, 1},     {3, 3, 1, 24, Groups::none, 1},
    {3, 3, 1, 36, Groups::none, 1},
};

const Family& random_family(Dice& dice) {
  std::int64_t all = 0;
  for (const Family& family : kFamilies) all += family.layers;
  std::int64_t left = dice.between(1, all);
  for (const Family& family : kFamilies) {
    left -= family.layers;
    if (left <= 0) return family;
  }
  return kFamilies[0];
}

// As often between 2 and 4 as between 200 and 400.
std::int64_t random_size(Dice& dice, std::int64_t least, std::int64_t most) {
  constexpr std::int64_t kSteps = 1 << 20;
  const double share = static_cast<double>(dice.between(0, kSteps)) / kSteps;
  const auto low = static_cast<double>(least), high = static_cast<double>(most);
  return std::clamp(static_cast<std::int64_t>(std::lround(low * std::pow(high / low, share))),
                    least, most);
}

// Channels: most networks have multiples of eight.
std::int64_t random_channels(Dice& dice) {
  constexpr std::int64_t kMost = 1536, kStep = 8;
  const std::int64_t channels = random_size(dice, 3, kMost);
  return channels < kStep || dice.chance(10) ? channels : channels / kStep * kStep;
}

ConvProblem random_layer(Dice& dice) {
  const Family& family = random_family(dice);
  ConvProblem p;
  p.n = random_size(dice, 1, 128);
  p.h = random_size(dice, 7, 512);
  p.w = dice.chance(67) ? p.h : random_size(dice, 7, 512);
  p.c = random_channels(dice);
  p.k = random_channels(dice);
  p.r = family.r;
  p.s = family.s;
  p.stride_h = p.stride_w = family.stride;
  p.dilation_h = p.dilation_w = family.dilation;
  if (family.groups == Groups::depthwise) p.groups = p.k = p.c;
  if (family.groups == Groups::some) {
    p.groups = 32;
    p.c = p.k = (p.c + p.groups - 1) / p.groups * p.groups;
  }
  const bool is_patch = family.stride > 1 && family.r == family.stride;
  p.pad_h = is_patch ? 0 : family.dilation * (family.r - 1) / 2;
  p.pad_w = is_patch ? 0 : family.dilation * (family.s - 1) / 2;
  return p;
}

bool is_bearable(const ConvProblem& p) {
  constexpr double kMostElements = 1 << 27, kMostProducts = 0x1p37;
  try {
    validate(p);
  } catch (const Error&) {
    return false;  // a filter that is larger than the image
  }
  const auto y_size = static_cast<double>(p.y_size());
  const double products = y_size * static_cast<double>(p.c / p.groups * p.r * p.s);
  return static_cast<double>(p.x_size()) <= kMostElements && y_size <= kMostElements &&
         products <= kMostProducts;
}

}  // namespace

std::vector<NamedProblem> random_layers(std::int64_t count, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<NamedProblem> layers;
  while (static_cast<std::int64_t>(layers.size()) < count) {
    const ConvProblem problem = random_layer(dice);
    if (is_bearable(problem)) layers.push_back({"", problem});
  }
  return layers;
}

}  // namespace megaconv::cli
