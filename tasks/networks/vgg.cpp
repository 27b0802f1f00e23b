// SPDX-License-Identifier: Apache-2.0
// VGG-16 (Simonyan, Zisserman, 2014), without batch norm. Of other images than the usual the first
// fully connected layer is as large as what is left of the image.
#include "tasks/networks/builder.hpp"

namespace megaconv {

Network make_vgg16(const NetworkOptions& options) {
  NetworkBuilder net(options, 224);
  std::string x = "x";
  const std::int64_t filters[] = {64, 128, 256, 512, 512}, layers[] = {2, 2, 3, 3, 3};
  for (int stage = 0; stage < 5; ++stage) {
    const std::string of_stage = std::to_string(stage + 1);
    for (std::int64_t layer = 1; layer <= layers[stage]; ++layer) {
      const std::string name = of_stage + "_" + std::to_string(layer);
      x = net.conv("conv" + name, x, {.k = filters[stage], .r = 3, .bias = true});
      x = net.relu("relu" + name, x);
    }
    x = net.max_pool("pool" + of_stage, x, 2, 2);
  }
  x = net.relu("relu6", net.fully_connected("fc6", x, 4096));
  x = net.relu("relu7", net.fully_connected("fc7", x, 4096));
  return net.finish(net.fully_connected("fc8", x, options.classes));
}

}  // namespace megaconv
