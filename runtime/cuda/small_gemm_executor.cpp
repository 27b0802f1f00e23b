// SPDX-License-Identifier: Apache-2.0
// Plans of one convolution by small tiles: a run is one kernel, a block a task. There is nothing to
// wait for in it, and nothing in the workspace.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/cuda/device.hpp"
#include "runtime/cuda/device_array.hpp"
#include "runtime/cuda/error.hpp"
#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/executor.hpp"
#include "tasks/launch.hpp"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/filter_places.hpp"

namespace megaconv {
namespace cuda {
namespace {

std::vector<SmallGemmShare> shares_of(const SmallGemmCut& cut) {
  std::vector<SmallGemmShare> shares;
  shares.reserve(std::size_t{cut.num_groups} * cut.tasks_per_group);
  for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
    for (std::uint32_t block = 0; block < cut.tasks_per_group; ++block) {
      shares.push_back(make_small_gemm_share(cut, group, block));
    }
  }
  return shares;
}

class SmallGemmExecutor final : public Executor {
 public:
  explicit SmallGemmExecutor(const Tiling& tiling)
      : cut_(std::get<SmallGemmCut>(tiling.cut)),
        device_(current_device()),
        kernels_(kernels_for(tiling, device_.isa)),
        places_(cut_),
        args_(node_args(cut_, {})),
        shares_(shares_of(cut_)) {
    check_shared_memory(kernels_, device_);
    allow_all_shared(kernel(TaskKind::direct), device_);
  }

  std::size_t workspace_bytes() const override { return Plan::kAlignment; }
  std::size_t filter_bytes() const override { return packed_bytes(cut_); }
  std::uint32_t num_workers() const override {
    return std::min(static_cast<std::uint32_t>(shares_.size()),
                    static_cast<std::uint32_t>(2 * device_.num_sms));
  }

  using Executor::execute;
  using Executor::prepare_filters;
  void prepare_filters(const void* w, void* prepared, void* stream) const override {
    check_is_current(device_);
    check_device_pointer("w", w, device_);
    check_device_pointer("prepared_filters", prepared, device_);
    const auto blocks = static_cast<unsigned>(places_.num_blocks * places_.filters_per_task);
    LaunchAttributes none;
    launch(TaskKind::filter_transform,
           none.config(blocks, kFilterPackingThreads, 0, static_cast<cudaStream_t>(stream)),
           {&places_, &w, &prepared});
  }

  void execute(const Tensors& tensors, void* workspace, const RunOptions& run) const override {
    if (run.trace != nullptr) {
      throw Error(Status::unsupported,
                  "trace: a staged launch records none, must be of another algorithm");
    }
    check_is_current(device_);
    check_device_pointer("workspace", workspace, device_);
    SmallGemmArgs args = args_;
    args.x = checked("x", tensors.x, loads_vectors(cut_) ? 16 : 1);
    args.u = checked("prepared_filters", tensors.prepared_filters, 1);
    args.bias = checked("bias", tensors.bias, 1);
    // Outputs of four filters at a time.
    const std::size_t four = cut_.problem.k % 4 == 0 ? 4 * size_of(cut_.problem.dtype) : 1;
    args.residual = checked("residual", tensors.residual, four);
    args.y = const_cast<void*>(checked("y", tensors.y, four));
    const SmallGemmShare* const shares = shares_.data();
    LaunchAttributes attributes;
    // Code for older GPUs, which newer ones than sm_90 are given, does not wait.
    if (device_.capability == 90) attributes.add_overlap();
    attributes.add_spread_cluster(cut_.shares);
    launch(TaskKind::direct,
           attributes.config(static_cast<unsigned>(shares_.size()), kSmallGemmThreads,
                             kernels_.most_shared_bytes, static_cast<cudaStream_t>(run.stream)),
           {&args, &shares});
  }

  void wait(void*, void* stream) const override {
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "run");
  }

  std::string describe() const override {
    return "cuda, " + device_.name + ", " + std::to_string(shares_.size()) + " blocks, " +
           kernels_.name;
  }

 private:
  const void* kernel(TaskKind kind) const { return kernels_.stage[static_cast<int>(kind)]; }

  // A tensor that is read or written so many bytes at a time.
  const void* checked(const char* name, const void* tensor, std::size_t at_once) const {
    check_device_pointer(name, tensor, device_);
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(tensor) % at_once;
    if (past == 0) return tensor;
    const std::string multiple = std::to_string(at_once);
    throw Error(Status::invalid_argument, std::string(name) + ": its address is " +
                                              std::to_string(past) + " bytes past a multiple of " +
                                              multiple + ", must be a multiple for small_gemm, " +
                                              "which takes " + multiple + " bytes at a time");
  }

  void launch(TaskKind kind, const cudaLaunchConfig_t& config,
              std::initializer_list<const void*> parameters) const {
    launch_kernel(kernel(kind), config, parameters, to_string(kind));
  }

  const SmallGemmCut& cut_;
  const Device device_;
  const KernelSet kernels_;
  const FilterPlaces places_;
  const SmallGemmArgs args_;
  const DeviceArray<SmallGemmShare> shares_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Executor> make_cuda_small_gemm_executor(const Lowering& lowering,
                                                        const PlanOptions& options) {
  check_launch(lowering.tiling(), options.cuda_launch);
  return std::make_unique<cuda::SmallGemmExecutor>(lowering.tiling());
}

}  // namespace megaconv
