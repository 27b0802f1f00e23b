// SPDX-License-Identifier: Apache-2.0
// The truth that tests, `megaconv verify` and `megaconv bench` compare with: direct convolution in
// double, and seeded data that is the same with every compiler.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "megaconv/lowering.hpp"
#include "megaconv/plan.hpp"
#include "tasks/error_bound.hpp"
#include "tasks/random_data.hpp"
#include "tasks/storage.hpp"
#include "tasks/tile_errors.hpp"

namespace megaconv {

/// y = epilogue(conv(x, w)), every product and sum in double (the epilogue of i8: as DataType
/// defines it, before rounding), on all CPUs this process may use.
/// Of the tensors, w is read (prepared filters are not) and what the epilogue has; y is a tensor of
/// doubles. `magnitude`, when given, receives for every output S = |scale| sum |x| |w| + |bias| +
/// |residual|: the scale of the rounding errors that computing this output must make.
void reference_convolution(const ConvProblem& problem, const Tensors& tensors, double* y,
                           double* magnitude = nullptr);

/// Numbers by their place; see tasks/random_data.hpp.
void fill(std::span<float> values, const Filling& filling, std::uint64_t seed);

/// The same `count` numbers, rounded to a storage type.
void fill(DataType dtype, void* values, std::int64_t count, const Filling& filling,
          std::uint64_t seed);

/// N(0, 1), as the sum of six uniform numbers.
void fill_normal(std::span<float> values, std::uint64_t seed);

/// With multiple = 4 for F(2,3), 576 for F(4,3) with Points::integer, and 1 for direct convolution,
/// as weights, every intermediate value is an integer; while sums stay below 2^24 all results are
/// exact.
void fill_integers(std::span<float> values, std::uint64_t seed, double density = 0.11,
                   float multiple = 1);

/// What random tensors of a problem are filled with: x as after a ReLU, the others normal. Of i8
/// with a scale over the whole range, else so small that few outputs saturate.
struct RandomData {
  explicit RandomData(const ConvProblem& problem);
  Filling x, w, scale, bias, residual;
};

/// Compares y, of the problem's storage type, with reference_convolution's results. An element that
/// is not finite is an infinite error, unless the reference is too large for the type. Two scales
/// need care:
/// - Winograd's roundings at one output grow with all inputs of its tile, which may be far greater
///   than its own (at a border it may see nothing but padding): S is the largest of the tile.
/// - The L2 norm is relative to max(||y||, 2 ||S|| / sqrt(L)), L the terms of a sum. For random
///   data the two are alike; where sums cancel or a ReLU leaves only zeros, the error is still
///   compared with the numbers that went into it.
ErrorReport compare(const Tiling& tiling, const void* y, const double* reference,
                    const double* magnitude);

/// Elements that are not exactly what they must be: the reference, which must be of float,
/// rounded to the storage type. That of i8 always is.
struct Mismatch {
  std::int64_t count = 0, first = -1;
};
Mismatch mismatch(DataType dtype, const void* y, const double* reference, std::int64_t count);

/// What compare() makes of the sums over all tiles.
ErrorReport report(const Tiling& tiling, const ErrorSums& sums);

/// "relative L2 3.1e-07, worst element 4.2 u S at 17"
std::string to_string(const ErrorReport& report);

}  // namespace megaconv
