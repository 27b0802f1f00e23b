// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <spdlog/fmt/fmt.h>

#include <memory>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "runtime/cuda/error.hpp"
#include "runtime/cuda/isa.hpp"
#include "tasks/cuda/reference.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/buffer.hpp"
#include "tools/run/cuda_clock.hpp"
#include "tools/run/device.hpp"

namespace megaconv::cli {
namespace {

using cuda::check;

cudaDeviceProp current_properties() {
  int id = 0;
  check(cudaGetDevice(&id), "backend cuda: no usable device");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, id), "device properties");
  return properties;
}

class CudaDevice final : public Device {
 public:
  CudaDevice() : properties_(current_properties()) {}

  Backend backend() const override { return Backend::cuda; }
  std::string name() const override { return properties_.name; }
  std::string isa() const override {
    const int capability = properties_.major * 10 + properties_.minor;
    const cuda::Isa isa = cuda::choose_isa(capability);
    const std::string name = fmt::format("sm_{}", capability);
    return isa == cuda::default_isa(capability) ? name : name + ' ' + to_string(isa);
  }

  double clock_mhz() const override {
    int id = 0, khz = 0;
    check(cudaGetDevice(&id), "current device");
    check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, id), "clock of the device");
    return khz * 1e-3;
  }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), format_bytes(bytes) + " on the device");
    return memory;
  }
  void release(void* memory) noexcept override { cudaFree(memory); }
  double available_bytes() const override {
    std::size_t available = 0, total = 0;
    check(cudaMemGetInfo(&available, &total), "device memory");
    return static_cast<double>(available);
  }

  void upload(void* to, const void* host, std::size_t bytes) override {
    check(cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice), "upload");
  }
  void download(void* host, const void* from, std::size_t bytes) override {
    check(cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost), "download");
  }
  void fill_bytes(void* memory, std::byte value, std::size_t bytes) override {
    check(cudaMemset(memory, static_cast<int>(value), bytes), "filling device memory");
  }
  bool all_bytes_are(const void* memory, std::byte value, std::size_t bytes) override {
    return cuda::all_bytes_are(memory, value, bytes);
  }
  bool same_bytes(const void* a, const void* b, std::size_t bytes) override {
    return cuda::same_bytes(a, b, bytes);
  }

  void fill(DataType dtype, void* values, std::int64_t count, const Filling& filling,
            std::uint64_t seed) override {
    cuda::fill(dtype, values, count, filling, seed);
  }
  void reference(const ConvProblem& problem, const Tensors& tensors, double* y,
                 double* magnitude) override {
    cuda::reference_convolution(problem, tensors, y, magnitude);
  }
  ErrorReport compare(const Tiling& tiling, const void* y, const double* reference,
                      const double* magnitude) override {
    return cuda::compare(tiling, y, reference, magnitude);
  }
  Mismatch mismatch(DataType dtype, const void* y, const double* reference,
                    std::int64_t count) override {
    return cuda::mismatch(dtype, y, reference, count);
  }

  std::function<double()> clock(Work work, Caches caches) override {
    const bool cold = caches == Caches::cold;
    if (cold && sweep_.bytes() == 0) {
      sweep_ = Buffer(*this, 2 * static_cast<std::size_t>(properties_.l2CacheSize));
    }
    auto clock = std::make_shared<CudaClock>(std::move(work), cold ? sweep_.data() : nullptr,
                                             sweep_.bytes());
    return [clock] { return clock->sample_ms(); };
  }

 private:
  cudaDeviceProp properties_;
  Buffer sweep_;
};

}  // namespace

Device& cuda_device() {
  // Never destroyed: at the end of the process CUDA may already be gone.
  static CudaDevice& device = *new CudaDevice;
  return device;
}

std::string cuda_availability() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    cudaGetLastError();
    return std::string("no: ") + (code == cudaSuccess ? "no device" : cudaGetErrorString(code));
  }
  const cudaDeviceProp device = current_properties();
  const int capability = device.major * 10 + device.minor;
  std::vector<std::string> isas;
  for (const cuda::Isa isa : cuda::available_isas(capability)) isas.emplace_back(to_string(isa));
  return fmt::format(
      "{}: {}, compute capability {}.{}, {} SMs, {} MiB of L2; multiplies by {} (available: {}; "
      "MEGACONV_CUDA_ISA chooses)",
      capability >= 75 ? "yes" : "no (must be 7.5 or newer)", device.name, device.major,
      device.minor, device.multiProcessorCount, device.l2CacheSize >> 20,
      to_string(cuda::choose_isa(capability)), fmt::join(isas, ", "));
}

}  // namespace megaconv::cli
