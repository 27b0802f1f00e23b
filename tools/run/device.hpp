// SPDX-License-Identifier: Apache-2.0
// What the verbs need of the machine that a backend's plans run on: memory, data, the truth and a
// clock. Everything above this is written once for all backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "megaconv/plan.hpp"
#include "tasks/reference.hpp"

namespace megaconv::cli {

/// Work that can be repeated. On a CPU `enqueue` returns when it is done, and the stream is null.
struct Work {
  std::function<void(void* stream)> enqueue;
  std::function<void(void* stream)> wait;  ///< until all that was enqueued is done; may throw
};

/// Whether a run finds its data in the caches.
enum class Caches { hot, cold };

class Device {
 public:
  virtual ~Device() = default;

  virtual Backend backend() const = 0;
  virtual std::string name() const = 0;  ///< "NVIDIA H200"
  virtual std::string isa() const = 0;   ///< "avx512", "sm_90"
  /// The mean of what the system says about the CPUs' clocks now; the greatest clock that a CUDA
  /// device is allowed; 0 when unknown.
  virtual double clock_mhz() const = 0;

  // Memory, aligned to Plan::kAlignment at least, not initialised. Throws Error(out_of_memory).
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual double available_bytes() const = 0;
  virtual void upload(void* to, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* from, std::size_t bytes) = 0;
  virtual void fill_bytes(void* memory, std::byte value, std::size_t bytes) = 0;
  virtual bool all_bytes_are(const void* memory, std::byte value, std::size_t bytes) = 0;
  virtual bool same_bytes(const void* a, const void* b, std::size_t bytes) = 0;

  // Data and truth: what tasks/reference.hpp has, on memory of this device.
  virtual void fill(DataType dtype, void* values, std::int64_t count, const Filling& filling,
                    std::uint64_t seed) = 0;
  virtual void reference(const ConvProblem& problem, const Tensors& tensors, double* y,
                         double* magnitude) = 0;
  virtual ErrorReport compare(const Tiling& tiling, const void* y, const double* reference,
                              const double* magnitude) = 0;
  virtual Mismatch mismatch(DataType dtype, const void* y, const double* reference,
                            std::int64_t count) = 0;

  /// A clock for `work`: every call takes one sample, the milliseconds of one run. The CPU's is the
  /// time on the wall. A CUDA device's is between two events around a CUDA graph, which holds so
  /// many runs that a sample of a short one does not time the launch of the graph. Caches::cold
  /// empties the caches before every sample, of then one run.
  virtual std::function<double()> clock(Work work, Caches caches) = 0;
};

/// The device of a backend, one in a process. Throws Error(unsupported) for a backend that this
/// build lacks or that cannot compute, Error(device_error) when there is no such device.
Device& device_of(Backend backend);

/// The CUDA device; in a build without CUDA it throws Error(unsupported).
Device& cuda_device();
Device& cpu_device();

/// What `info` says of the CUDA backend: "yes: NVIDIA H200, ..." or "no: ...".
std::string cuda_availability();

/// Throws Error(out_of_memory), "WHAT needs 1.2 TiB, 20.1 GiB are available", instead of letting
/// the system end the process half-way.
void require_memory(const Device& device, const std::string& what, double bytes);

}  // namespace megaconv::cli
