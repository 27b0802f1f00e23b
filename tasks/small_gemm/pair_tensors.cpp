// SPDX-License-Identifier: Apache-2.0
#include "tasks/small_gemm/pair_tensors.hpp"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "tasks/small_gemm/small_gemm.hpp"

namespace megaconv {
namespace {

// How a value is read.
struct Readers {
  bool factor = false, residual = false, pooling = false, caller = false;
};

std::vector<Readers> find_readers(const FusedNetwork& network) {
  std::vector<Readers> readers(network.inputs.size() + network.operators.size());
  for (const FusedOperator& op : network.operators) {
    for (std::size_t i = 0; i < op.reads.size(); ++i) {
      Readers& of = readers[op.reads[i]];
      (std::holds_alternative<PoolProblem>(op.problem) ? of.pooling
       : i > 0                                         ? of.residual
                                                       : of.factor) = true;
    }
  }
  for (const ValueId output : network.outputs) readers[output].caller = true;
  return readers;
}

}  // namespace

std::optional<std::vector<PairTensors>> choose_pair_tensors(const FusedNetwork& network) {
  const std::size_t num_inputs = network.inputs.size();
  const std::vector<Readers> readers = find_readers(network);
  const auto problem_of = [&](ValueId value) -> const AnyProblem& {
    return network.operators[value - num_inputs].problem;
  };
  std::vector<PairTensors> chosen(network.operators.size());
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const FusedOperator& op = network.operators[i];
    const Readers& of_y = readers[num_inputs + i];
    const bool in_pairs = of_y.factor || of_y.residual;
    if (const auto* const problem = std::get_if<ConvProblem>(&op.problem)) {
      // Floats are loaded where they do not come in vectors: what the caller gives.
      const bool from_caller = op.reads.front() < num_inputs;
      const bool residual_from_caller = op.reads.size() > 1 && op.reads[1] < num_inputs;
      if (comes_in_vectors(*problem) == from_caller || residual_from_caller) return {};
      if (in_pairs && (of_y.pooling || of_y.caller || !can_store_pairs(*problem))) return {};
      chosen[i] = {.inputs = true, .y = in_pairs, .rests = of_y.residual};
    } else if (std::holds_alternative<PoolProblem>(op.problem)) {
      if (op.reads.front() < num_inputs || of_y.residual || of_y.pooling ||
          of_y.caller == in_pairs ||
          !std::holds_alternative<ConvProblem>(problem_of(op.reads.front()))) {
        return {};
      }
      chosen[op.reads.front() - num_inputs].pooled = in_pairs;
    } else {
      return {};
    }
  }
  return chosen;
}

bool has_pairs(const Lowering& lowering) {
  return std::any_of(lowering.nodes.begin(), lowering.nodes.end(), [](const Node& node) {
    const auto* const cut = std::get_if<SmallGemmCut>(&node.cut);
    return cut != nullptr && cut->pairs.inputs;
  });
}

}  // namespace megaconv
