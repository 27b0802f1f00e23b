// SPDX-License-Identifier: Apache-2.0
#include "tasks/pooling/reference.hpp"

#include <cmath>
#include <limits>

#include "tasks/pooling/operator.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {
namespace {

/// T: see number_of().
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
    const T* const plane = x_ + image * in_.image + channel * in_.channel;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, magnitude = 0, count = 0;
    for (std::int64_t i = 0; i < problem_.r; ++i) {
      for (std::int64_t j = 0; j < problem_.s; ++j) {
        const std::int64_t h = row * problem_.stride_h - problem_.pad_h + i;
        const std::int64_t w = col * problem_.stride_w - problem_.pad_w + j;
        if (h < 0 || h >= problem_.h || w < 0 || w >= problem_.w) continue;
        const double value = number_of(plane[(h * problem_.w + w) * in_.pixel]);
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

template <class T>
void compute_pooling(const PoolProblem& problem, const T* x, double* y, double* magnitude) {
  const std::int64_t p = problem.p(), q = problem.q();
  const Strides out = strides_of(problem.layout, problem.n, problem.c, p * q);
  const Reference reference(problem, x);
  for (std::int64_t i = 0; i < problem.y_size(); ++i) {
    const std::int64_t col = i % q, row = i / q % p;
    const std::int64_t channel = i / (p * q) % problem.c, image = i / (p * q) / problem.c;
    const auto output = reference.output(image, channel, row, col);
    const std::int64_t at = image * out.image + channel * out.channel + (row * q + col) * out.pixel;
    y[at] = output.value;
    if (magnitude != nullptr) magnitude[at] = output.magnitude;
  }
}

}  // namespace

void reference_pooling(const PoolProblem& problem, const void* x, double* y, double* magnitude) {
  with_storage(problem.dtype, [&](auto number) {
    compute_pooling(problem, static_cast<const decltype(number)*>(x), y, magnitude);
  });
}

// Of T numbers all sums but the first round, and so does the division.
OperatorTruth truth_of(const PoolProblem& problem, const FusedOperator&, const ReadNumbers& read) {
  PoolProblem a = problem;
  a.layout = Layout::nchw;
  const auto size = static_cast<std::size_t>(a.y_size());
  OperatorTruth truth{.y = std::vector<double>(size),
                      .magnitude = std::vector<double>(size),
                      .roundings = a.mode == PoolMode::max ? 0 : static_cast<double>(a.r * a.s)};
  const std::vector<double> x = read(0, {a.n, a.c, a.h, a.w});
  compute_pooling(a, x.data(), truth.y.data(), truth.magnitude.data());
  return truth;
}

}  // namespace megaconv
