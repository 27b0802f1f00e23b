// SPDX-License-Identifier: Apache-2.0
// A CUDA plan on copies of host tensors. A build without CUDA has it too, and refuses.
#pragma once

#include <memory>

#include "megaconv/plan.hpp"

namespace megaconv::cli {

/// Device copies of the tensors of one plan, its workspace and, when it wants them, prepared
/// filters.
class DeviceRun {
 public:
  virtual ~DeviceRun() = default;
  /// Runs once and returns the milliseconds between two events around it on the device.
  virtual double run_ms(Trace* trace) = 0;
  /// Copies the last run's result to the host's y.
  virtual void read_back() = 0;
};

/// `host`: as for Plan::execute, in host memory, with w also when the plan wants prepared filters.
/// Throws Error(unsupported) in a build without CUDA, out_of_memory when the device cannot hold the
/// tensors.
std::unique_ptr<DeviceRun> make_device_run(const Plan& plan, const Tensors& host);

/// What `info` says of the CUDA backend: "yes: NVIDIA H200, ..." or "no: ...".
std::string cuda_availability();

}  // namespace megaconv::cli
