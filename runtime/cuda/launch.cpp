// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/launch.hpp"

#include <algorithm>

#include "runtime/cuda/error.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::cuda {

void check_shared_memory(const KernelSet& kernels, const Device& device) {
  if (kernels.most_shared_bytes > static_cast<int>(device.shared_bytes)) {
    throw Error(Status::unsupported, kernels.name + " needs " +
                                         std::to_string(kernels.most_shared_bytes) +
                                         " bytes of shared memory, " + device.name + " has " +
                                         std::to_string(device.shared_bytes));
  }
}

void allow_all_shared(const void* kernel, const Device& device) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "attributes of a kernel");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(device.shared_bytes - attributes.sharedSizeBytes)),
        "shared memory of a kernel");
}

cudaLaunchAttribute& LaunchAttributes::add(cudaLaunchAttributeID id) {
  cudaLaunchAttribute& made = attributes_[count_++];
  made.id = id;
  return made;
}

void LaunchAttributes::add_cooperative() {
  add(cudaLaunchAttributeCooperative).val.cooperative = 1;
}

void LaunchAttributes::add_overlap() {
  add(cudaLaunchAttributeProgrammaticStreamSerialization)
      .val.programmaticStreamSerializationAllowed = 1;
}

void LaunchAttributes::add_cluster(dim3 size) {
  if (size.x * size.y == 1) return;
  add(cudaLaunchAttributeClusterDimension).val.clusterDim = {size.x, size.y, 1};
}

void LaunchAttributes::add_spread_cluster(std::uint32_t blocks) {
  if (blocks == 1) return;
  add_cluster(blocks);
  add(cudaLaunchAttributeClusterSchedulingPolicyPreference).val.clusterSchedulingPolicyPreference =
      cudaClusterSchedulingPolicySpread;
}

cudaLaunchConfig_t LaunchAttributes::config(dim3 blocks, int threads, int shared_bytes,
                                            cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes_.data();
  config.numAttrs = count_;
  return config;
}

void launch_kernel(const void* kernel, const cudaLaunchConfig_t& config,
                   std::initializer_list<const void*> parameters, const std::string& name) {
  check(cudaLaunchKernelExC(&config, kernel, const_cast<void**>(parameters.begin())),
        "launch of " + name);
}

Dispatch dispatch_of(CudaLaunch launch) {
  switch (launch) {
    case CudaLaunch::one_block_per_task:
      return Dispatch::one_task;
    case CudaLaunch::raw_block_index:
      return Dispatch::raw_index;
    default:
      return Dispatch::persistent;
  }
}

Launcher::Launcher(const Device& device, const KernelSet& kernels, CudaLaunch launch,
                   std::uint32_t channel_shares)
    : device_(device), kernels_(kernels), channel_shares_(channel_shares) {
  for (std::uint32_t kind = 0; kind < kNumTaskKinds; ++kind) {
    if (kernels_.stage[kind] == nullptr) continue;
    allow_all_shared(kernels_.stage[kind], device_);
    stage_blocks_per_sm_[kind] = blocks_per_sm(kernels_.stage[kind], kernels_.shared_bytes[kind]);
  }
  if (kernels_.redo != nullptr) allow_all_shared(kernels_.redo, device_);
  if (launch != CudaLaunch::staged) allow_all_shared(kernels_.megakernel, device_);
}

std::uint32_t Launcher::resident_blocks() const {
  return static_cast<std::uint32_t>(blocks_per_sm(kernels_.megakernel, kernels_.most_shared_bytes) *
                                    device_.num_sms);
}

int Launcher::blocks_per_sm(const void* kernel, int shared_bytes) const {
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kernels_.num_threads,
                                                      static_cast<std::size_t>(shared_bytes)),
        "occupancy of a kernel");
  return std::max(1, blocks);
}

// Dynamic shared memory with which no more than so many blocks fit on an SM.
int Launcher::bytes_to_keep_apart(int blocks) const {
  return device_.sm_shared_bytes / (blocks + 1);
}

// Blocks that start early take whatever room there is. If there are fewer than fit on the device,
// they crowd on the SMs that were free first (H200, n1c512h7k512 with FP32 multiply-adds, 120 us
// instead of 76), unless they ask for so much shared memory that no SM has room for more than its
// share. Not those that take tasks in turn: they last about as long whatever they have beside them,
// and blocks of the next kernel should find room.
int Launcher::stage_bytes(TaskKind kind, unsigned num_blocks) const {
  const auto index = static_cast<std::uint32_t>(kind);
  const int own = kernels_.shared_bytes[index];
  if (kernels_.streams[index]) return own;
  const int share = ceil_div(static_cast<int>(num_blocks), device_.num_sms);
  return share < stage_blocks_per_sm_[index] ? std::max(own, bytes_to_keep_apart(share)) : own;
}

// The first stage of a convolution; `is_whole`: it has no other. Behind another convolution it
// starts beside that one's end. By itself it does so if it is the whole run, at the end of what is
// in front of it; of several stages the first one gains nothing by that. Behind the first
// convolution of several come kernels that read prepared filters ahead, so it must not start while
// these may still be written.
Launcher::Start Launcher::start_of(bool is_whole, Turn turn) const {
  return turn == Turn::later || (turn == Turn::only && is_whole) ? Start::with_kernel_before
                                                                 : Start::after_all;
}

void Launcher::launch(const void* kernel, dim3 blocks, int shared_bytes,
                      std::initializer_list<const void*> parameters, cudaStream_t stream,
                      Start start, const std::string& name, dim3 cluster) const {
  LaunchAttributes attributes;
  if (start == Start::with_kernel_before && device_.capability == 90) attributes.add_overlap();
  attributes.add_cluster(cluster);
  launch_kernel(kernel, attributes.config(blocks, kernels_.num_threads, shared_bytes, stream),
                parameters, name);
}

void Launcher::launch_stage(TaskKind kind, const TaskArgs& args, const Task* tasks, unsigned count,
                            cudaStream_t stream, Start start) const {
  const auto index = static_cast<std::uint32_t>(kind);
  dim3 cluster;
  if (kernels_.clusters[index]) {
    cluster = dim3(static_cast<unsigned>(args.cluster_blocks), channel_shares_);
  }
  const unsigned at_once =
      static_cast<unsigned>(device_.num_sms * stage_blocks_per_sm_[index]) / cluster.x * cluster.x;
  // Tasks whose channels are shared out have their cluster each.
  const bool in_turn = kernels_.streams[index] && cluster.y == 1;
  const dim3 blocks(in_turn ? std::min(count, at_once) : count, cluster.y);
  launch(kernels_.stage[index], blocks, stage_bytes(kind, blocks.x * blocks.y),
         {&args, &tasks, &count}, stream, start, std::string("stage ") + to_string(kind), cluster);
}

void Launcher::launch_stages(TaskArgs args, std::span<const Task> tasks, const Task* device_tasks,
                             Turn turn, cudaStream_t stream) const {
  const auto stage_of = [this](const Task& task) { return kernels_.stage[task.kind]; };
  for (std::size_t begin = 0; begin < tasks.size();) {
    const void* const stage = stage_of(tasks[begin]);
    std::size_t end = begin;
    while (end < tasks.size() && stage_of(tasks[end]) == stage) ++end;
    const Start start =
        begin == 0 ? start_of(end == tasks.size(), turn) : Start::with_kernel_before;
    // Behind a stage of its own convolution x is there, unless that stage copies it.
    args.waits_for_x =
        args.depth.channels != 0 || (begin == 0 && start == Start::with_kernel_before);
    launch_stage(kind_of(tasks[begin]), args, device_tasks + begin,
                 static_cast<unsigned>(end - begin), stream, start);
    begin = end;
  }
}

void Launcher::launch_filters(const TaskArgs& args, const Task* device_tasks, std::size_t num_tasks,
                              cudaStream_t stream) const {
  launch_stage(TaskKind::filter_transform, args, device_tasks, static_cast<unsigned>(num_tasks),
               stream, Start::after_all);
}

void Launcher::launch_megakernel(const TaskArgs& args, const DeviceRun& run,
                                 std::uint32_t num_blocks, cudaStream_t stream) const {
  launch(kernels_.megakernel, num_blocks, kernels_.most_shared_bytes, {&args, &run}, stream,
         Start::with_kernel_before, "the megakernel");
}

void Launcher::launch_redo(const TaskArgs& args, const Task* device_tasks, std::uint32_t num_tasks,
                           std::uint32_t num_groups, cudaStream_t stream) const {
  // So many blocks are all there before the last task has ended; one on the SM that it leaves would
  // start when the others are done.
  const int blocks = std::max(1, device_.num_sms * 3 / 4);
  launch(kernels_.redo, static_cast<unsigned>(blocks), kernels_.most_shared_bytes,
         {&args, &device_tasks, &num_tasks, &num_groups}, stream, Start::with_kernel_before,
         "redo_kernel");
}

}  // namespace megaconv::cuda
