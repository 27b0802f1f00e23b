// SPDX-License-Identifier: Apache-2.0
#include "tools/peers/peer.hpp"

#include <algorithm>

#include "megaconv/error.hpp"
#include "tools/peers/peer_cudnn.hpp"
#include "tools/peers/peer_onednn.hpp"
#include "tools/verbs/choice.hpp"

namespace megaconv::cli {
namespace {

using MakeVariants = std::vector<PeerVariant>(const TensorSet& tensors, const PeerOptions& options);

struct Peer {
  const char* name;
  Backend backend;
  const char* package;
  MakeVariants* make;  // null, as the next: not part of this build
  std::string (*version)();
};
constexpr Peer kPeers[] = {
#if MEGACONV_HAVE_ONEDNN
    {"onednn", Backend::cpu, "libdnnl-dev", make_onednn_variants, onednn_version},
#else
    {"onednn", Backend::cpu, "libdnnl-dev", nullptr, nullptr},
#endif
#if MEGACONV_HAVE_CUDNN
    {"cudnn", Backend::cuda, "cuDNN 9", make_cudnn_variants, cudnn_version},
#else
    {"cudnn", Backend::cuda, "cuDNN 9", nullptr, nullptr},
#endif
};

const Peer& find_peer(const std::string& name) {
  Choices<const Peer*> choices;
  for (const Peer& peer : kPeers) choices.emplace_back(peer.name, &peer);
  return *choose<const Peer*>("--peer", name, choices);
}

}  // namespace

std::vector<std::string> built_peers() {
  std::vector<std::string> names;
  for (const Peer& peer : kPeers) {
    if (peer.make != nullptr) names.push_back(peer.name);
  }
  return names;
}

void check_peer(const std::string& name, Backend backend) {
  const Peer& peer = find_peer(name);
  if (peer.backend != backend) {
    throw Error(Status::invalid_argument, "--peer " + name + " needs --backend " +
                                              (peer.backend == Backend::cpu ? "cpu" : "cuda") +
                                              ", so that both run there");
  }
  if (peer.make == nullptr) {
    throw Error(Status::unsupported, "--peer " + name + " is not part of this build (" +
                                         peer.package + " was not found)");
  }
}

std::string peer_version(const std::string& name) { return name + ' ' + find_peer(name).version(); }

std::vector<PeerVariant> make_peer_variants(const std::string& name, const TensorSet& tensors,
                                            const PeerOptions& options) {
  check_peer(name, tensors.device->backend());
  return find_peer(name).make(tensors, options);
}

}  // namespace megaconv::cli
