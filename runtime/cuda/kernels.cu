// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "megaconv/error.hpp"
#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/megakernel.cuh"
#include "tasks/cuda/winograd_kernel.cuh"

namespace megaconv::cuda {
namespace {

template <class Kernel, int... kKinds>
KernelSet make_set(const char* name, Layout layout) {
  KernelSet set{};
  set.name = name;
  set.persistent = reinterpret_cast<const void*>(&megakernel<Kernel, Dispatch::persistent>);
  set.one_task = reinterpret_cast<const void*>(&megakernel<Kernel, Dispatch::one_task>);
  set.raw_index = reinterpret_cast<const void*>(&megakernel<Kernel, Dispatch::raw_index>);
  ((set.stage[kKinds] =
        reinterpret_cast<const void*>(&stage_kernel<Kernel, static_cast<TaskKind>(kKinds)>),
    set.shared_bytes[kKinds] = Kernel::shared_bytes(static_cast<TaskKind>(kKinds), layout)),
   ...);
  set.most_shared_bytes =
      std::max({Kernel::shared_bytes(static_cast<TaskKind>(kKinds), layout)...});
  return set;
}

template <int kM, Points kPoints>
KernelSet winograd_set(const Tiling& tiling, const char* narrow, const char* wide) {
  const Layout layout = tiling.problem.layout;
  const std::uint32_t filters = tiling.filter_blocks_per_gemm_task * Tiling::kLaneBlock;
  if (tiling.group_tiles <= 128 && filters <= 128) {
    return make_set<WinogradKernel<kM, kPoints, 128, 128>, 0, 1, 2, 3>(wide, layout);
  }
  if (tiling.group_tiles <= 256 && filters <= 64) {
    return make_set<WinogradKernel<kM, kPoints, 256, 64>, 0, 1, 2, 3>(narrow, layout);
  }
  throw Error(Status::unsupported, "cuda: GEMM tasks of " + std::to_string(tiling.group_tiles) +
                                       " tiles x " + std::to_string(filters) +
                                       " filters, must be at most 128 x 128 or 256 x 64");
}

}  // namespace

KernelSet kernels_for(const Tiling& tiling) {
  if (tiling.algorithm != Algorithm::winograd) {
    throw Error(Status::unsupported, "cuda: direct tasks are not part of this build");
  }
  switch (tiling.m) {
    case 2:
      return winograd_set<2, Points::low_error>(tiling,
                                                "winograd F(2x2,3x3), 256 tiles x 64 filters",
                                                "winograd F(2x2,3x3), 128 tiles x 128 filters");
    case 4:
      return tiling.points == Points::low_error
                 ? winograd_set<4, Points::low_error>(
                       tiling, "winograd F(4x4,3x3), 256 tiles x 64 filters",
                       "winograd F(4x4,3x3), 128 tiles x 128 filters")
                 : winograd_set<4, Points::integer>(
                       tiling, "winograd F(4x4,3x3), integer points, 256 tiles x 64 filters",
                       "winograd F(4x4,3x3), integer points, 128 tiles x 128 filters");
    default:
      return winograd_set<6, Points::low_error>(tiling,
                                                "winograd F(6x6,3x3), 256 tiles x 64 filters",
                                                "winograd F(6x6,3x3), 128 tiles x 128 filters");
  }
}

}  // namespace megaconv::cuda
