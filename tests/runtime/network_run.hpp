// SPDX-License-Identifier: Apache-2.0
// A plan of a network with its memory, on tensors of floats in [N][C][H][W].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/reference.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv::test {

/// Aligned bytes, all of them set.
struct Memory {
  explicit Memory(std::size_t size)
      : bytes(size),
        data(std::aligned_alloc(Plan::kAlignment,
                                (size + Plan::kAlignment) / Plan::kAlignment * Plan::kAlignment),
             &std::free) {
    std::fill_n(static_cast<unsigned char*>(data.get()), size, 0xff);  // floats: NaN
  }
  void* get() const { return data.get(); }
  std::size_t bytes;
  std::unique_ptr<void, decltype(&std::free)> data;
};

/// To or from the layout and storage type of a network.
inline void convert(const Network& network, const Shape& shape, std::vector<float>& nchw,
                    void* tensor, bool to_tensor) {
  const std::int64_t pixels = shape.h * shape.w;
  const Strides strides = strides_of(network.layout, shape.n, shape.c, pixels);
  with_storage(network.dtype, [&](auto number) {
    auto* const numbers = static_cast<decltype(number)*>(tensor);
    for (std::int64_t i = 0; i < shape.size(); ++i) {
      auto& at = numbers[i / pixels / shape.c * strides.image +
                         i / pixels % shape.c * strides.channel + i % pixels * strides.pixel];
      float& value = nchw[static_cast<std::size_t>(i)];
      if (to_tensor) at = from_float<decltype(number)>(value);
      if (!to_tensor) value = to_float(at);
    }
  });
}

class NetworkRun {
 public:
  NetworkRun(const Network& network, const PlanOptions& options)
      : network_(network),
        shapes_(shapes_of(network)),
        plan(Plan::create(network, options)),
        workspace_(plan.workspace_bytes()),
        prepared_(plan.prepared_filter_bytes()) {
    if (prepared_.bytes > 0) plan.prepare_filters(prepared_.get());
    for (const NetworkInput& input : network.inputs) {
      const auto size = static_cast<std::size_t>(input.shape.size());
      inputs_.emplace_back(size * size_of(network.dtype));
      input_pointers_.push_back(inputs_.back().get());
    }
    for (const std::string& output : network.outputs) {
      const auto size = static_cast<std::size_t>(shapes_.at(output).size());
      outputs_.emplace_back(size * size_of(network.dtype));
      output_pointers_.push_back(outputs_.back().get());
    }
  }

  /// Outputs by name, of inputs by name.
  std::map<std::string, std::vector<float>> run(std::map<std::string, std::vector<float>> inputs,
                                                Trace* trace = nullptr) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::string& name = network_.inputs[i].name;
      convert(network_, shapes_.at(name), inputs.at(name), inputs_[i].get(), true);
    }
    plan.execute(tensors(), workspace_.get(), workspace_.bytes, {.trace = trace});
    std::map<std::string, std::vector<float>> outputs;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::string& name = network_.outputs[i];
      outputs[name].resize(static_cast<std::size_t>(shapes_.at(name).size()));
      convert(network_, shapes_.at(name), outputs[name], outputs_[i].get(), false);
    }
    return outputs;
  }

  NetworkTensors tensors() const {
    return {.inputs = input_pointers_,
            .outputs = output_pointers_,
            .prepared_filters = prepared_.bytes > 0 ? prepared_.get() : nullptr};
  }
  const Memory& workspace() const { return workspace_; }
  const std::vector<const void*>& inputs() const { return input_pointers_; }
  const std::vector<void*>& outputs() const { return output_pointers_; }

 private:
  Network network_;
  std::map<std::string, Shape> shapes_;

 public:
  const Plan plan;

 private:
  Memory workspace_, prepared_;
  std::vector<Memory> inputs_, outputs_;
  std::vector<const void*> input_pointers_;
  std::vector<void*> output_pointers_;
};

/// Inputs of a network, by name.
inline std::map<std::string, std::vector<float>> random_inputs(const Network& network,
                                                               const Filling& filling,
                                                               std::uint64_t seed = 1) {
  std::map<std::string, std::vector<float>> inputs;
  for (const NetworkInput& input : network.inputs) {
    std::vector<float>& values = inputs[input.name];
    values.resize(static_cast<std::size_t>(input.shape.size()));
    fill(values, filling, ++seed);
  }
  return inputs;
}

inline std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// Whole numbers, mostly zero: what every algorithm is exact with where they stay small.
inline Weights whole_weights(std::int64_t count, std::uint64_t seed, double density = 0.11,
                             float multiple = 1) {
  std::vector<float> values(static_cast<std::size_t>(count));
  fill_integers(values, seed, density, multiple);
  return make_weights(std::move(values));
}

inline Weights constant(std::int64_t count, float value) {
  return make_weights(std::vector<float>(static_cast<std::size_t>(count), value));
}

}  // namespace megaconv::test
