// SPDX-License-Identifier: Apache-2.0
#include "tools/peer.hpp"

#include "megaconv/error.hpp"
#include "tools/peer_onednn.hpp"

namespace megaconv::cli {

std::vector<std::string> built_peers() {
#if MEGACONV_HAVE_ONEDNN
  return {"onednn"};
#else
  return {};
#endif
}

void check_peer(const std::string& peer) {
  if (peer != "onednn") {
    throw Error(Status::invalid_argument, "--peer " + peer + ", must be onednn");
  }
  if (built_peers().empty()) {
    throw Error(Status::unsupported,
                "--peer onednn is not part of this build (libdnnl-dev was not found)");
  }
}

std::vector<PeerVariant> make_peer_variants(const std::string& peer, const ConvProblem& problem,
                                            const HostTensors& tensors, FilterMode filters,
                                            std::uint32_t threads) {
  check_peer(peer);
#if MEGACONV_HAVE_ONEDNN
  return make_onednn_variants(problem, tensors, filters, threads);
#else
  static_cast<void>(problem), static_cast<void>(tensors), static_cast<void>(filters);
  static_cast<void>(threads);
  return {};
#endif
}

}  // namespace megaconv::cli
