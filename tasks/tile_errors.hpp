// SPDX-License-Identifier: Apache-2.0
// The errors of one tile of outputs, and how those of several add up: what compare() consists of,
// on a CPU and on a GPU.
#pragma once

#include <cstdint>
#include <type_traits>

#include "megaconv/tiling.hpp"
#include "tasks/ceil_div.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {

/// Of any number of tiles.
struct ErrorSums {
  double error_squares = 0, reference_squares = 0, magnitude_squares = 0;
  double worst = 0;  ///< in u S, S the largest of its tile
  std::int64_t worst_index = -1;

  constexpr ErrorSums& operator+=(const ErrorSums& other) {
    error_squares += other.error_squares;
    reference_squares += other.reference_squares;
    magnitude_squares += other.magnitude_squares;
    if (other.worst > worst) {
      worst = other.worst;
      worst_index = other.worst_index;
    }
    return *this;
  }
};

/// The errors of any one of Winograd's tiles (single outputs for direct convolution), by number.
/// Numbers that have no normal size in the storage type count as the least that has. What Int8 must
/// be is known to the bit, so its errors are distances from the rounded reference.
template <class T>
class TileErrors {
 public:
  TileErrors(const Tiling& tiling, const T* y, const double* reference, const double* magnitude)
      : y_(y),
        reference_(reference),
        magnitude_(magnitude),
        tile_h_(tiling.tiles() != nullptr ? tiling.tiles()->rows() : 1),
        tile_w_(tiling.tiles() != nullptr ? tiling.tiles()->cols() : 1),
        p_(tiling.problem.p()),
        q_(tiling.problem.q()),
        k_(tiling.problem.k),
        tiles_h_(ceil_div(p_, tile_h_)),
        tiles_w_(ceil_div(q_, tile_w_)),
        num_tiles_(tiling.problem.n * k_ * tiles_h_ * tiles_w_),
        strides_(y_strides(tiling.problem, p_ * q_)),
        unit_roundoff_(unit_roundoff(tiling.problem.dtype)),
        least_normal_(least_normal(tiling.problem.dtype)) {}

  std::int64_t num_tiles() const { return num_tiles_; }

  constexpr ErrorSums operator()(std::int64_t tile) const {
    const std::int64_t col = tile % tiles_w_ * tile_w_, row = tile / tiles_w_ % tiles_h_ * tile_h_;
    const std::int64_t plane = tile / (tiles_w_ * tiles_h_);
    ErrorSums sums;
    double scale = 0, worst = 0;
    for (std::int64_t i = row; i < row + tile_h_ && i < p_; ++i) {
      for (std::int64_t j = col; j < col + tile_w_ && j < q_; ++j) {
        const std::int64_t at = strides_.at(plane / k_, plane % k_, i * q_ + j);
        const double error = distance(y_[at], reference_[at]);
        if (error > worst) {
          worst = error;
          sums.worst_index = at;
        }
        const double size = at_least_normal(magnitude_[at]);
        if (size > scale) scale = size;
        const double truth = at_least_normal(reference_[at] < 0 ? -reference_[at] : reference_[at]);
        sums.error_squares += error * error;
        sums.reference_squares += truth * truth;
        sums.magnitude_squares += size * size;
      }
    }
    if (worst > 0) sums.worst = worst / (unit_roundoff_ * scale);
    return sums;
  }

 private:
  /// Infinite for a value that is no number (x - x is 0 for numbers only), unless the truth is too
  /// large for the storage type.
  static constexpr double distance(T stored, double truth) {
    const double value = to_float(stored);
    if constexpr (std::is_same_v<T, Int8>) {
      truth = to_float(from_float<T>(static_cast<float>(truth)));
    } else if (!(value - value == 0)) {
      return value == to_float(from_float<T>(static_cast<float>(truth))) ? 0 : kInfinity;
    }
    return value > truth ? value - truth : truth - value;
  }
  constexpr double at_least_normal(double size) const {
    return size > least_normal_ ? size : least_normal_;
  }
  static constexpr double kInfinity = __builtin_huge_val();

  const T* y_;
  const double *reference_, *magnitude_;
  std::int64_t tile_h_, tile_w_, p_, q_, k_, tiles_h_, tiles_w_, num_tiles_;
  Strides strides_;
  double unit_roundoff_, least_normal_;
};

/// Whether the i-th number is another than the reference, a float, rounded to the storage type.
template <class T>
struct Differs {
  const T* y;
  const double* reference;
  constexpr bool operator()(std::int64_t i) const {
    return to_float(y[i]) != to_float(from_float<T>(static_cast<float>(reference[i])));
  }
};

}  // namespace megaconv
