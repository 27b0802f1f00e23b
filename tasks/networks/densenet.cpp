// SPDX-License-Identifier: Apache-2.0
// DenseNet-BC (Huang et al., 2016).
#include "tasks/networks/builder.hpp"

namespace megaconv {

Network make_densenet(const NetworkOptions& options, const std::vector<std::int64_t>& blocks,
                      std::int64_t growth, std::int64_t first) {
  NetworkBuilder net(options, 224);
  std::string x = net.conv("conv0", "x", {.k = first, .r = 7, .stride = 2});
  x = net.relu("relu0", net.batch_norm("norm0", x));
  x = net.max_pool("pool0", x, 3, 2, 1);
  for (std::size_t block = 1; block <= blocks.size(); ++block) {
    std::vector<std::string> features{x};
    for (std::int64_t layer = 1; layer <= blocks[block - 1]; ++layer) {
      const std::string name = "block" + std::to_string(block) + "." + std::to_string(layer);
      std::string y = features.size() == 1 ? x : net.concat(name + ".concat", features);
      y = net.relu(name + ".relu1", net.batch_norm(name + ".norm1", y));
      y = net.conv(name + ".conv1", y, {.k = 4 * growth});
      y = net.relu(name + ".relu2", net.batch_norm(name + ".norm2", y));
      features.push_back(net.conv(name + ".conv2", y, {.k = growth, .r = 3}));
    }
    const std::string name = "transition" + std::to_string(block);
    x = net.concat(name + ".concat", features);
    x = net.relu(name + ".relu", net.batch_norm(name + ".norm", x));
    if (block == blocks.size()) break;
    x = net.conv(name + ".conv", x, {.k = net.channels(x) / 2});
    x = net.average_pool(name + ".pool", x, 2, 2);
  }
  return net.finish(
      net.fully_connected("classifier", net.global_average_pool("avgpool", x), options.classes));
}

}  // namespace megaconv
