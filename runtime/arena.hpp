// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace megaconv {

/// Places the parts of a workspace one behind the other.
class Arena {
 public:
  /// Parts begin at multiples of `alignment`, the first behind `begin` bytes.
  Arena(std::size_t begin, std::size_t alignment) : end_(begin), alignment_(alignment) {}

  /// The offset of a part of so many bytes.
  std::size_t place(std::size_t bytes) {
    const std::size_t begin = end();
    end_ = begin + bytes;
    return begin;
  }
  /// The end of all parts, a multiple of the alignment.
  std::size_t end() const { return (end_ + alignment_ - 1) / alignment_ * alignment_; }

 private:
  std::size_t end_, alignment_;
};

}  // namespace megaconv
