// SPDX-License-Identifier: Apache-2.0
// openCNN's CUDA tasks, without a GPU.
#include "runtime/cuda/opencnn_set.cuh"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

using test::check_emulated;

TEST_CASE("emulated CUDA: openCNN's output layouts are right in every memory order") {
  for (const char* shape : {"n1c1h1w1k1", "n3c20h9w6k37+bias+relu", "n33c9h4k70+residual",
                            "n2c17h6w5k65p0", "n1c33h7k48p2+relu"}) {
    for (const bool integers : {false, true}) {
      for (const OutputLayout output : {OutputLayout::baseline, OutputLayout::optSTS64,
                                        OutputLayout::optSTS64_compact, OutputLayout::optLDS64}) {
        TilingOptions options;
        options.algorithm = Algorithm::opencnn;
        options.output_layout = output;
        const std::string text = shape;
        check_emulated((text + "+nchw").c_str(), integers, options,
                       cuda::opencnn_kernels<Layout::nchw>);
        check_emulated((text + "+nhwc").c_str(), integers, options,
                       cuda::opencnn_kernels<Layout::nhwc>);
        check_emulated((text + "+chwn").c_str(), integers, options,
                       cuda::opencnn_kernels<Layout::chwn>);
      }
    }
  }
}

}  // namespace
}  // namespace megaconv
