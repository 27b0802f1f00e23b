// SPDX-License-Identifier: Apache-2.0
// Inception-v3 (Szegedy et al., 2015), as torchvision has it, without the auxiliary classifier. Its
// average poolings do not count the padding here (PoolMode::average).
#include "tasks/networks/builder.hpp"

namespace megaconv {
namespace {

class Inception {
 public:
  explicit Inception(const NetworkOptions& options) : net_(options, 299) {}

  Network make(std::int64_t classes) {
    x_ = conv("conv1a", "x", {.k = 32, .r = 3, .stride = 2, .pad = 0});
    x_ = conv("conv2a", x_, {.k = 32, .r = 3, .pad = 0});
    x_ = conv("conv2b", x_, {.k = 64, .r = 3});
    x_ = net_.max_pool("pool1", x_, 3, 2);
    x_ = conv("conv3b", x_, {.k = 80});
    x_ = conv("conv4a", x_, {.k = 192, .r = 3, .pad = 0});
    x_ = net_.max_pool("pool2", x_, 3, 2);
    mixed_5("mixed5b", 32);
    mixed_5("mixed5c", 64);
    mixed_5("mixed5d", 64);
    reduce_6("mixed6a");
    mixed_6("mixed6b", 128);
    mixed_6("mixed6c", 160);
    mixed_6("mixed6d", 160);
    mixed_6("mixed6e", 192);
    reduce_7("mixed7a");
    mixed_7("mixed7b");
    mixed_7("mixed7c");
    return net_.finish(
        net_.fully_connected("fc", net_.global_average_pool("avgpool", x_), classes));
  }

 private:
  std::string conv(const std::string& name, const std::string& x, const Conv& conv) {
    return net_.relu(name + ".relu", net_.batch_norm(name + ".bn", net_.conv(name, x, conv)));
  }
  std::string pooled(const std::string& name, std::int64_t k) {
    return conv(name + ".pool_proj", net_.average_pool(name + ".pool", x_, 3, 1, 1), {.k = k});
  }

  // 35 x 35: 1x1, 5x5, two 3x3, pooling.
  void mixed_5(const std::string& name, std::int64_t pool_filters) {
    const std::string one = conv(name + ".1x1", x_, {.k = 64});
    const std::string five =
        conv(name + ".5x5", conv(name + ".5x5_reduce", x_, {.k = 48}), {.k = 64, .r = 5});
    std::string three = conv(name + ".3x3_reduce", x_, {.k = 64});
    three = conv(name + ".3x3a", three, {.k = 96, .r = 3});
    three = conv(name + ".3x3b", three, {.k = 96, .r = 3});
    x_ = net_.concat(name, {one, five, three, pooled(name, pool_filters)});
  }

  void reduce_6(const std::string& name) {
    const std::string three = conv(name + ".3x3", x_, {.k = 384, .r = 3, .stride = 2, .pad = 0});
    std::string twice = conv(name + ".double_reduce", x_, {.k = 64});
    twice = conv(name + ".double_a", twice, {.k = 96, .r = 3});
    twice = conv(name + ".double_b", twice, {.k = 96, .r = 3, .stride = 2, .pad = 0});
    x_ = net_.concat(name, {three, twice, net_.max_pool(name + ".pool", x_, 3, 2)});
  }

  // 17 x 17: 1x1, 7x7 as 1x7 and 7x1, the same twice, pooling.
  void mixed_6(const std::string& name, std::int64_t inner) {
    const std::string one = conv(name + ".1x1", x_, {.k = 192});
    std::string seven = conv(name + ".7x7_reduce", x_, {.k = inner});
    seven = conv(name + ".1x7", seven, {.k = inner, .r = 1, .s = 7});
    seven = conv(name + ".7x1", seven, {.k = 192, .r = 7, .s = 1});
    std::string twice = conv(name + ".double_reduce", x_, {.k = inner});
    twice = conv(name + ".double_7x1a", twice, {.k = inner, .r = 7, .s = 1});
    twice = conv(name + ".double_1x7a", twice, {.k = inner, .r = 1, .s = 7});
    twice = conv(name + ".double_7x1b", twice, {.k = inner, .r = 7, .s = 1});
    twice = conv(name + ".double_1x7b", twice, {.k = 192, .r = 1, .s = 7});
    x_ = net_.concat(name, {one, seven, twice, pooled(name, 192)});
  }

  void reduce_7(const std::string& name) {
    std::string three = conv(name + ".3x3_reduce", x_, {.k = 192});
    three = conv(name + ".3x3", three, {.k = 320, .r = 3, .stride = 2, .pad = 0});
    std::string seven = conv(name + ".7x7_reduce", x_, {.k = 192});
    seven = conv(name + ".1x7", seven, {.k = 192, .r = 1, .s = 7});
    seven = conv(name + ".7x1", seven, {.k = 192, .r = 7, .s = 1});
    seven = conv(name + ".7x7_3x3", seven, {.k = 192, .r = 3, .stride = 2, .pad = 0});
    x_ = net_.concat(name, {three, seven, net_.max_pool(name + ".pool", x_, 3, 2)});
  }

  // 8 x 8: 1x1, a 3x3 as 1x3 beside 3x1, the same behind a 3x3, pooling.
  void mixed_7(const std::string& name) {
    const std::string one = conv(name + ".1x1", x_, {.k = 320});
    const std::string three = split(name + ".3x3", conv(name + ".3x3_reduce", x_, {.k = 384}));
    std::string twice = conv(name + ".double_reduce", x_, {.k = 448});
    twice = split(name + ".double", conv(name + ".double_3x3", twice, {.k = 384, .r = 3}));
    x_ = net_.concat(name, {one, three, twice, pooled(name, 192)});
  }
  std::string split(const std::string& name, const std::string& x) {
    return net_.concat(name, {conv(name + "_1x3", x, {.k = 384, .r = 1, .s = 3}),
                              conv(name + "_3x1", x, {.k = 384, .r = 3, .s = 1})});
  }

  NetworkBuilder net_;
  std::string x_;
};

}  // namespace

Network make_inception_v3(const NetworkOptions& options) {
  return Inception(options).make(options.classes);
}

}  // namespace megaconv
