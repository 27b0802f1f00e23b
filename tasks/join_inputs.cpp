// SPDX-License-Identifier: Apache-2.0
#include "tasks/join_inputs.hpp"

#include <algorithm>
#include <utility>

#include "tasks/small_gemm/small_gemm.hpp"

namespace megaconv {
namespace {

// The operation that makes x of a convolution, if its tasks can make x themselves; else null.
FusedOperator* joinable(FusedNetwork& network, const FusedOperator& op,
                        const std::vector<int>& readers) {
  const auto* const conv = std::get_if<ConvProblem>(&op.problem);
  if (conv == nullptr || op.reads.front() < network.inputs.size()) return nullptr;
  FusedOperator& before = network.operators[op.reads.front() - network.inputs.size()];
  const auto* const problem = std::get_if<ElementwiseProblem>(&before.problem);
  const bool joins =
      problem != nullptr && readers[op.reads.front()] == 1 && can_join_input(*conv, *problem);
  return joins ? &before : nullptr;
}

}  // namespace

FusedNetwork with_joined_inputs(FusedNetwork network) {
  std::vector<int> readers(network.inputs.size() + network.operators.size());
  for (const FusedOperator& op : network.operators) {
    for (const ValueId value : op.reads) ++readers[value];
  }
  for (const ValueId value : network.outputs) ++readers[value];
  std::vector<bool> joined(network.operators.size());
  for (FusedOperator& op : network.operators) {
    FusedOperator* const before = joinable(network, op, readers);
    if (before == nullptr) continue;
    joined[static_cast<std::size_t>(before - network.operators.data())] = true;
    op.input = {std::get<ElementwiseProblem>(before->problem), before->scale, before->bias};
    op.operators.insert(op.operators.begin(), before->operators.begin(), before->operators.end());
    op.reads.erase(op.reads.begin());
    op.reads.insert(op.reads.begin(), before->reads.begin(), before->reads.end());
  }
  FusedNetwork made{.inputs = network.inputs, .operators = {}, .outputs = {}};
  std::vector<ValueId> ids;  // of values that are left
  for (ValueId input = 0; input < network.inputs.size(); ++input) ids.push_back(input);
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    ids.push_back(static_cast<ValueId>(made.inputs.size() + made.operators.size()));
    if (joined[i]) continue;
    FusedOperator& op = network.operators[i];
    for (ValueId& read : op.reads) read = ids[read];
    made.operators.push_back(std::move(op));
  }
  for (const ValueId output : network.outputs) made.outputs.push_back(ids[output]);
  return made;
}

}  // namespace megaconv
