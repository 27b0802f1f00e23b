// SPDX-License-Identifier: Apache-2.0
// One layout for the values between the operators of a network, whatever the caller's: what he
// gives or gets is converted at the network's edges, by tasks like all others.
//
//   image, nchw --image.nhwc--> nhwc --operators--> nhwc --scores.nchw--> scores, nchw
#pragma once

#include "tasks/fuse.hpp"

namespace megaconv {

/// The same network with the values of all operators in `layout`. Values that are the same memory
/// in both layouts need no operator: of one channel or one pixel, and of up to 16 channels in nhwc
/// and nchw16c. A network in that layout stays as it is.
FusedNetwork with_values_in(FusedNetwork network, Layout layout);

/// Whether all operators have tasks in nchw16c: convolutions, poolings and elementwise operations,
/// of f32. Of concatenations, and of conv groups that are not depthwise, blocks must be whole.
bool has_blocked_tasks(const FusedNetwork& network);

}  // namespace megaconv
