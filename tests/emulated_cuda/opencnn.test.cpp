// SPDX-License-Identifier: Apache-2.0
// openCNN's CUDA tasks, without a GPU.
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

TEST_CASE("emulated CUDA: openCNN's output layouts are right in every memory order") {
  for (const char* shape : {"n1c1h1w1k1", "n3c20h9w6k37+scale+bias+relu", "n33c9h4k70+residual",
                            "n2c17h6w5k65p0", "n1c33h7k48p2+relu"}) {
    for (const bool integers : {false, true}) {
      for (const OutputLayout output : {OutputLayout::baseline, OutputLayout::optSTS64,
                                        OutputLayout::optSTS64_compact, OutputLayout::optLDS64}) {
        TilingOptions options;
        options.algorithm = Algorithm::opencnn;
        options.output_layout = output;
        test::check_in_both_layouts(shape, integers, options);
        test::check_emulated(std::string(shape) + "+chwn", integers, options);
      }
    }
  }
}

}  // namespace
}  // namespace megaconv
