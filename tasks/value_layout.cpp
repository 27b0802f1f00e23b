// SPDX-License-Identifier: Apache-2.0
#include "tasks/value_layout.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace megaconv {
namespace {

struct Value {
  Shape shape;
  std::string name;
};

Shape y_shape(const ConvProblem& a) { return {a.n, a.k, a.p(), a.q()}; }
Shape y_shape(const PoolProblem& a) { return {a.n, a.c, a.p(), a.q()}; }
Shape y_shape(const ElementwiseProblem& a) { return {a.n, a.c(), a.h, a.w}; }
Shape y_shape(const PixelwiseProblem& a) { return {a.n, a.c, a.h, a.w}; }
Shape y_shape(const RearrangementProblem& a) { return {a.n, a.k(), a.p(), a.q()}; }

bool is_same_memory(const Shape& shape, Layout a, Layout b) {
  const bool one_block = a != Layout::nchw && b != Layout::nchw && shape.c <= kChannelBlock;
  return shape.c == 1 || shape.h * shape.w == 1 || one_block;
}

FusedOperator conversion(const Value& value, ValueId read, Layout from, Layout to, DataType dtype) {
  const Shape& s = value.shape;
  const RearrangementProblem problem{
      .does = {}, .n = s.n, .c = s.c, .h = s.h, .w = s.w, .dtype = dtype, .layout = from, .to = to};
  return {.operators = {value.name + "." + to_string(to)}, .problem = problem, .reads = {read}};
}

bool is_blocked(const ConvProblem& a) {
  return a.groups == 1 || a.depthwise() || a.k / a.groups % kChannelBlock == 0;
}
bool is_blocked(const PoolProblem&) { return true; }
bool is_blocked(const ElementwiseProblem& a) {
  return std::all_of(a.channels.begin(), a.channels.end() - 1,
                     [](std::int64_t channels) { return channels % kChannelBlock == 0; });
}
bool is_blocked(const PixelwiseProblem&) { return false; }
bool is_blocked(const RearrangementProblem&) { return false; }

}  // namespace

bool has_blocked_tasks(const FusedNetwork& network) {
  return std::all_of(network.operators.begin(), network.operators.end(), [](const auto& op) {
    return std::visit([](const auto& a) { return a.dtype == DataType::f32 && is_blocked(a); },
                      op.problem);
  });
}

FusedNetwork with_values_in(FusedNetwork network, Layout layout) {
  const auto [dtype, given] = std::visit([](const auto& a) { return std::pair(a.dtype, a.layout); },
                                         network.operators.front().problem);
  if (layout == given) return network;
  FusedNetwork made{.inputs = network.inputs, .operators = {}, .outputs = {}};
  const auto append = [&made](FusedOperator op) {
    made.operators.push_back(std::move(op));
    return static_cast<ValueId>(made.inputs.size() + made.operators.size() - 1);
  };
  std::vector<ValueId> ids;  // of values in `layout`
  std::vector<Value> values;
  for (const NetworkInput& input : network.inputs) {
    values.push_back({input.shape, input.name});
    const auto id = static_cast<ValueId>(ids.size());
    ids.push_back(is_same_memory(input.shape, given, layout)
                      ? id
                      : append(conversion(values.back(), id, given, layout, dtype)));
  }
  for (FusedOperator& op : network.operators) {
    values.push_back(
        {std::visit([](const auto& a) { return y_shape(a); }, op.problem), op.value()});
    std::visit([layout](auto& a) { a.layout = layout; }, op.problem);
    for (ValueId& read : op.reads) read = ids[read];
    ids.push_back(append(std::move(op)));
  }
  for (const ValueId output : network.outputs) {
    made.outputs.push_back(
        is_same_memory(values[output].shape, given, layout)
            ? ids[output]
            : append(conversion(values[output], ids[output], layout, given, dtype)));
  }
  return made;
}

}  // namespace megaconv
