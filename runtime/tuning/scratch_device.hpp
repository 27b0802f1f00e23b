// SPDX-License-Identifier: Apache-2.0
// Memory and a clock on a back end, for measuring in place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "megaconv/lowering.hpp"

namespace megaconv {

class ScratchDevice {
 public:
  virtual ~ScratchDevice() = default;
  /// Aligned to Plan::kAlignment. Throws Error(out_of_memory).
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual void upload(void* to, const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, const void* from, std::size_t bytes) = 0;
  /// Milliseconds that `work`, which only enqueues, takes on the device.
  virtual double time_ms(const std::function<void()>& work) = 0;
};

std::unique_ptr<ScratchDevice> make_cpu_scratch_device();
/// Throws Error(unsupported) in a build without CUDA.
std::unique_ptr<ScratchDevice> make_cuda_scratch_device();

/// Memory of a scratch device; null when empty.
class ScratchMemory {
 public:
  ScratchMemory(ScratchDevice& device, std::size_t bytes)
      : device_(device), data_(bytes == 0 ? nullptr : device.allocate(bytes)) {}
  ~ScratchMemory() {
    if (data_ != nullptr) device_.release(data_);
  }
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  void* data() const { return data_; }

 private:
  ScratchDevice& device_;
  void* data_;
};

}  // namespace megaconv
