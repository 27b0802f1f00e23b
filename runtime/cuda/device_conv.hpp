// SPDX-License-Identifier: Apache-2.0
// One convolution on a device: its kernels, what these are told, and their launches. A plan of one
// convolution has one of these; a plan of a network has one for each convolution that has kernels
// of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "megaconv/plan.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/device_array.hpp"
#include "runtime/cuda/device_workspace.hpp"
#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/right_scales.hpp"
#include "runtime/cuda/task_arguments.hpp"

namespace megaconv::cuda {

class DeviceConv {
 public:
  /// Throws Error(unsupported) for a tiling without kernels, an image of more than 2^31 elements
  /// and more shared memory than there is, Error(invalid_argument) for stages with a window.
  /// `scales`: the index-th is this one's, if it guesses. They and `device` must outlive this.
  /// `x_scale`: by what the first guess of the scale of x is multiplied.
  DeviceConv(const Tiling& tiling, const Device& device, CudaLaunch launch, RightScales& scales,
             std::size_t index = 0, float x_scale = 1);

  const std::string& name() const { return kernels_.name; }
  const TaskMemory& memory() const { return memory_; }
  /// Whether the workspace has a U, which every run fills.
  bool keeps_u() const { return every_run_ && !kernels_.filters_in_place; }
  /// Whether all tasks that make operands stand in front of those that multiply.
  bool makes_operands_first() const { return kernels_.makes_operands_first; }
  std::uint32_t resident_blocks() const { return launcher_->resident_blocks(); }
  /// Whether a run may compute y twice, since it guesses scales.
  bool may_compute_again() const { return kernels_.redo != nullptr; }

  /// `w`, `prepared`: as in Plan::prepare_filters, on the device.
  void prepare_filters(const void* w, void* prepared, cudaStream_t stream) const;

  /// What the tasks of a run are told, the scale of x that was right last among it. The layout's
  /// places are in `workspace`.
  TaskArgs args_of(const Tensors& tensors, std::byte* workspace,
                   const DeviceWorkspace& layout) const;
  /// A kernel per stage, and the scale check. `tasks`: in staged order, `device_tasks`: the same on
  /// the device.
  void launch_stages(const TaskArgs& args, std::span<const Task> tasks, const Task* device_tasks,
                     Launcher::Turn turn, cudaStream_t stream) const;
  /// The persistent kernel, and the scale check.
  void launch_megakernel(const TaskArgs& args, const DeviceRun& run, std::uint32_t num_blocks,
                         cudaStream_t stream) const;

 private:
  const ConvProblem multiplied_;
  const bool every_run_;
  const KernelSet kernels_;
  const bool loads_boxes_;
  const DeviceArray<Task> filter_tasks_;
  TaskArgs args_;  // without pointers
  TaskMemory memory_;
  std::optional<Launcher> launcher_;
};

}  // namespace megaconv::cuda
