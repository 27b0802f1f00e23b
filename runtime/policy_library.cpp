// SPDX-License-Identifier: Apache-2.0
// Policies from shared objects. A policy under development crashes, loops and throws; so it runs in
// a child process, which writes its order into a pipe, and the parent waits no longer than a
// budget.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <vector>

#include "mapping/text.hpp"
#include "megaconv/megaconv.h"
#include "megaconv/plan.hpp"

namespace megaconv {
namespace {

static_assert(sizeof(megaconv_task) == sizeof(Task) && sizeof(TaskKind) == sizeof(std::uint32_t));
static_assert(offsetof(megaconv_task, wait_counter) == offsetof(Task, wait_counter));
static_assert(offsetof(megaconv_task, signal_first) == offsetof(Task, signal_first));
static_assert(offsetof(megaconv_task, release_counter) == offsetof(Task, release_counter));

using Clock = std::chrono::steady_clock;
using PolicyEntry = int (*)(const megaconv_graph*, std::uint32_t*);

// What the child sends first: the order follows, or the text of what went wrong.
struct Answer {
  std::uint32_t right = 0;
  std::uint32_t bytes = 0;
};

void send(int pipe, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(pipe, at, bytes);
    if (written < 0 && errno != EINTR) _exit(1);
    if (written > 0) {
      at += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }
}

[[noreturn]] void answer(int pipe, bool right, const void* data, std::size_t bytes) {
  const Answer head{right, static_cast<std::uint32_t>(bytes)};
  send(pipe, &head, sizeof(head));
  send(pipe, data, bytes);
  _exit(0);
}

[[noreturn]] void refuse(int pipe, const std::string& text) {
  answer(pipe, false, text.data(), text.size());
}

// In the child.
[[noreturn]] void run_policy(const std::string& path, const TaskGraph& graph, int pipe) {
  // A handler of the program's own would report a crash here as the program's.
  for (const int number : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGINT, SIGSEGV, SIGTERM}) {
    signal(number, SIG_DFL);
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(pipe, dlerror());
  void* const symbol = dlsym(library, "megaconv_policy");
  if (symbol == nullptr) refuse(pipe, "does not define megaconv_policy");
  const Tiling& tiling = graph.tiling;
  const megaconv_graph argument{
      .num_tasks = static_cast<std::uint32_t>(graph.tasks.size()),
      .num_counters = static_cast<std::uint32_t>(graph.counter_totals.size()),
      .num_groups = tiling.num_groups,
      .num_filter_tasks = tiling.num_filter_tasks,
      .input_tasks = tiling.input_tasks,
      .gemm_tasks = tiling.gemm_tasks,
      .output_tasks = tiling.output_tasks,
      .tasks = reinterpret_cast<const megaconv_task*>(graph.tasks.data())};
  // No task has this id: what the policy leaves out is then found.
  std::vector<std::uint32_t> order(graph.tasks.size(), 0xffffffffu);
  try {
    const int status = reinterpret_cast<PolicyEntry>(symbol)(&argument, order.data());
    if (status != 0) refuse(pipe, "returned " + std::to_string(status));
  } catch (const std::exception& error) {
    refuse(pipe, std::string("threw \"") + error.what() + "\"");
  } catch (...) {
    refuse(pipe, "threw an exception");
  }
  answer(pipe, true, order.data(), order.size() * sizeof(order[0]));
}

// A child process and the end of the pipe that it writes into. It does not outlive this.
class Child {
 public:
  Child(const std::string& path, const TaskGraph& graph) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    process_ = fork();
    if (process_ < 0) {
      close(ends[0]);
      close(ends[1]);
      fail("fork");
    }
    if (process_ == 0) {
      close(ends[0]);
      run_policy(path, graph, ends[1]);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    close(pipe_);
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// False when the pipe ends before, or `until` passes: then it is `late`.
  bool receive(void* data, std::size_t bytes, Clock::time_point until, bool& late) const {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd ready{pipe_, POLLIN, 0};
      late = left <= 0 || poll(&ready, 1, static_cast<int>(left) + 1) == 0;
      if (late) return false;
      const ssize_t got = read(pipe_, at, bytes);
      if (got == 0) return false;
      if (got < 0 && errno != EINTR) return false;
      if (got > 0) {
        at += got;
        bytes -= static_cast<std::size_t>(got);
      }
    }
    return true;
  }

  /// "ended by signal 11 (Segmentation fault)", once the pipe has ended.
  std::string how_it_ended() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    if (WIFSIGNALED(status)) {
      return "ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
             strsignal(WTERMSIG(status)) + ")";
    }
    return "ended the process with status " + std::to_string(WEXITSTATUS(status));
  }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw Error(Status::device_error, std::string(call) + ": " + std::strerror(errno));
  }
  pid_t process_ = 0;
  int pipe_ = -1;
};

}  // namespace

PolicyFunction load_policy(const std::string& path, std::uint32_t budget_ms) {
  // dlopen() searches system folders for a name without a slash.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  return [file, path, budget_ms](const TaskGraph& graph) {
    const auto reject = [&](const std::string& what, Status status = Status::invalid_argument) {
      throw Error(status, "policy " + path + ": " + excerpt(what, 200));
    };
    Child child(file, graph);
    const Clock::time_point until = Clock::now() + std::chrono::milliseconds(budget_ms);
    Answer head;
    bool late = false;
    std::vector<std::uint32_t> order(graph.tasks.size());
    bool complete = child.receive(&head, sizeof(head), until, late);
    if (complete && !head.right) {
      std::string text(head.bytes, ' ');
      complete = child.receive(text.data(), text.size(), until, late);
      if (complete) reject(text);
    } else if (complete) {
      complete = child.receive(order.data(), order.size() * sizeof(order[0]), until, late);
    }
    if (late) {
      reject("no order after " + std::to_string(budget_ms) + " ms", Status::timeout);
    }
    if (!complete) reject(child.how_it_ended());
    return order;
  };
}

}  // namespace megaconv
