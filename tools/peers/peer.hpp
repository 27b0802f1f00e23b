// SPDX-License-Identifier: Apache-2.0
// Other libraries that `bench` measures beside megaconv.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tools/run/tensors.hpp"
#include "tools/run/timing.hpp"

namespace megaconv::cli {

/// One way in which a peer computes the problem.
struct PeerVariant {
  std::string algorithm;  ///< what the peer calls it
  std::string obstacle;   ///< why the peer cannot; empty when it can, and only then the rest is set
  std::uint64_t workspace_bytes = 0;
  /// What the peer's own screening measured, if that was enough to see that others are faster.
  std::optional<TimeSummary> screened;
  std::function<double()> sample_ms;  ///< one sample of the device's clock; null when screened out
  std::function<void()> compute;      ///< leaves its y, in the problem's layout, in the tensors' y
};

/// How peers are to run.
struct PeerOptions {
  FilterMode filters = FilterMode::every_run;
  std::uint32_t threads = 1;  ///< CPU
  Caches caches = Caches::hot;
  Precision precision = Precision::f32;  ///< CUDA
};

/// Peers found when building: "onednn", "cudnn".
std::vector<std::string> built_peers();

/// Throws Error(invalid_argument) for a name that no build knows or one for another backend,
/// Error(unsupported) for one that this build lacks.
void check_peer(const std::string& peer, Backend backend);

/// "cudnn 9.14.0": of the library that is loaded.
std::string peer_version(const std::string& peer);

/// Every algorithm of the peer, those that it refuses for this problem too. Activations are brought
/// into the layout that the peer likes best ahead of time and for free; filters too, unless they
/// belong to every run. The tensors must outlive the variants.
std::vector<PeerVariant> make_peer_variants(const std::string& peer, const TensorSet& tensors,
                                            const PeerOptions& options);

}  // namespace megaconv::cli
