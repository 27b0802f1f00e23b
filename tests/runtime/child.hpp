// SPDX-License-Identifier: Apache-2.0
// Parts of a test that a process of its own has to live through.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace megaconv::test {

// ThreadSanitizer knows no threads that are started after a fork.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kChildrenMayRun = false;
#else
inline constexpr bool kChildrenMayRun = true;
#endif

inline constexpr unsigned kPatienceSeconds = 20;  // a child that takes longer hangs

/// Starts a child that ends with what `life` returns, or 99 for an exception.
template <class Life>
pid_t start_child(const Life& life) {
  std::fflush(nullptr);  // or the child prints it too
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(kPatienceSeconds);
  int status = 99;
  try {
    status = life();
  } catch (...) {
  }
  _exit(status);
}

/// The exit status of a child, or minus the signal that ended it: -SIGALRM if it hung.
inline int end_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

template <class Life>
int run_in_child(const Life& life) {
  return end_of(start_child(life));
}

}  // namespace megaconv::test
