// SPDX-License-Identifier: Apache-2.0
// Tensors of a case, and the hash of what comes of them. Numbers are drawn as bits: no conversion
// of the library has a part in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/checksums/case.hpp"

namespace megaconv::checksums {

/// Bytes at a multiple of 64, all of one value at first.
class Bytes {
 public:
  explicit Bytes(std::size_t size, std::byte value = std::byte{0xa5});
  void* get() { return size_ == 0 ? nullptr : lines_.data(); }
  const void* get() const { return size_ == 0 ? nullptr : lines_.data(); }
  std::size_t size() const { return size_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::size_t size_;
  std::vector<Line> lines_;
};

/// Dense tensors in the problem's layout and storage types. Those that the epilogue does not have
/// are empty.
struct Data {
  Data(const ConvProblem& problem, const Case& item);
  Bytes x, w, scale, bias, residual;
};

/// FNV-1a, 64 bits.
std::uint64_t hash(const void* bytes, std::size_t size);

}  // namespace megaconv::checksums
