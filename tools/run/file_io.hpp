// SPDX-License-Identifier: Apache-2.0
// Files: read whole, written whole or not at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace megaconv::cli {

/// Throws Error(device_error), "cannot read FILE: why", for anything that is not a readable regular
/// file, or is of more than `most_bytes`.
std::string read_file(const std::string& path, std::int64_t most_bytes = std::int64_t{1} << 30);

/// Bytes of a regular file. Throws like read_file().
std::int64_t regular_file_bytes(const std::string& path);

/// Throws Error(device_error), "cannot write FILE: why", when write_file() would fail now. Called
/// before long work, so that its result is not lost in the end. Leaves nothing behind.
void require_writable(const std::string& path);

/// Writes the parts to a new file that then takes the place of `path`, so that `path` never holds
/// half of a result; on stable storage when it returns. A file that is replaced keeps its owner and
/// mode, a symbolic link stays one. Throws Error(device_error).
void write_file(const std::string& path, std::span<const std::string_view> parts);
void write_file(const std::string& path, std::string_view text);

/// Makes the folder, and those that it lies in, unless it is there. Throws Error(device_error),
/// "cannot write FOLDER: why", when it cannot be, or no file can be written into it.
void make_folder(const std::string& path);

/// A folder in the place for temporary files, where nothing else is; removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const char* name) const { return folder_ + '/' + name; }

 private:
  std::string folder_;
};

/// The error that a failed system call (errno) means for this file.
[[noreturn]] void throw_file_error(const char* verb, const std::string& path);

}  // namespace megaconv::cli
