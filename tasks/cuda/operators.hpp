// SPDX-License-Identifier: Apache-2.0
// The rooms of operators on CUDA: an include of each, of its bodies where there is a compiler for
// them, and a line in the list. All of them are compiled into one kernel. A room declares these
// functions, the first two in its cuda/*_args.hpp and the last one in its cuda/*.cuh:
//
//   of a cut, as PoolCut
//     PoolTaskArgs node_args(cut, places)           what the tasks of a node are given
//     std::vector<Entry> node_table(cut, places)    only if that is not enough: what places.table
//                                                   points to
//     SecondOutput second_output(cut, places, first_channel)
//                                                   only if convolutions may store parts of its y
//   of what it gives, as PoolTaskArgs, a body that all kThreads threads of a block run
//     run_task<Stored, kThreads>(args, memory, group, block, wait)
//                                                   wait() returns to all threads when what other
//                                                   tasks wrote may be read; every body calls it
//
// Convolutions of small tiles are no such tasks: these have shared memory, share sums, and fetch
// filters before they wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "megaconv/operators.hpp"
#include "tasks/cuda/one_of.hpp"
#include "tasks/cuda/places.hpp"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#if defined(__CUDACC__) || defined(__CUDA_ARCH__)
#include "tasks/elementwise/cuda/elementwise.cuh"
#include "tasks/pixelwise/cuda/pixelwise.cuh"
#include "tasks/pooling/cuda/pooling.cuh"
#include "tasks/rearrangement/cuda/rearrangement.cuh"
#else
#include "tasks/elementwise/cuda/elementwise_args.hpp"
#include "tasks/pixelwise/cuda/pixelwise_args.hpp"
#include "tasks/pooling/cuda/pool_task_args.hpp"
#include "tasks/rearrangement/cuda/rearrangement_args.hpp"
#endif

namespace megaconv::cuda {

/// What the tasks of a node are given: those of a small-tile convolution, or those of a room.
using NodeArgs =
    OneOf<SmallGemmArgs, PoolTaskArgs, ElementwiseArgs, RearrangementArgs, PixelwiseArgs>;
inline constexpr std::uint32_t kFirstRoom = 1;  ///< in this list

/// Of the node that is cut so; nothing if it has kernels of its own.
NodeArgs make_node_args(const Cut& cut, const NodePlaces& places);
/// What a convolution stores for that node, from this channel of its y on. Nothing if the room has
/// no such function.
SecondOutput make_second_output(const Cut& cut, const NodePlaces& places,
                                std::int64_t first_channel);
/// What has to be on the device for that, at places.table, aligned to 16 bytes.
std::vector<std::byte> make_node_table(const Cut& cut, const NodePlaces& places);

}  // namespace megaconv::cuda
