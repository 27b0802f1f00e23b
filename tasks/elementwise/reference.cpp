// SPDX-License-Identifier: Apache-2.0
#include "tasks/elementwise/reference.hpp"

#include <cmath>

#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {

void reference_elementwise(const ElementwiseProblem& problem, const ElementwiseTensors& tensors,
                           double* y, double* magnitude) {
  const std::int64_t pixels = problem.h * problem.w;
  const Strides out = strides_of(problem.layout, problem.n, problem.c(), pixels);
  with_storage(problem.dtype, [&](auto number) {
    using T = decltype(number);
    std::int64_t first = 0;  // channel of y that is the first of this tensor
    for (std::size_t i = 0; i < problem.channels.size(); ++i) {
      const std::int64_t channels = problem.channels[i];
      const Strides in = strides_of(problem.layout, problem.n, channels, pixels);
      const T* const x = static_cast<const T*>(tensors.x[i]);
      for (std::int64_t at = 0; at < problem.n * channels * pixels; ++at) {
        const std::int64_t pixel = at % pixels, channel = at / pixels % channels;
        const std::int64_t image = at / pixels / channels, c = first + channel;
        const std::int64_t to = out.at(image, c, pixel);
        double value = to_float(x[in.at(image, channel, pixel)]);
        double size = std::fabs(value);
        if (problem.affine) {
          value = value * double{tensors.scale[c]} + double{tensors.bias[c]};
          size = size * std::fabs(double{tensors.scale[c]}) + std::fabs(double{tensors.bias[c]});
        }
        if (problem.residual) {
          const double term = to_float(static_cast<const T*>(tensors.residual)[to]);
          value += term;
          size += std::fabs(term);
        }
        if (value < double{problem.least}) value = problem.least;
        if (value > double{problem.most}) value = problem.most;
        y[to] = value;
        if (magnitude != nullptr) magnitude[to] = size;
      }
      first += channels;
    }
  });
}

}  // namespace megaconv
