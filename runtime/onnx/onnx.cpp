// SPDX-License-Identifier: Apache-2.0
// ONNX models from files and from memory.
#include "megaconv/onnx.hpp"

#include <filesystem>
#include <fstream>
#include <limits>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "runtime/onnx/graph.hpp"

namespace megaconv {
namespace {

/// Protobuf's own limit.
constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;

void check_size(std::uint64_t bytes) {
  if (bytes <= kMostBytes) return;
  throw Error(Status::invalid_argument,
              std::to_string(bytes) +
                  " bytes, must be less than 2^31; weights beyond that are "
                  "external data");
}

Network network_of(onnx_file::ModelProto& model, bool parsed, const OnnxOptions& options,
                   const std::string* folder) {
  if (!parsed) throw Error(Status::invalid_argument, "no ONNX model, or one that is cut off");
  if (!model.has_graph()) throw Error(Status::invalid_argument, "no graph, must have one");
  for (const auto& [name, value] : {std::pair{"batch", options.batch}, {"image", options.image}}) {
    if (value >= 0 && value <= std::numeric_limits<std::int32_t>::max()) continue;
    throw Error(Status::invalid_argument,
                std::string(name) + " = " + std::to_string(value) + ", must be 0 to 2147483647");
  }
  return onnx::Graph(model, options, folder).run();
}

}  // namespace

bool reads_onnx() noexcept { return true; }

Network read_onnx(const std::string& path, const OnnxOptions& options) {
  const auto about_file = [&](const std::string& message) {
    return excerpt(path) + ": " + message;
  };
  try {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
      throw Error(Status::device_error, error ? error.message() : "must be a regular file");
    }
    check_size(std::filesystem::file_size(path));
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw Error(Status::device_error, "cannot be read");
    onnx_file::ModelProto model;
    const bool parsed = model.ParseFromIstream(&stream);
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return network_of(model, parsed, options, &folder);
  } catch (const Error& error) {
    throw Error(error.status(), about_file(error.what()));
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(Status::device_error, about_file(error.code().message()));
  }
}

Network parse_onnx(std::string_view bytes, const OnnxOptions& options) {
  check_size(bytes.size());
  onnx_file::ModelProto model;
  const bool parsed = model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  return network_of(model, parsed, options, nullptr);
}

}  // namespace megaconv
