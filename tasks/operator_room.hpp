// SPDX-License-Identifier: Apache-2.0
// What the functions of every operator's room are declared with (operators.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tasks/storage.hpp"

namespace megaconv {

class OperatorReads;
struct FusedOperator;
namespace cpu {
struct Kernels;
struct NodeTasks;
}  // namespace cpu

/// A problem with the extents of x, and with the storage type and the layout of the network.
template <class Problem>
Problem with_input(Problem problem, const Network& network, const Shape& x) {
  problem.n = x.n;
  problem.c = x.c;
  problem.h = x.h;
  problem.w = x.w;
  problem.dtype = network.dtype;
  problem.layout = network.layout;
  return problem;
}

/// What an operator makes in double. Tensors are in [N][C][H][W], whatever the layout of the
/// network.
struct OperatorTruth {
  std::vector<double> y{};
  std::vector<double> magnitude{};  ///< of y: what rounding errors are relative to
  double roundings = 0;  ///< of FP32, each of 2^-24 of the magnitude, that tasks make at most
};

/// The i-th value that an operator reads, which has this shape.
using ReadNumbers = std::function<std::vector<double>(std::size_t i, const Shape& shape)>;

/// A number of a tensor in double, or in a storage type.
inline double number_of(double value) { return value; }
template <class T>
double number_of(T value) {
  return to_float(value);
}

}  // namespace megaconv
