// SPDX-License-Identifier: Apache-2.0
// Activations in double: what every body is held to.
#pragma once

#include "megaconv/activation.hpp"

#ifdef __CUDACC__
#define MEGACONV_ACTIVATION_DEVICE __host__ __device__
#else
#define MEGACONV_ACTIVATION_DEVICE
#endif

namespace megaconv {

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
  }
  return value;
}

/// Whether text begins with the name of an activation other than none.
bool is_activation(std::string_view text);
/// "relu, clamp:ALPHA:BETA, ...": all of them but none.
std::string activation_forms();

/// What task bodies compute: y = slope x where x < 0 if it bends there, else what is left of x
/// between least and most.
struct ActivationTerms {
  float least, most, slope;
  bool bends;
};
ActivationTerms terms_of(const Activation& activation);

}  // namespace megaconv

#undef MEGACONV_ACTIVATION_DEVICE
