// SPDX-License-Identifier: Apache-2.0
#include "tasks/pooling/reference.hpp"

#include <cmath>
#include <limits>

#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {
namespace {

template <class T>
class Reference {
 public:
  Reference(const PoolProblem& problem, const T* x)
      : problem_(problem), x_(x), in_(strides_of(problem.layout, problem.n, problem.c, size())) {}

  struct Output {
    double value, magnitude;
  };
  Output output(std::int64_t image, std::int64_t channel, std::int64_t row,
                std::int64_t col) const {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, magnitude = 0, count = 0;
    for (std::int64_t i = 0; i < problem_.r; ++i) {
      for (std::int64_t j = 0; j < problem_.s; ++j) {
        const std::int64_t h = row * problem_.stride_h - problem_.pad_h + i;
        const std::int64_t w = col * problem_.stride_w - problem_.pad_w + j;
        if (h < 0 || h >= problem_.h || w < 0 || w >= problem_.w) continue;
        const double value = to_float(x_[in_.at(image, channel, h * problem_.w + w)]);
        if (value > largest || std::isnan(value)) largest = value;
        sum += value;
        magnitude += std::fabs(value);
        ++count;
      }
    }
    return {problem_.mode == PoolMode::max ? largest : sum / count, magnitude / count};
  }

 private:
  std::int64_t size() const { return problem_.h * problem_.w; }

  const PoolProblem& problem_;
  const T* x_;
  Strides in_;
};

}  // namespace

void reference_pooling(const PoolProblem& problem, const void* x, double* y, double* magnitude) {
  const std::int64_t p = problem.p(), q = problem.q();
  const Strides out = strides_of(problem.layout, problem.n, problem.c, p * q);
  with_storage(problem.dtype, [&](auto number) {
    const Reference reference(problem, static_cast<const decltype(number)*>(x));
    for (std::int64_t i = 0; i < problem.y_size(); ++i) {
      const std::int64_t col = i % q, row = i / q % p;
      const std::int64_t channel = i / (p * q) % problem.c, image = i / (p * q) / problem.c;
      const auto output = reference.output(image, channel, row, col);
      const std::int64_t at = out.at(image, channel, row * q + col);
      y[at] = output.value;
      if (magnitude != nullptr) magnitude[at] = output.magnitude;
    }
  });
}

}  // namespace megaconv
