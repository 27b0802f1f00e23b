// SPDX-License-Identifier: Apache-2.0
// Both ends of the pipe. Requests: {"problem": ..., ...} begins a layer,
// {"turn": index, "ms": ...}, {"compute": index}, {"end": true}. Answers: a line, before which
// lines {"running": algorithm} may say what runs now; or {"bytes": count} and the bytes; or
// {"error": ...}, the last.
#include "tools/peers/peer_process.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>

#include "megaconv/error.hpp"
#include "tools/verbs/interrupt.hpp"

namespace megaconv::cli {
namespace {

Json to_json(const PeerAlgorithm& algorithm) {
  Json json = {{"name", algorithm.name},
               {"obstacle", algorithm.obstacle},
               {"workspace_bytes", algorithm.workspace_bytes}};
  if (const auto& time = algorithm.screened) {
    json["screened"] = {time->median_ms, time->p10_ms, time->p90_ms, time->samples};
  }
  return json;
}

PeerAlgorithm algorithm_from_json(const Json& json) {
  PeerAlgorithm algorithm{.name = json["name"],
                          .obstacle = json["obstacle"],
                          .workspace_bytes = json["workspace_bytes"]};
  if (json.contains("screened")) {
    const Json& time = json["screened"];
    algorithm.screened = TimeSummary{time[0], time[1], time[2], time[3]};
  }
  return algorithm;
}

/// The process's end of the pipe.
class Server {
 public:
  /// What libraries print goes to stderr from now on.
  explicit Server(const Peer& peer) : peer_(peer), output_(dup(STDOUT_FILENO)) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }

  void run() {
    try {
      say_line({{"version", std::string(peer_.name) + ' ' + peer_.version()}});
      for (std::string line; std::getline(std::cin, line);) answer(parse_line(line));
    } catch (const std::exception& error) {
      say_line(error_line(error));  // the next algorithm needs a new process
    }
  }

 private:
  void say_line(const Json& json) {
    const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    write(std::as_bytes(std::span(line)));
  }
  void write(std::span<const std::byte> bytes) {
    if (!write_all(output_, bytes)) throw Error(Status::device_error, "nobody reads the answers");
  }
  void say_bytes(std::span<const std::byte> bytes) {
    say_line({{"bytes", bytes.size()}});
    write(bytes);
  }

  void answer(const Json& request) {
    if (request.contains("problem")) {
      begin(request);
    } else if (request.contains("turn")) {
      const PeerVariant& variant = variants_.at(request["turn"]);
      const std::vector<double> samples = turns_of(variant.sample_ms)(request["ms"]);
      settle();  // so that no thread of ours spins in the next turn
      say_bytes(std::as_bytes(std::span(samples)));
    } else if (request.contains("compute")) {
      tensors_.device->fill_bytes(tensors_.y.data(), std::byte{0xff}, tensors_.y.bytes());
      variants_.at(request["compute"]).compute();
      say_bytes(download(tensors_, tensors_.y));
    } else {
      end();
      say_line(Json::object());
    }
  }

  void begin(const Json& request) {
    end();
    tensors_ = allocate_tensors(device_of(peer_.backend),
                                parse_problem(request["problem"].get<std::string>()), false);
    fill_random(tensors_, request["seed"]);
    const std::vector<std::string> left_out = request["left_out"];
    const PeerOptions options{.filters = static_cast<FilterMode>(request["filters"].get<int>()),
                              .threads = request["threads"],
                              .caches = static_cast<Caches>(request["caches"].get<int>()),
                              .precision = static_cast<Precision>(request["precision"].get<int>()),
                              .may_run = [&](const std::string& algorithm) {
                                say_line({{"running", algorithm}});
                                return std::find(left_out.begin(), left_out.end(), algorithm) ==
                                       left_out.end();
                              }};
    variants_ = peer_.make(tensors_, options);
    Json algorithms = Json::array();
    for (const PeerVariant& variant : variants_) algorithms.push_back(to_json(variant.algorithm));
    settle();
    say_line({{"algorithms", algorithms}});
  }

  void end() {
    variants_.clear();
    tensors_ = {};
  }

  const Peer& peer_;
  int output_;
  TensorSet tensors_;
  std::vector<PeerVariant> variants_;
};

}  // namespace

void serve_peer(const Peer& peer) { Server(peer).run(); }

PeerProcess::PeerProcess(const Peer& peer)
    : peer_(peer), process_({"/proc/self/exe", "bench", "peer", peer.name}) {
  const Json hello = process_.start();
  if (hello.is_null()) throw Interrupted();
  version_ = hello["version"];
}

std::vector<PeerAlgorithm> PeerProcess::begin(const ConvProblem& problem, std::uint64_t seed,
                                              const PeerOptions& options,
                                              const std::vector<std::string>& left_out) {
  if (!process_.running()) {
    try {
      if (process_.start().is_null()) throw Interrupted();
    } catch (const Error& error) {
      throw PeerEnded{"", error.what()};
    }
  }
  const Json answer = ask({{"problem", to_string(problem)},
                           {"seed", seed},
                           {"filters", static_cast<int>(options.filters)},
                           {"threads", options.threads},
                           {"caches", static_cast<int>(options.caches)},
                           {"precision", static_cast<int>(options.precision)},
                           {"left_out", left_out}},
                          "");
  std::vector<PeerAlgorithm> algorithms;
  algorithms_.clear();
  for (const Json& json : answer["algorithms"]) {
    algorithms_.push_back(algorithms.emplace_back(algorithm_from_json(json)).name);
  }
  return algorithms;
}

std::vector<double> PeerProcess::turn(std::size_t index, double turn_ms) {
  const std::vector<std::byte> bytes =
      ask_bytes({{"turn", index}, {"ms", turn_ms}}, algorithms_[index], turn_ms);
  std::vector<double> samples(bytes.size() / sizeof(double));
  std::memcpy(samples.data(), bytes.data(), bytes.size());
  return samples;
}

std::vector<std::byte> PeerProcess::compute(std::size_t index) {
  return ask_bytes({{"compute", index}}, algorithms_[index]);
}

void PeerProcess::end() {
  if (!process_.running()) return;
  try {
    ask({{"end", true}}, "");
  } catch (const PeerEnded&) {  // then nothing is held either
  }
}

Json PeerProcess::ask(const Json& request, const std::string& algorithm, double work_ms) {
  const std::chrono::duration<double> patience =
      peer_.patience + std::chrono::duration<double, std::milli>(work_ms);
  std::string running = algorithm;
  require_answer(process_.send(request), running);
  for (;;) {
    Json answer;
    require_answer(process_.receive(answer, patience), running);
    if (answer.contains("error")) fail(running, "ended: " + answer["error"].get<std::string>());
    if (!answer.contains("running")) return answer;
    running = answer["running"];
  }
}

std::vector<std::byte> PeerProcess::ask_bytes(const Json& request, const std::string& algorithm,
                                              double work_ms) {
  std::vector<std::byte> bytes(ask(request, algorithm, work_ms)["bytes"].get<std::size_t>());
  require_answer(process_.receive(bytes, peer_.patience), algorithm);
  return bytes;
}

void PeerProcess::require_answer(ChildProcess::Outcome outcome, const std::string& algorithm) {
  switch (outcome) {
    case ChildProcess::Outcome::answered:
      return;
    case ChildProcess::Outcome::interrupted:
      throw Interrupted();
    case ChildProcess::Outcome::late:
      fail(algorithm, "hung: no answer in " + std::to_string(peer_.patience.count()) + " s");
    case ChildProcess::Outcome::ended:
      fail(algorithm, "ended: " + process_.stop());
  }
}

void PeerProcess::fail(const std::string& algorithm, const std::string& reason) {
  process_.stop();
  throw PeerEnded{algorithm, std::string(peer_.name) + "'s process " + reason};
}

}  // namespace megaconv::cli
