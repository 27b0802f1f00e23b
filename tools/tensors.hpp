// SPDX-License-Identifier: Apache-2.0
// The tensors of a problem in memory, a plan that is ready to run on them, and the truth to compare
// with.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/reference.hpp"
#include "tools/buffer.hpp"
#include "tools/device.hpp"

namespace megaconv::cli {

/// Dense, in the problem's layout. bias and residual are empty when the epilogue has none.
struct HostTensors {
  Buffer x, w, bias, residual, y;
};

/// Throws Error(out_of_memory) when the machine cannot hold the tensors, and with `with_reference`
/// also those of the reference.
void require_tensor_memory(const ConvProblem& problem, bool with_reference);

/// Tensors of the right sizes, not filled. Throws like require_tensor_memory().
HostTensors allocate_tensors(const ConvProblem& problem, bool with_reference);

/// Random numbers: x as after a ReLU, the others normal. The same for the same seed, everywhere.
void fill_random(HostTensors& tensors, std::uint64_t seed);

/// Integers with which every intermediate value of `tiling`'s algorithm is an integer below 2^24,
/// so that any correct order of the sums gives the same bits as the reference. Throws
/// Error(unsupported) for transforms that have no such numbers.
void fill_exact(HostTensors& tensors, const Tiling& tiling, std::uint64_t seed);

/// Direct convolution in double.
class Reference {
 public:
  Reference(const ConvProblem& problem, const HostTensors& tensors);
  /// Scales of errors depend on the tiles; see megaconv::compare().
  ErrorReport compare(const Tiling& tiling, const float* y) const;
  const std::vector<double>& y() const { return y_; }

 private:
  std::vector<double> y_, magnitude_;
};

/// A plan with its workspace and, when it wants them, prepared filters; on a device, with copies of
/// the tensors there.
class Runner {
 public:
  Runner(Plan plan, HostTensors& tensors);

  /// Runs once and returns the milliseconds; on a device, those of the device, and y stays there.
  double run_ms(Trace* trace = nullptr);
  /// Runs once; the result is in the host's y.
  void run();
  const Plan& plan() const { return plan_; }
  const Tiling& tiling() const { return plan_.lowering().graph.tiling; }

 private:
  Plan plan_;
  std::unique_ptr<DeviceRun> device_;  // null on a CPU, which uses what follows
  Buffer workspace_, filters_;
  Tensors tensors_;
};

/// The pointers, with `prepared_filters` in the place of w when it is not null.
Tensors pointers(HostTensors& tensors, const void* prepared_filters);

/// FNV-1a, 64 bits: tells whether two results are the same, bit for bit.
std::uint64_t checksum(const Buffer& buffer);

}  // namespace megaconv::cli
