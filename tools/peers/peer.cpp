// SPDX-License-Identifier: Apache-2.0
#include "tools/peers/peer.hpp"

#include "megaconv/error.hpp"
#include "tools/verbs/choice.hpp"

namespace megaconv::cli {

std::vector<std::string> built_peers() {
  std::vector<std::string> names;
  for (const Peer& peer : known_peers()) {
    if (peer.make != nullptr) names.push_back(peer.name);
  }
  return names;
}

const Peer& find_peer(const std::string& name) {
  Choices<const Peer*> choices;
  for (const Peer& peer : known_peers()) choices.emplace_back(peer.name, &peer);
  return *choose<const Peer*>("--peer", name, choices);
}

void check_peer(const Peer& peer, Backend backend) {
  const std::string option = std::string("--peer ") + peer.name;
  if (peer.backend != backend) {
    throw Error(Status::invalid_argument, option + " needs --backend " + to_string(peer.backend) +
                                              ", so that both run there");
  }
  if (peer.make == nullptr) {
    throw Error(Status::unsupported,
                option + " is not part of this build (" + peer.package + " was not found)");
  }
}

void check_peer(const Peer& peer, const ConvProblem& problem) {
  if (peer.epilogues || problem.epilogue == Epilogue{}) return;
  throw Error(Status::unsupported,
              std::string("--peer ") + peer.name +
                  " with an epilogue, must be none: it is measured on the convolution");
}

}  // namespace megaconv::cli
