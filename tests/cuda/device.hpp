// SPDX-License-Identifier: Apache-2.0
// Device memory for tests: poisoned, with guard bands.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "runtime/cuda/isa.hpp"

namespace megaconv::test {

inline void require_cuda(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

inline bool have_device() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return found;
}

/// What plans multiply by on the device; fma without one.
inline cuda::Isa device_isa() {
  if (!have_device()) return cuda::Isa::fma;
  int major = 0, minor = 0;
  require_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  require_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return cuda::choose_isa(major * 10 + minor);
}
inline bool uses_tensor_cores() { return device_isa() != cuda::Isa::fma; }
inline bool uses_wgmma() { return device_isa() == cuda::Isa::wgmma; }

/// Bytes on the device, all 0xff (NaN), between two guard bands of the same.
class DeviceBuffer {
 public:
  static constexpr std::size_t kGuard = 4096;
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    require_cuda(cudaMalloc(&base_, bytes + 2 * kGuard));
    poison();
  }
  template <class T>
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size() * sizeof(T)) {
    require_cuda(cudaMemcpy(get(), values.data(), bytes_, cudaMemcpyHostToDevice));
  }
  ~DeviceBuffer() { cudaFree(base_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void poison() { require_cuda(cudaMemset(base_, 0xff, bytes_ + 2 * kGuard)); }
  void* get() const { return static_cast<std::byte*>(base_) + kGuard; }
  std::size_t bytes() const { return bytes_; }

  template <class T>
  std::vector<T> download() const {
    std::vector<T> values(bytes_ / sizeof(T));
    require_cuda(cudaMemcpy(values.data(), get(), bytes_, cudaMemcpyDeviceToHost));
    return values;
  }
  /// Whether nothing has written to the guard bands.
  bool guards_intact() const {
    std::vector<unsigned char> all(bytes_ + 2 * kGuard);
    require_cuda(cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (all[i] != 0xff || all[kGuard + bytes_ + i] != 0xff) return false;
    }
    return true;
  }

 private:
  void* base_ = nullptr;
  std::size_t bytes_;
};

}  // namespace megaconv::test
