// SPDX-License-Identifier: Apache-2.0
// A peer in a process of its own, `megaconv bench peer NAME`. A library that crashes, hangs or
// breaks its CUDA context ends that process alone, and the next one leaves out the algorithm that
// did it. Outside of its turns the process waits for a line, without a spinning thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/peers/peer.hpp"
#include "tools/run/child_process.hpp"

namespace megaconv::cli {

/// The peer's process ended.
struct PeerEnded {
  std::string algorithm;  ///< that was running; empty: none
  std::string reason;     ///< "cudnn's process ended: misaligned address"
};

/// All functions throw Interrupted; those that say so, PeerEnded: the next begin() starts another
/// process.
class PeerProcess {
 public:
  /// Starts it. Throws the Error that keeps the peer from starting.
  explicit PeerProcess(const Peer& peer);

  /// "cudnn 9.14.0"
  const std::string& version() const { return version_; }

  /// The peer's algorithms for the problem on random tensors, but for those in `left_out`. Of the
  /// options may_run is not used. Throws PeerEnded.
  std::vector<PeerAlgorithm> begin(const ConvProblem& problem, std::uint64_t seed,
                                   const PeerOptions& options,
                                   const std::vector<std::string>& left_out);
  /// A turn of one of them, by its index. Throws PeerEnded.
  std::vector<double> turn(std::size_t index, double turn_ms);
  /// Its y, in the problem's layout and type. Throws PeerEnded.
  std::vector<std::byte> compute(std::size_t index);
  /// Frees what begin() took.
  void end();

 private:
  Json ask(const Json& request, const std::string& algorithm, double work_ms = 0);
  std::vector<std::byte> ask_bytes(const Json& request, const std::string& algorithm,
                                   double work_ms = 0);
  void require_answer(ChildProcess::Outcome outcome, const std::string& algorithm);
  [[noreturn]] void fail(const std::string& algorithm, const std::string& reason);

  const Peer& peer_;
  ChildProcess process_;
  std::string version_;
  std::vector<std::string> algorithms_;
};

/// What that process does: answers the lines of stdin on stdout.
void serve_peer(const Peer& peer);

}  // namespace megaconv::cli
