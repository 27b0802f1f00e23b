// SPDX-License-Identifier: Apache-2.0
#include "tools/run/network_source.hpp"

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/network_file.hpp"
#include "megaconv/onnx.hpp"
#include "tools/run/file_io.hpp"

namespace megaconv::cli {
namespace {

constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 34;

[[noreturn]] void refuse(const char* option, const std::string& word, const char* why) {
  throw Error(Status::invalid_argument, std::string(option) + " of " + excerpt(word) + ": " + why);
}

void check_least_one(const char* option, const std::optional<std::int64_t>& value) {
  if (!value || *value >= 1) return;
  throw Error(Status::invalid_argument,
              std::string(option) + " " + std::to_string(*value) + ", must be 1 or more");
}

Network from_file(const std::string& path, const NetworkChoice& choice) {
  if (choice.batch || choice.image) {
    refuse("--batch and --image", path, "the file has shapes of its own");
  }
  Network network = import_network(read_file(path, kMostFileBytes), path);
  network.dtype = choice.dtype.value_or(network.dtype);
  network.layout = choice.layout.value_or(network.layout);
  return network;
}

}  // namespace

Network network_of(const std::string& word, const NetworkChoice& choice) {
  check_least_one("--batch", choice.batch);
  check_least_one("--image", choice.image);
  check_least_one("--classes", choice.classes);
  const bool is_onnx = word.ends_with(".onnx"), is_file = word.ends_with(".safetensors");
  if ((is_onnx || is_file) && choice.classes) refuse("--classes", word, "its weights have them");
  if (is_file) return from_file(word, choice);
  if (is_onnx) {
    return read_onnx(word, {.batch = choice.batch.value_or(0),
                            .image = choice.image.value_or(0),
                            .dtype = choice.dtype.value_or(DataType::f32),
                            .layout = choice.layout.value_or(Layout::nhwc)});
  }
  return make_network(word, {.batch = choice.batch.value_or(1),
                             .image = choice.image.value_or(0),
                             .classes = choice.classes.value_or(0),
                             .seed = choice.seed,
                             .dtype = choice.dtype.value_or(DataType::f32),
                             .layout = choice.layout.value_or(Layout::nhwc)});
}

}  // namespace megaconv::cli
