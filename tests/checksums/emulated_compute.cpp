// SPDX-License-Identifier: Apache-2.0
// How CUDA's tasks are run without a GPU: the only file of these programs that knows how the
// library is made inside.
#include "tests/checksums/emulated_compute.hpp"

#include <cstring>

#include "tests/emulated_cuda/emulated_kernels.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv::checksums {

EmulatedCode emulated_code() {
  return __CUDA_ARCH__ < 800   ? EmulatedCode::sm75
         : __CUDA_ARCH__ < 900 ? EmulatedCode::sm80
                               : EmulatedCode::sm90;
}

std::vector<float> compute_emulated(const ConvProblem& problem, const PlanOptions& options,
                                    const Data& data) {
  const Target target{
      .backend = Backend::cuda, .workers = 8, .split_f16 = emulated_code() != EmulatedCode::sm75};
  const Lowering lowering = lower(problem, options.tiling, options.mapping, target);
  test::Layer layer(problem, false);
  const auto copy = [](const Bytes& from, std::vector<float>& to) {
    if (from.size() != 0) std::memcpy(to.data(), from.get(), from.size());
  };
  copy(data.x, layer.x);
  copy(data.w, layer.w);
  copy(data.bias, layer.bias);
  copy(data.residual, layer.residual);
  return test::run_emulated(layer, lowering, test::emulated_kernels(lowering.tiling()),
                            test::ThreadOrder::forward);
}

}  // namespace megaconv::checksums
