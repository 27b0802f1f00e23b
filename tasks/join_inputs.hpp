// SPDX-License-Identifier: Apache-2.0
// Elementwise operations as a part of the convolution that reads them: its tasks make x of the
// tensors that they load. In a DenseNet that is a level less for every layer.
//
//   tensors --concatenation, batch norm, clamp--> x --convolution 1x1--> y
//   tensors ------------------ convolution 1x1 ------------------------> y
#pragma once

#include "tasks/fuse.hpp"

namespace megaconv {

/// The same network; an operation that one convolution alone reads is joined to it where tasks of
/// small-tile implicit GEMM can do the work of both. Names, values and numbers stay.
FusedNetwork with_joined_inputs(FusedNetwork network);

}  // namespace megaconv
