// SPDX-License-Identifier: Apache-2.0
// Layers on which the peer of tests fails, by their K.
#pragma once

namespace megaconv::cli {

enum Fault {
  kNoFault = 8,
  kCrashes,        ///< when the algorithm is tried
  kHangs,          ///< then
  kCrashesInTurn,  ///< in the second
  kFailsAtLast,    ///< with an error when it computes y
  kCrashesAtOnce,  ///< before there is an algorithm
  kAllCrash,
};

}  // namespace megaconv::cli
