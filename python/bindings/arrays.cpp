// SPDX-License-Identifier: Apache-2.0
#include "python/bindings/arrays.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <tuple>

namespace megaconv::python {
namespace {

template <class Array>
Array array_of(const char* name, nb::handle object) {
  Array array;
  if (!nb::try_cast<Array>(object, array)) {
    PyErr_Clear();
    constexpr bool written = std::is_same_v<Array, WrittenArray>;
    throw nb::type_error((std::string(name) + " is of type " +
                          nb::cast<std::string>(nb::inst_name(object)) + ", must be " +
                          (written ? "an array that can be written to" : "an array") +
                          " and offer its memory by DLPack")
                             .c_str());
  }
  return array;
}

// "float32"
std::string to_string(const nb::dlpack::dtype& type) {
  constexpr std::array kCodes = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const std::string code = type.code < kCodes.size() ? kCodes[type.code] : "type";
  return code + std::to_string(type.bits) +
         (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

nb::dlpack::dtype dlpack_type(DataType type) {
  switch (type) {
    case DataType::f32:
      return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 32, 1};
    case DataType::f16:
      return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case DataType::bf16:
      return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
    case DataType::i8:
      return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int), 8, 1};
  }
  return {};
}

std::string to_string(const Axes& axes) {
  std::string text;
  for (const std::int64_t axis : axes) text += (text.empty() ? "(" : ", ") + std::to_string(axis);
  return text + (axes.size() == 1 ? ",)" : ")");
}

// Elements from one index to the next along each axis of a dense tensor; NCHW by meaning.
Axes strides_of(const Axes& shape, Layout layout) {
  if (shape.size() == 1) return {1};
  const std::int64_t a = shape[0], b = shape[1], c = shape[2], d = shape[3];
  switch (layout) {
    case Layout::nchw:
      return {b * c * d, c * d, d, 1};
    case Layout::nhwc:
      return {b * c * d, 1, d * b, b};
    case Layout::chwn:
      return {1, c * d * a, d * a, a};
    case Layout::nchw16c:  // no strides give it: any dense memory of the shape
      return {b * c * d, c * d, d, 1};
  }
  return {};
}

template <class Array>
Axes shape_of(const Array& array) {
  Axes shape(array.ndim());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] = static_cast<std::int64_t>(array.shape(i));
  }
  return shape;
}

// Strides along axes of one index say nothing.
template <class Array>
bool has_strides(const Array& array, const Axes& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (array.shape(i) != 1 && array.stride(i) != wanted[i]) return false;
  }
  return true;
}

template <class Array>
void check_array(const Array& array, const Wanted& wanted) {
  const auto refuse = [&](const std::string& what, const std::string& allowed) {
    throw Error(Status::invalid_argument,
                std::string(wanted.name) + " " + what + ", must be " + allowed);
  };
  const nb::dlpack::dtype type = dlpack_type(wanted.dtype), found = array.dtype();
  // NumPy has no bfloat16: its bits come as unsigned integers.
  const nb::dlpack::dtype bits{static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt), 16, 1};
  if (found != type && !(wanted.dtype == DataType::bf16 && found == bits)) {
    refuse("has " + to_string(found), to_string(type));
  }
  if (const Axes shape = shape_of(array); shape != wanted.shape) {
    refuse("has shape " + to_string(shape), to_string(wanted.shape));
  }
  if (!wanted.strided && !has_strides(array, strides_of(wanted.shape, wanted.layout))) {
    Axes strides(array.ndim());
    for (std::size_t i = 0; i < strides.size(); ++i) strides[i] = array.stride(i);
    refuse("has strides " + to_string(strides), to_string(strides_of(wanted.shape, wanted.layout)) +
                                                    ", dense in the order " +
                                                    to_string(wanted.layout));
  }
  const bool on_cpu =
      array.device_type() == nb::device::cpu::value || array.device_type() == 3 /*pinned*/;
  if (on_cpu != (wanted.backend != Backend::cuda)) {
    refuse(on_cpu ? "is in the memory of the CPU" : "is in the memory of a device",
           std::string("where the plan's backend ") + to_string(wanted.backend) + " can use it");
  }
}

template <class Array>
TensorStrides strides_of_array(const Array& array, Layout layout) {
  if (has_strides(array, strides_of(shape_of(array), layout))) return {};
  return {array.stride(0), array.stride(1), array.stride(2), array.stride(3)};
}

// How the strides of an array (N, C, H, W) lie in memory: NCHW, NHWC, and these with rows and
// columns turned, NCWH and NWHC. A device's kernels load 16 bytes at a time.
struct Fits {
  bool nchw, nhwc, turned_nchw, turned_nhwc, aligned;
};
using Inspected = std::tuple<nb::tuple, std::string, std::pair<int, int>, bool, bool, bool, bool,
                             bool, nb::tuple>;

Fits fits_of(const ReadArray& array, const Axes& shape) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % 16 == 0;
  if (shape.size() != 4) return {false, false, false, false, aligned};
  const auto turned = [&](Layout layout) {
    Axes strides = strides_of({shape[0], shape[1], shape[3], shape[2]}, layout);
    std::swap(strides[2], strides[3]);
    return has_strides(array, strides);
  };
  return {has_strides(array, strides_of(shape, Layout::nchw)),
          has_strides(array, strides_of(shape, Layout::nhwc)), turned(Layout::nchw),
          turned(Layout::nhwc), aligned};
}

// Shape, name of the type, device, what the strides fit, and the strides, of anything with DLPack.
Inspected inspect(const char* name, nb::object object) {
  const auto array = array_of<ReadArray>(name, object);
  const Axes shape = shape_of(array);
  nb::list axes, strides;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    axes.append(shape[i]);
    strides.append(array.stride(i));
  }
  const Fits fits = fits_of(array, shape);
  return {nb::tuple(axes),
          to_string(array.dtype()),
          std::pair(array.device_type(), array.device_id()),
          fits.nchw,
          fits.nhwc,
          fits.turned_nchw,
          fits.turned_nhwc,
          fits.aligned,
          nb::tuple(strides)};
}

// An array of no library's, for those whose arrays cannot be written to.
using PlainArray = nb::ndarray<nb::array_api>;

PlainArray empty(const std::vector<std::int64_t>& shape, const std::string& dtype,
                 bool channels_last) {
  constexpr DataType types[] = {DataType::f32, DataType::f16, DataType::bf16, DataType::i8};
  const DataType type =
      enumerator("dtype", dtype, types, [](DataType value) { return megaconv::to_string(value); });
  std::size_t size = size_of(type);
  for (const std::int64_t axis : shape) size *= static_cast<std::size_t>(axis);
  Memory memory = allocate(size);
  const nb::capsule owner(memory.get(), [](void* p) noexcept { std::free(p); });
  void* const data = memory.release();
  const Axes strides = strides_of(shape, channels_last ? Layout::nhwc : Layout::nchw);
  const std::vector<std::size_t> axes(shape.begin(), shape.end());
  return PlainArray(data, axes.size(), axes.data(), owner, strides.data(), dlpack_type(type));
}

}  // namespace

Memory allocate(std::size_t bytes) {
  const std::size_t whole = (bytes + Plan::kAlignment - 1) / Plan::kAlignment * Plan::kAlignment;
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(Plan::kAlignment, whole)));
  if (memory == nullptr) {
    throw Error(Status::out_of_memory, std::to_string(bytes) + " bytes are not to be had");
  }
  return memory;
}

ReadArray read_array(const char* name, nb::handle object) {
  return array_of<ReadArray>(name, object);
}
WrittenArray written_array(const char* name, nb::handle object) {
  return array_of<WrittenArray>(name, object);
}

void check(const ReadArray& array, const Wanted& wanted) { check_array(array, wanted); }
void check(const WrittenArray& array, const Wanted& wanted) { check_array(array, wanted); }

TensorStrides own_strides(const ReadArray& array, Layout layout) {
  return strides_of_array(array, layout);
}
TensorStrides own_strides(const WrittenArray& array, Layout layout) {
  return strides_of_array(array, layout);
}

void bind_arrays(nb::module_& module) {
  module.def("inspect", &inspect, nb::arg("name"), nb::arg("array").none(),
             "Shape, type, device, what the strides fit, whether aligned, strides of an array.");
  module.def("empty", &empty, nb::arg("shape"), nb::arg("dtype"), nb::arg("channels_last"),
             "An array (N, K, P, Q) that is not initialised, for any library to take by DLPack.");
}

}  // namespace megaconv::python
