// SPDX-License-Identifier: Apache-2.0
// cuDNN as a peer; built only where it was found.
#pragma once

#include "tools/peers/peer.hpp"

namespace megaconv::cli {

/// All algorithms of the legacy API and the graph API's best plan, in NCHW and in NHWC.
std::vector<PeerVariant> make_cudnn_variants(const TensorSet& tensors, const PeerOptions& options);

std::string cudnn_version();

}  // namespace megaconv::cli
