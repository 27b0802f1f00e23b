// SPDX-License-Identifier: Apache-2.0
#include "tools/run/networks.hpp"

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

constexpr Layer kLayers[] = {
    // name, N, C, H, W, K
    {"resnet_conv2", 64, 64, 56, 56, 64},
    {"resnet_conv3", 64, 128, 28, 28, 128},
    {"resnet_conv4", 64, 256, 14, 14, 256},
    {"resnet_conv5", 64, 512, 7, 7, 512},
    {"resnet_conv2_n32", 32, 64, 56, 56, 64},
    {"resnet_conv3_n32", 32, 128, 28, 28, 128},
    {"resnet_conv4_n32", 32, 256, 14, 14, 256},
    {"resnet_conv5_n32", 32, 512, 7, 7, 512},
    {"resnet_conv2_n128", 128, 64, 56, 56, 64},
    {"resnet_conv3_n128", 128, 128, 28, 28, 128},
    {"resnet_conv4_n128", 128, 256, 14, 14, 256},
    {"resnet_conv5_n128", 128, 512, 7, 7, 512},
    {"yolo_1", 64, 32, 208, 208, 64},
    {"yolo_2", 64, 64, 104, 104, 128},
    {"yolo_3", 64, 128, 52, 52, 256},
    {"yolo_4", 64, 256, 26, 26, 512},
    {"yolo_5", 64, 512, 13, 13, 1024},
    {"vgg_1", 64, 64, 224, 224, 64},
    {"vgg_2", 64, 128, 112, 112, 128},
    {"vgg_3", 64, 256, 56, 56, 256},
    {"vgg_4", 64, 512, 28, 28, 512},
    {"vgg_5", 64, 512, 14, 14, 512},
    {"densenet_1", 64, 192, 56, 56, 48},
    {"densenet_2", 64, 192, 28, 28, 48},
    {"densenet_3", 64, 192, 14, 14, 48},
    {"densenet_4", 64, 192, 7, 7, 48},
    {"pkf_224", 1, 64, 224, 224, 64},  // single large images
    {"pkf_480", 1, 64, 480, 480, 64},
    {"pkf_960", 1, 64, 960, 960, 64},
    {"resnet_conv2_n1", 1, 64, 56, 56, 64},
    {"resnet_conv3_n1", 1, 128, 28, 28, 128},
    {"resnet_conv4_n1", 1, 256, 14, 14, 256},
    {"resnet_conv5_n1", 1, 512, 7, 7, 512},
};

struct KnownNetwork {
  const char* name;
  std::size_t first, count;  // in kLayers
};
constexpr KnownNetwork kNetworks[] = {
    {"resnet50", 0, 4}, {"vgg16", 17, 5}, {"yolov3", 12, 5}, {"densenet161", 22, 4}};

}  // namespace

std::span<const Layer> suite_layers() { return kLayers; }

std::span<const Layer> network_layers(const std::string& network) {
  std::string names;
  for (const KnownNetwork& known : kNetworks) {
    if (network == known.name) return std::span(kLayers).subspan(known.first, known.count);
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw Error(Status::invalid_argument, "--network " + network + ", must be one of " + names);
}

ConvProblem to_problem(const Layer& layer) {
  ConvProblem problem;
  problem.n = layer.n;
  problem.c = layer.c;
  problem.h = layer.h;
  problem.w = layer.w;
  problem.k = layer.k;
  return problem;
}

}  // namespace megaconv::cli
