// SPDX-License-Identifier: Apache-2.0
// Networks in nchw where tasks have values in nhwc alone: what the caller gives or gets is
// converted at the network's edges, by tasks like all others.
//
//   image, nchw --image.nhwc--> nhwc --operators--> nhwc --scores.nchw--> scores, nchw
#pragma once

#include "tasks/fuse.hpp"

namespace megaconv {

/// The same network with the values of all operators in nhwc. Values of one channel or one pixel
/// are the same memory in both layouts, and need no operator. A network in nhwc stays as it is.
FusedNetwork with_nhwc_values(FusedNetwork network);

}  // namespace megaconv
