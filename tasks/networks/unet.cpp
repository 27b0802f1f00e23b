// SPDX-License-Identifier: Apache-2.0
// U-Net (Ronneberger, Fischer, Brox, 2015) as most have it now: padded convolutions with batch
// norm, 256 x 256 pixels, and on the way up nearest upsampling with a 3x3 convolution in the place
// of a 2x2 up-convolution.
#include "tasks/networks/builder.hpp"

namespace megaconv {
namespace {

std::string conv(NetworkBuilder& net, const std::string& name, const std::string& x,
                 std::int64_t k) {
  const std::string y = net.conv(name, x, {.k = k, .r = 3});
  return net.relu(name + ".relu", net.batch_norm(name + ".bn", y));
}

std::string twice(NetworkBuilder& net, const std::string& name, const std::string& x,
                  std::int64_t k) {
  return conv(net, name + ".conv2", conv(net, name + ".conv1", x, k), k);
}

}  // namespace

Network make_unet(const NetworkOptions& options) {
  constexpr std::int64_t kWidths[] = {64, 128, 256, 512};
  NetworkBuilder net(options, 256);
  std::vector<std::string> across;
  std::string x = "x";
  for (const std::int64_t k : kWidths) {
    const std::string name = "down" + std::to_string(k);
    across.push_back(twice(net, name, x, k));
    x = net.max_pool(name + ".pool", across.back(), 2, 2);
  }
  x = twice(net, "bottom", x, 1024);
  for (std::size_t level = across.size(); level-- > 0;) {
    const std::int64_t k = kWidths[level];
    const std::string name = "up" + std::to_string(k);
    const std::string up = conv(net, name + ".conv", net.upsample(name, x, 2), k);
    x = twice(net, name + ".both", net.concat(name + ".concat", {across[level], up}), k);
  }
  return net.finish({net.conv("classes", x, {.k = options.classes, .bias = true})});
}

}  // namespace megaconv
