// SPDX-License-Identifier: Apache-2.0
// A median with its confidence interval.
#pragma once

#include <vector>

namespace megaconv::cli {

struct Estimate {
  double median = 0, low = 0, high = 0;  ///< 95 %
};

/// Percentile bootstrap of the median, 1,000 resamples from a fixed seed. `samples` must not be
/// empty; one sample is its own interval.
Estimate estimate_median(std::vector<double> samples);

}  // namespace megaconv::cli
