// SPDX-License-Identifier: Apache-2.0
#include "runtime/onnx/constant.hpp"

#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tasks/storage.hpp"

namespace megaconv::onnx {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostDims = 8;
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

[[noreturn]] void fail(const std::string& message) {
  throw Error(Status::invalid_argument, message);
}

std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return 1;
    case ElementType::f16:
    case ElementType::bf16:
      return 2;
    case ElementType::i64:
    case ElementType::f64:
      return 8;
    default:
      return 4;
  }
}

ElementType type_of(const onnx_file::TensorProto& tensor, const std::string& who) {
  const auto type = static_cast<ElementType>(tensor.data_type());
  switch (type) {
    case ElementType::f32:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::boolean:
    case ElementType::f16:
    case ElementType::f64:
    case ElementType::bf16:
      return type;
  }
  throw Error(Status::unsupported, who + " has " + type_name(tensor.data_type()) +
                                       ", must have float32, float16, bfloat16, float64, int32, "
                                       "int64 or bool");
}

std::uint64_t whole_number(const std::string& text, const std::string& who, const char* key) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > std::uint64_t{1} << 62) {
    fail(who + ": external data, " + key + " \"" + excerpt(text) + "\", must be 0 to 2^62");
  }
  return value;
}

/// The file of external data, in the folder or below, links resolved.
fs::path external_file(const std::string& location, const std::string& folder,
                       const std::string& who) {
  const auto refuse = [&](const char* why) {
    fail(who + ": external data in \"" + excerpt(location) + "\", " + why);
  };
  const fs::path relative(location);
  bool inside = !location.empty() && relative.is_relative();
  for (const fs::path& part : relative) inside = inside && part != "..";
  if (!inside || location.find('\0') != std::string::npos) {
    refuse("must be a file in the folder of the model or below");
  }
  std::error_code error;
  const fs::path root = fs::canonical(folder.empty() ? "." : folder, error);
  const fs::path file = error ? fs::path() : fs::canonical(root / relative, error);
  if (error) {
    throw Error(Status::device_error,
                who + ": external data in \"" + excerpt(location) + "\": " + error.message());
  }
  const fs::path below = file.lexically_relative(root);
  if (below.empty() || *below.begin() == "..") {
    refuse("a link that leaves the folder of the model");
  }
  if (!fs::is_regular_file(file, error)) refuse("must be a regular file");
  return file;
}

/// The bytes of a tensor's external data.
std::string external_bytes(const onnx_file::TensorProto& tensor, const std::string& who,
                           const std::string* folder, std::uint64_t bytes) {
  if (folder == nullptr) fail(who + ": external data, must be in the model itself");
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = whole_number(entry.value(), who, "offset");
    if (entry.key() == "length") length = whole_number(entry.value(), who, "length");
  }
  if (length && *length != bytes) {
    fail(who + ": external data of " + std::to_string(*length) + " bytes, must be " +
         std::to_string(bytes));
  }
  const fs::path file = external_file(location, *folder, who);
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  if (!error && (offset > size || bytes > size - offset)) {
    fail(who + ": external data is bytes " + std::to_string(offset) + " to " +
         std::to_string(offset + bytes) + " of \"" + excerpt(location) + "\", which has " +
         std::to_string(size));
  }
  std::string content(bytes, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  stream.read(content.data(), static_cast<std::streamsize>(bytes));
  if (error || !stream) {
    throw Error(Status::device_error, who + ": cannot read \"" + excerpt(location) + "\"");
  }
  return content;
}

template <class T>
T little_endian(const char* bytes) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float raw_float(ElementType type, const char* bytes) {
  switch (type) {
    case ElementType::f16:
      return to_float(little_endian<Float16>(bytes));
    case ElementType::bf16:
      return to_float(little_endian<Bfloat16>(bytes));
    case ElementType::f64:
      return static_cast<float>(little_endian<double>(bytes));
    default:
      return little_endian<float>(bytes);
  }
}

std::int64_t raw_int(ElementType type, const char* bytes) {
  switch (type) {
    case ElementType::boolean:
      return *bytes != 0;
    case ElementType::i32:
      return little_endian<std::int32_t>(bytes);
    default:
      return little_endian<std::int64_t>(bytes);
  }
}

/// Numbers that are fields of the message and not bytes.
struct Fields {
  const onnx_file::TensorProto& tensor;
  ElementType type;

  int size() const {
    switch (type) {
      case ElementType::f32:
        return tensor.float_data_size();
      case ElementType::f64:
        return tensor.double_data_size();
      case ElementType::i64:
        return tensor.int64_data_size();
      default:
        return tensor.int32_data_size();
    }
  }
  float floating_point(int i) const {
    switch (type) {
      case ElementType::f16:
        return to_float(Float16{static_cast<std::uint16_t>(tensor.int32_data(i))});
      case ElementType::bf16:
        return to_float(Bfloat16{static_cast<std::uint16_t>(tensor.int32_data(i))});
      case ElementType::f64:
        return static_cast<float>(tensor.double_data(i));
      default:
        return tensor.float_data(i);
    }
  }
  std::int64_t integer(int i) const {
    return type == ElementType::i64 ? tensor.int64_data(i) : tensor.int32_data(i);
  }
};

}  // namespace

std::string to_string(const Dims& dims) {
  std::string text;
  for (const std::int64_t extent : dims) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + text + "]";
}

std::int64_t count_elements(const Dims& dims, const std::string& who) {
  if (dims.size() > kMostDims) {
    fail(who + " has " + std::to_string(dims.size()) + " dimensions, must have at most 8");
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) {
    if (extent < 0) fail(who + " has shape " + to_string(dims) + ", no extent may be negative");
    if (extent == 0) return 0;
    if (extent > kMostElements / count) {
      fail(who + " has shape " + to_string(dims) + ", must have at most 2^40 elements");
    }
    count *= extent;
  }
  return count;
}

std::string type_name(int type) {
  static constexpr const char* kNames[] = {"no type",    "float32", "uint8",  "int8",   "uint16",
                                           "int16",      "int32",   "int64",  "text",   "bool",
                                           "float16",    "float64", "uint32", "uint64", "complex64",
                                           "complex128", "bfloat16"};
  if (type >= 0 && type < static_cast<int>(std::size(kNames))) return kNames[type];
  return "type " + std::to_string(type);
}

bool is_floating_point(int type) noexcept {
  const auto known = static_cast<ElementType>(type);
  return known == ElementType::f32 || known == ElementType::f16 || known == ElementType::f64 ||
         known == ElementType::bf16;
}

void Budget::take(std::int64_t numbers, const std::string& who) {
  if (numbers > left_) {
    throw Error(Status::out_of_memory, who + " has " + std::to_string(numbers) +
                                           " numbers: all weights together must have at most " +
                                           std::to_string(most_));
  }
  left_ -= numbers;
}

Constant read_tensor(onnx_file::TensorProto& tensor, const std::string& who,
                     const std::string* folder, Budget& budget) {
  Constant constant;
  constant.dims.assign(tensor.dims().begin(), tensor.dims().end());
  const std::int64_t count = count_elements(constant.dims, who);
  const ElementType type = type_of(tensor, who);
  constant.floating_point = is_floating_point(tensor.data_type());
  if (tensor.has_segment()) {
    throw Error(Status::unsupported, who + " is in segments, must be whole");
  }
  if (!constant.floating_point && count > kMostInts) {
    fail(who + " has " + std::to_string(count) + " whole numbers, must have at most " +
         std::to_string(kMostInts));
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * bytes_of(type);
  const bool external = tensor.data_location() == 1;
  const std::string raw =
      external ? external_bytes(tensor, who, folder, bytes) : std::move(*tensor.mutable_raw_data());
  const Fields fields{tensor, type};
  const bool is_raw = external || !raw.empty();
  if (is_raw ? raw.size() != bytes : fields.size() != count) {
    fail(who + " has " +
         (is_raw ? std::to_string(raw.size()) + " bytes, must have " + std::to_string(bytes)
                 : std::to_string(fields.size()) + " numbers, must have " + std::to_string(count)) +
         " for shape " + to_string(constant.dims) + " of " + type_name(tensor.data_type()));
  }
  const auto from = [&](std::int64_t i) {
    return raw.data() + static_cast<std::size_t>(i) * bytes_of(type);
  };
  if (constant.floating_point) {
    budget.take(count, who);
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      numbers[static_cast<std::size_t>(i)] =
          is_raw ? raw_float(type, from(i)) : fields.floating_point(static_cast<int>(i));
    }
    constant.floats = make_weights(std::move(numbers));
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      constant.ints.push_back(is_raw ? raw_int(type, from(i))
                                     : fields.integer(static_cast<int>(i)));
    }
  }
  onnx_file::TensorProto().Swap(&tensor);  // frees what it held
  return constant;
}

}  // namespace megaconv::onnx
