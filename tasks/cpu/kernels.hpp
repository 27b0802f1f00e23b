// SPDX-License-Identifier: Apache-2.0
// CPU task bodies behind one table per instruction set.
//
// A task body is pure compute: it reads and writes the tensors of `TaskArgs` and knows nothing
// about counters, workers or order. The bodies are compiled once per instruction set from the same
// sources (tasks/cpu/*.inl), and `kernels_for()` picks a table at run time.
//
// x, w, scale, bias, residual and y are stored in the problem's type; what is read is widened to
// floats at once (tasks/cpu/storage.inl), and U, V, M, all sums and the epilogue are floats. y is
// rounded once. Sums of INT8 numbers are 32-bit integers, and so are the words of U that hold them.
//
// Layouts (B = Tiling::kLaneBlock = 16 floats = 64 bytes, one cache line; CB, KB = lane blocks of
// the channels, filters; P = positions of a tile; slot = group % slots):
//
//   U  Winograd  [P][KB][C][B]             U[p][kb][c][lane]; filter k = kb * B + lane, zero past K
//      direct    [KB][R][S][C/groups][B]   w packed the same way; KB counts every conv group's
//      blocks. BF16 where the machine multiplies pairs: [KB][R][S][(C/groups + 1) / 2][B] pairs.
//      INT8: [KB][1 + R * S * ((C/groups + 3) / 4)][B], a head (products.inl) and quads. With AMX
//      there is no head, and words are padded to whole steps (AmxExtents)
//   V            [v_slots][panels][CB][P][h | 1][B]   channel c = cb * B + lane, zero past C
//   M            [m_slots][panels][KB][P][h | 1][B]
//
// The t tiles of a group are the rows of V and M (winograd/cpu/tile_order.hpp says in which order),
// cut into panels of h <= 56 rows (Extents::panel_tiles). A micro-kernel multiplies up to 14 of
// them x 16 channels at a time, while it reads U as a stream of 64-byte rows. Positions are an odd
// number of cache lines apart, so that channel blocks do not share sets of the L1, and less than a
// page: else a transform would touch P pages for every tile. What a tile does not need is not
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/tiling.hpp"

namespace megaconv::cpu {

/// Where the elements of a tensor lie. All 0: it is dense, in the problem's layout. Else channels
/// are neighbours, or the pixels of a row are.
struct Pitches {
  std::ptrdiff_t image = 0;  ///< elements between images
  std::ptrdiff_t row = 0;    ///< pixels between rows
  std::ptrdiff_t step = 0;   ///< elements between pixels; in NCHW between channels
};

/// What a task may touch. Pointers that a task kind does not use may be null.
struct TaskArgs {
  const Tiling* tiling = nullptr;
  const void* x = nullptr;  ///< layout and storage types of tiling->problem, as the next five
  const void* w = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  float* u = nullptr;  ///< 64-byte aligned, layout above
  float* v = nullptr;
  float* m = nullptr;
  const void* const* inputs = nullptr;     ///< of an elementwise operation, in the place of x
  Pitches x_pitches = {}, y_pitches = {};  ///< of a convolution; the latter also of its residual
};

/// Runs one task. `scratch`: Kernels::scratch_bytes() of this worker's own, 64-byte aligned.
using TaskFunction = void (*)(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                              std::byte* scratch);

struct Kernels {
  const char* isa;  ///< "avx512_amx", "avx512_bf16", "avx512_vnni", "avx512", "avx2", "portable"
  std::size_t (*scratch_bytes)(const Tiling& tiling);
  std::size_t (*u_bytes)(const Tiling& tiling);
  TaskFunction by_kind[kNumDataTypes][kNumTaskKinds];
  bool amx = false;  ///< Target::amx

  TaskFunction run(DataType dtype, TaskKind kind) const {
    return by_kind[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(kind)];
  }
};

/// Instruction sets compiled in that this machine can run, best first; never empty.
std::vector<std::string> available_isas();

/// The table for `isa`; empty picks MEGACONV_ISA from the environment, else the best available.
/// Throws Error(unsupported) naming those available.
const Kernels& kernels_for(std::string_view isa = {});

}  // namespace megaconv::cpu
