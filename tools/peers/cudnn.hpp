// SPDX-License-Identifier: Apache-2.0
// What the two APIs of cuDNN share: errors, the arithmetic asked for, tensors, and one algorithm
// that is ready to run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tools/peers/cudnn_library.hpp"

namespace megaconv::cli::cudnn {

/// The arithmetic asked of cuDNN: the only place that knows a precision.
struct Arithmetic {
  cudnnDataType_t storage;
  cudnnDataType_t sums;
  cudnnMathType_t math;   ///< legacy API
  bool tensor_cores;      ///< graph API: engines that use them may run
  std::size_t alignment;  ///< of tensors, in bytes
};

/// Floats with Precision::f32: products are FFMA, inputs are never rounded. Floats with any other:
/// TF32 is allowed. Other types: tensor cores, FP32 sums.
Arithmetic arithmetic_of(DataType dtype, Precision precision);

/// A problem's tensors in one memory order, on the device. problem.layout is that order.
struct TensorView {
  ConvProblem problem;
  Precision precision;
  const void *x, *w;
  void* y;
};

/// One algorithm in one memory order.
struct Algorithm {
  std::string name;      ///< "WINOGRAD_NONFUSED, nchw"
  std::string obstacle;  ///< why cuDNN refuses it; empty: it can be enqueued
  std::size_t workspace_bytes = 0;
  /// Throws Error(device_error).
  std::function<void(cudaStream_t stream, void* workspace)> enqueue;
};

/// "CUDNN_STATUS_NOT_SUPPORTED: what cuDNN says of it, in one line"
std::string status_text(cudnnStatus_t status);

/// Throws Error(unsupported) with status_text() for anything but success.
void check(cudnnStatus_t status, const std::string& doing);

/// All algorithms of the legacy API, those that it refuses too.
std::vector<Algorithm> legacy_algorithms(cudnnHandle_t handle, const TensorView& tensors);

/// What the graph API has for the problem.
struct GraphPlans {
  std::vector<Algorithm> plans;  ///< that can be enqueued
  int refused = 0;               ///< engine configurations that do not support the problem
  int other_arithmetic = 0;      ///< those that would compute in another precision
};

/// Plans of all configurations that the heuristics propose (modes A, B and fallback), and of every
/// engine that they leave out, with its default knobs.
GraphPlans graph_plans(const TensorView& tensors);

}  // namespace megaconv::cli::cudnn
