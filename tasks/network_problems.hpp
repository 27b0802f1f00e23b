// SPDX-License-Identifier: Apache-2.0
// The operators of a network as problems of the rooms.
#pragma once

#include "megaconv/network.hpp"

namespace megaconv {

/// What an operator computes of an x of this shape; not validated.
ConvProblem problem_of(const Network& network, const Convolution& op, const Shape& x);
/// Exact: a filter as large as the image has one output.
ConvProblem problem_of(const Network& network, const FullyConnected& op, const Shape& x);
PoolProblem problem_of(const Network& network, const Pooling& op, const Shape& x);
PoolProblem problem_of(const Network& network, const GlobalAveragePooling& op, const Shape& x);
PixelwiseProblem problem_of(const Network& network, const Pixelwise& op, const Shape& x,
                            bool per_channel);
RearrangementProblem problem_of(const Network& network, const Rearrangement& op, const Shape& x);

}  // namespace megaconv
