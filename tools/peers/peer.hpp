// SPDX-License-Identifier: Apache-2.0
// Other libraries that `bench` measures beside megaconv, each in a process of its own
// (peer_process.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tools/run/tensors.hpp"
#include "tools/run/timing.hpp"

namespace megaconv::cli {

/// One way in which a peer computes the problem.
struct PeerAlgorithm {
  std::string name;  ///< what the peer calls it
  /// Why the peer cannot; empty when it can, and only then the rest is set.
  std::string obstacle = {};
  std::uint64_t workspace_bytes = 0;
  /// What the peer's own screening measured, if that was enough to see that others are faster.
  std::optional<TimeSummary> screened = {};

  bool takes_turns() const { return obstacle.empty() && !screened; }
};

/// The same, ready to run.
struct PeerVariant {
  PeerAlgorithm algorithm;
  std::function<double()> sample_ms = {};  ///< one sample of the device's clock
  /// Leaves its y, in the problem's layout, in the tensors' y.
  std::function<void()> compute = {};
};

/// How peers are to run.
struct PeerOptions {
  FilterMode filters = FilterMode::every_run;
  std::uint32_t threads = 1;  ///< CPU
  Caches caches = Caches::hot;
  Precision precision = Precision::f32;  ///< CUDA
  /// To be called with an algorithm's name before it first runs: false says to leave it out.
  std::function<bool(const std::string& algorithm)> may_run = {};
};

/// A library that some build knows.
struct Peer {
  const char* name;
  Backend backend;
  const char* package;
  std::chrono::seconds patience;  ///< for one algorithm: then it has hung
  bool epilogues;                 ///< computes them too
  /// Every algorithm, those that it refuses for this problem too. Activations are brought into the
  /// layout that the peer likes best ahead of time and for free; filters too, unless they belong to
  /// every run. The tensors must outlive the variants. Null, as the next: not part of this build.
  std::vector<PeerVariant> (*make)(const TensorSet& tensors, const PeerOptions& options);
  std::string (*version)();  ///< "9.14.0", of the library that is loaded
};

/// All that any build knows. Tests link another list.
std::span<const Peer> known_peers();

/// Names of those found when building: "onednn", "cudnn".
std::vector<std::string> built_peers();

/// Throws Error(invalid_argument) for a name that no build knows.
const Peer& find_peer(const std::string& name);

/// Throws Error(invalid_argument) when the peer is of another backend, Error(unsupported) when this
/// build lacks it.
void check_peer(const Peer& peer, Backend backend);
/// Throws Error(unsupported) when the peer never computes what the problem asks for.
void check_peer(const Peer& peer, const ConvProblem& problem);

}  // namespace megaconv::cli
