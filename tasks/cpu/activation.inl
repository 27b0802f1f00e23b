// SPDX-License-Identifier: Apache-2.0
// The activation of an epilogue, on vectors of sums.
#pragma once

#include "tasks/activation.hpp"
#include "tasks/cpu/simd.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

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
    const Vec raised = v < least_ ? least_ : v;
    return raised > most_ ? most_ : raised;
  }

 private:
  Vec least_, most_, slope_;
  bool bends_;
};

}  // namespace megaconv::cpu::MEGACONV_ISA
