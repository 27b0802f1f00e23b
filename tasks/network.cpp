// SPDX-License-Identifier: Apache-2.0
// What a network must be: names, values, shapes and weights.
#include "megaconv/network.hpp"

#include <algorithm>
#include <set>

#include "mapping/text.hpp"
#include "megaconv/elementwise.hpp"
#include "megaconv/error.hpp"
#include "tasks/operator_reads.hpp"
#include "tasks/operators.hpp"

namespace megaconv {
namespace {

[[noreturn]] void reject(const std::string& name, const std::string& message) {
  throw Error(Status::invalid_argument, "operator \"" + excerpt(name) + "\": " + message);
}

void check_name(const std::string& what, const std::string& name, std::set<std::string>& names) {
  if (name.empty() || excerpt(name) != name) {
    throw Error(Status::invalid_argument,
                what + quoted_name(name) + ": its name must be 1 to 80 printable characters");
  }
  if (!names.insert(name).second) {
    throw Error(Status::invalid_argument,
                what + quoted_name(name) + ": another input or operator has this name");
  }
}

[[noreturn]] void reject_unknown(const Network& network, std::size_t index,
                                 const std::string& value) {
  const auto later =
      std::find_if(network.operators.begin() + static_cast<std::ptrdiff_t>(index),
                   network.operators.end(), [&](const Operator& op) { return op.name == value; });
  reject(network.operators[index].name,
         "reads " + quoted_name(value) +
             (later != network.operators.end()
                  ? ", which it makes itself or a later operator makes; must be an input or an "
                    "operator before it, without cycles"
                  : ", which is none; must be an input or an operator before it"));
}

void check_tensors(const Network& network) {
  if (network.dtype == DataType::i8) {
    throw Error(Status::unsupported, "network: storage type i8, must be f32, f16 or bf16");
  }
  if (network.layout != Layout::nchw && network.layout != Layout::nhwc) {
    throw Error(Status::unsupported, std::string("network: layout ") + to_string(network.layout) +
                                         ", must be nchw or nhwc");
  }
}

void check_outputs(const Network& network, const std::map<std::string, Shape>& shapes) {
  if (network.outputs.empty()) {
    throw Error(Status::invalid_argument, "network: no outputs, must be at least 1");
  }
  std::set<std::string> seen;
  for (const std::string& output : network.outputs) {
    const auto is_output = [&](const auto& value) { return value.name == output; };
    const bool is_input = std::any_of(network.inputs.begin(), network.inputs.end(), is_output);
    if (!shapes.contains(output) || is_input || !seen.insert(output).second) {
      throw Error(Status::invalid_argument, "network: output " + quoted_name(output) + " is " +
                                                (is_input                  ? "an input"
                                                 : shapes.contains(output) ? "there twice"
                                                                           : "none") +
                                                ", must be the name of an operator, once");
    }
  }
}

}  // namespace

Weights make_weights(std::vector<float> values) {
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return {std::shared_ptr<const float[]>(kept, kept->data()),
          static_cast<std::int64_t>(kept->size())};
}

Weights view_weights(std::span<const float> values) {
  return {std::shared_ptr<const float[]>(std::shared_ptr<void>(), values.data()),
          static_cast<std::int64_t>(values.size())};
}

std::string to_string(const Shape& s) {
  return std::string("n") + std::to_string(s.n) + "c" + std::to_string(s.c) + "h" +
         std::to_string(s.h) + "w" + std::to_string(s.w);
}

const char* kind_of(const Operator& op) noexcept {
  return std::visit([](const auto& does) { return kind_of(does); }, op.does);
}

std::map<std::string, Shape> shapes_of(const Network& network) {
  check_tensors(network);
  if (network.operators.empty()) {
    throw Error(Status::invalid_argument, "network: no operators, must be at least 1");
  }
  std::set<std::string> names;
  std::map<std::string, Shape> shapes;
  for (const NetworkInput& input : network.inputs) {
    check_name("input ", input.name, names);
    try {  // the limits of a tensor are those of an operation that copies it
      const Shape& s = input.shape;
      validate(ElementwiseProblem{.n = s.n, .h = s.h, .w = s.w, .channels = {s.c}});
    } catch (const Error& error) {
      throw Error(error.status(), "input " + quoted_name(input.name) + ": " + error.what());
    }
    shapes[input.name] = input.shape;
  }
  for (const Operator& op : network.operators) check_name("operator ", op.name, names);
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const Operator& op = network.operators[i];
    std::vector<Shape> reads;
    for (const std::string& value : op.reads) {
      const auto known = shapes.find(value);
      if (known == shapes.end()) reject_unknown(network, i, value);
      reads.push_back(known->second);
    }
    const OperatorReads checked(network, op, std::move(reads));
    shapes[op.name] =
        std::visit([&](const auto& does) { return shape_of(checked, does); }, op.does);
  }
  check_outputs(network, shapes);
  return shapes;
}

void validate(const Network& network) { static_cast<void>(shapes_of(network)); }

}  // namespace megaconv
