// SPDX-License-Identifier: Apache-2.0
// What all fuzz targets share. A target gives bytes to a reader of what comes from outside
// (SECURITY.md). That may throw megaconv::Error and nothing else; what it accepts must hold
// together. A breach ends the process.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "megaconv/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace megaconv::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

inline int accepted = 0;  ///< inputs that were read without an Error

/// Runs `read`. An Error is an answer, if it is one line that a terminal may show.
template <class Read>
void expect_answer(const Read& read) {
  try {
    read();
    ++accepted;
  } catch (const Error& error) {
    for (const char* at = error.what(); *at != '\0'; ++at) {
      require(static_cast<unsigned char>(*at) >= ' ' && *at != '\x7f', "an error is one line");
    }
  }
}

/// A file for readers that want a path; removed with what SQLite puts beside it.
class InputFile {
 public:
  explicit InputFile(std::string_view content) {
    std::string pattern = (std::filesystem::temp_directory_path() / "fuzz_XXXXXX").string();
    const int descriptor = mkstemp(pattern.data());
    const auto bytes = static_cast<ssize_t>(content.size());
    require(write(descriptor, content.data(), content.size()) == bytes, "the input has a file");
    close(descriptor);
    path_ = pattern;
  }
  ~InputFile() {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      std::filesystem::remove(path_ + suffix, ignored);
    }
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace megaconv::fuzz
