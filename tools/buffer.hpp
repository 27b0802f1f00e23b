// SPDX-License-Identifier: Apache-2.0
// Floats aligned as plans want them, and the question whether the machine has room for more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace megaconv::cli {

/// Memory of `size` bytes, aligned to Plan::kAlignment, in large pages where the system has them,
/// not initialised. Throws Error(out_of_memory).
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);

  std::size_t bytes() const noexcept { return bytes_; }
  std::byte* data() noexcept { return data_.get(); }
  const std::byte* data() const noexcept { return data_.get(); }

  /// The same as floats; null when the buffer is empty.
  float* floats() noexcept { return reinterpret_cast<float*>(data_.get()); }
  const float* floats() const noexcept { return reinterpret_cast<const float*>(data_.get()); }
  std::span<float> span() noexcept { return {floats(), bytes_ / sizeof(float)}; }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

/// A buffer of `size` floats.
Buffer float_buffer(std::int64_t size);

/// Throws Error(out_of_memory), "WHAT needs 1.2 TiB, 20.1 GiB are available", instead of letting
/// the system end the process half-way.
void require_memory(const char* what, double bytes);

}  // namespace megaconv::cli
