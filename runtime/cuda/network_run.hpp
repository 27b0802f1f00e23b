// SPDX-License-Identifier: Apache-2.0
// What a kernel of a network is given beside a DeviceRun: a table of its nodes, which is on the
// device as long as the plan, and the memory of one run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaconv/graph.hpp"
#include "tasks/cuda/operators.hpp"

namespace megaconv::cuda {

inline constexpr int kNetworkThreads = kSmallGemmThreads;
/// While one of them computes, the other has fetched its next task and that one's filters, and
/// waits.
inline constexpr int kNetworkBlocksPerSm = 2;

/// Pieces of memory that a run has: workspace, prepared filters, then inputs and outputs.
inline constexpr std::uint32_t kWorkspacePiece = 0, kPreparedPiece = 1, kFirstTensorPiece = 2;

/// What the tasks of a node are given. A node without arguments fills a position, so that tasks
/// which share sums stand in one cluster.
struct alignas(16) NetworkNode {
  NodeArgs args;
};

/// A task with all that a block would have to compute or to look up before it runs it.
struct alignas(16) NetworkTask {
  Task task;
  std::uint32_t first_signal = 0, num_signals = 0;  ///< NetworkTasks::signals
  SmallGemmShare share{};                           ///< of a convolution
};

/// On the device as long as the plan.
struct NetworkTasks {
  const NetworkNode* nodes;      ///< all, or that of a stage
  const NetworkTask* tasks;      ///< by position, or of a stage
  const std::uint32_t* signals;  ///< counters that tasks add to
};

/// The kernels of a precision.
struct NetworkKernels {
  const char* name;
  const void* persistent;  ///< (NetworkMemory, NetworkTasks, DeviceRun)
  const void* stage;       ///< (NetworkMemory, NetworkTasks): a block per task
  /// The same of tasks that compute their x, and what this is made of; null: there are none.
  const void *computing_stage = nullptr, *expanding_stage = nullptr;
};
/// Blocks of a cluster in which tasks share sums. 1: this device's kernels know no clusters, since
/// they were compiled for older ones. Asks the current device.
std::uint32_t network_cluster_blocks();
/// `others`: they run other operators than convolutions, too.
NetworkKernels network_kernels_f32(bool others);
NetworkKernels network_kernels_tf32(bool others);
NetworkKernels network_kernels_f16(bool others);
NetworkKernels network_kernels_bf16(bool others);
/// TF32, of convolutions that hand floats to each other in pairs.
NetworkKernels network_kernels_pairs();

}  // namespace megaconv::cuda
