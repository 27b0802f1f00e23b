// SPDX-License-Identifier: Apache-2.0
// Output files: whole or not at all, nothing left behind, and what is replaced stays what it was.
#include "tools/run/file_io.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <string>

#include "megaconv/error.hpp"
#include "tests/catch.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv::cli {
namespace {

namespace fs = std::filesystem;

struct stat status_of(const std::string& path) {
  struct stat status {};
  CHECK(stat(path.c_str(), &status) == 0);
  return status;
}

TEST_CASE("A process that is killed while it writes leaves no file and the old content") {
  const ScratchFolder folder;
  const std::string file = folder.write("y.npy", "old");
  std::mt19937 random(20261123);
  const std::string content(std::size_t{8} << 20, 'x');
  for (int i = 0; i < 30; ++i) {
    int begun[2];  // the child writes a byte when it has written the file once
    REQUIRE(pipe(begun) == 0);
    const pid_t child = fork();
    if (child == 0) {
      for (bool first = true;; first = false) {
        write_file(file, content);
        write_file(file, "old");
        if (first && write(begun[1], "", 1) != 1) _exit(1);
      }
    }
    char byte;
    CHECK(read(begun[0], &byte, 1) == 1);
    close(begun[0]);
    close(begun[1]);
    usleep(static_cast<useconds_t>(1000 + random() % 30'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string found = folder.read("y.npy");
    CHECK((found == "old" || found == content));
  }
  // A name is there between two system calls only: of 30 kills few meet it, on a busy machine, too.
  CHECK(folder.num_files() <= 10);
}

TEST_CASE("What a process of the same id left does not stand in the way") {
  const ScratchFolder folder;
  const std::string file = folder.path("y.npy");
  folder.write("y.npy.tmp" + std::to_string(getpid()), "of another container");
  write_file(file, "new");
  CHECK(folder.read("y.npy") == "new");
}

TEST_CASE("A file that is replaced keeps its mode, a new one has the umask's") {
  const ScratchFolder folder;
  const std::string file = folder.write("y.npy", "old");
  for (const mode_t mode : {0600u, 0640u, 0666u, 0755u}) {
    REQUIRE(chmod(file.c_str(), mode) == 0);
    write_file(file, "new");
    CHECK((status_of(file).st_mode & 07777) == mode);
  }
  const mode_t before = umask(027);
  write_file(folder.path("fresh"), "new");
  umask(before);
  CHECK((status_of(folder.path("fresh")).st_mode & 07777) == 0640);
}

TEST_CASE("A file that is replaced keeps its owner, or is not replaced") {
  if (geteuid() != 0) SKIP("only root gives files away");
  const ScratchFolder folder;
  const std::string file = folder.write("y.npy", "old");
  constexpr uid_t kNobody = 65534;
  REQUIRE(chown(file.c_str(), kNobody, kNobody) == 0);
  write_file(file, "new");
  CHECK(status_of(file).st_uid == kNobody);
  CHECK(status_of(file).st_gid == kNobody);
  // Somebody else, who may write the file and its folder.
  chmod(file.c_str(), 0666);
  chmod(folder.path("").c_str(), 0777);
  const pid_t child = fork();
  if (child == 0) {
    bool refused = setgid(kNobody - 1) == 0 && setuid(kNobody - 1) == 0;
    try {
      require_writable(file);
      refused = false;
    } catch (const Error& error) {
      refused = refused && std::string(error.what()).find("another user") != std::string::npos;
    }
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(folder.num_files() == 1);
}

TEST_CASE("A symbolic link stays one, also when it leads to nothing yet") {
  const ScratchFolder folder;
  fs::create_directory(folder.path("results"));
  fs::create_symlink("results/today.npy", folder.path("y.npy"));
  fs::create_symlink("y.npy", folder.path("z.npy"));
  for (const char* content : {"first", "second"}) {
    write_file(folder.path("z.npy"), content);
    CHECK(fs::is_symlink(folder.path("y.npy")));
    CHECK(fs::is_symlink(folder.path("z.npy")));
    CHECK(folder.read("results/today.npy") == content);
  }
  fs::create_symlink("loop", folder.path("loop"));
  CHECK_THROWS_WITH(write_file(folder.path("loop"), "x"), ContainsSubstring("symbolic links"));
}

TEST_CASE("What cannot be written is refused before, and nothing is left") {
  const ScratchFolder folder;
  CHECK_THROWS_WITH(require_writable(folder.path("absent/y")), ContainsSubstring("cannot write"));
  CHECK_THROWS_WITH(require_writable(folder.path("")), ContainsSubstring("not a regular file"));
  require_writable(folder.path("y"));
  CHECK(folder.num_files() == 0);
}

}  // namespace
}  // namespace megaconv::cli
