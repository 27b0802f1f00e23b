// SPDX-License-Identifier: Apache-2.0
// Other libraries that `bench` measures beside megaconv.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "megaconv/mapping.hpp"
#include "tools/tensors.hpp"

namespace megaconv::cli {

/// One way in which a peer computes the problem, ready to run.
struct PeerVariant {
  std::string name;                         ///< "onednn_winograd"
  std::string implementation;               ///< what the peer calls it
  std::function<void()> run;                ///< computes y in the peer's own layout
  std::function<void(float* y)> read_back;  ///< y in the problem's layout
};

/// Peers found when building: "onednn".
std::vector<std::string> built_peers();

/// Throws Error(invalid_argument) for a name that no build knows, Error(unsupported) for one that
/// this build lacks.
void check_peer(const std::string& peer);

/// Every algorithm of the peer that takes the problem. Activations are brought into the layout that
/// the peer likes best ahead of time and for free; filters too, unless they belong to every run.
std::vector<PeerVariant> make_peer_variants(const std::string& peer, const ConvProblem& problem,
                                            const HostTensors& tensors, FilterMode filters,
                                            std::uint32_t threads);

}  // namespace megaconv::cli
