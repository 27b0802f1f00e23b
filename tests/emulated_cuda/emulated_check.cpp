// SPDX-License-Identifier: Apache-2.0
// What tests expect of an emulated run.
#include <cmath>
#include <cstring>

#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_kernels.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv::test {
namespace {

// What a layer is computed by, run in forward order, and what comes of it.
struct Computed {
  Computed(const Layer& layer, const TilingOptions& options)
      : truth(layer.reference(&magnitude)),
        lowering(lower(layer.problem, options, {}, target(options))),
        set(emulated_kernels(lowering.tiling())),
        y(run_emulated(layer, lowering, set, ThreadOrder::forward)),
        stored(as_stored(y, layer.problem.dtype)),
        report(compare(lowering.tiling(), stored.data(), truth.data(), magnitude.data())) {}
  static Target target(const TilingOptions& options) {
    const bool tensor_cores = options.arithmetic != Arithmetic::automatic;
    return {.backend = Backend::cuda, .workers = 8, .split_f16 = tensor_cores};
  }
  std::vector<double> magnitude;
  std::vector<double> truth;
  Lowering lowering;
  cuda::KernelSet set;
  std::vector<float> y;
  std::vector<std::byte> stored;  // y
  ErrorReport report;
};

}  // namespace

ErrorReport emulated_error(const char* problem, const TilingOptions& options) {
  return Computed(Layer(parse_problem(problem), false), options).report;
}

void check_emulated(const std::string& problem, bool integers, const TilingOptions& options) {
  check_emulated(Layer(parse_problem(problem), integers), integers, options);
}
void check_in_both_layouts(const std::string& problem, bool integers,
                           const TilingOptions& options) {
  check_emulated(problem + "+nchw", integers, options);
  check_emulated(problem + "+nhwc", integers, options);
}

void check_emulated(const Layer& layer, bool integers, const TilingOptions& options) {
  const Computed computed(layer, options);
  const std::vector<float>& y = computed.y;
  CAPTURE(to_string(layer.problem), integers, computed.set.name, to_string(computed.report));
  CHECK(error_bound(computed.lowering.tiling()).covers(computed.report));
  if (integers) {
    const auto count = static_cast<std::int64_t>(y.size());
    CHECK(
        mismatch(layer.problem.dtype, computed.stored.data(), computed.truth.data(), count).count ==
        0);
    return;  // in other orders, too, if the other layer is right in them
  }
  for (const ThreadOrder order : {ThreadOrder::backward, ThreadOrder::shuffled}) {
    const std::vector<float> other = run_emulated(layer, computed.lowering, computed.set, order);
    CHECK(std::memcmp(y.data(), other.data(), y.size() * sizeof(float)) == 0);
  }
}

void check_magnitudes(const char* problem, const TilingOptions& options) {
  struct Exponents {
    int x, w;
  };
  for (const auto [of_x, of_w] :
       {Exponents{-60, 0}, {-20, 30}, {-6, -9}, {0, -40}, {11, 3}, {40, -40}}) {
    Layer layer(parse_problem(problem), false);
    for (float& value : layer.x) value = std::ldexp(value, of_x);
    for (float& value : layer.w) value = std::ldexp(value, of_w);
    CAPTURE(of_x, of_w);
    check_emulated(layer, false, options);
  }
}

}  // namespace megaconv::test
