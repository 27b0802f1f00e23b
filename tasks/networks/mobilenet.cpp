// SPDX-License-Identifier: Apache-2.0
// MobileNetV2 (Sandler et al., 2018).
#include "tasks/networks/builder.hpp"

namespace megaconv {
namespace {

std::string conv_norm_relu6(NetworkBuilder& net, const std::string& name, const std::string& x,
                            const Conv& conv) {
  return net.relu6(name + ".relu6", net.batch_norm(name + ".bn", net.conv(name, x, conv)));
}

}  // namespace

Network make_mobilenet_v2(const NetworkOptions& options) {
  struct Bottlenecks {
    std::int64_t expansion, filters, blocks, stride;
  };
  constexpr Bottlenecks kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                     {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  NetworkBuilder net(options, 224);
  std::string x = conv_norm_relu6(net, "conv0", "x", {.k = 32, .r = 3, .stride = 2});
  int index = 0;
  for (const Bottlenecks& stage : kStages) {
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      const std::string name = "block" + std::to_string(++index);
      const std::int64_t stride = block == 0 ? stage.stride : 1;
      const std::int64_t inner = net.channels(x) * stage.expansion;
      std::string y = x;
      if (stage.expansion != 1) y = conv_norm_relu6(net, name + ".expand", y, {.k = inner});
      y = conv_norm_relu6(net, name + ".depthwise", y,
                          {.k = inner, .r = 3, .stride = stride, .groups = inner});
      y = net.conv(name + ".project", y, {.k = stage.filters});
      y = net.batch_norm(name + ".project.bn", y);
      const bool adds = stride == 1 && net.channels(x) == stage.filters;
      x = adds ? net.add(name + ".add", x, y) : y;
    }
  }
  x = conv_norm_relu6(net, "conv_last", x, {.k = 1280});
  return net.finish(
      net.fully_connected("classifier", net.global_average_pool("avgpool", x), options.classes));
}

}  // namespace megaconv
