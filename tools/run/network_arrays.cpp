// SPDX-License-Identifier: Apache-2.0
#include "tools/run/network_arrays.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"
#include "tools/run/npy.hpp"

namespace megaconv::cli {
namespace {

/// Calls move(place in [N][C][H][W], place in the tensor) for every number.
template <class Move>
void for_each_number(const Network& network, const Shape& shape, const Move& move) {
  const std::int64_t pixels = shape.h * shape.w;
  const Strides at = strides_of(network.layout, shape.n, shape.c, pixels);
  std::int64_t place = 0;
  for (std::int64_t image = 0; image < shape.n; ++image) {
    for (std::int64_t c = 0; c < shape.c; ++c) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        move(place++, image * at.image + c * at.channel + pixel * at.pixel);
      }
    }
  }
}

}  // namespace

std::vector<std::string> files_of(const char* option, const std::vector<std::string>& texts,
                                  const std::vector<std::string>& names) {
  std::vector<std::string> files(names.size());
  for (const std::string& text : texts) {
    const std::size_t sign = text.find('=');
    const auto found = std::find(names.begin(), names.end(), text.substr(0, sign));
    const bool named = sign != std::string::npos && found != names.end();
    if (!named && names.size() != 1) {
      throw Error(Status::invalid_argument,
                  fmt::format("{} {}, must be NAME=FILE with one of the names {}", option,
                              excerpt(text), excerpt(fmt::format("{}", fmt::join(names, ", ")))));
    }
    std::string& file = files[named ? static_cast<std::size_t>(found - names.begin()) : 0];
    if (!file.empty()) {
      throw Error(Status::invalid_argument,
                  fmt::format("{} {}: its value has a file already", option, excerpt(text)));
    }
    file = named ? text.substr(sign + 1) : text;
    if (file.empty()) {
      throw Error(Status::invalid_argument,
                  fmt::format("{} {}, must name a file", option, excerpt(text)));
    }
  }
  return files;
}

void read_value(const std::string& path, const Network& network, const Shape& shape, void* tensor) {
  const NpyArray array = read_npy(path, 4);
  const std::vector<std::int64_t> wanted{shape.n, shape.c, shape.h, shape.w};
  if (array.shape != wanted || array.dtype == DataType::i8) {
    throw Error(Status::invalid_argument,
                fmt::format("{}: {} of {}, must be floating-point numbers of {}", path,
                            shape_text(array.shape), to_string(array.dtype), shape_text(wanted)));
  }
  with_storage(array.dtype, [&](auto source) {
    with_storage(network.dtype, [&](auto target) {
      const auto* const from = reinterpret_cast<const decltype(source)*>(array.data.data());
      auto* const to = static_cast<decltype(target)*>(tensor);
      for_each_number(network, shape, [&](std::int64_t i, std::int64_t at) {
        to[at] = from_float<decltype(target)>(to_float(from[i]));
      });
    });
  });
}

void write_value(const std::string& path, const Network& network, const Shape& shape,
                 const void* tensor) {
  with_storage(network.dtype, [&](auto number) {
    using T = decltype(number);
    std::vector<T> array(static_cast<std::size_t>(shape.size()));
    for_each_number(network, shape, [&](std::int64_t i, std::int64_t at) {
      array[static_cast<std::size_t>(i)] = static_cast<const T*>(tensor)[at];
    });
    write_npy(path, {shape.n, shape.c, shape.h, shape.w}, network.dtype, array.data());
  });
}

}  // namespace megaconv::cli
