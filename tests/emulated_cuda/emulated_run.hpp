// SPDX-License-Identifier: Apache-2.0
// A layer computed by the CUDA tasks of a tiling, task by task, on this CPU.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cuda/kernels.hpp"
#include "tests/emulated_cuda/simt.hpp"
#include "tests/layer.hpp"

namespace megaconv::test {

/// The values in a storage type that holds them exactly.
std::vector<std::byte> as_stored(const std::vector<float>& values, DataType dtype);

/// Runs all tasks in their order, on tensors of the problem's storage type. Outputs, workspace and
/// shared memory are poisoned; what tasks share has guard bands. Throws std::runtime_error if one
/// of these was written to, or if threads of a block wait for ever.
std::vector<float> run_emulated(const Layer& layer, const Lowering& lowering,
                                const cuda::KernelSet& kernels, ThreadOrder order);

/// What tasks err by on normal data.
ErrorReport emulated_error(const char* problem, const TilingOptions& options);

/// Chooses a tiling as for a GPU without our tasks for tensor cores, and CHECKs what it computes:
/// of normal data, that it is within the error bound, and the same bits in every order of threads;
/// of integers, that it is exact.
void check_emulated(const Layer& layer, bool integers, const TilingOptions& options);
void check_emulated(const std::string& problem, bool integers, const TilingOptions& options);
/// In NCHW and NHWC.
void check_in_both_layouts(const std::string& problem, bool integers, const TilingOptions& options);

/// Normal data of other magnitudes, also such as no guess of a scale suits.
void check_magnitudes(const char* problem, const TilingOptions& options);

}  // namespace megaconv::test
