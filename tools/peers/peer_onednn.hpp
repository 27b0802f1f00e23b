// SPDX-License-Identifier: Apache-2.0
// oneDNN as a peer; built only where it was found.
#pragma once

#include "tools/peers/peer.hpp"

namespace megaconv::cli {

/// Direct convolution, and Winograd where oneDNN has it for the problem.
std::vector<PeerVariant> make_onednn_variants(const TensorSet& tensors, const PeerOptions& options);

std::string onednn_version();

}  // namespace megaconv::cli
