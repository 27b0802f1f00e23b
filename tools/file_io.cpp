// SPDX-License-Identifier: Apache-2.0
#include "tools/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

[[noreturn]] void throw_file_error(const char* verb, const std::string& path,
                                   const std::string& reason) {
  throw Error(Status::device_error, std::string("cannot ") + verb + ' ' + path + ": " + reason);
}

/// A new file beside the one to be replaced; removed again unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path), target_(resolve(path)) {
    temporary_ = target_ + ".tmp" + std::to_string(getpid());
    constexpr int kEveryone = 0666;  // less the umask, as for any new file
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kEveryone);
    if (descriptor_ < 0) cli::throw_file_error("write", path_);
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!renamed_) unlink(temporary_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) cli::throw_file_error("write", path_);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void commit() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (close(descriptor) != 0 || rename(temporary_.c_str(), target_.c_str()) != 0) {
      cli::throw_file_error("write", path_);
    }
    renamed_ = true;
  }

 private:
  /// The file behind symbolic links. What exists must be a regular file that may be written:
  /// renaming would replace a device, or a file that is protected.
  static std::string resolve(const std::string& path) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) return path;
    if (!std::filesystem::is_regular_file(status)) {
      throw_file_error("write", path, "it exists and is not a regular file");
    }
    if (access(path.c_str(), W_OK) != 0) cli::throw_file_error("write", path);
    return std::filesystem::canonical(path).string();
  }

  std::string path_, target_, temporary_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

[[noreturn]] void throw_file_error(const char* verb, const std::string& path) {
  throw_file_error(verb, path, std::strerror(errno));
}

std::int64_t regular_file_bytes(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) throw_file_error("read", path, error.message());
  if (!std::filesystem::is_regular_file(status)) {
    throw_file_error("read", path, "it is not a regular file");
  }
  return static_cast<std::int64_t>(std::filesystem::file_size(path));
}

std::string read_file(const std::string& path, std::int64_t most_bytes) {
  const std::int64_t bytes = regular_file_bytes(path);
  if (bytes > most_bytes) {
    throw_file_error("read", path,
                     "it has " + std::to_string(bytes) + " bytes, must be at most " +
                         std::to_string(most_bytes));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (!stream || !stream.read(text.data(), bytes)) throw_file_error("read", path);
  return text;
}

void require_writable(const std::string& path) { TemporaryFile probe(path); }

void write_file(const std::string& path, std::span<const std::string_view> parts) {
  TemporaryFile file(path);
  for (const std::string_view part : parts) file.append(part);
  file.commit();
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(&text, 1));
}

}  // namespace megaconv::cli
