// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>

#include "runtime/cuda/error.hpp"
#include "runtime/cuda/network_run.hpp"
#include "runtime/executor.hpp"

namespace megaconv {
namespace cuda {

Device current_device() {
  constexpr int kLeastCapability = 75;  // the oldest that CUDA 13 compiles for
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    cudaGetLastError();
    throw Error(Status::device_error, "backend cuda: no CUDA device");
  }
  check(code, "backend cuda: cannot reach the CUDA driver");
  check_nothing_left();
  Device device;
  check(cudaGetDevice(&device.id), "cudaGetDevice");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device.id), "cudaGetDeviceProperties");
  device.num_sms = properties.multiProcessorCount;
  device.capability = properties.major * 10 + properties.minor;
  device.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  device.shared_bytes = properties.sharedMemPerBlockOptin;
  device.sm_shared_bytes = static_cast<int>(properties.sharedMemPerMultiprocessor);
  device.name = properties.name;
  if (device.capability < kLeastCapability) {
    throw Error(Status::unsupported, "backend cuda: " + device.name + " has compute capability " +
                                         std::to_string(properties.major) + "." +
                                         std::to_string(properties.minor) +
                                         ", must be at least 7.5");
  }
  device.isa = choose_isa(device.capability);
  return device;
}

void check_is_current(const Device& device) {
  check_nothing_left();
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  if (current != device.id) {
    throw Error(Status::invalid_argument, "current device " + std::to_string(current) +
                                              ", must be the plan's, " + std::to_string(device.id));
  }
}

void check_device_pointer(const char* name, const void* pointer, const Device& device) {
  if (pointer == nullptr) return;
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, pointer), name);
  if (attributes.type == cudaMemoryTypeManaged) return;
  if (attributes.type != cudaMemoryTypeDevice) {
    throw Error(Status::invalid_argument,
                std::string(name) + " is a host pointer, must be device memory");
  }
  if (attributes.device != device.id) {
    throw Error(Status::invalid_argument, std::string(name) + " lies on device " +
                                              std::to_string(attributes.device) + ", must be on " +
                                              std::to_string(device.id));
  }
}

}  // namespace cuda

DeviceIdentity cuda_identity() {
  const cuda::Device device = cuda::current_device();
  int runtime = 0;
  cuda::check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  // "NVRM version: NVIDIA UNIX ... Kernel Module for x86_64  580.95.05  Release Build ..."
  std::ifstream stream("/proc/driver/nvidia/version");
  std::string word, driver;
  while (driver.empty() && stream >> word) {
    if (std::count(word.begin(), word.end(), '.') == 2) driver = word + ", ";
  }
  std::string name = device.name + ", " + std::to_string(device.num_sms) + " SMs";
  if (device.isa != cuda::default_isa(device.capability))
    name += std::string(", ") + to_string(device.isa);
  return {name, driver + "CUDA " + std::to_string(runtime / 1000) + '.' +
                    std::to_string(runtime % 1000 / 10)};
}

Target cuda_target(const PlanOptions& options) {
  const cuda::Device device = cuda::current_device();
  const bool has_tensor_cores = device.isa != cuda::Isa::fma;
  // Workers of an SM; half of the L2 is what V, M and U can keep of it (docs/performance.md).
  const bool split = has_tensor_cores && options.tiling.arithmetic != Arithmetic::fma &&
                     options.tiling.m != 6 && options.tiling.algorithm != Algorithm::direct;
  const std::uint32_t resident = static_cast<std::uint32_t>((split ? 2 : 4) * device.num_sms);
  return {.backend = Backend::cuda,
          .workers = options.num_blocks != 0 ? std::min(options.num_blocks, resident) : resident,
          .cache_bytes_per_worker = device.l2_bytes / 2 / resident,
          .split_f16 = has_tensor_cores,
          .multiprocessors =
              device.isa == cuda::Isa::mma ? 0 : static_cast<std::uint32_t>(device.num_sms),
          .shared_bytes = static_cast<std::size_t>(device.sm_shared_bytes),
          .cluster_blocks = device.capability >= 90 ? cuda::network_cluster_blocks() : 1,
          .stages = options.cuda_launch == CudaLaunch::staged};
}

}  // namespace megaconv
