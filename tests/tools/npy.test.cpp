// SPDX-License-Identifier: Apache-2.0
#include "tools/run/npy.hpp"

#include <cstring>

#include "megaconv/error.hpp"
#include "tests/catch.hpp"
#include "tests/tools/npy_bytes.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv::cli {
namespace {

std::string error_of(const std::string& path, std::size_t rank = 4) {
  try {
    read_npy(path, rank);
  } catch (const Error& error) {
    CHECK(error.status() == Status::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST_CASE("read_npy reads what numpy.save writes, in all three versions") {
  const ScratchFolder folder;
  for (const int major : {1, 2, 3}) {
    const std::string path =
        folder.write("x.npy", npy_bytes(npy_dictionary("(1, 2, 3, 1)"), 24, major));
    const NpyArray array = read_npy(path, 4);
    CHECK(array.shape == std::vector<std::int64_t>{1, 2, 3, 1});
    REQUIRE(array.data.bytes() == 24);
    CHECK(array.data.floats()[5] == 1.0f);
  }
}

TEST_CASE("read_npy takes the keys in any order and with any spacing") {
  const ScratchFolder folder;
  const std::string path = folder.write(
      "b.npy", npy_bytes("{ \"shape\":(3,),'fortran_order' : False,'descr':'<f4'}   ", 12));
  CHECK(read_npy(path, 1).shape == std::vector<std::int64_t>{3});
}

TEST_CASE("write_npy writes what read_npy reads, with aligned data and nothing left over") {
  const ScratchFolder folder;
  const float data[] = {0.5f, -1, 2, 3e30f, 0, 7};
  write_npy(folder.path("y.npy"), {1, 1, 2, 3}, DataType::f32, data);
  const NpyArray array = read_npy(folder.path("y.npy"), 4);
  CHECK(array.shape == std::vector<std::int64_t>{1, 1, 2, 3});
  for (std::size_t i = 0; i < 6; ++i) CHECK(array.data.floats()[i] == data[i]);
  CHECK((folder.read("y.npy").size() - sizeof data) % 64 == 0);
  CHECK(folder.num_files() == 1);
}

TEST_CASE("files have the names that NumPy has for narrow types") {
  const ScratchFolder folder;
  const std::uint16_t bits[] = {0x3c00, 0xbc00, 0};
  for (const auto& [dtype, descr] :
       {std::pair{DataType::f16, "'<f2'"}, std::pair{DataType::bf16, "'|V2'"},
        std::pair{DataType::i8, "'|i1'"}}) {
    const std::size_t bytes = 3 * size_of(dtype);
    write_npy(folder.path("y.npy"), {3}, dtype, bits);
    CHECK_THAT(folder.read("y.npy"), ContainsSubstring(descr));
    const NpyArray array = read_npy(folder.path("y.npy"), 1);
    CHECK(array.dtype == dtype);
    REQUIRE(array.data.bytes() == bytes);
    CHECK(std::memcmp(array.data.data(), bits, bytes) == 0);
  }
  const std::string ml_dtypes = "{'descr': '<V2', 'fortran_order': False, 'shape': (3,), }";
  CHECK(read_npy(folder.write("x.npy", npy_bytes(ml_dtypes, 6)), 1).dtype == DataType::bf16);
}

TEST_CASE("read_npy names the value that it does not take and what is allowed") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& dictionary, std::size_t bytes, std::size_t rank = 4) {
    return error_of(folder.write("x.npy", npy_bytes(dictionary, bytes)), rank);
  };
  const std::string shape = "'shape': (1, 1, 2, 2), }";
  CHECK_THAT(error("{'descr': '<f8', 'fortran_order': False, " + shape, 32),
             ContainsSubstring("dtype '<f8', must be '<f4'"));
  CHECK_THAT(error("{'descr': '>f4', 'fortran_order': False, " + shape, 16),
             ContainsSubstring("dtype '>f4', must be '<f4'"));
  CHECK_THAT(error("{'descr': '<f4', 'fortran_order': True, " + shape, 16),
             ContainsSubstring("Fortran order, must be in C order"));
  CHECK_THAT(error(npy_dictionary("(2, 2)"), 16), ContainsSubstring("rank 2, must be 4"));
  CHECK_THAT(error(npy_dictionary("()"), 4, 1), ContainsSubstring("rank 0, must be 1"));
  CHECK_THAT(error(npy_dictionary("(1, 0, 2, 2)"), 0), ContainsSubstring("shape 1x0x2x2"));
}

TEST_CASE("read_npy does not believe a header") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& bytes) {
    return error_of(folder.write("x.npy", bytes));
  };
  const std::string right = npy_ones({1, 1, 2, 2});
  CHECK(error(right) == "no error");
  CHECK_THAT(error(right.substr(0, right.size() - 1)),
             ContainsSubstring("15 bytes of data, shape 1x1x2x2 of <f4 must have 16"));
  CHECK_THAT(error(right + "x"), ContainsSubstring("17 bytes of data"));
  // More than a machine holds, and more than 64 bits hold.
  CHECK_THAT(error(npy_bytes(npy_dictionary("(1024, 1024, 1024, 1024)"), 16)),
             ContainsSubstring("16 bytes of data, shape 1024x1024x1024x1024"));
  CHECK_THAT(error(npy_bytes(npy_dictionary("(4294967296, 4294967296, 1, 1)"), 16)),
             ContainsSubstring("2^40 in all"));
  CHECK_THAT(error(npy_bytes(npy_dictionary("(99999999999999999999, 1, 1, 1)"), 16)),
             ContainsSubstring("malformed: shape"));
  CHECK_THAT(error(npy_bytes(npy_dictionary("(-1, 1, 1, 1)"), 16)), ContainsSubstring("shape"));
}

TEST_CASE("read_npy survives every truncation of a file") {
  const ScratchFolder folder;
  const std::string right = npy_ones({1, 1, 2, 2});
  for (std::size_t size = 0; size < right.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(folder.write("x.npy", right.substr(0, size))) != "no error");
  }
}

TEST_CASE("read_npy survives every single changed byte of a header") {
  const ScratchFolder folder;
  const std::string right = npy_ones({1, 1, 2, 2});
  for (std::size_t at = 0; at < right.size() - 16; ++at) {
    for (const char byte : {'\0', '\x7f', '\xff', '\'', '(', '9', ' '}) {
      std::string bytes = right;
      bytes[at] = byte;
      CAPTURE(at, static_cast<int>(byte));
      const std::string path = folder.write("x.npy", bytes);
      try {
        const std::size_t read_bytes = read_npy(path, 4).data.bytes();
        CHECK(read_bytes == 16);
      } catch (const Error& error) {
        CHECK(error.status() == Status::invalid_argument);
      }
    }
  }
}

TEST_CASE("read_npy says that a file is no .npy file") {
  const ScratchFolder folder;
  CHECK_THAT(error_of(folder.write("x.npy", "PK\x03\x04 a zip file, as numpy.savez writes")),
             ContainsSubstring("not a .npy file"));
  CHECK_THAT(error_of(folder.write("x.npy", npy_bytes(npy_dictionary("(1, 1, 1, 1)"), 4, 9))),
             ContainsSubstring("version 9.0, must be 1.0, 2.0 or 3.0"));
  std::string huge_header = npy_bytes(npy_dictionary("(1, 1, 1, 1)"), 4, 2);
  huge_header[11] = '\x7f';  // top byte of the header's length
  CHECK_THAT(error_of(folder.write("x.npy", huge_header)),
             ContainsSubstring("must be at most 65536"));
}

TEST_CASE("A file that cannot be read or written is an error of the environment") {
  const ScratchFolder folder;
  const auto status_of = [](auto&& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.status();
    }
    return Status::internal;
  };
  const float one = 1;
  CHECK(status_of([&] { read_npy(folder.path("absent.npy"), 4); }) == Status::device_error);
  CHECK(status_of([&] { read_npy(folder.path(""), 4); }) == Status::device_error);
  CHECK(status_of([&] { write_npy(folder.path("absent/y.npy"), {1}, DataType::f32, &one); }) ==
        Status::device_error);
  CHECK(status_of([&] { write_npy(folder.path(""), {1}, DataType::f32, &one); }) ==
        Status::device_error);
  CHECK(folder.num_files() == 0);
}

}  // namespace
}  // namespace megaconv::cli
