// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM (implicit_gemm.cuh) in NHWC on operands that TMA loads. They lie in global memory
// as matrix instructions multiply them: 16-bit tensors themselves, or copies of float tensors
// (operand_rows.cuh). Or they are floats that TMA rounds to TF32 on their way. No thread touches an
// element then. Or x is floats that TMA loads piece by piece, which threads convert from one part
// of shared memory to another.
//
// TMA walks through x in the order of padded pixels; where the padding is, it writes zeros (tensor
// maps of kind im2col, or boxes of images abreast; runtime/cuda/tensor_map.hpp). A K block of
// channels (tasks/implicit_gemm/stripes.hpp) is a row, whose octets TMA permutes and the matrix
// instruction puts back in order, so that neither meets bank conflicts. TMA stores the outputs,
// too.
//
//   loaders      in_place_load.cuh      two threads, one for x, which also takes the tasks, and one
//                                       for w
//   converters   in_place_convert.cuh   a warpgroup, if x is to be converted; blocks of a cluster
//                                       convert it for each other
//   consumers    in_place_multiply.cuh  two warpgroups, each: products of 64 filters and half the
//                in_place_outputs.cuh   padded pixels of a tile, and what becomes of their sums
//   storers      in_place_store.cuh     a warp for each of these: outputs to y, and the next tile's
//                                       residual to where its outputs will be, while that tile is
//                                       multiplied. Floats of large tiles come to them in parts
//   of tall tiles, which have all filters of half of their padded pixels, consumers are in
//   tall_multiply.cuh and tall_outputs.cuh, storers in tall_store.cuh; or consumers convert x
//   themselves, to registers (tall_convert.cuh)
//
// Of conv groups that are multiplied as one, a task's filters begin with the first channel of its
// groups; filter tasks have written zeros where a filter has no channels (conv_groups.cuh).
//
// What all of them know is in in_place_shape.cuh, and how consumers take taps one by one in
// in_place_taps.cuh. What is read most often is w, by every tile; so a tile has few filters and
// many padded pixels. Their number divides a task evenly; consumers are compiled for every such
// width. Tasks follow each other without a pause (task_stream.cuh). Of few tasks the channels are
// shared out (blockIdx.y) to the blocks of a cluster, whose sums come to the first one; a block
// alone takes the shares in turn and adds their sums up in the same order.
#pragma once

#include <cuda/ptx>

#include "tasks/cuda/matrix_numbers.cuh"
#include "tasks/implicit_gemm/cuda/conv_groups.cuh"
#include "tasks/implicit_gemm/cuda/in_place_convert.cuh"
#include "tasks/implicit_gemm/cuda/in_place_load.cuh"
#include "tasks/implicit_gemm/cuda/in_place_multiply.cuh"
#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"
#include "tasks/implicit_gemm/cuda/in_place_store.cuh"
#include "tasks/implicit_gemm/cuda/space_to_depth.cuh"
#include "tasks/implicit_gemm/cuda/tall_multiply.cuh"
#include "tasks/implicit_gemm/cuda/tall_store.cuh"

namespace megaconv::cuda {

/// The body of a block. kSharesChannels: of each task (channel_shares()).
template <class Numbers, Operands kOperands, bool kSharesChannels = false>
struct ImplicitGemmInPlaceTask : InPlaceShape<Numbers, kOperands, kSharesChannels> {
  using Shape = InPlaceShape<Numbers, kOperands, kSharesChannels>;
  using Shape::kClusters, Shape::kConsumerRegisters, Shape::kConsumers, Shape::kConverterRegisters;
  using Shape::kConverters, Shape::kConverts, Shape::kHelperRegisters, Shape::kHelpers;
  using Shape::kLaunchRegisters, Shape::kReaders, Shape::kSameInput, Shape::kTall;
  using Shape::kThreads, Shape::own_cluster;
  using typename Shape::Barriers, typename Shape::Course, typename Shape::Shared;

  /// Called by all threads of a block before run(), which is given what it returns. Warps of
  /// helpers make the barriers. The one that will load x makes those it needs, and goes on while
  /// the others still wait.
  static __device__ Shared open(const TaskArgs& a, std::byte* memory) {
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory);
    if (threadIdx.x < kHelpers && is_elected()) {
      make_barriers(static_cast<int>(threadIdx.x) / 32, a, barriers);
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
    }
    const BlockCluster cluster = own_cluster();
    if (kClusters && cluster.size() > 1) {
      cluster.sync();
    } else if (!Numbers::kScaled && threadIdx.x < 32) {
      __syncwarp();
      asm volatile("barrier.cta.arrive %0, %1;" ::"n"(kOpened), "n"(kThreads) : "memory");
    } else {
      asm volatile("barrier.cta.sync %0, %1;" ::"n"(kOpened), "n"(kThreads) : "memory");
    }
    return Shared(a, memory);
  }
  /// Called by all threads of a block behind run(): the others of its cluster may still arrive at
  /// its barriers.
  static __device__ void close() {
    if constexpr (kSameInput) {
      const BlockCluster cluster = own_cluster();
      if (cluster.size() == 1) return;
      cluster.arrive_relaxed();
      cluster.wait();
    }
  }
  /// Called by all threads of a block behind run(), to run() once more.
  static __device__ Shared reopen(const TaskArgs& a, std::byte* memory) {
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory);
    __syncthreads();
    threadIdx.x < kHelpers ? increase_registers<kLaunchRegisters>()
                           : decrease_registers<kLaunchRegisters>();
    if (threadIdx.x == 0) {
      barriers.tasks.close();
      if constexpr (kConverts) barriers.pieces.close();
      barriers.input.close();
      barriers.filter.close();
      barriers.lead.close();
      for (auto& output : barriers.output) output.close();
      for (auto& residual : barriers.residual) residual.close();
    }
    __syncthreads();
    return open(a, memory);
  }

  static constexpr int kCheckers = 64;
  /// The tasks of a source (task_stream.cuh), by all threads of a block. They call wait() before
  /// they read what kernels before may have written, and no sooner: what is computed until then is
  /// for free. Who writes has been told by a thread that waited. Two warps, which have no work yet,
  /// call check(0) to check(kCheckers - 1). `x_scale`: what x is multiplied by. Consumers that
  /// convert x call note(task, index, magnitude): the largest that a warp met, and which of the
  /// notes of the task's group that is.
  template <class Source, class Wait, class Check, class Note>
  static __device__ __forceinline__ void run(const TaskArgs& a, float x_scale, Source& source,
                                             const Shared& shared, Wait wait, Check check,
                                             Note note) {
    if (threadIdx.x < kHelpers) {
      decrease_registers<kHelperRegisters>();
      if (threadIdx.x < 32) {
        if (is_elected()) InPlaceLoaders<Shape>::load_input(a, source, shared, wait);
      } else if (threadIdx.x < 64) {
        const Course course(a, shared, source.repeats());
        if (is_elected()) InPlaceLoaders<Shape>::load_filters(a, course, source, shared, wait);
      } else {
        check(threadIdx.x - (kHelpers - kCheckers));
        if (kSharesChannels && shared.cluster.rank() != 0) return;
        using Storers = std::conditional_t<kTall, TallStorers<Shape>, InPlaceStorers<Shape>>;
        Storers::store_outputs(a, static_cast<int>(threadIdx.x) / 32 - 2, source, shared, wait);
      }
      return;
    }
    if constexpr (kConverts) {
      if (threadIdx.x < kHelpers + kConverters) {
        decrease_registers<kConverterRegisters>();
        InPlaceConverters<Shape>::convert_input(a, x_scale, source, shared);
        return;
      }
    }
    increase_registers<kConsumerRegisters>();
    const Course course(a, shared, source.repeats());
    if constexpr (kTall) {
      TallConsumers<Shape>::consume_filters(a, course, x_scale, source, shared, wait, note);
    } else {
      InPlaceConsumers<Shape>::consume_width(a, course, x_scale, source, shared, wait);
    }
  }

 private:
  // Barriers of the block's threads. (0: __syncthreads().)
  static constexpr int kOpened = 2;

  // What the `helper`-th warp makes. By one thread of it, without loops: of all stages, used or
  // not. (Lanes of a warp take turns, 80 cycles each, where one thread takes 9; and who asks how
  // many are used takes longer.)
  static __device__ void make_barriers(int helper, const TaskArgs& a, Barriers& barriers) {
    constexpr std::uint32_t kWarps = kConsumers / 32;
    const auto blocks = static_cast<std::uint32_t>(own_cluster().size());
    if (helper == 0) {
      const std::uint32_t readers = kSameInput ? blocks * kWarps : kWarps;
      barriers.tasks.init(kReaders);
      if constexpr (kConverts) barriers.pieces.init(1, kConverters / 32);
      barriers.input.init(kConverts ? kConverters / 32 : 1, readers);
    } else if (helper == 2) {
      barriers.filter.init(1, kWarps);
    } else if (helper == 3) {
      prefetch_map(a.x_tensors[0]);
      prefetch_map(a.w_tensor);
      if (a.output_cols != 0) prefetch_map(a.y_tensor);
      barriers.lead.init(128 / 32, 1);
      for (auto& output : barriers.output) output.init(128 / 32, 1);
      for (auto& residual : barriers.residual) residual.init(1, 1);
      if (kSharesChannels && blocks > 1) {
        ::cuda::ptx::mbarrier_init(&barriers.partial_sums, (blocks - 1) * kWarps);
      }
      if constexpr (Numbers::kScaled) {
        barriers.input_stages = a.memory.input_stages;
        barriers.filter_stages = a.memory.filter_stages;
      }
    }
  }
};

}  // namespace megaconv::cuda
