// SPDX-License-Identifier: Apache-2.0
// The built-in networks with operators and weights that are exact: every value is a whole number,
// and every sum is proven to be one that FP32 holds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tasks/fuse.hpp"
#include "tests/runtime/network_run.hpp"

namespace megaconv::test {

/// The shape of a built-in network stays, with other numbers: a filter has about eight weights that
/// are not zero, batch norm scales by 1 or 2, activations are cut off at 0 and 15, and poolings
/// take the largest number.
inline Network exact_network(const std::string& name, const NetworkOptions& options) {
  constexpr double kWeights = 8;
  constexpr float kMost = 15;
  Network network = make_network(name, options);
  const std::map<std::string, Shape> shapes = shapes_of(network);
  std::uint64_t seed = 100;
  for (Operator& op : network.operators) {
    const Shape& x = shapes.at(op.reads.front());
    seed += 4;
    const auto sparse = [&](const Weights& w, std::int64_t filters) {
      return whole_weights(
          w.size, seed,
          std::min(1.0, kWeights * static_cast<double>(filters) / static_cast<double>(w.size)));
    };
    const auto bias = [&](const Weights& of) {
      return of.data == nullptr ? of : whole_weights(of.size, seed + 1, 0.5);
    };
    if (auto* conv = std::get_if<Convolution>(&op.does)) {
      conv->w = sparse(conv->w, conv->k);
      conv->bias = bias(conv->bias);
    } else if (auto* fc = std::get_if<FullyConnected>(&op.does)) {
      fc->w = sparse(fc->w, fc->k);
      fc->bias = bias(fc->bias);
    } else if (auto* norm = std::get_if<BatchNorm>(&op.does)) {
      std::vector<float> gamma(static_cast<std::size_t>(x.c));
      for (std::size_t c = 0; c < gamma.size(); ++c) gamma[c] = c % 8 == 5 ? 2 : 1;
      *norm = {.gamma = make_weights(gamma),
               .beta = whole_weights(x.c, seed + 1, 0.5),
               .mean = whole_weights(x.c, seed + 2, 0.5),
               .variance = constant(x.c, 1),
               .epsilon = 0};
    } else if (auto* clamp = std::get_if<Clamp>(&op.does)) {
      clamp->most = std::min(clamp->most, kMost);
    } else if (std::holds_alternative<Pixelwise>(op.does)) {  // leaky ReLU
      op.does = Clamp{.most = kMost};
    } else if (auto* pool = std::get_if<Pooling>(&op.does)) {
      pool->mode = PoolMode::max;
    } else if (std::holds_alternative<GlobalAveragePooling>(op.does)) {
      op.does = Pooling{PoolMode::max, x.h, x.w, 0, 0, 1, 1};
    }
  }
  return network;
}

/// No number that any order of any sum makes can be larger than these, of inputs up to 2.
struct ExactBounds {
  double value = 0;  ///< that is left when operators are fused
  double sum = 0;    ///< of a convolution: the products of a filter, all positive
};
inline ExactBounds exact_bounds(const Network& network) {
  std::map<std::string, double> most;
  for (const NetworkInput& input : network.inputs) most[input.name] = 2;
  ExactBounds bounds;
  const auto filters = [&](const Weights& w, const Weights& bias, std::int64_t k, double x) {
    double largest = 0;
    const std::size_t size = static_cast<std::size_t>(w.size / k);
    for (std::size_t filter = 0; filter < static_cast<std::size_t>(k); ++filter) {
      double sum = bias.data != nullptr ? std::fabs(double{bias.values()[filter]}) : 0;
      for (std::size_t i = 0; i < size; ++i) {
        sum += std::fabs(double{w.values()[filter * size + i]}) * x;
      }
      largest = std::max(largest, sum);
    }
    bounds.sum = std::max(bounds.sum, largest);
    return largest;
  };
  for (const Operator& op : network.operators) {
    const double x = most.at(op.reads.front());
    double y = x;
    if (const auto* conv = std::get_if<Convolution>(&op.does)) {
      y = filters(conv->w, conv->bias, conv->k, x);
    } else if (const auto* fc = std::get_if<FullyConnected>(&op.does)) {
      y = filters(fc->w, fc->bias, fc->k, x);
    } else if (const auto* norm = std::get_if<BatchNorm>(&op.does)) {
      y = 0;
      for (std::size_t c = 0; c < static_cast<std::size_t>(norm->gamma.size); ++c) {
        const auto at = [c](const Weights& of) { return std::fabs(double{of.values()[c]}); };
        y = std::max(y, at(norm->gamma) * (x + at(norm->mean)) + at(norm->beta));
      }
    } else if (const auto* clamp = std::get_if<Clamp>(&op.does)) {
      y = std::min(x, double{clamp->most});
    } else if (std::holds_alternative<Add>(op.does)) {
      y = x + most.at(op.reads.back());
    } else if (std::holds_alternative<Concatenation>(op.does)) {
      for (const std::string& read : op.reads) y = std::max(y, most.at(read));
    }
    most[op.name] = y;
  }
  for (const FusedOperator& op : fuse(network).operators) {
    bounds.value = std::max(bounds.value, most.at(op.value()));
  }
  return bounds;
}

/// A network whose image is as small as it may be and still has every operator at work.
inline std::int64_t small_image(const std::string& name) {
  return name == "inception_v3" ? 75 : name == "vgg16" || name == "unet" ? 32 : 64;
}

}  // namespace megaconv::test
