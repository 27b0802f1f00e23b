// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <spdlog/fmt/fmt.h>

#include <string>

#include "megaconv/error.hpp"
#include "tools/device.hpp"

namespace megaconv::cli {
namespace {

void check(cudaError_t code, const char* doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw Error(code == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::device_error,
              std::string(doing) + ": " + cudaGetErrorString(code));
}

// Device memory, all bits set until it is written: NaN. Null when empty.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMalloc(&data_, bytes), fmt::format("{} bytes on the device", bytes).c_str());
    check(cudaMemset(data_, 0xff, bytes), "poisoning device memory");
  }
  DeviceMemory(const void* host, std::size_t bytes) : DeviceMemory(host != nullptr ? bytes : 0) {
    if (data_ == nullptr) return;
    check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "upload");
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

std::size_t float_bytes(std::int64_t elements) {
  return static_cast<std::size_t>(elements) * sizeof(float);
}

class CudaRun final : public DeviceRun {
 public:
  CudaRun(const Plan& plan, const Tensors& host)
      : plan_(plan),
        host_y_(host.y),
        y_bytes_(float_bytes(plan.problem().y_size())),
        x_(host.x, float_bytes(plan.problem().x_size())),
        w_(host.w, float_bytes(plan.problem().w_size())),
        bias_(host.bias, float_bytes(plan.problem().k)),
        residual_(host.residual, y_bytes_),
        y_(y_bytes_),
        workspace_(plan.workspace_bytes()),
        filters_(plan.prepared_filter_bytes()) {
    if (filters_.get() != nullptr) plan_.prepare_filters(w_.get(), filters_.get());
    check(cudaEventCreate(&begin_), "event");
    check(cudaEventCreate(&end_), "event");
  }
  ~CudaRun() override {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  double run_ms(Trace* trace) override {
    const Tensors tensors{.x = x_.get(),
                          .w = filters_.get() == nullptr ? w_.get() : nullptr,
                          .bias = bias_.get(),
                          .residual = residual_.get(),
                          .y = y_.get(),
                          .prepared_filters = filters_.get()};
    check(cudaEventRecord(begin_), "event");
    plan_.execute(tensors, workspace_.get(), plan_.workspace_bytes(), {.trace = trace});
    check(cudaEventRecord(end_), "event");
    plan_.wait(workspace_.get());
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "event");
    return static_cast<double>(ms);
  }

  void read_back() override {
    check(cudaMemcpy(host_y_, y_.get(), y_bytes_, cudaMemcpyDeviceToHost), "download");
  }

 private:
  Plan plan_;
  void* host_y_;
  std::size_t y_bytes_;
  DeviceMemory x_, w_, bias_, residual_, y_, workspace_, filters_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceRun> make_device_run(const Plan& plan, const Tensors& host) {
  return std::make_unique<CudaRun>(plan, host);
}

std::string cuda_availability() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    cudaGetLastError();
    return std::string("no: ") + (code == cudaSuccess ? "no device" : cudaGetErrorString(code));
  }
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "device properties");
  return fmt::format("{}: {}, compute capability {}.{}, {} SMs, {} MiB of L2; winograd and opencnn",
                     device.major * 10 + device.minor >= 75 ? "yes" : "no (must be 7.5 or newer)",
                     device.name, device.major, device.minor, device.multiProcessorCount,
                     device.l2CacheSize >> 20);
}

}  // namespace megaconv::cli
