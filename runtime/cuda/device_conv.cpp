// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device_conv.hpp"

#include <limits>

#include "runtime/cuda/error.hpp"
#include "runtime/cuda/tensor_arguments.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv::cuda {
namespace {

// Device code counts pixels and tiles in 32 bits; element offsets are 64 bits.
void check_extents(const Tiling& tiling) {
  const ConvProblem& p = tiling.problem;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const WinogradTiles* const tiles = tiling.tiles();
  if (p.c * p.h * p.w > kMost || p.k * p.p() * p.q() > kMost ||
      (tiles != nullptr && tiles->num_tiles > static_cast<std::uint64_t>(kMost))) {
    throw Error(Status::unsupported,
                "cuda: an image of more than 2^31 elements in " + to_string(p));
  }
}

// A kernel per stage leaves all that it makes to the next.
void check_window(const Tiling& tiling, CudaLaunch launch) {
  const Window* const window = tiling.window();
  if (launch != CudaLaunch::staged || window == nullptr) return;
  if (*window == Window{tiling.num_groups, tiling.num_groups}) return;
  throw Error(Status::invalid_argument,
              "staged launch: a window of " + std::to_string(window->v_slots) + " V slots and " +
                  std::to_string(window->m_slots) + " M slots, must be whole tensors");
}

// With clusters and shares of channels, which only stages have.
TaskArgs make_launch_args(const Tiling& tiling, const KernelSet& kernels, CudaLaunch launch,
                          std::uint32_t num_channel_shares) {
  TaskArgs args = make_task_args(tiling, kernels);
  if (launch == CudaLaunch::staged) {
    args.cluster_blocks = static_cast<std::int32_t>(cluster_blocks(tiling));
    args.block_k_blocks = args.share_k_blocks;
  }
  if (kernels.operands != Operands::loaded) {
    const InputOfTile input{args.rows_at_once, args.cols_at_once, args.input_places};
    args.memory =
        memory_in_place(args.tile_places, args.gemm_filters, input, kernels.operands,
                        args.block_k_blocks * args.r * args.s, tiling.problem.epilogue.residual,
                        args.cluster_blocks, static_cast<std::int32_t>(num_channel_shares));
    if (args.memory.output_stages > 1) args.output_cols = kColumnsOfPart;
  }
  return args;
}

}  // namespace

DeviceConv::DeviceConv(const Tiling& tiling, const Device& device, CudaLaunch launch,
                       RightScales& scales, std::size_t index, float x_scale)
    : multiplied_(multiplied(tiling).problem),
      every_run_(tiling.filters == FilterMode::every_run),
      kernels_(kernels_for(tiling, device.isa)),
      loads_boxes_(kernels_.loads_boxes && launch == CudaLaunch::staged),
      filter_tasks_(build_filter_graph(tiling).tasks) {
  check_extents(tiling);
  check_shared_memory(kernels_, device);
  check_window(tiling, launch);
  const std::uint32_t shares = launch == CudaLaunch::staged ? channel_shares(tiling) : 1;
  args_ = make_launch_args(tiling, kernels_, launch, shares);
  if (may_compute_again()) {
    args_.right_x_scale = scales.of(index);
    *args_.right_x_scale = args_.x_scale * x_scale;
  }
  memory_ = memory_of_tasks(tiling, kernels_, args_, filter_tasks_.size());
  launcher_.emplace(device, kernels_, launch, shares);
}

void DeviceConv::prepare_filters(const void* w, void* prepared, cudaStream_t stream) const {
  if (kernels_.filters_in_place) {
    check(cudaMemcpyAsync(prepared, w, memory_.u_bytes, cudaMemcpyDeviceToDevice, stream),
          "copy of the filters");
    return;
  }
  TaskArgs args = args_;
  args.w = static_cast<const float*>(w);
  args.u = static_cast<float*>(prepared);
  launcher_->launch_filters(args, filter_tasks_.data(), filter_tasks_.size(), stream);
  if (kernels_.w_scale != 0) launcher_->launch_redo(args, filter_tasks_.data(), 0, 0, stream);
}

TaskArgs DeviceConv::args_of(const Tensors& tensors, std::byte* workspace,
                             const DeviceWorkspace& layout) const {
  TaskArgs args = args_;
  if (may_compute_again()) args.x_scale = load_scale(args.right_x_scale);
  add_pointers(args, tensors, workspace, layout);
  if (kernels_.operands != Operands::loaded) {
    add_tensor_maps(args, tensors, multiplied_, kernels_);
  }
  if (loads_boxes_) add_box_map(args, multiplied_);
  return args;
}

void DeviceConv::launch_stages(const TaskArgs& args, std::span<const Task> tasks,
                               const Task* device_tasks, Launcher::Turn turn,
                               cudaStream_t stream) const {
  launcher_->launch_stages(args, tasks, device_tasks, turn, stream);
  if (kernels_.redo == nullptr || kernels_.stage_checks_scales) return;
  launcher_->launch_redo(args, device_tasks, static_cast<std::uint32_t>(tasks.size()),
                         static_cast<std::uint32_t>(args.num_groups), stream);
}

void DeviceConv::launch_megakernel(const TaskArgs& args, const DeviceRun& run,
                                   std::uint32_t num_blocks, cudaStream_t stream) const {
  launcher_->launch_megakernel(args, run, num_blocks, stream);
  if (kernels_.redo == nullptr) return;
  launcher_->launch_redo(args, run.tasks, run.num_tasks,
                         static_cast<std::uint32_t>(args.num_groups), stream);
}

}  // namespace megaconv::cuda
