// SPDX-License-Identifier: Apache-2.0
// What can befall the file of a plan database: each is an error that names it, and nothing that was
// added before is lost. What would harm this process (limits, another user, a file system of its
// own) is done in a child, which answers with a text.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "megaconv/error.hpp"
#include "megaconv/plan_database.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/plan_key.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv {
namespace {

using cli::ScratchFolder;
using test::kKey;
using Access = PlanDatabase::Access;

Measurement measured(double ms) {
  Measurement m;
  m.configuration = parse_configuration("tile=4");
  m.samples_ms = {ms};
  summarize(m);
  return m;
}

std::size_t rows_of(const std::string& file) {
  return PlanDatabase(file, Access::read).measurements(kKey).size();
}

/// Adds rows until that fails: "COUNT: ERROR", with how many were added.
std::string fill(const std::string& file, int most) {
  int added = 0;
  try {
    PlanDatabase database(file, Access::write);
    for (; added < most; ++added) database.add(kKey, measured(1.0 + added));
    return std::to_string(added) + ": no error";
  } catch (const Error& error) {
    return std::to_string(added) + ": " + to_string(error.status()) + ' ' + error.what();
  }
}

/// What `work` returns in a child process; "signal N" when it did not get so far.
std::string in_child(const std::function<std::string()>& work) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& error) {
      text = std::string("thrown: ") + error.what();
    }
    const bool told = write(pipe_ends[1], text.data(), text.size()) >= 0;
    _exit(told ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t got = 0; (got = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : text;
}

std::size_t added_of(const std::string& outcome) { return std::stoul(outcome); }

TEST_CASE("A file that another process keeps locked is an error, and can be used later",
          "[database]") {
  if (std::system("command -v sqlite3 >/dev/null") != 0) SKIP("no sqlite3 command");
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db"), flag = folder.path("locked");
  PlanDatabase database(file, Access::write);
  database.add(kKey, measured(1));
  std::FILE* const other = popen(("sqlite3 '" + file + "'").c_str(), "w");
  REQUIRE(other != nullptr);
  std::fprintf(other, "BEGIN IMMEDIATE;\nDELETE FROM measurement;\n.shell touch '%s'\n",
               flag.c_str());
  std::fflush(other);
  while (!std::filesystem::exists(flag)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(rows_of(file) == 1);  // readers go on meanwhile
  CHECK_THROWS_WITH(database.add(kKey, measured(2)),
                    "plan database " + file + ": another process has kept it locked for 10 s");
  std::fputs("ROLLBACK;\n", other);
  pclose(other);
  database.add(kKey, measured(3));
  CHECK(rows_of(file) == 2);
}

TEST_CASE("On a full disk an addition fails, and what was added before is kept", "[database]") {
  const ScratchFolder folder;
  const std::string disk = folder.path("disk");
  std::filesystem::create_directory(disk);
  const std::string outcome = in_child([&]() -> std::string {
    const bool root = geteuid() == 0;
    if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
      return "cannot mount";
    }
    const std::string full = fill(disk + "/plans.db", 10'000);
    return full + "; kept " + std::to_string(rows_of(disk + "/plans.db"));
  });
  if (outcome == "cannot mount") SKIP("may not mount a small disk");
  CAPTURE(outcome);
  CHECK(added_of(outcome) > 10);
  CHECK_THAT(outcome, ContainsSubstring("the disk is full; all that was added before is kept"));
  CHECK_THAT(outcome, ContainsSubstring("; kept " + std::to_string(added_of(outcome))));
}

TEST_CASE("A write that the system refuses is an error, and what was added before is kept",
          "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured(1));
  const std::string outcome = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? fill(file, 10'000) : "no limit";
  });
  CAPTURE(outcome);
  CHECK_THAT(outcome, ContainsSubstring("plan database " + file +
                                        ": reading or writing it failed (disk I/O error)"));
  CHECK(rows_of(file) == 1 + added_of(outcome));
  CHECK_THAT(fill(file, 5), ContainsSubstring("5: no error"));
}

TEST_CASE("A file that may only be read is not written", "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("sub/plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured(1));
  chmod(file.c_str(), 0444);
  chmod(folder.path("sub").c_str(), 0555);
  chmod(folder.path("").c_str(), 0755);
  const std::string outcome = in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setuid(kNobody) != 0) return std::string("still root");
    return fill(file, 1) + "; has " + std::to_string(rows_of(file));
  });
  chmod(folder.path("sub").c_str(), 0755);
  CAPTURE(outcome);
  CHECK_THAT(outcome, ContainsSubstring("0: "));
  CHECK_THAT(outcome, ContainsSubstring(file + ": it, or its folder, may only be read; has 1"));
}

TEST_CASE("A file with a damaged page is an error to every access, and is left as it is",
          "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db");
  CHECK_THAT(fill(file, 200), ContainsSubstring("200: no error"));
  // All pages but the first, which has the header and the tables' names.
  constexpr std::streamoff kPage = 4096;
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file));
    REQUIRE(size > 4 * kPage);
    bytes.seekp(kPage);
    for (std::streamoff at = kPage; at < size; ++at) bytes.put('\x5a');
  }
  const std::string damaged = folder.read("plans.db");
  CHECK_THROWS_WITH(rows_of(file), ContainsSubstring(file + ": it is damaged; move it away"));
  CHECK_THAT(fill(file, 1), ContainsSubstring("0: ") && ContainsSubstring("it is damaged"));
  CHECK(folder.read("plans.db") == damaged);
}

}  // namespace
}  // namespace megaconv
