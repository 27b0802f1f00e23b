// SPDX-License-Identifier: Apache-2.0
// Tasks on their way through a block whose warps share the work of each (sm_90). One thread takes
// them from a source and hands them on, so that it is at the next ones while the others still work
// on those before.
//
//   taker   for (TakenTask* task; (task = stream.room(at), source.next(*task));) {
//             stream.hand_on(at); its own share }
//           stream.end(at)
//   others  TaskReader reader(stream, source)
//           for (Task task; reader.next(task); reader.advance()) {
//             their share; reader.leave(), by one thread of a warp }
//
// A source:
//
//   bool next(TakenTask&)            called by the taker: the next task, its producers done; false:
//                                    there is none
//   void before_tma() const          called by a thread that has been told of a task and will read
//                                    by TMA what other tasks wrote
//   kTakesAllShares                  whether a block takes the shares of a task's channels in turn;
//                                    else each block of a cluster has one
//   kSignals                         whether others that run meanwhile need what a task stores;
//                                    if so, has_only() is false, and there is
//   void signal(task, thread, num_threads, barrier) const
//                                    called by all threads that store a task's outputs, when they
//                                    have begun all stores: those who need the task may run.
//                                    barrier() is one of these threads
//   bool repeats() const             whether blocks may have more than one
//   bool has_only() const            whether all threads know the only one that a block has:
//   Task only() const
//   Task first() const               the same; the first two warps know it before the barrier
//   uint64_t now() const             for a trace: nanoseconds
//   void record(const TakenTask&, uint64_t free_ns) const
//                                    for a trace: called by one of the others when a task is
//                                    multiplied, with when they were free for it
#pragma once

#include <cstdint>

#include "megaconv/graph.hpp"
#include "tasks/cuda/stage_ring.cuh"

namespace megaconv::cuda {

struct TakenTask {
  Task task;
  std::uint32_t position;            ///< in the task array
  std::uint64_t fetch_ns, ready_ns;  ///< for a trace: when it was taken, its producers done
};

class TaskStream {
 public:
  static constexpr int kAhead = 4;
  using Ring = StageRing<kAhead>;
  using Cursor = Ring::Cursor;

  /// Called by one thread before any other call. `readers`: calls of leave() for each task.
  __device__ void init(std::uint32_t readers) { ring_.init(1, readers); }

  /// Called by one thread after all others.
  __device__ void close() { ring_.close(); }

  /// Where the next task belongs.
  __device__ TakenTask* room(const Cursor& at) {
    ring_.wait_empty(at);
    return &tasks_[at.stage];
  }
  __device__ void hand_on(Cursor& at) {
    exists_[at.stage] = true;
    ring_.arrive_full(at.stage);
    at.advance();
  }
  __device__ void end(const Cursor& at) {
    exists_[at.stage] = false;
    ring_.arrive_full(at.stage);
  }

  /// Whether there is a next task.
  __device__ bool next(const Cursor& at) {
    ring_.wait_full(at);
    return exists_[at.stage];
  }
  __device__ const TakenTask& task(const Cursor& at) const { return tasks_[at.stage]; }
  /// Called by one thread of a warp.
  __device__ void leave(const Cursor& at) { ring_.arrive_empty(at.stage); }

 private:
  Ring ring_;
  TakenTask tasks_[kAhead];
  bool exists_[kAhead];
};

/// What the others see of a stream. An only task need not be handed on.
template <class Source>
class TaskReader {
 public:
  __device__ TaskReader(TaskStream& stream, const Source& source)
      : stream_(stream), source_(source) {}
  /// The task at hand; false after the last.
  __device__ bool next(Task& task) {
    if (source_.has_only()) {
      task = source_.only();
      return at_.stage == 0;
    }
    if (!stream_.next(at_)) return false;
    task = stream_.task(at_).task;
    return true;
  }
  /// Called by one thread for all others, with when they were free for the task.
  __device__ void record(std::uint64_t free_ns) const {
    if (!source_.has_only()) source_.record(stream_.task(at_), free_ns);
  }
  /// Called by all threads that store, when they have begun all stores of the task.
  template <class Barrier>
  __device__ void signal(std::uint32_t thread, std::uint32_t num_threads, Barrier barrier) const {
    source_.signal(stream_.task(at_).task, thread, num_threads, barrier);
  }
  __device__ void leave() const {
    if (!source_.has_only()) stream_.leave(at_);
  }
  __device__ void advance() { at_.advance(); }

 private:
  TaskStream& stream_;
  const Source& source_;
  TaskStream::Cursor at_;
};

}  // namespace megaconv::cuda
