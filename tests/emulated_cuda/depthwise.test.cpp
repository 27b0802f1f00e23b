// SPDX-License-Identifier: Apache-2.0
// Depthwise CUDA tasks whose x TMA loads in boxes, without a GPU.
#include <string>

#include "tasks/direct/depthwise_box.hpp"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

// Of filters of 3, 5 and 7 rows, by both strides; channels that fill no box, and such that threads
// are left over; tasks that end with the image or beyond it. Blocks take more tasks than they have
// stages, and fewer.
TEST_CASE("emulated CUDA: depthwise tasks are right in boxes of any size") {
  for (const char* shape :
       {"n2c40h9w7k40g40+scale+bias+relu", "n1c16h13w10k16g16u2+bias+residual",
        "n3c24h8w9k24g24p0+silu", "n1c72h21w13k72r5p2g72u2+scale", "n2c8h11w14k8r7p3g8+bias",
        "n1c48h12w19k48r5p1x2g48+residual", "n1c32h17w9k32r7p3g32u2", "n5c8h1w1k8g8"}) {
    for (const char* dtype : {"+nhwc", "+nhwc+f16", "+nhwc+bf16"}) {
      const std::string text = std::string(shape) + dtype;
      REQUIRE(loads_boxes(parse_problem(text)));
      TilingOptions options{.algorithm = Algorithm::direct, .arithmetic = Arithmetic::fma};
      for (const bool integers : {false, true}) test::check_emulated(text, integers, options);
      options.rows_per_group = options.cols_per_group = 1;
      options.filter_blocks_per_gemm_task = 1;
      test::check_emulated(text, true, options);
      if (parse_problem(text).p() < 4 || parse_problem(text).q() < 4) continue;
      options.rows_per_group = 4, options.cols_per_group = 3;
      test::check_emulated(text, true, options);
    }
  }
}

TEST_CASE("Boxes of depthwise tasks have room, and are what whole tiles of threads read") {
  for (const int element : {2, 4}) {
    for (const int taps : {3, 5, 7}) {
      for (const int stride : {1, 2}) {
        for (int rows = 1; rows < 40; ++rows) {
          for (const int cols : {1, 2, 7, 14, 55}) {
            const DepthwiseBox box = depthwise_box(taps, stride, rows, cols, 64, element);
            CAPTURE(element, taps, stride, rows, cols, box.stages);
            CHECK(box.rows == ((rows + 3) / 4 * 4 - 1) * stride + taps);
            CHECK(box.cols == ((cols + 1) / 2 * 2 - 1) * stride + taps);
            CHECK(box.bytes == box.rows * box.cols * 64 * element);
            CHECK(box.shared_bytes() <= DepthwiseBox::kHalfBytes);
            const bool fits =
                2 * box.stage_bytes + DepthwiseBox::kBarrierBytes <= DepthwiseBox::kHalfBytes;
            CHECK((box.stages >= 2) == fits);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace megaconv
