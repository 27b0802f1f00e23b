// SPDX-License-Identifier: Apache-2.0
// In the place of CUDA's.
#pragma once

struct CUtensorMap {
  unsigned char bytes[128];
};
