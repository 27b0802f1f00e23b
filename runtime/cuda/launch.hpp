// SPDX-License-Identifier: Apache-2.0
// Launches a plan's kernels: the persistent one, a kernel per stage, and the one behind a run that
// computes it again if a guessed scale did not suit it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "megaconv/plan.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/device_run.hpp"
#include "runtime/cuda/kernels.hpp"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// How a plan's task array is run: DeviceRun::dispatch.
Dispatch dispatch_of(CudaLaunch launch);

/// Throws Error(unsupported) for kernels that need more shared memory than the device has.
void check_shared_memory(const KernelSet& kernels, const Device& device);

/// Lets a kernel have as many bytes of dynamic shared memory as there are: its plans may need
/// different ones.
void allow_all_shared(const void* kernel, const Device& device);

class LaunchAttributes {
 public:
  void add_cooperative();
  /// The kernel starts while the one before it ends.
  void add_overlap();
  /// Nothing for one block.
  void add_cluster(dim3 size);
  /// The same, its blocks on as many SMs as there are: they work at the same time.
  void add_spread_cluster(std::uint32_t blocks);
  /// A launch with these, as long as this lives.
  cudaLaunchConfig_t config(dim3 blocks, int threads, int shared_bytes, cudaStream_t stream);

 private:
  cudaLaunchAttribute& add(cudaLaunchAttributeID id);

  std::array<cudaLaunchAttribute, 3> attributes_{};
  unsigned count_ = 0;
};

/// `parameters`: pointers to those of the kernel, which a launch only reads. Throws as check()
/// does, with "launch of NAME".
void launch_kernel(const void* kernel, const cudaLaunchConfig_t& config,
                   std::initializer_list<const void*> parameters, const std::string& name);

class Launcher {
 public:
  /// Of a convolution among those of a run, one behind the other.
  enum class Turn { only, first, later };

  /// Raises the kernels' limits of dynamic shared memory, and asks how many blocks fit on an SM.
  /// `channel_shares`: blocks of a cluster that share the channels of a task (tasks/tiling.hpp).
  /// Both references outlive the launcher.
  Launcher(const Device& device, const KernelSet& kernels, CudaLaunch launch,
           std::uint32_t channel_shares);

  /// Blocks of the persistent kernel that the device holds at the same time.
  std::uint32_t resident_blocks() const;

  /// A kernel per stage. `tasks`: in staged order, `device_tasks`: the same on the device.
  void launch_stages(TaskArgs args, std::span<const Task> tasks, const Task* device_tasks,
                     Turn turn, cudaStream_t stream) const;
  /// Filter tasks by themselves, which prepare filters.
  void launch_filters(const TaskArgs& args, const Task* device_tasks, std::size_t num_tasks,
                      cudaStream_t stream) const;
  void launch_megakernel(const TaskArgs& args, const DeviceRun& run, std::uint32_t num_blocks,
                         cudaStream_t stream) const;
  /// `num_tasks`, `num_groups`: 0 if only filters were transformed.
  void launch_redo(const TaskArgs& args, const Task* device_tasks, std::uint32_t num_tasks,
                   std::uint32_t num_groups, cudaStream_t stream) const;

 private:
  // When a kernel's blocks may start: with_kernel_before is for kernels that wait for the one in
  // front of them by themselves (programmatic dependent launch). Code for older GPUs, which newer
  // ones than sm_90 are given, does not.
  enum class Start { after_all, with_kernel_before };

  int blocks_per_sm(const void* kernel, int shared_bytes) const;
  int bytes_to_keep_apart(int blocks) const;
  int stage_bytes(TaskKind kind, unsigned num_blocks) const;
  Start start_of(bool is_whole, Turn turn) const;
  void launch_stage(TaskKind kind, const TaskArgs& args, const Task* tasks, unsigned count,
                    cudaStream_t stream, Start start) const;
  // `parameters`: their addresses. `cluster` divides the grid of blocks.
  void launch(const void* kernel, dim3 blocks, int shared_bytes,
              std::initializer_list<const void*> parameters, cudaStream_t stream, Start start,
              const std::string& name, dim3 cluster = {}) const;

  const Device& device_;
  const KernelSet& kernels_;
  std::uint32_t channel_shares_;
  std::array<int, kNumTaskKinds> stage_blocks_per_sm_{};
};

}  // namespace megaconv::cuda
