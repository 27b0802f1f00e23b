// SPDX-License-Identifier: Apache-2.0
// Runs the real command.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv::cli {

struct Outcome {
  int status;
  std::string out, err;
};

/// Runs megaconv in `folder` through a shell.
inline Outcome megaconv_in(const ScratchFolder& folder, const std::string& arguments,
                           const std::string& environment = "",
                           const std::string& program = MEGACONV_COMMAND) {
  const ScratchFolder streams;
  const std::string command = "cd '" + folder.path("") + "' && " + environment + " '" + program +
                              "' " + arguments + " >'" + streams.path("out") + "' 2>'" +
                              streams.path("err") + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, streams.read("out"), streams.read("err")};
}

inline Outcome megaconv(const std::string& arguments, const std::string& environment = "") {
  return megaconv_in(ScratchFolder(), arguments, environment);
}

/// A child that runs megaconv in `folder`, with its output in the files "out" and "err".
inline pid_t start_in(const ScratchFolder& folder, std::vector<std::string> arguments,
                      std::string program = MEGACONV_COMMAND) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (chdir(folder.path("").c_str()) != 0) _exit(99);
  if (std::freopen("out", "w", stdout) == nullptr) _exit(99);
  if (std::freopen("err", "w", stderr) == nullptr) _exit(99);
  std::vector<char*> words = {program.data()};
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  _exit(99);
}

/// Ctrl-C: the child ends with the status for it.
inline void check_ctrl_c(pid_t child) {
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
}

/// One error line on stderr, nothing on stdout, no file that was not there.
inline void check_refused(const ScratchFolder& folder, const std::string& arguments, int status,
                          const std::string& message, const std::string& environment = "") {
  CAPTURE(arguments);
  const std::size_t files = folder.num_files();
  const Outcome outcome = megaconv_in(folder, arguments, environment);
  CHECK(outcome.status == status);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.rfind("megaconv: error: ", 0) == 0);
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  CHECK_THAT(outcome.err, ContainsSubstring(message));
  CHECK(folder.num_files() == files);
}

}  // namespace megaconv::cli
