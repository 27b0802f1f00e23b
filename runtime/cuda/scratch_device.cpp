// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/scratch_device.hpp"

#include <cuda_runtime_api.h>

#include "runtime/cuda/error.hpp"

namespace megaconv {
namespace {

using cuda::check;

class CudaScratchDevice final : public ScratchDevice {
 public:
  CudaScratchDevice() {
    check(cudaEventCreate(&begin_), "event");
    check(cudaEventCreate(&end_), "event");
  }
  ~CudaScratchDevice() override {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "measuring in place: " + std::to_string(bytes) + " bytes");
    return memory;
  }
  void release(void* memory) noexcept override { cudaFree(memory); }
  void upload(void* to, const void* host, std::size_t bytes) override {
    check(cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice), "upload");
  }
  void download(void* host, const void* from, std::size_t bytes) override {
    check(cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost), "download");
  }
  double time_ms(const std::function<void()>& work) override {
    check(cudaEventRecord(begin_), "event");
    work();
    check(cudaEventRecord(end_), "event");
    check(cudaEventSynchronize(end_), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "event");
    return static_cast<double>(ms);
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

std::unique_ptr<ScratchDevice> make_cuda_scratch_device() {
  return std::make_unique<CudaScratchDevice>();
}

}  // namespace megaconv
