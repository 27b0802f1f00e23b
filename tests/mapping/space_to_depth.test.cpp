// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM from space to depth, without a GPU.
#include <vector>

#include "tests/dice.hpp"
#include "tests/mapping/implicit_gemm_tilings.hpp"

using namespace megaconv;
using megaconv::test::check_order_and_file, megaconv::test::cut_of, megaconv::test::tiling_of;

TEST_CASE("Strided layers of few channels are for tensor cores, from space to depth") {
  const auto chosen = [](const char* text) {
    return tiling_of(text, {}, Algorithm::automatic).algorithm();
  };
  for (const char* text : {"c3h28k64r7u2+nhwc", "c3h28k64r7u2+nhwc+f16", "c3h32k96r4p0u4+nhwc",
                           "c3h28k64r2p0u2+nhwc", "c15h28k8u2x1+nhwc+bf16"}) {
    CAPTURE(text);
    CHECK(has_space_to_depth(parse_problem(text)));
    CHECK(chosen(text) == Algorithm::implicit_gemm);
  }
  for (const char* text : {"c3h28k64r7u2", "c3h28k64r7u2d1x2+nhwc", "c3h28k64r1p0u2+nhwc"}) {
    CAPTURE(text);
    CHECK_FALSE(has_space_to_depth(parse_problem(text)));
    CHECK(chosen(text) == Algorithm::direct);
  }
  for (const char* text : {"c3h28k7u2+nhwc", "c3h28k32u2+nhwc", "c3h28k32u2+nhwc+f16"}) {
    CHECK(chosen(text) == Algorithm::direct);
  }
  CHECK_FALSE(has_space_to_depth(parse_problem("c16h28k64u2+nhwc")));
  CHECK_FALSE(has_space_to_depth(parse_problem("c3h28k64+nhwc")));
}

TEST_CASE("From space to depth, 7x7 of stride 2 on an image is 4x4 of 16 channels") {
  const ConvProblem stem = parse_problem("n2c3h224k64r7u2+nhwc");
  CHECK(multiplied_problem(stem, Operands::loaded) == parse_problem("n2c16h115k64r4p0+nhwc"));
  // Rows of 64 bytes: two taps of 16 numbers of 16 bits, one of 16 floats.
  CHECK(multiplied_problem(stem, Operands::in_tensor) ==
        parse_problem("n2c32h115w114k64r4s2p0d1x2+nhwc"));
  CHECK(multiplied_problem(stem, Operands::in_float_tensor) ==
        parse_problem("n2c16h115k64r4p0+nhwc"));
  // Three taps are not two and two.
  CHECK(multiplied_problem(parse_problem("c3h32k64r5p2u2+nhwc"), Operands::in_tensor) ==
        parse_problem("c48h18w16k64r3s1p0d1x3+nhwc"));
  // Groups of 256 x 112 padded pixels and their copy: rows of 115 pixels.
  TilingOptions options;
  options.precision = Precision::tf32;
  const Tiling tiling = tiling_of("n2c3h224k64r7u2+nhwc", options, Algorithm::automatic);
  CHECK(tiling.arithmetic == Arithmetic::tf32);
  CHECK(cut_of(tiling).operands == Operands::in_float_tensor);
  CHECK(input_copy_bytes(tiling) == 2 * 115 * 115 * 16 * 4);
  CHECK(tiling.channel_blocks() == 1);
  CHECK(tiling.u_bytes() == 64 * 4 * 4 * 16 * 4);
  CHECK(cut_of(tiling_of("n2c3h224k64r7u2+nhwc+f16", {}, Algorithm::automatic)).operands ==
        Operands::in_tensor);
  CHECK(cut_of(tiling_of("n2c3h224k63r7u2+nhwc+f16+residual", {}, Algorithm::automatic)).operands ==
        Operands::loaded);
  CHECK(cut_of(tiling_of("n2c3h224k64r7u2+nhwc", {}, Algorithm::automatic)).operands ==
        Operands::loaded);
}

// A number of a tensor in NHWC; 0 beside it.
float at(const std::vector<float>& x, const ConvProblem& a, std::int64_t n, std::int64_t h,
         std::int64_t w, std::int64_t c) {
  const bool exists = h >= 0 && h < a.h && w >= 0 && w < a.w && c < a.c;
  return exists ? x[static_cast<std::size_t>(((n * a.h + h) * a.w + w) * a.c + c)] : 0;
}

TEST_CASE("What is multiplied from space to depth has the same sums") {
  for (const char* text :
       {"n2c3h20w23k2r7u2+nhwc", "n1c3h9w11k3u2+nhwc", "n2c5h6w4k2r3s4p1x3u1x2+nhwc",
        "n1c4h12k2r4p0u4+nhwc", "n1c3h17w14k2r5p2u3x2+nhwc", "n1c15h8k2r4p3u2+nhwc"}) {
    CAPTURE(text);
    const ConvProblem a = parse_problem(text);
    const ConvProblem b = multiplied_problem(a, Operands::loaded);
    const SpaceToDepth depth = space_to_depth(a);
    REQUIRE(b.p() == a.p());
    REQUIRE(b.q() == a.q());
    test::Dice dice(7);
    std::vector<float> x(static_cast<std::size_t>(a.x_size())),
        w(static_cast<std::size_t>(a.w_size()));
    for (float& number : x) number = static_cast<float>(dice.between(-9, 9));
    for (float& number : w) number = static_cast<float>(dice.between(-9, 9));
    // Where a channel of the copy comes from, in a step of the strides.
    const auto row_of = [&](std::int64_t c) { return c / (a.stride_w * a.c); };
    const auto col_of = [&](std::int64_t c) { return c / a.c % a.stride_w; };
    std::vector<float> v, u;
    for (std::int64_t n = 0; n < a.n; ++n) {
      for (std::int64_t i = 0; i < depth.rows; ++i) {
        for (std::int64_t j = 0; j < depth.cols; ++j) {
          for (std::int64_t c = 0; c < depth.channels; ++c) {
            const bool exists = row_of(c) < a.stride_h;
            v.push_back(exists ? at(x, a, n, i * a.stride_h - a.pad_h + row_of(c),
                                    j * a.stride_w - a.pad_w + col_of(c), c % a.c)
                               : 0);
          }
        }
      }
    }
    ConvProblem filter = a;  // filters as images of R x S
    filter.h = a.r;
    filter.w = a.s;
    for (std::int64_t k = 0; k < a.k; ++k) {
      for (std::int64_t tap = 0; tap < depth.taps_h * depth.taps_w; ++tap) {
        for (std::int64_t c = 0; c < depth.channels; ++c) {
          const bool exists = row_of(c) < a.stride_h;
          u.push_back(exists ? at(w, filter, k, tap / depth.taps_w * a.stride_h + row_of(c),
                                  tap % depth.taps_w * a.stride_w + col_of(c), c % a.c)
                             : 0);
        }
      }
    }
    REQUIRE(v.size() == static_cast<std::size_t>(b.x_size()));
    REQUIRE(u.size() == static_cast<std::size_t>(b.w_size()));
    const auto sums = [](const ConvProblem& p, const std::vector<float>& image,
                         const std::vector<float>& filters) {
      std::vector<float> y;
      ConvProblem of_filters = p;
      of_filters.h = p.r;
      of_filters.w = p.s;
      for (std::int64_t n = 0; n < p.n; ++n) {
        for (std::int64_t row = 0; row < p.p(); ++row) {
          for (std::int64_t col = 0; col < p.q(); ++col) {
            for (std::int64_t k = 0; k < p.k; ++k) {
              float sum = 0;
              for (std::int64_t r = 0; r < p.r; ++r) {
                for (std::int64_t s = 0; s < p.s; ++s) {
                  for (std::int64_t c = 0; c < p.c; ++c) {
                    sum += at(image, p, n, row * p.stride_h - p.pad_h + r,
                              col * p.stride_w - p.pad_w + s, c) *
                           at(filters, of_filters, k, r, s, c);
                  }
                }
              }
              y.push_back(sum);
            }
          }
        }
      }
      return y;
    };
    CHECK(sums(b, v, u) == sums(a, x, w));
  }
}
