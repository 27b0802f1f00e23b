// SPDX-License-Identifier: Apache-2.0
// Policies from shared objects. A policy under development crashes, loops and throws; so it runs in
// a child process, which writes its order into a pipe. The parent waits no longer than a budget,
// for the pipe and for the child's end alike, and the child does not outlive the parent.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mapping/text.hpp"
#include "megaconv/megaconv.h"
#include "megaconv/plan.hpp"

namespace megaconv {
namespace {

// Tasks and signals are handed over as they are.
static_assert(sizeof(megaconv_task) == sizeof(Task) && alignof(megaconv_task) == alignof(Task));
static_assert(offsetof(megaconv_task, node) == offsetof(Task, node));
static_assert(offsetof(megaconv_task, kind) == offsetof(Task, kind));
static_assert(offsetof(megaconv_task, group) == offsetof(Task, group));
static_assert(offsetof(megaconv_task, block) == offsetof(Task, block));
static_assert(offsetof(megaconv_task, wait_counter) == offsetof(Task, wait_counter));
static_assert(offsetof(megaconv_task, wait_count) == offsetof(Task, wait_count));
static_assert(offsetof(megaconv_task, first_signal) == offsetof(Task, first_signal));
static_assert(offsetof(megaconv_task, num_signals) == offsetof(Task, num_signals));
static_assert(sizeof(megaconv_signal_range) == sizeof(SignalRange));
static_assert(offsetof(megaconv_signal_range, count) == offsetof(SignalRange, count));
static_assert(MEGACONV_NO_COUNTER == kNoCounter);

// -Wswitch names the role that megaconv.h does not have.
constexpr std::int32_t c_value(Role role) {
  switch (role) {
    case Role::prepare:
      return MEGACONV_ROLE_PREPARE;
    case Role::input:
      return MEGACONV_ROLE_INPUT;
    case Role::product:
      return MEGACONV_ROLE_PRODUCT;
    case Role::output:
      return MEGACONV_ROLE_OUTPUT;
  }
  return -1;
}
static_assert(c_value(Role{0}) == 0 && c_value(Role{1}) == 1 && c_value(Role{2}) == 2 &&
              c_value(Role{3}) == 3 && kNumRoles == 4);

std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

// A graph in the form that policies in C read. It refers to the TaskGraph.
class PolicyGraph {
 public:
  explicit PolicyGraph(const TaskGraph& graph) {
    for (const Edge& edge : graph.edges) {
      edges_.push_back({range(edge.consumer), range(edge.producer), edge.reuse ? 1 : 0});
    }
    for (const Stage& stage : graph.stages) stages_.push_back(convert(stage));
    // Edges stand by stage of their consumers.
    for (std::uint32_t e = 0; e < edges_.size(); ++e) {
      megaconv_stage& consumer = stages_[edges_[e].consumer.stage];
      if (consumer.num_edges++ == 0) consumer.first_edge = e;
    }
    graph_ = {.struct_size = sizeof(megaconv_graph),
              .num_tasks = u32(graph.tasks.size()),
              .num_counters = u32(graph.counter_totals.size()),
              .num_nodes = u32(graph.nodes.size()),
              .num_stages = u32(stages_.size()),
              .num_signals = u32(graph.signals.size()),
              .num_edges = u32(edges_.size()),
              .tasks = reinterpret_cast<const megaconv_task*>(graph.tasks.data()),
              .stages = stages_.data(),
              .signals = reinterpret_cast<const megaconv_signal_range*>(graph.signals.data()),
              .edges = edges_.data()};
  }
  PolicyGraph(const PolicyGraph&) = delete;
  PolicyGraph& operator=(const PolicyGraph&) = delete;

  const megaconv_graph& get() const { return graph_; }

 private:
  static megaconv_group_range range(const GroupRange& groups) {
    return {.stage = groups.stage,
            .first = u32(groups.groups.begin),
            .count = u32(groups.groups.size())};
  }
  static megaconv_stage convert(const Stage& stage) {
    return {.node = stage.node,
            .role = c_value(stage.role),
            .kind = stage.kind,
            .first = stage.first,
            .groups = stage.groups,
            .per_group = stage.per_group,
            .first_edge = 0,
            .num_edges = 0,
            .operations = stage.operations,
            .bytes = stage.bytes};
  }

  std::vector<megaconv_edge> edges_;
  std::vector<megaconv_stage> stages_;
  megaconv_graph graph_{};
};

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
[[noreturn]] void run_policy(const std::string& path, const megaconv_graph& graph, int pipe) {
  // A handler of the program's own would report a crash here as the program's.
  for (const int number : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGINT, SIGSEGV, SIGTERM}) {
    signal(number, SIG_DFL);
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(pipe, dlerror());
  void* const symbol = dlsym(library, "megaconv_policy");
  if (symbol == nullptr) refuse(pipe, "does not define megaconv_policy");
  try {
    // No task has this id: what the policy leaves out is then found.
    std::vector<std::uint32_t> order(graph.num_tasks, 0xffffffffu);
    const int status = reinterpret_cast<PolicyEntry>(symbol)(&graph, order.data());
    if (status != 0) refuse(pipe, "returned " + std::to_string(status));
    answer(pipe, true, order.data(), order.size() * sizeof(order[0]));
  } catch (const std::exception& error) {
    refuse(pipe, std::string("threw \"") + error.what() + "\"");
  } catch (...) {
    refuse(pipe, "threw an exception");
  }
}

// A child process and the end of the pipe that it writes into. It does not outlive this.
class Child {
 public:
  Child(const std::string& path, const megaconv_graph& graph, Clock::time_point until)
      : until_(until) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ < 0) {
      close(ends[0]);
      close(ends[1]);
      fail("fork");
    }
    if (process_ == 0) {
      close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);  // it ended before that
      run_policy(path, graph, ends[1]);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    close(pipe_);
    if (process_ > 0) {
      kill(process_, SIGKILL);
      while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// False when the pipe ends before, or the time is up.
  bool receive(void* data, std::size_t bytes) const {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
      if (left <= 0) return false;
      // Read only when there is something: a read that blocks goes on after the program's signals.
      pollfd ready{pipe_, POLLIN, 0};
      if (poll(&ready, 1, static_cast<int>(left) + 1) <= 0) continue;
      const ssize_t got = read(pipe_, at, bytes);
      if (got == 0 || (got < 0 && errno != EINTR)) return false;
      if (got > 0) {
        at += got;
        bytes -= static_cast<std::size_t>(got);
      }
    }
    return true;
  }

  /// "ended by signal 11 (Segmentation fault)", once the pipe has ended; nullopt when the time is
  /// up first: the child may have closed its end and go on.
  std::optional<std::string> how_it_ended() {
    int status = 0;
    for (;;) {
      const pid_t ended = waitpid(process_, &status, WNOHANG);
      if (ended == process_) break;
      if (ended < 0 && errno != EINTR) return "ended";  // and the program's own wait() took it
      if (Clock::now() >= until_) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
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
  Clock::time_point until_;
  pid_t process_ = 0;
  int pipe_ = -1;
};

[[noreturn]] void reject(const std::string& path, const std::string& what,
                         Status status = Status::invalid_argument) {
  throw Error(status, "policy " + path + ": " + excerpt(what, 200));
}

}  // namespace

PolicyFunction load_policy(const std::string& path, std::uint32_t budget_ms) {
  // dlopen() searches system folders for a name without a slash.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  return [file, path, budget_ms](const TaskGraph& graph) {
    const PolicyGraph in_c(graph);
    Child child(file, in_c.get(), Clock::now() + std::chrono::milliseconds(budget_ms));
    Answer head;
    std::vector<std::uint32_t> order(graph.tasks.size());
    if (child.receive(&head, sizeof(head))) {
      if (head.right && child.receive(order.data(), order.size() * sizeof(order[0]))) return order;
      std::string text(head.right ? 0 : std::min(head.bytes, 1000u), ' ');
      if (!head.right && child.receive(text.data(), text.size())) reject(path, text);
    }
    if (const std::optional<std::string> how = child.how_it_ended()) reject(path, *how);
    reject(path, "no order after " + std::to_string(budget_ms) + " ms", Status::timeout);
  };
}

}  // namespace megaconv
