// SPDX-License-Identifier: Apache-2.0
// What builders of built-in networks share: operators by one call each, with seeded weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megaconv/network.hpp"

namespace megaconv {

/// Everything about a convolution that a builder says; `w` is seeded.
struct Conv {
  std::int64_t k = 1, r = 1, s = 0;  ///< s = 0: r
  std::int64_t stride = 1;
  std::int64_t pad = -1;  ///< vertical; -1: as many outputs as inputs, at stride 1
  std::int64_t pad_w = -1;
  std::int64_t groups = 1;
  bool bias = false;
};

/// Adds operators to a network. Every call returns the name of the value that it makes.
class NetworkBuilder {
 public:
  /// `image`: the usual height and width of the one input "x", of 3 channels.
  NetworkBuilder(const NetworkOptions& options, std::int64_t image);

  std::string conv(const std::string& name, const std::string& x, const Conv& conv);
  /// Scales by about `gamma`.
  std::string batch_norm(const std::string& name, const std::string& x, float gamma = 1);
  std::string relu(const std::string& name, const std::string& x);
  std::string relu6(const std::string& name, const std::string& x);
  std::string leaky_relu(const std::string& name, const std::string& x, float slope);
  std::string add(const std::string& name, const std::string& a, const std::string& b);
  std::string concat(const std::string& name, std::vector<std::string> reads);
  std::string max_pool(const std::string& name, const std::string& x, std::int64_t r,
                       std::int64_t stride, std::int64_t pad = 0);
  std::string average_pool(const std::string& name, const std::string& x, std::int64_t r,
                           std::int64_t stride, std::int64_t pad = 0);
  std::string global_average_pool(const std::string& name, const std::string& x);
  /// Nearest, by that factor.
  std::string upsample(const std::string& name, const std::string& x, std::int64_t factor);
  std::string fully_connected(const std::string& name, const std::string& x, std::int64_t k);

  std::int64_t channels(const std::string& value) const { return shapes_.at(value).c; }
  /// The network with these outputs.
  Network finish(std::vector<std::string> outputs);
  Network finish(const std::string& output) { return finish(std::vector{output}); }

 private:
  std::string put(Operator op, const Shape& shape);
  /// As many numbers, normal with that standard deviation.
  Weights normal(std::int64_t count, double deviation);
  /// One number a channel, even between `least` and `most`.
  Weights even(std::int64_t channels, float least, float most);

  Network network_;
  std::map<std::string, Shape> shapes_;
  std::uint64_t seed_;
};

// One file each.
Network make_resnet(const NetworkOptions& options, const std::vector<std::int64_t>& blocks,
                    bool bottleneck, std::int64_t groups, std::int64_t width);
Network make_vgg16(const NetworkOptions& options);
Network make_densenet(const NetworkOptions& options, const std::vector<std::int64_t>& blocks,
                      std::int64_t growth, std::int64_t first);
Network make_mobilenet_v2(const NetworkOptions& options);
Network make_inception_v3(const NetworkOptions& options);
Network make_yolov3(const NetworkOptions& options);
Network make_unet(const NetworkOptions& options);

}  // namespace megaconv
