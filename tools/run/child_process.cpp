// SPDX-License-Identifier: Apache-2.0
#include "tools/run/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "megaconv/error.hpp"
#include "tools/verbs/interrupt.hpp"

namespace megaconv::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Making tensors and the truth may come first: minutes for the largest layers.
constexpr std::chrono::duration<double> kStartPatience = std::chrono::minutes(10);

// Runs in the child, between fork and exec.
[[noreturn]] void become(char* const* arguments, int input, int output) {
  setpgid(0, 0);  // Ctrl-C is for the parent, which ends us when it is done with us
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  execvp(arguments[0], arguments);
  _exit(127);
}

}  // namespace

Json ChildProcess::start() {
  std::vector<char*> arguments;
  for (std::string& argument : command_) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0) throw Error(Status::device_error, "cannot make a pipe");
  if (pipe2(output, O_CLOEXEC) != 0) {
    close(input[0]);
    close(input[1]);
    throw Error(Status::device_error, "cannot make a pipe");
  }
  process_ = fork();
  if (process_ == 0) become(arguments.data(), input[0], output[1]);
  close(input[0]);
  close(output[1]);
  to_ = input[1];
  from_ = output[0];
  received_.clear();
  if (process_ < 0) {
    stop();
    throw Error(Status::device_error, "cannot start a process to measure in");
  }
  Json hello;
  const Outcome outcome = receive(hello, kStartPatience);
  if (outcome == Outcome::interrupted) return nullptr;
  if (outcome != Outcome::answered) {
    const std::string how = stop();
    throw Error(Status::device_error,
                "the measuring process, " + command_[0] + ", " +
                    (outcome == Outcome::late ? "did not start in time" : "ended at once: " + how));
  }
  if (hello.contains("error")) stop();
  throw_error_of(hello);
  return hello;
}

ChildProcess::Outcome ChildProcess::send(const Json& request) {
  const std::string line = request.dump() + '\n';
  // That a child ended is what write() says.
  const auto before = signal(SIGPIPE, SIG_IGN);
  const bool sent = write_all(to_, std::as_bytes(std::span(line)));
  signal(SIGPIPE, before);
  return sent ? Outcome::answered : Outcome::ended;
}

ChildProcess::Outcome ChildProcess::receive(Json& answer, std::chrono::duration<double> patience) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  for (;;) {
    if (const std::size_t newline = received_.find('\n'); newline != std::string::npos) {
      const std::string line = received_.substr(0, newline);
      received_.erase(0, newline + 1);
      answer = parse_line(line);
      return Outcome::answered;
    }
    std::byte bytes[4096];
    std::size_t count = 0;
    const Outcome outcome = read_some(bytes, end - Clock::now(), count);
    if (outcome != Outcome::answered) return outcome;
    received_.append(reinterpret_cast<const char*>(bytes), count);
  }
}

ChildProcess::Outcome ChildProcess::receive(std::span<std::byte> bytes,
                                            std::chrono::duration<double> patience) {
  const std::size_t early = std::min(bytes.size(), received_.size());
  std::copy_n(reinterpret_cast<const std::byte*>(received_.data()), early, bytes.data());
  received_.erase(0, early);
  bytes = bytes.subspan(early);
  while (!bytes.empty()) {
    std::size_t count = 0;
    const Outcome outcome = read_some(bytes, patience, count);
    if (outcome != Outcome::answered) return outcome;
    bytes = bytes.subspan(count);
  }
  return Outcome::answered;
}

ChildProcess::Outcome ChildProcess::read_some(std::span<std::byte> memory,
                                              std::chrono::duration<double> patience,
                                              std::size_t& count) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  for (;;) {
    if (interrupted()) return Outcome::interrupted;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() < 0) return Outcome::late;
    pollfd waiting{from_, POLLIN, 0};
    const int ready =
        poll(&waiting, 1, static_cast<int>(std::min<long long>(left.count() + 1, 60'000)));
    if (ready <= 0) continue;
    const ssize_t found = ::read(from_, memory.data(), memory.size());
    if (found == 0) return Outcome::ended;
    if (found < 0) continue;
    count = static_cast<std::size_t>(found);
    return Outcome::answered;
  }
}

std::string ChildProcess::stop() {
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  to_ = from_ = -1;
  if (process_ < 0) return {};
  // One that ended by itself is a zombie whose status the signal does not change.
  kill(process_, SIGKILL);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (WIFSIGNALED(status)) {
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ')';
  }
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace megaconv::cli
