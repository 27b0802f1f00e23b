// SPDX-License-Identifier: Apache-2.0
#include "tasks/error_bound.hpp"

#include <algorithm>
#include <cmath>

#include "tasks/activation.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// L2, for tensors large enough that statistics hold; n = max(C, 16). Measured: worst of 3 to 30
// seeds on 24x24, 7x7 and 5x5 images, K = 16, padding 0 to 2, normal and ReLU data, AVX-512.
//
//                      C = 16    C = 128   C = 512   bound at 16, 128, 512
//   direct, 3x3        1.9e-7    5.0e-7    9.9e-7    7.2e-7, 2.0e-6, 4.1e-6   u sqrt(L + 2)
//   F(2,3)             1.6e-7    3.8e-7    6.6e-7    4.0e-7, 1.1e-6, 2.3e-6   1.0e-7 sqrt(n)
//   F(4,3) low_error   4.9e-7    1.1e-6    2.1e-6    1.2e-6, 3.4e-6, 6.8e-6   3.0e-7 sqrt(n)
//   F(4,3) integer     1.1e-6    2.1e-6    3.7e-6    2.4e-6, 6.8e-6, 1.4e-5   6.0e-7 sqrt(n)
//   F(6,3)             2.7e-6    5.5e-6    1.0e-5    4.8e-6, 1.4e-5, 2.7e-5   1.2e-6 sqrt(n)
//
// F(4x6) has the bound of F(4x4) low_error. Of 1,175 random problems (C <= 48, images up to 20x20)
// none had more than 0.75 of it, where F(4x4) had 0.37; worst element, of C >= 16, 26. Large layers
// of 64 to 512 channels: 1.1e-6 to 1.8e-6, F(4x4) 6.1e-7 to 8.7e-7.
//
// F(2,3) under stride 2 has the bound of F(2,3), of which it needs 0.27, 0.22 and 0.12. Of 147
// random problems none had more than 0.63. F(4,3) under stride 2 has that bound, too: of 1,175
// random problems none had more than 0.49 of it, where F(2,3) had 0.31; worst element 4.8.
//
// A direct sum of L products and its epilogue make L + 2 roundings (L + 3 with a scale), which for
// random signs add up with the root of their number. Where outputs are few their norm is a matter
// of luck: the bounds widen by 1 + 4 / sqrt(outputs). Of 37,000 random problems for each algorithm
// (C <= 48, images up to 20x20, any epilogue) none had more than 0.7 of these bounds.
//
// Worst element, in u S. Direct: the smaller of gamma_(L+2), which is certain, and 6 sqrt(L + 2),
// which independent roundings exceed with probability 3e-8 (Higham and Mary 2019, theorem 2.4).
// Winograd: twice or more the worst of the same random problems with C >= 16 (4.9, 28, 54, 90; the
// second without FMA), which does not grow with C. With few channels S rests on few products, and
// where these happen to be small e / S is large (780 for F(2,3), 1,337 for F(4,3) integer at C =
// 2): (16/C)^2 covers that, and the L2 norm is the sharper test there.
double luck_of(const ConvProblem& problem) {
  return 1 + 4 / std::sqrt(static_cast<double>(problem.y_size()));
}

// `added`: numbers that are added up one by one, in place of all channels.
ErrorBound winograd_bound(const ConvProblem& problem, std::uint32_t m, Points points,
                          double added) {
  if (problem.stride_w == 2) m = 2;  // F(4,3) needs no more
  const auto channels = static_cast<double>(problem.c);
  const double root = std::sqrt(std::max(added, 16.0)) * luck_of(problem);
  const double few = std::max(1.0, 16 / channels);
  switch (m) {
    case 2:
      return {1e-7 * root, 16 * few * few};
    case kWideTile:
    case 4:
      if (points == Points::low_error) return {3e-7 * root, 56 * few * few};
      return {6e-7 * root, 108 * few * few};
    default:
      return {1.2e-6 * root, 180 * few * few};
  }
}

}  // namespace

ErrorBound direct_bound(const Tiling& tiling) {
  const ConvProblem& problem = tiling.problem;
  const auto roundings =
      static_cast<double>(num_terms(problem) + 2 + (problem.epilogue.scale ? 1 : 0));
  return {unit_roundoff(DataType::f32) * std::sqrt(roundings) * luck_of(problem),
          std::min(roundings, 6 * std::sqrt(roundings))};
}

// Three products of split numbers: tensor cores add 16 or more channels to a sum of its own, which
// is then one number for the FP32 units. Emulated, 8x8 images, F(4x4) with low_error:
//
//            C = 32   C = 64   C = 512   C = 1,280   bound at 32, 64, 512, 1,280
//   F(2,3)   1.4e-7   1.5e-7   1.9e-7    2.3e-7      4.2e-7, 4.5e-7, 6.9e-7, 9.8e-7
//   F(4,3)   4.4e-7   4.9e-7   5.8e-7    7.1e-7      1.3e-6, 1.3e-6, 2.1e-6, 2.9e-6
ErrorBound winograd_bound(const Tiling& tiling) {
  const auto channels = static_cast<double>(tiling.problem.c);
  const bool split = tiling.arithmetic == Arithmetic::split_f16;
  return winograd_bound(tiling.problem, tiling.tiles()->m, tiling.tiles()->points,
                        split ? std::min(channels, 16 + channels / 16) : channels);
}

// The same in implicit GEMM, which is to err no more than multiply-adds. Tensor cores round a sum
// of at most 144 products towards zero, which counts as much as some 400 roundings to nearest; the
// FP32 units add up at least 32 products at a time. Halves lose bits of x and w as 6 roundings do.
// Emulated, 3x3: 9.5e-8 at 16 channels, 3.6e-7 from 64 on, where the bound is 1.2e-6 and more.
//
// Where sums have few terms, e / S is as that of Winograd.
ErrorBound split_bound(const Tiling& tiling) {
  const ConvProblem& problem = tiling.problem;
  const double terms = static_cast<double>(num_terms(problem));
  const double roundings =
      std::min(terms, 400 + terms / 32) + 2 + (problem.epilogue.scale ? 1 : 0) + 6;
  const double few = std::max(1.0, 16 / static_cast<double>(problem.c));
  return {unit_roundoff(DataType::f32) * std::sqrt(roundings) * luck_of(problem),
          std::max(6 * std::sqrt(roundings), 180 * few * few)};
}

// F(4,3) with V, U and M rounded to the 11 bits of FP16, which adds to that. Roundings of different
// channels are independent, as products are, so that their L2 error does not grow with C; the
// matrices amplify it. Measured in an emulation that rounds nothing else, in u of FP16: on images
// of 48 and 24 pixels, 16 and 96 channels, 3.0 and 2.9; of 240 small random ones at most 3.1 times
// 1 + 12 / sqrt(outputs), of 20,000, without roundings of M, 4.2
// (tests/tasks/rounded_winograd.test.cpp). On an H200 2.9 to 3.2 with 128 to 2,560 channels. The
// bound is 6.
//
// Integer points would have 2.2 times as much, and are refused. The outputs of a tile share its
// roundings: luck counts three times as much. Worst element with C >= 16: at most 17 u S without
// roundings of M, of which the bound is twice.
ErrorBound rounded_winograd_bound(const Tiling& tiling) {
  const double u = unit_roundoff(DataType::f16);
  const double luck = 1 + 12 / std::sqrt(static_cast<double>(tiling.problem.y_size()));
  const double few = std::max(1.0, 16 / static_cast<double>(tiling.problem.c));
  const ErrorBound sums = winograd_bound(tiling);
  return {sums.relative_l2 + 6 * u * luck,
          sums.worst_element + 34 * few * few * u / unit_roundoff(DataType::f32)};
}

// Implicit GEMM with one product of numbers that are rounded to 11 bits, of FP16 or TF32, if they
// were floats; tensor cores add 16 or, of TF32, 8 at a time and cut the sums off.
ErrorBound one_product_bound(const Tiling& tiling) {
  const ConvProblem& problem = tiling.problem;
  const double luck = 1 + 4 / std::sqrt(static_cast<double>(problem.y_size()));
  const double u = problem.dtype == DataType::f32 ? unit_roundoff(DataType::f16) : 0;
  const double added = tiling.arithmetic == Arithmetic::tf32 ? 8 : 16;
  const double cut = 0x1p-23 * (2 + static_cast<double>(num_terms(problem)) / added);
  return {std::sqrt(2.0) * u * luck + cut, (2 * u + u * u + cut) / unit_roundoff(DataType::f32)};
}

// Sums are of floats whatever the storage type, and the result is rounded once: to a narrow type
// with an error of u max(|y|, least_normal), for certain. TileErrors takes no norm and no scale for
// less than that of least_normal, so that u (1 + the sums' relative error) is what rounding adds.
ErrorBound error_bound(const Tiling& tiling) {
  const DataType dtype = tiling.problem.dtype;
  const ActivationError activation = error_of(tiling.problem.epilogue.activation);
  ErrorBound sums = algorithm_of(tiling).sum_bound(tiling);
  sums.relative_l2 =
      activation.slope * sums.relative_l2 + activation.units * unit_roundoff(DataType::f32);
  sums.worst_element = activation.slope * sums.worst_element + activation.units;
  if (dtype == DataType::f32) return sums;
  if (dtype == DataType::i8) return {};  // exact
  const double u = unit_roundoff(dtype), float_u = unit_roundoff(DataType::f32);
  return {u + (1 + u) * sums.relative_l2, 1 + (1 + u) * sums.worst_element * (float_u / u)};
}

// Small tiles do not scale floats unless all of a K block are small. Below 2^-14 they lose bits,
// which shows where all terms of a sum are such (3 channels, 107,000 pixels by 136 filters: 2.5
// times the worst element's bound without (16 / C)^2). Rests of pairs keep them.
ErrorBound small_gemm_bound(const SmallGemmCut& cut) {
  const Tiling tiling = tiling_of_error(cut);
  ErrorBound bound =
      cut.precision == Precision::f32 ? split_bound(tiling) : one_product_bound(tiling);
  if (cut.precision == Precision::tf32) {
    const double few = std::max(1.0, 16 / static_cast<double>(cut.problem.c / cut.problem.groups));
    bound.worst_element *= few * few;
  }
  return bound;
}

Tiling tiling_of_error(const SmallGemmCut& cut) {
  Tiling tiling;
  tiling.problem = cut.problem;
  tiling.cut = cut;
  tiling.arithmetic = cut.precision == Precision::f32    ? Arithmetic::split_f16
                      : cut.precision == Precision::tf32 ? Arithmetic::tf32
                      : cut.precision == Precision::bf16 ? Arithmetic::bf16
                                                         : Arithmetic::f16;
  return tiling;
}

}  // namespace megaconv
