// SPDX-License-Identifier: Apache-2.0
// The peers. Nothing else is in this file, so that a test's list takes its place.
#include "tools/peers/peer.hpp"
#include "tools/peers/peer_cudnn.hpp"
#include "tools/peers/peer_onednn.hpp"

namespace megaconv::cli {
namespace {

using std::chrono::seconds;

constexpr Peer kPeers[] = {
#if MEGACONV_HAVE_ONEDNN
    {"onednn", Backend::cpu, "libdnnl-dev", seconds(600), true, make_onednn_variants,
     onednn_version},
#else
    {"onednn", Backend::cpu, "libdnnl-dev", seconds(600), true, nullptr, nullptr},
#endif
#if MEGACONV_HAVE_CUDNN
    {"cudnn", Backend::cuda, "cuDNN 9", seconds(120), false, make_cudnn_variants, cudnn_version},
#else
    {"cudnn", Backend::cuda, "cuDNN 9", seconds(120), false, nullptr, nullptr},
#endif
};

}  // namespace

std::span<const Peer> known_peers() { return kPeers; }

}  // namespace megaconv::cli
