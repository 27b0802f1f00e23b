// SPDX-License-Identifier: Apache-2.0
// The compiled kernels, in sets: one set per variant of an algorithm (kernel_variants.hpp). A .cu
// file instantiates one set. All other files see this header alone, so a kernel is compiled once.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "megaconv/tiling.hpp"
#include "runtime/cuda/isa.hpp"
#include "runtime/cuda/kernel_variants.hpp"

namespace megaconv::cuda {

/// The entry points of one variant, and what a launch has to know of them. Arrays are indexed by
/// TaskKind.
struct KernelSet {
  std::string name;           ///< "winograd F(4x4,3x3), tasks of 128 tiles x 128 filters"
  const void* megakernel;     ///< the persistent kernel; arguments (TaskArgs, DeviceRun)
  bool makes_operands_first;  ///< its tasks that make operands stand in front of all others
  int num_threads;            ///< threads of a block
  /// The scale check (redo.cuh), launched after a run. Arguments (TaskArgs, const Task*, uint32
  /// tasks, uint32 groups). Null if no scale is guessed.
  const void* redo;
  bool stage_checks_scales;      ///< the product stage runs the scale check itself
  bool loads_boxes;              ///< TMA loads boxes of x in stages (depthwise_box.hpp)
  float x_scale, w_scale;        ///< guessed scales; w_scale is 0 if the scale of w is not guessed
  std::uint32_t noted_of_block;  ///< notes on magnitudes of x per direct task; 0 if it makes none
  int channel_multiple;          ///< Winograd: U and V pad C to a multiple of it
  int gemm_tiles, gemm_filters;  ///< Winograd: extents of a GEMM task's matrix tile
  Operands operands;             ///< implicit GEMM: load path of x. A launch has tensor maps if it
                                 ///< is not `loaded`
  bool filters_in_place;         ///< tasks read w as it is: no filter tasks
  int most_shared_bytes;         ///< dynamic shared memory of the persistent kernel
  /// The kernel of a stage; null for kinds that the algorithm does not have. Arguments (TaskArgs,
  /// const Task*), and the number of tasks if it streams.
  const void* stage[kNumTaskKinds];
  bool streams[kNumTaskKinds];      ///< a block runs several tasks in turn, not one
  int shared_bytes[kNumTaskKinds];  ///< dynamic shared memory
  bool clusters[kNumTaskKinds];     ///< may be launched in clusters (tasks/tiling.hpp)
};

/// The kernels that run this tiling on a device with these instructions. Of several variants it
/// takes the one that needs most of them. Throws Error(unsupported) if no variant suits the tiling,
/// or if all that do need more than `isa`.
KernelSet kernels_for(const Tiling& tiling, Isa isa);
/// The name of their variant.
const char* variant_for(const Tiling& tiling, Isa isa);

/// <name>_kernels(tiling) makes the set of variant <name>. Each is defined in <name>.cu, so that
/// they compile in parallel.
#define MEGACONV_DECLARE(name, algorithm, layout, isa, condition) \
  KernelSet name##_kernels(const Tiling& tiling);
MEGACONV_CUDA_VARIANTS(MEGACONV_DECLARE)
#undef MEGACONV_DECLARE

}  // namespace megaconv::cuda
