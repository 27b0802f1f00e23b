// SPDX-License-Identifier: Apache-2.0
// The convolutions of a network in stages that have kernels of their own. All other operators share
// those of network_kernel.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "megaconv/lowering.hpp"
#include "runtime/cuda/device_conv.hpp"

namespace megaconv::cuda {

class NetworkConvs {
 public:
  /// One for each node that is cut by a tiling. Throws what DeviceConv's constructor throws, with
  /// the name of the node. Both references must outlive this.
  NetworkConvs(const Lowering& lowering, const Device& device);

  bool has(std::size_t node) const { return convs_[node].kernels != nullptr; }
  const DeviceConv& kernels(std::size_t node) const { return *convs_[node].kernels; }

  /// What they leave between their stages, in a workspace from this offset on; returns its end. One
  /// convolution runs at a time, so that all have the same place.
  std::size_t place_scratch(std::size_t begin);

  /// All stages of a node. `is_first`: nothing of the network stands in front of it.
  void launch(NodeId node, const Tensors& tensors, std::byte* workspace, bool is_first,
              cudaStream_t stream) const;

 private:
  // Of a node; of others null and empty.
  struct Conv {
    std::unique_ptr<const DeviceConv> kernels;
    std::span<const Task> tasks;
    DeviceWorkspace scratch;
  };

  RightScales scales_;                      // of the nodes
  std::vector<Task> host_tasks_;            // of the graph, stage by stage, if any node has kernels
  std::optional<DeviceArray<Task>> tasks_;  // the same
  std::vector<Conv> convs_;
};

}  // namespace megaconv::cuda
