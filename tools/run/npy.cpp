// SPDX-License-Identifier: Apache-2.0
// A .npy file:
//
//   6 bytes   "\x93NUMPY"
//   2 bytes   version: 1.0, 2.0 or 3.0
//   2 or 4    length of the header, little-endian; 2 bytes in version 1.0
//   header    a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 8, 8),
//   } data      exactly as many bytes as descr and shape say
//
// Nothing in it is believed: sizes are compared with the file's before anything is allocated.
#include "tools/run/npy.hpp"

#include <bit>
#include <cctype>
#include <charconv>
#include <fstream>
#include <optional>

#include "mapping/enum_names.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tools/run/file_io.hpp"

namespace megaconv::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "data are copied as they stand");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = 65536;  // numpy itself reads no more than 10,000
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

// How files name storage types; the first name of each is what we write.
constexpr EnumNames<DataType, 5> kDescrs = {{DataType::f32, "<f4"},
                                            {DataType::f16, "<f2"},
                                            {DataType::bf16, "|V2"},
                                            {DataType::bf16, "<V2"},
                                            {DataType::i8, "|i1"}};

struct Header {
  std::vector<std::int64_t> shape;
  DataType dtype = DataType::f32;
  std::size_t data_begin = 0;
};

/// Reads the dictionary, left to right.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  /// All of the header but where its data begin.
  Header parse() {
    expect('{');
    while (!accept('}')) {
      const std::string key = read_string();
      expect(':');
      if (key == "descr" && !descr_) {
        descr_ = read_string();
      } else if (key == "fortran_order" && !fortran_order_) {
        fortran_order_ = read_bool();
      } else if (key == "shape" && !shape_) {
        shape_ = read_shape();
      } else {
        reject("header key '" + excerpt(key) +
               "', must be descr, fortran_order and shape, each once");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) reject("header goes on after its dictionary");
    if (!descr_ || !fortran_order_ || !shape_) {
      reject("header lacks a key, must have descr, fortran_order and shape");
    }
    const std::optional<DataType> dtype = value_of(kDescrs, *descr_);
    if (!dtype) {
      reject("dtype '" + excerpt(*descr_) +
             "', must be '<f4' (float32), '<f2' (float16), '|i1' (int8) or '|V2' (bfloat16; "
             "of its bits in uint16: a.view('V2'))");
    }
    if (*fortran_order_) {
      reject("array in Fortran order, must be in C order (numpy.ascontiguousarray)");
    }
    return {.shape = *shape_, .dtype = *dtype};
  }

 private:
  [[noreturn]] void reject(const std::string& message) const {
    throw Error(Status::invalid_argument, path_ + ": " + message);
  }

  void skip_space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) {
      rest_.remove_prefix(1);
    }
  }
  bool accept(char ch) {
    skip_space();
    if (rest_.empty() || rest_.front() != ch) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char ch) {
    if (!accept(ch)) reject(std::string("header is malformed: '") + ch + "' is missing");
  }
  std::string read_string() {
    const char quote = accept('\'') ? '\'' : accept('"') ? '"' : '\0';
    const std::size_t end = quote == '\0' ? std::string_view::npos : rest_.find(quote);
    if (end == std::string_view::npos) {
      reject("header is malformed: a simple string must stand where descr or a key is");
    }
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool read_bool() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    reject("header is malformed: fortran_order must be True or False");
  }
  std::vector<std::int64_t> read_shape() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0) reject("header is malformed: shape");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      shape.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  const std::string& path_;
  std::string_view rest_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

/// Elements of an array; throws when one extent is 0 or the product is out of range.
std::int64_t num_elements(const std::string& path, const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1 || extent > kMostElements / elements) {
      throw Error(Status::invalid_argument, path + ": shape " + shape_text(shape) +
                                                ", extents must be at least 1, and 2^40 in all");
    }
    elements *= extent;
  }
  return elements;
}

Header read_header(const std::string& path, std::ifstream& stream) {
  const auto reject = [&](const std::string& message) {
    throw Error(Status::invalid_argument, path + ": " + message);
  };
  const auto read = [&](std::size_t bytes) {
    std::string text(bytes, '\0');
    stream.read(text.data(), static_cast<std::streamsize>(bytes));
    if (stream.gcount() != static_cast<std::streamsize>(bytes)) {
      reject("truncated in its header, must be a .npy file");
    }
    return text;
  };
  const std::string start = read(kMagic.size() + 2);
  if (!start.starts_with(kMagic)) reject("not a .npy file (its first bytes are not \\x93NUMPY)");
  const int major = start[kMagic.size()], minor = start[kMagic.size() + 1];
  if (major < 1 || major > 3 || minor != 0) {
    reject("version " + std::to_string(major) + '.' + std::to_string(minor) +
           ", must be 1.0, 2.0 or 3.0");
  }
  const std::string length_bytes = read(major == 1 ? 2 : 4);
  std::size_t length = 0;
  for (std::size_t i = length_bytes.size(); i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(length_bytes[i]);
  }
  if (length > kMostHeaderBytes) {
    reject("header of " + std::to_string(length) + " bytes, must be at most " +
           std::to_string(kMostHeaderBytes));
  }
  const std::string text = read(length);
  Header header = HeaderParser(path, text).parse();
  header.data_begin = start.size() + length_bytes.size() + length;
  return header;
}

std::string make_header(const std::vector<std::int64_t>& shape, DataType dtype) {
  std::string dictionary = std::string("{'descr': '") + name_of(kDescrs, dtype) +
                           "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t extent : shape) dictionary += std::to_string(extent) + ", ";
  dictionary += "), }";
  // Padded so that the data start at a multiple of 64.
  const std::size_t before = kMagic.size() + 4;
  dictionary.append(63 - (before + dictionary.size()) % 64, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff),
             static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

NpyArray read_npy(const std::string& path, std::size_t rank) {
  const std::int64_t file_bytes = regular_file_bytes(path);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw_file_error("read", path);
  Header header = read_header(path, stream);
  if (header.shape.size() != rank) {
    throw Error(Status::invalid_argument, path + ": array of rank " +
                                              std::to_string(header.shape.size()) + ", must be " +
                                              std::to_string(rank));
  }
  const std::int64_t said =
      num_elements(path, header.shape) * static_cast<std::int64_t>(size_of(header.dtype));
  const std::int64_t held = file_bytes - static_cast<std::int64_t>(header.data_begin);
  if (held != said) {
    throw Error(Status::invalid_argument, path + ": " + std::to_string(held) +
                                              " bytes of data, shape " + shape_text(header.shape) +
                                              " of " + name_of(kDescrs, header.dtype) +
                                              " must have " + std::to_string(said));
  }
  require_memory(cpu_device(), path, static_cast<double>(said));
  NpyArray array{std::move(header.shape), header.dtype,
                 Buffer(cpu_device(), static_cast<std::size_t>(said))};
  if (!stream.read(reinterpret_cast<char*>(array.data.data()), said)) {
    throw_file_error("read", path);
  }
  return array;
}

void write_npy(const std::string& path, const std::vector<std::int64_t>& shape, DataType dtype,
               const void* data) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  const std::string header = make_header(shape, dtype);
  const std::string_view parts[] = {header, {static_cast<const char*>(data), bytes}};
  write_file(path, parts);
}

}  // namespace megaconv::cli
