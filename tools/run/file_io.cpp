// SPDX-License-Identifier: Apache-2.0
#include "tools/run/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

[[noreturn]] void throw_file_error(const char* verb, const std::string& path,
                                   const std::string& reason) {
  throw Error(Status::device_error, std::string("cannot ") + verb + ' ' + path + ": " + reason);
}

/// The file that a path leads to, through symbolic links, also where there is none yet.
std::string follow_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // Linux follows no more
  std::filesystem::path target = path;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(target, error); ++links) {
    if (links == kMostLinks) throw_file_error("write", path, std::strerror(ELOOP));
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
    if (error) throw_file_error("write", path, error.message());
  }
  return target.string();
}

/// A new file that takes the place of `path` when it is complete. Until then it has no name, so
/// that nothing is left of it however the process ends; where the file system has no such files it
/// has a name of its own beside the other.
class Replacement {
 public:
  explicit Replacement(const std::string& path) : Replacement(path, follow_links(path)) {
    struct stat old {};
    const bool replaces = stat(target_.c_str(), &old) == 0;
    if (!replaces && errno != ENOENT) cli::throw_file_error("write", path_);
    // Renaming would replace a device, or a file that is protected.
    if (replaces && !S_ISREG(old.st_mode)) {
      throw_file_error("write", path_, "it exists and is not a regular file");
    }
    if (replaces && access(target_.c_str(), W_OK) != 0) cli::throw_file_error("write", path_);
    create(replaces ? old.st_mode & 0777 : 0666);  // less the umask, as for any new file
    if (replaces) keep_owner_and_mode(old);
  }
  ~Replacement() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!name_.empty()) unlink(name_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) cli::throw_file_error("write", path_);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  /// On stable storage when it returns.
  void commit() {
    if (fsync(descriptor_) != 0) cli::throw_file_error("write", path_);
    if (name_.empty()) give_name();
    if (rename(name_.c_str(), target_.c_str()) != 0) cli::throw_file_error("write", path_);
    name_.clear();
    const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;  // it may be written, but not read
    fsync(folder);
    close(folder);
  }

 private:
  // Complete before the other constructor works, so that what that throws closes and removes.
  Replacement(const std::string& path, const std::string& target)
      : path_(path), target_(target), folder_(std::filesystem::path(target).parent_path()) {
    if (folder_.empty()) folder_ = ".";
  }

  void create(mode_t mode) {
    if (access("/proc/self/fd", X_OK) == 0) {  // give_name() needs it
      descriptor_ = open(folder_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
      if (descriptor_ >= 0) return;
      if (errno != EOPNOTSUPP && errno != EISDIR) cli::throw_file_error("write", path_);
    }
    try_names([&](const std::string& name) {
      descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      return descriptor_ >= 0;
    });
  }

  void give_name() {
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
    try_names([&](const std::string& name) {
      return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    });
  }

  /// Process ids repeat, in containers always, and what a killed process left may be anybody's.
  template <class Take>
  void try_names(const Take& take) {
    std::random_device random;
    for (;;) {
      const std::string name = target_ + ".tmp" + std::to_string(random());
      if (take(name)) {
        name_ = name;
        return;
      }
      if (errno != EEXIST) cli::throw_file_error("write", path_);
    }
  }

  void keep_owner_and_mode(const struct stat& old) {
    struct stat own {};
    if (fstat(descriptor_, &own) != 0) cli::throw_file_error("write", path_);
    const bool same = own.st_uid == old.st_uid && own.st_gid == old.st_gid;
    if (!same && fchown(descriptor_, old.st_uid, old.st_gid) != 0) {
      throw_file_error("write", path_, "it belongs to another user or group, which would change");
    }
    if (fchmod(descriptor_, old.st_mode & 07777) != 0) cli::throw_file_error("write", path_);
  }

  std::string path_, target_, folder_;
  std::string name_;  ///< while it has one of its own
  int descriptor_ = -1;
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

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_file_error("write", path, error.message());
  require_writable(path + "/file");
}

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  folder_ = (std::filesystem::temp_directory_path(error) / "megaconv_XXXXXX").string();
  if (error) throw_file_error("use", "the folder for temporary files", error.message());
  if (mkdtemp(folder_.data()) == nullptr) throw_file_error("make", folder_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void require_writable(const std::string& path) { Replacement probe(path); }

void write_file(const std::string& path, std::span<const std::string_view> parts) {
  Replacement file(path);
  for (const std::string_view part : parts) file.append(part);
  file.commit();
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(&text, 1));
}

}  // namespace megaconv::cli
