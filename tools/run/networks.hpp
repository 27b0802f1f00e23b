// SPDX-License-Identifier: Apache-2.0
// Layers with 3x3 filters, stride 1 and padding 1 of networks that everyone measures.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "megaconv/problem.hpp"

namespace megaconv::cli {

struct Layer {
  const char* name;
  std::int64_t n, c, h, w, k;
};

/// All layers, with the batch sizes that they are usually measured with.
std::span<const Layer> suite_layers();

/// "resnet50", "vgg16", "yolov3", "densenet161". Throws Error(invalid_argument) listing them.
std::span<const Layer> network_layers(const std::string& network);

ConvProblem to_problem(const Layer& layer);

}  // namespace megaconv::cli
