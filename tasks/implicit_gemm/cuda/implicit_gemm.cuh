// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on Hopper's tensor cores: a direct task multiplies a block of filters by the input
// as it lies under their taps. Neither the input's matrix nor any transform of it is ever stored in
// global memory.
//
//   sums[filter][f] = over K blocks, over taps:  U[tap] x[f + offset(tap)]
//
// f is a padded pixel (tasks/implicit_gemm/stripes.hpp; `place` in names). Those of a tile are
// neighbours, and under every tap they are neighbours again, `offset` further on. One copy of a
// tile's input in shared memory, kMostReach padded pixels longer than the tile, so serves all taps:
// the matrix instruction reads it from another start. Under strides every tap has a copy of its
// own, and so has a filter's only tap; the room for kMostReach padded pixels then holds the copies
// of further taps or K blocks ("steps"). What the numbers of x and w become on the way is in
// matrix_numbers.cuh.
//
//   loaders    x of the next K blocks: load, convert, store to shared memory (loaded_load.cuh)
//   supplier   one warp, hands the filters of the next taps to TMA, and finds where outputs lie
//   consumers  two warpgroups, each: products of 64 filters and kGroupPlaces padded pixels;
//              epilogue (loaded_multiply.cuh)
//
// Tiles are compiled in several widths, so that tasks of some tiles, all equally wide, share out
// the padded pixels evenly among the multiprocessors.
#pragma once

#include <cuda/ptx>

#include "tasks/implicit_gemm/cuda/loaded_load.cuh"
#include "tasks/implicit_gemm/cuda/loaded_multiply.cuh"

namespace megaconv::cuda {

template <class NumbersType, int kNumFilters, int kNumPlaces, Layout kLayout, bool kHasSteps>
struct ImplicitGemmTask : LoadedShape<NumbersType, kNumFilters, kNumPlaces, kLayout, kHasSteps> {
  using Shape = LoadedShape<NumbersType, kNumFilters, kNumPlaces, kLayout, kHasSteps>;
  using Shape::kConsumerRegisters, Shape::kConsumers, Shape::kFilters, Shape::kLaunchRegisters,
      Shape::kLoaders, Shape::kProducerRegisters, Shape::kProducers, Shape::kThreads;
  using typename Shape::Numbers, typename Shape::Shared, typename Shape::Stored,
      typename Shape::Walk;

  /// The largest finite |x| that the task saw goes to a.x_magnitudes[index], if numbers are scaled
  /// and no task of other filters does it.
  /// One thread calls wait_for_filters() before U is read.
  template <class Wait>
  static __device__ void run(const TaskArgs& a, const Walk& walk, std::uint32_t index,
                             Shared& shared, Wait&& wait_for_filters) {
    if (threadIdx.x == kLoaders) {
      shared.input.init(kLoaders, kConsumers / 32);
      shared.filter.init(1, kConsumers / 32);
      shared.map.init(1, kConsumers / 32);
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
      // TMA writes where threads have read and written, in the task before.
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    }
    for (int i = static_cast<int>(threadIdx.x); i < kFilters; i += kThreads) {
      const int k = walk.first_k + i;
      const auto of_filter = [&](const float* vector, float otherwise) {
        return vector != nullptr && k < walk.end_k
                   ? static_cast<float>(reinterpret_cast<const Stored*>(vector)[k])
                   : otherwise;
      };
      shared.scale[i] = of_filter(a.scale, 1.0f);
      shared.bias[i] = of_filter(a.bias, 0.0f);
    }
    __syncthreads();
    if (threadIdx.x < kProducers) {
      decrease_registers<kProducerRegisters>();
      if (threadIdx.x < kLoaders) {
        LoadedProducers<Shape>::load_input(a, walk, shared);
      } else {
        LoadedProducers<Shape>::supply(a, walk, shared, wait_for_filters);
      }
      __syncwarp();
    } else {
      increase_registers<kConsumerRegisters>();
      LoadedConsumers<Shape>::consume(a, walk, shared);
      decrease_registers<kLaunchRegisters>();
    }
    __syncthreads();
    // Not before: who waits for registers takes issue slots from who has them.
    if (threadIdx.x < kProducers) increase_registers<kLaunchRegisters>();
    if (threadIdx.x == 0) {
      shared.input.close();
      shared.filter.close();
      shared.map.close();
      if constexpr (Numbers::kScaled) {
        MagnitudeBits most = 0;
        for (const MagnitudeBits own : shared.most) most = max(most, own);
        if (walk.first_k % a.filters_at_once == 0) a.x_magnitudes[index] = most;
      }
    }
  }
};

}  // namespace megaconv::cuda
