// SPDX-License-Identifier: Apache-2.0
// The rooms of operators: the registry's second half, an include for each. (Its first half are the
// lists of megaconv/operators.hpp.) A room declares these functions in its operator.hpp, all found
// by the type of their argument:
//
//   of an operator of a network, as Pooling
//     const char* kind_of(op)                          "max pooling"
//     Shape shape_of(reads, op)                        of y; throws for what does not fit
//     Problem problem_of(network, op, shapes read)     what fuse() takes if it has no better idea
//     void describe(fields, op)                        what files say of it, as network_file.cpp
//   of a problem, as PoolProblem
//     Shape y_shape(problem)                           and problem.y_layout() if not problem.layout
//     Cut cut_operator(problem, workers)
//     OperatorTruth truth_of(problem, op, read)        in double, for tests (operator_room.hpp)
//   of a cut, as PoolCut
//     NodeBuffers add_operator(graph, name, cut, ids of buffers read)
//                                              or with `given` behind these: y or a second output
//                                              that exists already
//     std::string summary_of(cut)                      one line
//     std::int64_t scales_of(cut)                      num_scales(), if not 0
//     cpu::NodeTasks cpu::node_tasks(cut, kernels)     its tasks on a CPU
#pragma once

#include "tasks/conv_operator.hpp"
#include "tasks/elementwise/operator.hpp"
#include "tasks/pixelwise/operator.hpp"
#include "tasks/pooling/operator.hpp"
#include "tasks/rearrangement/operator.hpp"

namespace megaconv {

/// Memory order of y.
inline Layout y_layout(const AnyProblem& problem) {
  return std::visit(
      [](const auto& a) {
        if constexpr (requires { a.y_layout(); }) {
          return a.y_layout();
        } else {
          return a.layout;
        }
      },
      problem);
}

/// Numbers of its scale and of its bias, FP32, which tasks read beside tensors. (A convolution's
/// are in its filters and its epilogue.)
inline std::int64_t num_scales(const Cut& cut) {
  return std::visit(
      [](const auto& of_room) -> std::int64_t {
        if constexpr (requires { scales_of(of_room); }) {
          return scales_of(of_room);
        } else {
          return 0;
        }
      },
      cut);
}

}  // namespace megaconv
