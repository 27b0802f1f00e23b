// SPDX-License-Identifier: Apache-2.0
// The built-in networks by name.
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tasks/networks/builder.hpp"

namespace megaconv {
namespace {

using Options = NetworkOptions;

struct Known {
  const char* name;
  Network (*make)(const Options& options);
  std::int64_t classes = 1000;  ///< the usual
};
constexpr Known kNetworks[] = {
    {"resnet18",
     [](const Options& o) {
       return make_resnet(o, {2, 2, 2, 2}, false, 1, 64);
     }},
    {"resnet50",
     [](const Options& o) {
       return make_resnet(o, {3, 4, 6, 3}, true, 1, 64);
     }},
    {"resnext50",
     [](const Options& o) {
       return make_resnet(o, {3, 4, 6, 3}, true, 32, 4);
     }},
    {"vgg16", make_vgg16},
    {"mobilenet_v2", make_mobilenet_v2},
    {"densenet121",
     [](const Options& o) {
       return make_densenet(o, {6, 12, 24, 16}, 32, 64);
     }},
    {"densenet161",
     [](const Options& o) {
       return make_densenet(o, {6, 12, 36, 24}, 48, 96);
     }},
    {"inception_v3", make_inception_v3},
    {"yolov3", make_yolov3, 80},
    {"unet", make_unet, 2},
};

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Known& known : kNetworks) names.emplace_back(known.name);
  return names;
}

Network make_network(const std::string& name, const NetworkOptions& options) {
  constexpr std::int64_t kMost = 1 << 16;  // so that no extent overflows
  for (const auto& [what, value, least] : {std::tuple{"batch", options.batch, 1},
                                           {"image", options.image, 0},
                                           {"classes", options.classes, 0}}) {
    if (value >= least && value <= kMost) continue;
    throw Error(Status::invalid_argument, "network " + excerpt(name) + ": " + what + " = " +
                                              std::to_string(value) + ", must be " +
                                              std::to_string(least) + " to 65536");
  }
  std::string allowed;
  for (const Known& known : kNetworks) {
    if (name == known.name) {
      Options usual = options;
      if (usual.classes == 0) usual.classes = known.classes;
      Network network = known.make(usual);
      validate(network);
      return network;
    }
    allowed += std::string(allowed.empty() ? "" : ", ") + known.name;
  }
  throw Error(Status::invalid_argument,
              "network \"" + excerpt(name) + "\", must be one of " + allowed);
}

}  // namespace megaconv
