// SPDX-License-Identifier: Apache-2.0
// YOLOv3 (Redmon, Farhadi, 2018): Darknet-53, and boxes at three scales. Outputs are what the last
// convolutions make; what decodes boxes is not part of it.
#include <tuple>
#include <utility>

#include "tasks/networks/builder.hpp"

namespace megaconv {
namespace {

class Yolo {
 public:
  explicit Yolo(const NetworkOptions& options)
      : net_(options, 416), outputs_(3 * (options.classes + 5)) {}

  Network make() {
    std::string x = conv("x", 32, 3);
    x = stage(x, 64, 1);
    x = stage(x, 128, 2);
    const std::string fine = stage(x, 256, 8);
    const std::string middle = stage(fine, 512, 8);
    const std::string coarse = stage(middle, 1024, 4);
    std::string y, boxes[3];
    std::tie(y, boxes[0]) = head("coarse", coarse, 512);
    std::tie(y, boxes[1]) = head("middle", joined(y, middle, 256), 256);
    std::tie(y, boxes[2]) = head("fine", joined(y, fine, 128), 128);
    return net_.finish({boxes[0], boxes[1], boxes[2]});
  }

 private:
  std::string conv(const std::string& x, std::int64_t k, std::int64_t r, std::int64_t stride = 1,
                   float gamma = 1) {
    const std::string name = "conv" + std::to_string(++convolutions_);
    const std::string y = net_.conv(name, x, {.k = k, .r = r, .stride = stride});
    return net_.leaky_relu(name + ".leaky", net_.batch_norm(name + ".bn", y, gamma), 0.1f);
  }

  /// Half as high and wide, then residual blocks of a 1x1 and a 3x3. What a block adds is small, so
  /// that FP16 holds the sum of 23.
  std::string stage(const std::string& x, std::int64_t k, int blocks) {
    std::string y = conv(x, k, 3, 2);
    for (int block = 0; block < blocks; ++block) {
      const std::string inner = conv(conv(y, k / 2, 1), k, 3, 1, 0.25f);
      y = net_.add("add" + std::to_string(++additions_), y, inner);
    }
    return y;
  }

  /// What goes on to the finer scale, and the boxes.
  std::pair<std::string, std::string> head(const std::string& name, std::string x, std::int64_t k) {
    for (int i = 0; i < 2; ++i) x = conv(conv(x, k, 1), 2 * k, 3);
    const std::string y = conv(x, k, 1);
    return {y, net_.conv(name, conv(y, 2 * k, 3), {.k = outputs_, .bias = true})};
  }

  std::string joined(const std::string& x, const std::string& finer, std::int64_t k) {
    const std::string name = "up" + std::to_string(k);
    return net_.concat(name + ".concat", {net_.upsample(name, conv(x, k, 1), 2), finer});
  }

  NetworkBuilder net_;
  std::int64_t outputs_;
  int convolutions_ = 0, additions_ = 0;
};

}  // namespace

Network make_yolov3(const NetworkOptions& options) { return Yolo(options).make(); }

}  // namespace megaconv
