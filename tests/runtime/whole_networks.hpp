// SPDX-License-Identifier: Apache-2.0
// Networks whose every result is exact: their weights are whole numbers or powers of two, so small
// that no sum of FP32 rounds.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tasks/network_reference.hpp"
#include "tasks/random_data.hpp"
#include "tests/runtime/network_run.hpp"

namespace megaconv::test {

/// A 3x3 convolution with weights that are exact in F(2x2, 3x3), too.
inline Convolution conv3x3(std::int64_t k, std::int64_t c, std::uint64_t seed,
                           double density = 0.11) {
  return {.k = k,
          .r = 3,
          .s = 3,
          .pad_h = 1,
          .pad_w = 1,
          .w = whole_weights(k * c * 9, seed, density, 4)};
}

/// Scales by powers of two.
inline BatchNorm whole_norm(std::int64_t channels, std::uint64_t seed) {
  std::vector<float> gamma(static_cast<std::size_t>(channels)), variance(gamma);
  for (std::size_t c = 0; c < gamma.size(); ++c) {
    gamma[c] = std::ldexp(1.0f, static_cast<int>(random_bits(seed, c) % 3) - 1);
    variance[c] = std::ldexp(1.0f, 2 * static_cast<int>(random_bits(seed + 1, c) % 3) - 2);
  }
  return {.gamma = make_weights(gamma),
          .beta = whole_weights(channels, seed + 2, 1),
          .mean = whole_weights(channels, seed + 3, 1),
          .variance = make_weights(variance),
          .epsilon = 0};
}

/// conv1 -> pool -> conv2 on whole numbers.
inline Network chain(Layout layout, PoolMode mode) {
  Network network{.inputs = {{"x", {2, 16, 22, 30}}}, .outputs = {"conv2"}, .layout = layout};
  Convolution conv1 = conv3x3(24, 16, 2);
  conv1.bias = whole_weights(24, 4, 1);
  conv1.relu = true;
  const Pooling pool = mode == PoolMode::max ? Pooling{PoolMode::max, 3, 3, 1, 1, 2, 2}
                                             : Pooling{PoolMode::average, 2, 2, 0, 0, 2, 2};
  network.operators = {
      {"conv1", conv1, {"x"}}, {"pool", pool, {"conv1"}}, {"conv2", conv3x3(20, 24, 3), {"pool"}}};
  return network;
}

/// Every kind of operator, in every way that it is run: fused and by itself.
inline Network everything(Layout layout, DataType dtype = DataType::f32) {
  Network network{.inputs = {{"x", {2, 16, 16, 16}}, {"late", {2, 24, 8, 8}}},
                  .outputs = {"fc", "cut"},
                  .dtype = dtype,
                  .layout = layout};
  Convolution one = {.k = 16, .w = whole_weights(16 * 24, 11, 0.1), .bias = whole_weights(16, 12)};
  Convolution depthwise = {.k = 40,
                           .r = 3,
                           .s = 3,
                           .pad_h = 1,
                           .pad_w = 1,
                           .stride_h = 2,
                           .stride_w = 2,
                           .groups = 40,
                           .w = whole_weights(40 * 9, 13, 0.3)};
  network.operators = {
      {"conv1", conv3x3(24, 16, 2), {"x"}},
      {"bn1", whole_norm(24, 20), {"conv1"}},
      {"relu1", Clamp{}, {"bn1"}},
      {"pool", Pooling{PoolMode::max, 3, 3, 1, 1, 2, 2}, {"relu1"}},
      {"one", one, {"pool"}},
      {"one.relu", Clamp{}, {"one"}},
      {"conv2", conv3x3(24, 24, 5, 0.03), {"pool"}},
      {"bn2", whole_norm(24, 30), {"conv2"}},
      {"add", Add{}, {"bn2", "pool"}},
      {"relu2", Clamp{}, {"add"}},
      {"cat", Concatenation{}, {"one.relu", "relu2"}},
      {"cat.bn", whole_norm(40, 40), {"cat"}},
      {"cut", Clamp{.least = -8, .most = 64}, {"cat.bn"}},
      {"depthwise", depthwise, {"cut"}},
      {"twice", Add{}, {"depthwise", "depthwise"}},
      {"late.add", Add{}, {"late", "pool"}},
      {"late.conv",
       Convolution{.k = 40, .stride_h = 2, .stride_w = 2, .w = whole_weights(40 * 24, 14)},
       {"late.add"}},
      {"sum", Add{}, {"late.conv", "twice"}},
      {"average", Pooling{PoolMode::average, 2, 2, 0, 0, 2, 2}, {"sum"}},
      {"global", GlobalAveragePooling{}, {"average"}},
      {"fc",
       FullyConnected{.k = 10, .w = whole_weights(400, 15, 0.5), .bias = constant(10, 3)},
       {"global"}},
  };
  return network;
}

/// Every pixel function and every part of a rearrangement; all values are outputs.
inline Network light_operators(Layout layout, DataType dtype) {
  Network network{
      .inputs = {{"x", {2, 24, 9, 7}}, {"by", {2, 24, 1, 1}}}, .dtype = dtype, .layout = layout};
  for (std::uint32_t i = 0; i < kNumPixelFunctions; ++i) {
    Pixelwise does{.function = static_cast<PixelFunction>(i), .alpha = 0.25f, .beta = 0.5f};
    does.bias = 1;
    does.size = 5;
    std::vector<std::string> reads{"x"};
    if (does.function == PixelFunction::multiply) reads.push_back("by");
    network.operators.push_back({to_string(does.function), does, reads});
  }
  network.operators.push_back({"square", Pixelwise{}, {"x", "x"}});
  const auto add = [&](const char* name, const Rearrangement& does) {
    network.operators.push_back({name, does, {"sigmoid"}});
  };
  add("slice", {.first_channel = 8, .channels = 16});
  add("odd slice", {.first_channel = 3, .channels = 5});
  add("shuffle", {.groups = 3});
  add("upsampled", {.repeat_h = 2, .repeat_w = 3});
  add("padded", {.top = 1, .bottom = 2, .left = 3, .right = -2, .fill = -1});
  for (const Operator& op : network.operators) network.outputs.push_back(op.name);
  return network;
}

using Outputs = std::map<std::string, std::vector<float>>;

/// What must come out, every operation in double and as it stands.
inline Outputs truth_of(const Network& network, const Outputs& inputs) {
  DoubleValues wide;
  for (const auto& [name, values] : inputs) wide[name] = widened(values);
  const DoubleValues values = reference_network(network, wide);
  Outputs outputs;
  for (const std::string& name : network.outputs) {
    outputs[name].assign(values.at(name).begin(), values.at(name).end());
  }
  return outputs;
}

}  // namespace megaconv::test
