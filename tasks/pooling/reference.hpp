// SPDX-License-Identifier: Apache-2.0
// The truth that tests compare pooling with.
#pragma once

#include "megaconv/pooling.hpp"

namespace megaconv {

/// y = pool(x) in double. x: of the problem's storage type; y: a tensor of doubles. Of equal values
/// max takes the first, which tells zeros apart. `magnitude`, when given, receives the average of
/// |x| under every window: the scale of the rounding errors that computing an average must make.
void reference_pooling(const PoolProblem& problem, const void* x, double* y,
                       double* magnitude = nullptr);

}  // namespace megaconv
