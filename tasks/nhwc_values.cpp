// SPDX-License-Identifier: Apache-2.0
#include "tasks/nhwc_values.hpp"

#include <string>
#include <utility>

#include "tasks/operators.hpp"

namespace megaconv {
namespace {

struct Value {
  Shape shape;
  std::string name;
};

bool same_in_both(const Shape& shape) { return shape.c == 1 || shape.h * shape.w == 1; }

FusedOperator conversion(const Value& value, ValueId read, Layout from, DataType dtype) {
  const Shape& s = value.shape;
  const RearrangementProblem problem{.does = {},
                                     .n = s.n,
                                     .c = s.c,
                                     .h = s.h,
                                     .w = s.w,
                                     .dtype = dtype,
                                     .layout = from,
                                     .transposes = true};
  return {.operators = {value.name + "." + to_string(problem.y_layout())},
          .problem = problem,
          .reads = {read}};
}

}  // namespace

FusedNetwork with_nhwc_values(FusedNetwork network) {
  const auto [dtype, layout] =
      std::visit([](const auto& a) { return std::pair(a.dtype, a.layout); },
                 network.operators.front().problem);
  if (layout == Layout::nhwc) return network;
  FusedNetwork made{.inputs = network.inputs, .operators = {}, .outputs = {}};
  const auto append = [&made](FusedOperator op) {
    made.operators.push_back(std::move(op));
    return static_cast<ValueId>(made.inputs.size() + made.operators.size() - 1);
  };
  std::vector<ValueId> ids;  // of values in nhwc
  std::vector<Value> values;
  for (const NetworkInput& input : network.inputs) {
    values.push_back({input.shape, input.name});
    const auto given = static_cast<ValueId>(ids.size());
    ids.push_back(same_in_both(input.shape)
                      ? given
                      : append(conversion(values.back(), given, Layout::nchw, dtype)));
  }
  for (FusedOperator& op : network.operators) {
    values.push_back(
        {std::visit([](const auto& a) { return y_shape(a); }, op.problem), op.value()});
    std::visit([](auto& a) { a.layout = Layout::nhwc; }, op.problem);
    for (ValueId& read : op.reads) read = ids[read];
    ids.push_back(append(std::move(op)));
  }
  for (const ValueId output : network.outputs) {
    made.outputs.push_back(
        same_in_both(values[output].shape)
            ? ids[output]
            : append(conversion(values[output], ids[output], Layout::nhwc, dtype)));
  }
  return made;
}

}  // namespace megaconv
