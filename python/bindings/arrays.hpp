// SPDX-License-Identifier: Apache-2.0
// Tensors of any library's, by DLPack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "python/bindings/bindings.hpp"

namespace megaconv::python {

/// Memory on a CPU at multiples of Plan::kAlignment.
struct Freed {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Freed>;
/// Throws Error(out_of_memory).
Memory allocate(std::size_t bytes);

/// An array with its own numbers, held for as long as this lives.
using ReadArray = nb::ndarray<nb::ro>;
using WrittenArray = nb::ndarray<>;

/// The memory of any object that offers it. Throws TypeError.
ReadArray read_array(const char* name, nb::handle object);
WrittenArray written_array(const char* name, nb::handle object);

/// Extents or strides, in elements.
using Axes = std::vector<std::int64_t>;

/// What an array must be like: of one axis, or of four, which are NCHW by meaning.
struct Wanted {
  const char* name;
  Axes shape;
  Layout layout;
  DataType dtype;
  Backend backend;
  bool strided = false;  ///< of four axes, with strides of its own: those are checked elsewhere
};
/// Throws Error(invalid_argument) naming the array, what it has and what is wanted.
void check(const ReadArray& array, const Wanted& wanted);
void check(const WrittenArray& array, const Wanted& wanted);

/// Strides of an array of four axes; 0 where they are those of a dense one.
TensorStrides own_strides(const ReadArray& array, Layout layout);
TensorStrides own_strides(const WrittenArray& array, Layout layout);

}  // namespace megaconv::python
