// SPDX-License-Identifier: Apache-2.0
// ResNet (He et al., 2015), with the stride in the 3x3 convolution of a bottleneck, as torchvision
// has it; ResNeXt (Xie et al., 2016).
#include "tasks/networks/builder.hpp"

namespace megaconv {
namespace {

std::string conv_norm(NetworkBuilder& net, const std::string& name, const std::string& x,
                      const Conv& conv) {
  return net.batch_norm(name + ".bn", net.conv(name, x, conv));
}

}  // namespace

Network make_resnet(const NetworkOptions& options, const std::vector<std::int64_t>& blocks,
                    bool bottleneck, std::int64_t groups, std::int64_t width) {
  NetworkBuilder net(options, 224);
  std::string x = conv_norm(net, "conv1", "x", {.k = 64, .r = 7, .stride = 2});
  x = net.max_pool("maxpool", net.relu("relu", x), 3, 2, 1);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t planes = std::int64_t{64} << stage;
    const std::int64_t inner = planes * width / 64 * groups;
    const std::int64_t filters = bottleneck ? 4 * planes : planes;
    for (std::int64_t block = 0; block < blocks[stage]; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      std::string shortcut = x;
      if (stride != 1 || net.channels(x) != filters) {
        shortcut = conv_norm(net, name + ".downsample", x, {.k = filters, .stride = stride});
      }
      std::string y = x;
      if (bottleneck) {
        y = net.relu(name + ".relu1", conv_norm(net, name + ".conv1", y, {.k = inner}));
        y = conv_norm(net, name + ".conv2", y,
                      {.k = inner, .r = 3, .stride = stride, .groups = groups});
        y = net.relu(name + ".relu2", y);
        y = conv_norm(net, name + ".conv3", y, {.k = filters});
      } else {
        y = conv_norm(net, name + ".conv1", y, {.k = planes, .r = 3, .stride = stride});
        y = conv_norm(net, name + ".conv2", net.relu(name + ".relu1", y), {.k = planes, .r = 3});
      }
      x = net.relu(name + ".relu", net.add(name + ".add", y, shortcut));
    }
  }
  return net.finish(
      net.fully_connected("fc", net.global_average_pool("avgpool", x), options.classes));
}

}  // namespace megaconv
