// SPDX-License-Identifier: Apache-2.0
// Kernels of a whole network. Small tasks of one block shape, so that what counts is the time from
// one task's last store to the next one's first load.
//
//   persistent   one launch; block b has the positions b, b + blocks, b + 2 blocks, ... All blocks
//                are resident (cooperative launch) and every producer stands before its consumers,
//                so that the smallest unfinished position always runs. While a task runs, the
//                record of the one after the next and the arguments of the next are on their way.
//                Tasks that share sums stand where the blocks of one cluster have them in one turn.
//   stage        one launch for every stage, a block for every task
//
// A task loads what no other task writes before it waits, as its filters, and finds its places.
#pragma once

#include <cuda_pipeline.h>

#include "runtime/cuda/network_run.hpp"
#include "runtime/cuda/worker.cuh"
#include "tasks/small_gemm/cuda/small_gemm.cuh"

namespace megaconv::cuda {

/// A task of any other node than a convolution, and one that only fills a position. Inline: a call
/// of a body that uses many registers would cost convolutions theirs.
template <class Stored, class Wait>
__device__ __forceinline__ void run_light_task(const NodeArgs& args, const NetworkMemory& memory,
                                               std::uint32_t group, std::uint32_t block,
                                               Wait wait) {
  if (args.index == NodeArgs::kCount) return wait();
  args.visit_from<kFirstRoom>([&](const auto& of_room) {
    run_task<Stored, kNetworkThreads>(of_room, memory, group, block, wait);
  });
}

/// One task. kOthers: of other operators than convolutions, too. A kernel without these has two
/// fifths of the instructions, and more registers for convolutions. Loader: of x. wait() returns
/// when its producers are done, to all threads.
template <class Products, bool kOthers, class Loader, class Wait, class Mark>
__device__ __forceinline__ void run_node_task(const NetworkNode& node, const NetworkMemory& memory,
                                              const NetworkTask& task, char* shared,
                                              FilterStages& filters, const SumExchange& exchange,
                                              Wait wait, Mark mark) {
  if (node.args.index == NodeArgs::kIndexOf<SmallGemmArgs>) {
    const auto tensor = [&](const void* place) { return pointer_to(memory, place); };
    return SmallGemmTask<Products, float, false, Loader>::run(
        node.args.as<SmallGemmArgs>(), task.share, shared, filters, exchange, tensor, wait, mark);
  }
  if constexpr (!kOthers) {
    wait();  // fills a position
  } else {
    run_light_task<typename Products::Stored>(node.args, memory, task.task.group, task.task.block,
                                              wait);
  }
}

/// What a block has fetched of the tasks to come.
class TaskWindow {
 public:
  /// Called by the threads of one warp.
  __device__ void fetch_task(std::uint32_t turn, const NetworkTask* task, int lane) {
    constexpr int kPieces = sizeof(NetworkTask) / kPiece;
    if (lane < kPieces) copy(&tasks_[turn % 4], task, lane);
  }
  __device__ void fetch_node(std::uint32_t turn, const NetworkNode* node, int lane) {
    constexpr int kPieces = sizeof(NetworkNode) / kPiece;
    for (int piece = lane; piece < kPieces; piece += 32) copy(&nodes_[turn % 2], node, piece);
  }
  /// Called by these threads before a barrier of the block; then all has come.
  __device__ void complete() const {
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }
  __device__ void fetch_node_of_task(std::uint32_t turn, const NetworkNode* nodes, int lane) {
    fetch_node(turn, nodes + task(turn).task.node, lane);
  }
  __device__ const NetworkTask& task(std::uint32_t turn) const { return tasks_[turn % 4]; }
  __device__ const NetworkNode& node(std::uint32_t turn) const { return nodes_[turn % 2]; }

 private:
  static constexpr int kPiece = 16;
  static __device__ void copy(void* to, const void* from, int piece) {
    __pipeline_memcpy_async(static_cast<char*>(to) + piece * kPiece,
                            static_cast<const char*>(from) + piece * kPiece, kPiece);
  }

  // One more than are fetched ahead: while the block is at a task, slow threads may still signal
  // the one before.
  NetworkTask tasks_[4];
  NetworkNode nodes_[2];
};

/// The counters that a task adds to, on their way while it runs: behind its last barrier its
/// consumers wait for every instruction. A thread has one of them, and all release at once: one
/// after the other, each would wait for the stores anew. Holds nothing across the task: that would
/// cost convolutions registers.
class TaskSignals {
 public:
  struct Shared {
    std::uint32_t counter[kNetworkThreads];
  };
  static __device__ void fetch(Shared& shared, const NetworkTask& task,
                               const std::uint32_t* signals) {
    if (threadIdx.x < task.num_signals) {
      __pipeline_memcpy_async(&shared.counter[threadIdx.x],
                              signals + task.first_signal + threadIdx.x, sizeof *signals);
    }
    __pipeline_commit();
  }
  /// Of this thread, if it has one, before the barrier; it has waited for its copies.
  static __device__ std::uint32_t* own_counter(const Shared& shared, const NetworkTask& task,
                                               std::uint32_t* counters) {
    if (threadIdx.x >= task.num_signals) return nullptr;
    return counters + shared.counter[threadIdx.x];
  }
  /// Behind a barrier of all that stored.
  static __device__ void add(std::uint32_t* own, const NetworkTask& task,
                             const std::uint32_t* signals, std::uint32_t* counters) {
    if (own == nullptr) return;
    DeviceSync::add_release(*own, 1);
    for (std::uint32_t i = threadIdx.x + kNetworkThreads; i < task.num_signals;
         i += kNetworkThreads) {
      DeviceSync::add_release(counters[signals[task.first_signal + i]], 1);
    }
  }
};

/// Not inline: the code of a wait, with the end of a run in it, once for all bodies of tasks.
__device__ __noinline__ inline bool wait_for_task(Worker worker, const Task& task,
                                                  std::uint32_t position) {
  return worker.wait_with_acquire(task, position);
}

template <class Products, bool kOthers>
__global__ void __launch_bounds__(kNetworkThreads, kNetworkBlocksPerSm)
    network_kernel(const __grid_constant__ NetworkMemory memory,
                   const __grid_constant__ NetworkTasks all,
                   const __grid_constant__ DeviceRun run) {
  extern __shared__ __align__(128) char work[];
  __shared__ FilterStages::Shared arrivals;
  __shared__ SumExchange::Shared exchanged;
  __shared__ alignas(alignof(TaskWindow)) std::byte room[sizeof(TaskWindow)];
  __shared__ alignas(TakenTask) std::byte times_room[sizeof(TakenTask)];
  __shared__ TaskSignals::Shared signalled;
  __shared__ std::uint32_t epoch;
  // By turn: while slow threads still read that of a task, the leader may be waiting for the next.
  // When the run is given up, a block goes on without waiting and without signals: others of its
  // cluster may still write to its shared memory.
  __shared__ bool alive[2];
  auto& times = *reinterpret_cast<TakenTask*>(times_room);  // the leader's
  auto& window = *reinterpret_cast<TaskWindow*>(room);
  const bool leader = threadIdx.x == 0;
  constexpr unsigned kFetcher = kNetworkThreads / 32 - 1;  // a warp
  const bool fetches = threadIdx.x / 32 == kFetcher;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t stride = gridDim.x;
  const auto has_task = [&](std::uint32_t position) { return position < run.num_tasks; };
  FilterStages filters(arrivals);
  const SumExchange exchange(exchanged);
  if (fetches) {
    const NetworkTask* const first = all.tasks + blockIdx.x;
    if (has_task(blockIdx.x)) window.fetch_task(0, first, lane);
    if (has_task(blockIdx.x + stride)) window.fetch_task(1, first + stride, lane);
    window.complete();
    __syncwarp();
    if (has_task(blockIdx.x)) window.fetch_node_of_task(0, all.nodes, lane);
    window.complete();
  } else if (leader) {
    epoch = attach(*run.header, run.counters, run.num_counters, run.plan_word);
    alive[1] = true;
  }
  __syncthreads();
  const Worker worker(run, epoch);
  std::uint32_t turn = 0;
  for (;; ++turn) {
    const std::uint32_t position = blockIdx.x + turn * stride;
    if (!has_task(position)) break;
    const NetworkTask& task = window.task(turn);
    if (fetches) {
      const bool has_next = has_task(position + stride);
      if (has_next) window.fetch_node_of_task(turn + 1, all.nodes, lane);
      if (has_next && position + stride < run.num_tasks - stride) {
        window.fetch_task(turn + 2, all.tasks + position + 2 * stride, lane);
      }
    }
    TaskSignals::fetch(signalled, task, all.signals);
    if (leader) times.position = position, times.fetch_ns = worker.now();
    const auto wait = [&] {
      if (leader) {
        alive[turn % 2] = alive[(turn + 1) % 2] && wait_for_task(worker, task.task, position);
        times.ready_ns = worker.now();
      }
      __syncthreads();
    };
    const auto mark = [&](TaskPhase phase) {
      if (leader && run.trace != nullptr) {
        run.trace[position].phase_ns[static_cast<int>(phase)] = global_ns();
      }
    };
    run_node_task<Products, kOthers, InputLoader<Products>>(window.node(turn), memory, task, work,
                                                            filters, exchange, wait, mark);
    if (fetches) window.complete();
    __pipeline_wait_prior(0);
    const bool lives = alive[turn % 2];
    std::uint32_t* const counter = TaskSignals::own_counter(signalled, task, run.counters);
    __syncthreads();
    if (!lives) continue;
    TaskSignals::add(counter, task, all.signals, run.counters);
    if (leader) worker.record(times);
  }
  __syncthreads();
  if (leader) {
    DeviceSync::fetch_add_relaxed(run.header->ticket, turn);  // tasks that were run
    detach(*run.header, stride);
  }
}

template <class Products, bool kOthers, class Loader = InputLoader<Products>>
__global__ void __launch_bounds__(kNetworkThreads, kNetworkBlocksPerSm)
    network_stage_kernel(const __grid_constant__ NetworkMemory memory,
                         const __grid_constant__ NetworkTasks all) {
  extern __shared__ __align__(128) char work[];
  __shared__ FilterStages::Shared arrivals;
  __shared__ SumExchange::Shared exchanged;
  __shared__ alignas(alignof(TaskWindow)) std::byte room[sizeof(TaskWindow)];
  auto& window = *reinterpret_cast<TaskWindow*>(room);
  FilterStages filters(arrivals);
  const SumExchange exchange(exchanged);
  let_next_start();
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    window.fetch_task(0, all.tasks + blockIdx.x, lane);
    window.fetch_node(0, all.nodes, lane);
    window.complete();
  }
  __syncthreads();
  run_node_task<Products, kOthers, Loader>(
      window.node(0), memory, window.task(0), work, filters, exchange,
      [] { wait_for_kernel_before(); }, [](TaskPhase) {});
}

template <class Products, bool kOthers>
NetworkKernels make_network_kernels(const char* name) {
  NetworkKernels kernels{
      .name = name,
      .persistent = reinterpret_cast<const void*>(&network_kernel<Products, kOthers>),
      .stage = reinterpret_cast<const void*>(&network_stage_kernel<Products, kOthers>)};
  if constexpr (!Products::kStoresPairs) {
    kernels.computing_stage = reinterpret_cast<const void*>(
        &network_stage_kernel<Products, false, ComputedInput<Products>>);
    kernels.expanding_stage = reinterpret_cast<const void*>(
        &network_stage_kernel<Products, false, ComputedInput<Products, ExpandedSource<Products>>>);
  }
  return kernels;
}

}  // namespace megaconv::cuda
