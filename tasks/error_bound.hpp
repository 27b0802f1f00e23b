// SPDX-License-Identifier: Apache-2.0
// What error each algorithm may have, and how an error is written down (compare(),
// tasks/reference.hpp).
#pragma once

#include <cstdint>

#include "megaconv/small_gemm.hpp"
#include "megaconv/tiling.hpp"

namespace megaconv {

/// What compare() found; u is unit_roundoff() of the storage type, S the sum of the magnitudes that
/// went into an output.
struct ErrorReport {
  double relative_l2 = 0;         ///< ||e|| / ||y||; see compare()
  double worst_element = 0;       ///< max |e| / (u S); see compare()
  std::int64_t worst_index = -1;  ///< its place in y; -1 when every element is exact
};

/// Errors that an algorithm may make.
struct ErrorBound {
  double relative_l2 = 0;
  double worst_element = 0;
  bool covers(const ErrorReport& report) const {
    return report.relative_l2 <= relative_l2 && report.worst_element <= worst_element;
  }
};

/// The bound that `tiling`'s algorithm promises for its storage type; error_bound.cpp says where it
/// comes from.
ErrorBound error_bound(const Tiling& tiling);

/// A tiling that errs as small-tile implicit GEMM does.
Tiling tiling_of_error(const SmallGemmCut& cut);

// Those of sums in FP32, before they are rounded to the storage type:
ErrorBound direct_bound(const Tiling& tiling);            ///< multiply-adds of the direct sum
ErrorBound winograd_bound(const Tiling& tiling);          ///< of Winograd's products, not rounded
ErrorBound rounded_winograd_bound(const Tiling& tiling);  ///< of products of 11 bits
ErrorBound split_bound(const Tiling& tiling);             ///< direct, three products
ErrorBound one_product_bound(const Tiling& tiling);       ///< direct, of rounded numbers
ErrorBound small_gemm_bound(const SmallGemmCut& cut);     ///< small tiles

}  // namespace megaconv
