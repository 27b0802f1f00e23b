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

/// Ranges of signals that a task's record holds. A task with more of them looks them up, which takes
/// 3.5 us longer (H100): with room for 4 it is 1.5 % of ResNet-50's tasks, which delayed five levels,
/// and a fifth of DenseNet-161's, with room for 8 one in two hundred.
inline constexpr std::uint32_t kTaskSignals = 8;

/// A task with all that a block would have to compute or to look up before it runs it.
struct alignas(16) NetworkTask {
  Task task;
  /// Its signals, if they are so few ranges and a thread has each; else none.
  SignalRange signals[kTaskSignals];
  SmallGemmShare share;  ///< of a convolution
};

/// The kernels of a precision.
struct NetworkKernels {
  const char* name;
  const void* persistent;  ///< (NetworkMemory, const NetworkNode*, const NetworkTask*, DeviceRun)
  const void* stage;  ///< (NetworkMemory, const NetworkNode*, const NetworkTask*): a block per task
};
/// Blocks of a cluster in which tasks share sums. 1: this device's kernels know no clusters, since
/// they were compiled for older ones. Asks the current device.
std::uint32_t network_cluster_blocks();
NetworkKernels network_kernels_f32();
NetworkKernels network_kernels_tf32();
NetworkKernels network_kernels_f16();
NetworkKernels network_kernels_bf16();

}  // namespace megaconv::cuda
