// SPDX-License-Identifier: Apache-2.0
// The compiled kernels, one set per variant of an algorithm, so that only the .cu files instantiate
// them.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "megaconv/tiling.hpp"
#include "runtime/cuda/isa.hpp"
#include "runtime/cuda/kernel_variants.hpp"

namespace megaconv::cuda {

/// All kernels of one variant. Arrays are by TaskKind.
struct KernelSet {
  std::string name;        ///< "winograd F(4x4,3x3), tasks of 128 tiles x 128 filters"
  const void* megakernel;  ///< takes (TaskArgs, DeviceRun)
  int num_threads;         ///< of a block
  /// Behind a run: takes (TaskArgs, const Task*, uint32 tasks, uint32 groups); checks the scales,
  /// and computes everything again if one did not suit it. Null: nothing was guessed.
  const void* redo;
  bool stage_checks_scales;      ///< the stage of direct tasks does that itself
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
  bool clusters[kNumTaskKinds];     ///< its blocks may run in clusters (tasks/tiling.hpp)
  bool reads_ahead[kNumTaskKinds];  ///< a stage reads tensors before the kernel before has ended
};

/// The variant (kernel_variants.hpp) that runs this tiling by these instructions. Throws
/// Error(unsupported) for a tiling that none was compiled for, or that needs others.
KernelSet kernels_for(const Tiling& tiling, Isa isa);

/// Its sets, <name>_kernels(tiling): one file each, so that they compile side by side.
#define MEGACONV_DECLARE(name, algorithm, layout, isa, condition) \
  KernelSet name##_kernels(const Tiling& tiling);
MEGACONV_CUDA_VARIANTS(MEGACONV_DECLARE)
#undef MEGACONV_DECLARE

}  // namespace megaconv::cuda
