// SPDX-License-Identifier: Apache-2.0
// In the place of the one with kernels: guesses of scales are taken to suit.
#pragma once

#include "runtime/cuda/kernel_set.cuh"
#include "tasks/cuda/scale_guess.cuh"

namespace megaconv::cuda {

inline void prepare_redo(const Task&, OperandFooter&) {}
struct CorrectedScales {
  float filters, inputs;
};
template <class Kernel>
void redo_filters(TaskArgs&, OperandFooter&, float, std::byte*) {}
template <class Kernel>
void redo_kernel() {}

}  // namespace megaconv::cuda
