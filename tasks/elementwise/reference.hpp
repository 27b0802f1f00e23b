// SPDX-License-Identifier: Apache-2.0
// The truth that tests compare elementwise operations with.
#pragma once

#include <span>

#include "megaconv/elementwise.hpp"

namespace megaconv {

/// What an elementwise operation reads: tensors of the problem's storage type, vectors of FP32.
struct ElementwiseTensors {
  std::span<const void* const> x;
  const void* residual = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
};

/// y in double, a tensor of doubles. `magnitude`, when given, receives |scale x| + |bias| +
/// |residual|: the scale of the rounding errors that computing an output must make.
void reference_elementwise(const ElementwiseProblem& problem, const ElementwiseTensors& tensors,
                           double* y, double* magnitude = nullptr);

}  // namespace megaconv
