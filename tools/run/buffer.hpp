// SPDX-License-Identifier: Apache-2.0
// Memory of a device, owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "tools/run/device.hpp"

namespace megaconv::cli {

/// Memory of `device`, aligned to Plan::kAlignment at least, not initialised.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error(out_of_memory).
  Buffer(Device& device, std::size_t bytes)
      : device_(&device), data_(bytes == 0 ? nullptr : device.allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) device_->release(data_);
  }

  std::size_t bytes() const noexcept { return bytes_; }
  /// Null when the buffer is empty; of the device, so not for the host to read unless it is its
  /// own.
  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  float* floats() const noexcept { return static_cast<float*>(data_); }
  double* doubles() const noexcept { return static_cast<double*>(data_); }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A buffer of `size` numbers of a storage type, or of doubles.
inline Buffer number_buffer(Device& device, DataType dtype, std::int64_t size) {
  return {device, static_cast<std::size_t>(size) * size_of(dtype)};
}
inline Buffer double_buffer(Device& device, std::int64_t size) {
  return {device, static_cast<std::size_t>(size) * sizeof(double)};
}

}  // namespace megaconv::cli
