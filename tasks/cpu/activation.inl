// SPDX-License-Identifier: Apache-2.0
// The activation of an epilogue, on vectors of sums.
#pragma once

#include "tasks/activation.hpp"
#include "tasks/cpu/simd.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

/// What of an epilogue is known when compiling: there is none; none reads a residual; any.
enum class Parts { none, no_residual, any };
inline Parts parts_of(const Epilogue& epilogue) {
  if (epilogue.residual) return Parts::any;
  const bool none =
      !epilogue.scale && !epilogue.bias && epilogue.activation.function == ActivationFunction::none;
  return none ? Parts::none : Parts::no_residual;
}

/// NaN stays.
class Activate {
 public:
  explicit Activate(const Activation& activation) : Activate(terms_of(activation)) {}
  explicit Activate(const ActivationTerms& terms)
      : least_(broadcast(terms.least)),
        most_(broadcast(terms.most)),
        slope_(broadcast(terms.slope)),
        bends_(terms.bends) {}

  MEGACONV_INLINE Vec operator()(Vec v) const {
    if (bends_) return v < Vec{} ? slope_ * v : v;
    return less_of(most_, greater_of(least_, v));
  }

 private:
  Vec least_, most_, slope_;
  bool bends_;
};

}  // namespace megaconv::cpu::MEGACONV_ISA
