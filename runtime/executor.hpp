// SPDX-License-Identifier: Apache-2.0
// What a plan asks of the back end that runs it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tasks/fuse.hpp"

namespace megaconv {

/// One lowering on one back end. Immutable; all methods may be called from several threads at once,
/// with separate workspaces. The plan has checked what does not depend on the back end: null
/// pointers, sizes, alignment, overlaps.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual std::size_t workspace_bytes() const = 0;
  /// Transformed or packed filters, in this back end's layout; of a network, all that its operators
  /// have, and their biases.
  virtual std::size_t filter_bytes() const = 0;
  virtual std::uint32_t num_workers() const = 0;
  virtual void prepare_filters(const void* w, void* prepared, void* stream) const = 0;
  virtual void execute(const Tensors& tensors, void* workspace, const RunOptions& run) const = 0;
  // Of a network, which a back end may refuse when its executor is made:
  virtual void prepare_filters(const FusedNetwork&, void* /*prepared*/) const { refuse_network(); }
  virtual void execute(const NetworkTensors&, void* /*workspace*/, const RunOptions&) const {
    refuse_network();
  }
  /// Waits for the stream and reports a run that was given up.
  virtual void wait(void* workspace, void* stream) const = 0;
  /// "cpu, 2 workers, avx512"
  virtual std::string describe() const = 0;

 private:
  [[noreturn]] static void refuse_network() {
    throw Error(Status::unsupported, "network: must be of a back end that runs networks");
  }
};

/// `lowering` must outlive the executor.
std::unique_ptr<Executor> make_cpu_executor(const Lowering& lowering, const PlanOptions& options);

/// Throws Error(unsupported) in a build without CUDA, Error(device_error) without a usable device.
std::unique_ptr<Executor> make_cuda_executor(const Lowering& lowering, const PlanOptions& options);

/// Of a network, which make_cuda_executor() calls for one. Throws like it.
std::unique_ptr<Executor> make_cuda_network_executor(const Lowering& lowering,
                                                     const PlanOptions& options);

/// Of one convolution by small tiles, which make_cuda_executor() calls for one. Throws like it.
std::unique_ptr<Executor> make_cuda_small_gemm_executor(const Lowering& lowering,
                                                        const PlanOptions& options);

/// Simulates options.machine. Throws Error(invalid_argument) for a machine that cannot be.
std::unique_ptr<Executor> make_sim_executor(const Lowering& lowering, const PlanOptions& options);
MachineModel simulated_machine(const PlanOptions& options);

/// What tilings are chosen for. Throws like make_cuda_executor.
Target cuda_target(const PlanOptions& options);

/// What measurements are kept for.
struct DeviceIdentity {
  std::string device, driver;
};
/// Throws like make_cuda_executor.
DeviceIdentity cuda_identity();

/// The task array: the graph's tasks in the mapping's order.
std::vector<Task> tasks_in_order(const Lowering& lowering);
/// The graph's tasks one stage after the other, whatever the mapping's order: each in that of the
/// policy "staged".
std::vector<Task> tasks_in_stages(const TaskGraph& graph);

/// Rounds up to Plan::kAlignment.
inline std::size_t aligned(std::size_t bytes) {
  return (bytes + Plan::kAlignment - 1) / Plan::kAlignment * Plan::kAlignment;
}

}  // namespace megaconv
