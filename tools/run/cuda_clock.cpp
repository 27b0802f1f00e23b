// SPDX-License-Identifier: Apache-2.0
#include "tools/run/cuda_clock.hpp"

#include <algorithm>
#include <utility>

#include "megaconv/error.hpp"
#include "runtime/cuda/error.hpp"

namespace megaconv::cli {
namespace {

using cuda::check;

// A sample lasts this long: the launch of a graph and the two events (some microseconds) are then
// less than 1 % of it, while a layer still has some hundred samples in its 200 ms.
constexpr double kSampleMs = 1;
constexpr double kMostRuns = 100;

}  // namespace

CudaClock::CudaClock(Work work, void* sweep, std::size_t sweep_bytes)
    : work_(std::move(work)), sweep_(sweep), sweep_bytes_(sweep_bytes) {
  check(cudaStreamCreate(&stream_), "stream");
  check(cudaEventCreate(&begin_), "event");
  check(cudaEventCreate(&end_), "event");
  sample_ms();  // loads the kernels
  const double once_ms = sample_ms();
  if (sweep_ == nullptr) runs_ = static_cast<int>(std::clamp(kSampleMs / once_ms, 1.0, kMostRuns));
  capture();
}

CudaClock::~CudaClock() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

void CudaClock::enqueue_runs() {
  for (int run = 0; run < runs_; ++run) work_.enqueue(stream_);
}

void CudaClock::capture() {
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  cudaGraph_t graph = nullptr;
  bool captured = true;
  try {
    enqueue_runs();
  } catch (const Error&) {
    captured = false;
  }
  captured = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && captured && graph != nullptr;
  captured = captured && cudaGraphInstantiate(&graph_, graph, 0) == cudaSuccess;
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (captured) return;
  graph_ = nullptr;
  cudaGetLastError();
}

double CudaClock::sample_ms() {
  if (sweep_ != nullptr) check(cudaMemsetAsync(sweep_, 0, sweep_bytes_, stream_), "cache sweep");
  check(cudaEventRecord(begin_, stream_), "event");
  if (graph_ != nullptr) {
    check(cudaGraphLaunch(graph_, stream_), "graph");
  } else {
    enqueue_runs();
  }
  check(cudaEventRecord(end_, stream_), "event");
  work_.wait(stream_);
  check(cudaEventSynchronize(end_), "event");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "event");
  return static_cast<double>(ms) / runs_;
}

}  // namespace megaconv::cli
