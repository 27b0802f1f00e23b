// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "megaconv/error.hpp"
#include "tools/tune/tune_json.hpp"
#include "tools/verbs/interrupt.hpp"

namespace megaconv::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Making the tensors and the truth takes longer than a candidate: minutes for the largest layers.
constexpr std::chrono::duration<double> kStartPatience = std::chrono::minutes(10);

// Runs in the child, between fork and exec.
[[noreturn]] void become(const std::vector<std::string>& command, int input, int output) {
  setpgid(0, 0);  // Ctrl-C is for the parent, which ends us when it is done with us
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

MeasuringProcess::MeasuringProcess(std::vector<std::string> command,
                                   std::chrono::duration<double> patience)
    : command_(std::move(command)), patience_(patience) {
  signal(SIGPIPE, SIG_IGN);  // a child that ended is seen by write()
}

void MeasuringProcess::start() {
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0) throw Error(Status::device_error, "cannot make a pipe");
  if (pipe2(output, O_CLOEXEC) != 0) {
    close(input[0]);
    close(input[1]);
    throw Error(Status::device_error, "cannot make a pipe");
  }
  process_ = fork();
  if (process_ == 0) become(command_, input[0], output[1]);
  close(input[0]);
  close(output[1]);
  to_ = input[1];
  from_ = output[0];
  received_.clear();
  if (process_ < 0) {
    stop();
    throw Error(Status::device_error, "cannot start a process to measure in");
  }
  std::string line;
  const Outcome outcome = receive(line, kStartPatience);
  if (outcome == Outcome::interrupted) return;
  if (outcome != Outcome::line) {
    const std::string how = stop();
    throw Error(Status::device_error,
                "the measuring process, " + command_[0] + ", " +
                    (outcome == Outcome::late ? "did not start in time" : "ended at once: " + how));
  }
  const Json hello = parse_line(line);
  if (hello.contains("error")) {
    stop();
    throw Error(static_cast<Status>(hello.value("status", static_cast<int>(Status::internal))),
                hello["error"].get<std::string>());
  }
  key_ = key_from_json(hello);
}

PlanKey MeasuringProcess::key() {
  if (process_ < 0) start();
  return key_;
}

std::optional<Measurement> MeasuringProcess::measure(const Configuration& configuration,
                                                     double best_ms) {
  if (process_ < 0) start();
  const Json request = {{"configuration", to_string(configuration)}, {"best_ms", best_ms}};
  std::string line;
  const Outcome outcome = send(request.dump() + '\n') ? receive(line, patience_) : Outcome::ended;
  Measurement result;
  result.configuration = configuration;
  switch (outcome) {
    case Outcome::line:
      result = measurement_from_json(parse_line(line));
      if (result.verdict == Verdict::crashed) stop();
      break;
    case Outcome::interrupted:
      return std::nullopt;
    case Outcome::late:
      result.verdict = Verdict::hung;
      result.reason = "no answer in " + Json(patience_.count()).dump() + " s";
      stop();
      break;
    case Outcome::ended:
      result.verdict = Verdict::crashed;
      result.reason = stop();
      break;
  }
  return result;
}

bool MeasuringProcess::send(const std::string& line) {
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t written = write(to_, line.data() + sent, line.size() - sent);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    sent += static_cast<std::size_t>(written);
  }
  return true;
}

MeasuringProcess::Outcome MeasuringProcess::receive(std::string& line,
                                                    std::chrono::duration<double> patience) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  for (;;) {
    if (const std::size_t newline = received_.find('\n'); newline != std::string::npos) {
      line = received_.substr(0, newline);
      received_.erase(0, newline + 1);
      return Outcome::line;
    }
    if (interrupted()) return Outcome::interrupted;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return Outcome::late;
    pollfd waiting{from_, POLLIN, 0};
    const int ready =
        poll(&waiting, 1, static_cast<int>(std::min<long long>(left.count() + 1, 60'000)));
    if (ready <= 0) continue;
    char bytes[4096];
    const ssize_t count = read(from_, bytes, sizeof bytes);
    if (count == 0) return Outcome::ended;
    if (count > 0) received_.append(bytes, static_cast<std::size_t>(count));
  }
}

std::string MeasuringProcess::stop() {
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

}  // namespace megaconv::cli
