// SPDX-License-Identifier: Apache-2.0
// Several operators that run as one task graph.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "megaconv/pooling.hpp"
#include "megaconv/problem.hpp"

namespace megaconv {

/// One operator of a network.
struct Operator {
  std::string name;  ///< for messages, pictures and traces: "conv1"
  std::variant<ConvProblem, PoolProblem> problem;
};

/// A chain of operators: the output of each is the input of the next. A plain value.
struct Network {
  std::vector<Operator> operators;
};

/// Throws Error(invalid_argument) for a network without operators, an operator that is wrong by
/// itself, two operators of one name, or an output that is no input of the operator behind it:
/// extents, storage type or memory order differ.
void validate(const Network& network);

}  // namespace megaconv
