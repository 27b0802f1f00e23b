// SPDX-License-Identifier: Apache-2.0
#include "tools/report/confidence.hpp"

#include <algorithm>
#include <cstddef>
#include <random>

namespace megaconv::cli {
namespace {

double median_of(std::vector<double>& samples) {
  const std::size_t half = samples.size() / 2;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(half);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

}  // namespace

Estimate estimate_median(std::vector<double> samples) {
  constexpr std::size_t kResamples = 1000, kTail = kResamples / 40;
  std::minstd_rand random(1);
  std::vector<double> medians(kResamples), resample(samples.size());
  for (double& median : medians) {
    for (double& value : resample) value = samples[random() % samples.size()];
    median = median_of(resample);
  }
  std::sort(medians.begin(), medians.end());
  return {median_of(samples), medians[kTail], medians[kResamples - 1 - kTail]};
}

}  // namespace megaconv::cli
