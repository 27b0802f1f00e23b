// SPDX-License-Identifier: Apache-2.0
// The compiled kernels, one set per variant of an algorithm, so that only the .cu files instantiate
// them.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "megaconv/mapping.hpp"
#include "runtime/cuda/isa.hpp"

namespace megaconv::cuda {

/// All kernels of one variant. Arrays are by TaskKind.
struct KernelSet {
  std::string name;        ///< "winograd F(4x4,3x3), tasks of 128 tiles x 128 filters"
  const void* megakernel;  ///< takes (TaskArgs, DeviceRun)
  int num_threads;         ///< of a block
  /// Behind a run: takes (TaskArgs, const Task*, uint32 tasks, uint32 groups); computes everything
  /// again if a guessed scale did not suit it. Null: nothing was guessed.
  const void* redo;
  bool stage_looks;              ///< which in stages that of direct tasks does itself
  float x_scale, w_scale;        ///< guesses; w_scale 0: of w, nothing is guessed
  std::uint32_t noted_of_block;  ///< largest magnitudes of x in a task, if direct tasks note them
  int channel_multiple;          ///< Winograd: C is padded to it in U and V
  int gemm_tiles, gemm_filters;  ///< Winograd: room of a GEMM task
  bool reads_pixels;             ///< takes tensor maps: of tensors, or of V and U
  bool filters_in_place;         ///< nothing becomes of w beforehand
  int most_shared_bytes;         ///< dynamic shared memory of the megakernel
  /// Takes (TaskArgs, const Task*), and their number, if it streams; null for kinds it does not
  /// have.
  const void* stage[kNumTaskKinds];
  bool streams[kNumTaskKinds];      ///< a block of the stage takes tasks in turn, not one
  int shared_bytes[kNumTaskKinds];  ///< dynamic shared memory of a stage
  bool clusters[kNumTaskKinds];     ///< its blocks may run in clusters (mapping/tiling.hpp)
  bool reads_ahead[kNumTaskKinds];  ///< a stage reads tensors before the kernel before has ended
};

/// The variant that runs this tiling by these instructions. Throws Error(unsupported) for a tiling
/// that none was compiled for, or that needs others.
KernelSet kernels_for(const Tiling& tiling, Isa isa);

// One file per variant, so that they compile side by side.
KernelSet winograd_2_nchw_kernels(const Tiling& tiling);
KernelSet winograd_2_nhwc_kernels(const Tiling& tiling);
KernelSet winograd_4_nchw_kernels(const Tiling& tiling);
KernelSet winograd_4_nhwc_kernels(const Tiling& tiling);
KernelSet winograd_6_nchw_kernels(const Tiling& tiling);
KernelSet winograd_6_nhwc_kernels(const Tiling& tiling);
KernelSet direct_nchw_kernels(const Tiling& tiling);
KernelSet direct_nhwc_kernels(const Tiling& tiling);
KernelSet winograd_split_2_nchw_kernels(const Tiling& tiling);
KernelSet winograd_split_2_nhwc_kernels(const Tiling& tiling);
KernelSet winograd_split_4_nchw_kernels(const Tiling& tiling);
KernelSet winograd_split_4_nhwc_kernels(const Tiling& tiling);
KernelSet winograd_f16_4_nchw_kernels(const Tiling& tiling);
KernelSet winograd_f16_4_nhwc_kernels(const Tiling& tiling);
KernelSet winograd_mma_nchw_kernels(const Tiling& tiling);
KernelSet winograd_mma_nhwc_kernels(const Tiling& tiling);
KernelSet implicit_gemm_nchw_kernels(const Tiling& tiling);
KernelSet implicit_gemm_nhwc_kernels(const Tiling& tiling);
KernelSet implicit_gemm_f16_nchw_kernels(const Tiling& tiling);
KernelSet implicit_gemm_f16_nhwc_kernels(const Tiling& tiling);
KernelSet implicit_gemm_bf16_nchw_kernels(const Tiling& tiling);
KernelSet implicit_gemm_bf16_nhwc_kernels(const Tiling& tiling);
KernelSet implicit_gemm_f16_in_place_kernels(const Tiling& tiling);
KernelSet implicit_gemm_bf16_in_place_kernels(const Tiling& tiling);
KernelSet implicit_gemm_tf32_in_place_kernels(const Tiling& tiling);
KernelSet implicit_gemm_rounded_in_place_kernels(const Tiling& tiling);
KernelSet implicit_gemm_converted_in_place_kernels(const Tiling& tiling);
KernelSet opencnn_nchw_kernels(const Tiling& tiling);
KernelSet opencnn_nhwc_kernels(const Tiling& tiling);
KernelSet opencnn_chwn_kernels(const Tiling& tiling);

}  // namespace megaconv::cuda
