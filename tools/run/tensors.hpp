// SPDX-License-Identifier: Apache-2.0
// The tensors of a problem on a device, a plan that is ready to run on them, and the truth to
// compare with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/reference.hpp"
#include "tools/run/buffer.hpp"
#include "tools/run/device.hpp"

namespace megaconv::cli {

/// Dense, in the problem's layout and storage types, in memory of `device`. scale, bias and
/// residual are empty when the epilogue has none.
struct TensorSet {
  Device* device = nullptr;
  ConvProblem problem;
  Buffer x, w, scale, bias, residual, y;

  /// The pointers, with `prepared_filters` in the place of w when it is not null.
  Tensors pointers(const void* prepared_filters = nullptr) const;
};

/// Throws Error(out_of_memory) when the device cannot hold the tensors, and with `with_reference`
/// also those of the reference.
void require_tensor_memory(const Device& device, const ConvProblem& problem, bool with_reference);

/// Tensors of the right sizes, not filled. Throws like require_tensor_memory().
TensorSet allocate_tensors(Device& device, const ConvProblem& problem, bool with_reference);

/// RandomData, the same for the same seed, everywhere, but for the rounding to the storage type.
void fill_random(TensorSet& tensors, std::uint64_t seed);

/// Integers with which every intermediate value of `tiling`'s algorithm is an integer below 2^24,
/// so that any correct order of the sums gives the same bits as the reference, rounded once to the
/// storage type; a scale makes halves of them. Throws
/// Error(unsupported) for transforms that have no such numbers.
void fill_exact(TensorSet& tensors, const Tiling& tiling, std::uint64_t seed);

/// Direct convolution in double, on the device of the tensors.
class Reference {
 public:
  explicit Reference(const TensorSet& tensors);
  /// Of the tensors' y, or of another in the same memory. Scales of errors depend on the tiles; see
  /// megaconv::compare().
  ErrorReport compare(const Tiling& tiling, const void* y) const;
  Mismatch mismatch(const void* y) const;
  /// The true value of one element of y, rounded to the storage type.
  float at(std::int64_t index) const;

 private:
  Device& device_;
  DataType dtype_;
  Buffer y_, magnitude_;
};

/// A plan with its workspace and, when it wants them, prepared filters. Runners share the tensors:
/// y is what the last one left.
class Runner {
 public:
  Runner(Plan plan, const TensorSet& tensors, Caches caches = Caches::hot);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Runs once, and waits until y is there.
  void run(Trace* trace = nullptr);
  /// One sample of the device's clock: milliseconds of a run.
  double sample_ms();
  const Plan& plan() const { return plan_; }
  const Tiling& tiling() const { return plan_.lowering().tiling(); }

 private:
  Plan plan_;
  Device& device_;
  Caches caches_;
  Buffer workspace_, filters_;
  Tensors tensors_;
  std::function<double()> clock_;  // set by the first sample
};

/// A copy in host memory, as it is stored.
std::vector<std::byte> download(const TensorSet& tensors, const Buffer& buffer);

/// One number of a tensor in memory of `device`.
float number_at(Device& device, DataType dtype, const void* tensor, std::int64_t index);

/// All numbers of a tensor in host memory.
std::vector<double> numbers_of(DataType dtype, std::span<const std::byte> tensor);
/// ||a - b|| / ||b||; NaN where there is one.
double relative_l2(std::span<const double> a, std::span<const double> b);

/// FNV-1a, 64 bits: tells whether two results are the same, bit for bit.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace megaconv::cli
