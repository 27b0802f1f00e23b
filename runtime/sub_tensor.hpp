// SPDX-License-Identifier: Apache-2.0
// Tensors of a run that are parts of larger ones: what strides are allowed, and which two share no
// element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "megaconv/plan.hpp"

namespace megaconv {

/// Extents of N, C, H and W.
using TensorExtents = std::array<std::int64_t, 4>;

/// Strides of every axis: those given, or those of a dense tensor; of axes of one index some that
/// fit. Throws Error(invalid_argument) for strides that TensorStrides does not allow,
/// Error(unsupported) for a layout without strides, naming the tensor.
TensorStrides resolve_strides(const char* name, const TensorStrides& given, Layout layout,
                              const TensorExtents& extents);

/// Elements from the first to behind the last.
std::int64_t span_of(const TensorExtents& extents, const TensorStrides& strides);

struct SubTensor {
  const void* data;
  TensorExtents extents;
  TensorStrides strides;
};
/// Whether two tensors, of elements of one size, share none of them: in every period of some axis
/// of `a` they stand side by side. They are not known to share one if it says no.
bool side_by_side(const SubTensor& a, const SubTensor& b, std::size_t element_bytes);

}  // namespace megaconv
