// SPDX-License-Identifier: Apache-2.0
// Activations in double: what every body is held to.
#pragma once

#include <cmath>

#include "megaconv/activation.hpp"

#ifdef __CUDACC__
#define MEGACONV_ACTIVATION_DEVICE __host__ __device__
#else
#define MEGACONV_ACTIVATION_DEVICE
#endif

namespace megaconv {

// gelu_tanh is x / (1 + exp(-q)), q = x (kTanhLinear + kTanhCubic x^2): 2 sqrt(2 / pi), and
// 0.044715 of that.
inline constexpr double kTanhLinear = 1.5957691216057307118, kTanhCubic = 0.044715 * kTanhLinear;
inline constexpr double kRootOfHalf = 0.70710678118654752440;

/// y = x times a share of it: 0 where the share is, also of infinite x.
MEGACONV_ACTIVATION_DEVICE inline double shared(double x, double share) {
  return share == 0 ? 0 : x * share;
}

/// NaN stays.
MEGACONV_ACTIVATION_DEVICE inline double activated(const Activation& a, double value) {
  switch (a.function) {
    case ActivationFunction::none:
      break;
    case ActivationFunction::relu:
      return value < 0 ? 0 : value;
    case ActivationFunction::clamp:
      return value < a.alpha ? a.alpha : value > a.beta ? a.beta : value;
    case ActivationFunction::leaky_relu:
      return value < 0 ? a.alpha * value : value;
    case ActivationFunction::sigmoid:
      return 1 / (1 + std::exp(-value));
    case ActivationFunction::hard_sigmoid: {
      const double line = double{a.alpha} * value + double{a.beta};
      return line < 0 ? 0 : line > 1 ? 1 : line;
    }
    case ActivationFunction::silu:
      return shared(value, 1 / (1 + std::exp(-value)));
    case ActivationFunction::hard_swish:
      return value <= -3 ? 0 : value >= 3 ? value : value * (value + 3) / 6;
    case ActivationFunction::gelu:
      return shared(value, std::erfc(-kRootOfHalf * value) / 2);
    case ActivationFunction::gelu_tanh: {
      const double q = value * (kTanhLinear + kTanhCubic * value * value);
      return shared(value, 1 / (1 + std::exp(-q)));
    }
  }
  return value;
}

/// Whether text begins with the name of an activation other than none.
bool is_activation(std::string_view text);
/// "relu, clamp:ALPHA:BETA, ...": all of them but none.
std::string activation_forms();

/// What an activation does beside cutting off. A gate is a share of x, or y itself.
enum class Bend : std::uint8_t {
  none,
  slope,     ///< y = slope x where x < 0
  line,      ///< clamp(alpha x + beta, 0, 1)
  logistic,  ///< 1 / (1 + exp(-x (alpha + beta x^2)))
  normal,    ///< (1 + erf(x / sqrt(2))) / 2
};

/// What task bodies compute: what is left of x between least and most, if nothing bends; else what
/// bends it, of gates times x or not. Most sums bend nothing, so that bodies test for that first.
struct ActivationTerms {
  float least, most, slope;
  Bend bend;
  bool times_x;
  float alpha, beta;
};
ActivationTerms terms_of(const Activation& activation);

inline constexpr float kFarthest = 128;  // |x| from which on a logistic gate is 0 or 1

// With t = 1 / (1 + kErfStep |x|), 1 - erf(|x| / sqrt(2)) is exp(-x^2 / 2) times kErf1 t + ... +
// kErf5 t^5, within 1.5e-7 (Abramowitz and Stegun, 7.1.26).
inline constexpr float kErfStep = static_cast<float>(0.3275911 * kRootOfHalf);
inline constexpr float kErf1 = 0.254829592f, kErf2 = -0.284496736f, kErf3 = 1.421413741f,
                       kErf4 = -1.453152027f, kErf5 = 1.061405429f;

/// What an activation adds to the errors of sums (ErrorBound).
struct ActivationError {
  double slope = 1;   ///< it makes an error of x at most so many times as large
  double units = 0;   ///< and adds as many units of 2^-24 |x|
  double offset = 0;  ///< or of 2^-24 (|x| + offset)
};
MEGACONV_ACTIVATION_DEVICE inline ActivationError error_of(const Activation& a) {
  // Measured on a CPU: 1.8, gelu 5.1 (tests/tasks/cpu_direct.test.cpp). CUDA's __expf, __fdividef
  // add at most 2.
  constexpr double kUnits = 4, kGeluUnits = 8;
  switch (a.function) {
    case ActivationFunction::leaky_relu:
      return {a.alpha > 1 ? a.alpha : a.alpha < -1 ? -a.alpha : 1.0};
    case ActivationFunction::sigmoid:
      return {1, kUnits, 1};
    case ActivationFunction::hard_sigmoid:
      return {a.alpha > 1 ? a.alpha : a.alpha < -1 ? -a.alpha : 1.0, kUnits, 1};
    case ActivationFunction::silu:
      return {1.1, kUnits};
    case ActivationFunction::hard_swish:
      return {1.5, kUnits};
    case ActivationFunction::gelu:
      return {1.13, kGeluUnits};
    case ActivationFunction::gelu_tanh:
      return {1.13, kUnits};
    default:
      return {};
  }
}

}  // namespace megaconv

#undef MEGACONV_ACTIVATION_DEVICE
