// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_convs.hpp"

#include <algorithm>
#include <variant>

#include "megaconv/error.hpp"
#include "runtime/executor.hpp"

namespace megaconv::cuda {
namespace {

// Activations are larger than what a convolution by itself is guessed to read: of the built-in
// networks with random weights the largest magnitudes are 3.8 to 2,300. These may be 2^-1 to 2^13.
// Otherwise the first run of ResNet-50 would compute 20 layers twice.
constexpr float kActivationScale = 0x1p-5f;

// Tasks of a node stand together.
std::span<const Task> tasks_of(const std::vector<Task>& tasks, NodeId node) {
  const auto is_before = [](const Task& task, NodeId of) { return task.node < of; };
  const auto is_behind = [](NodeId of, const Task& task) { return of < task.node; };
  return {std::lower_bound(tasks.begin(), tasks.end(), node, is_before),
          std::upper_bound(tasks.begin(), tasks.end(), node, is_behind)};
}

}  // namespace

NetworkConvs::NetworkConvs(const Lowering& lowering, const Device& device)
    : scales_(lowering.nodes.size()), convs_(lowering.nodes.size()) {
  for (NodeId node = 0; node < convs_.size(); ++node) {
    const auto* const tiling = std::get_if<Tiling>(&lowering.nodes[node].cut);
    if (tiling == nullptr) continue;
    try {
      convs_[node].kernels = std::make_unique<const DeviceConv>(*tiling, device, CudaLaunch::staged,
                                                                scales_, node, kActivationScale);
    } catch (const Error& error) {
      throw Error(error.status(), lowering.graph.nodes[node] + ": " + error.what());
    }
    if (!tasks_) {
      host_tasks_ = tasks_in_stages(lowering.graph);
      tasks_.emplace(host_tasks_);
    }
    convs_[node].tasks = tasks_of(host_tasks_, node);
  }
}

std::size_t NetworkConvs::place_scratch(std::size_t begin) {
  constexpr std::size_t kLine = 256;
  std::size_t end = begin;
  for (Conv& conv : convs_) {
    if (conv.kernels == nullptr) continue;
    Arena arena(begin, kLine);
    place_parts(conv.scratch, conv.kernels->memory(), false, arena);
    end = std::max(end, arena.end());
  }
  return end;
}

void NetworkConvs::launch(NodeId node, const Tensors& tensors, std::byte* workspace, bool is_first,
                          cudaStream_t stream) const {
  const Conv& conv = convs_[node];
  const TaskArgs args = conv.kernels->args_of(tensors, workspace, conv.scratch);
  conv.kernels->launch_stages(args, conv.tasks,
                              tasks_->data() + (conv.tasks.data() - host_tasks_.data()),
                              is_first ? Launcher::Turn::first : Launcher::Turn::later, stream);
}

}  // namespace megaconv::cuda
