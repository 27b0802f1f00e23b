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

/// exp(z) of z <= 0, and 0 of what is below -87: 2^n exp(r), |r| <= ln(2) / 2, by Taylor's series.
MEGACONV_INLINE Vec exp_of_negative(Vec z) {
  using Bits = std::int32_t __attribute__((vector_size(sizeof(Vec))));
  constexpr float kLeast = -87, kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // n kLn2High is exact
  constexpr float kRound = 0x1.8p23f;                                  // no room for fractions
  const Vec bounded = z < kLeast ? broadcast(kLeast) : z;
  const Vec rounded = fused_multiply_add(bounded, broadcast(kLog2E), broadcast(kRound));
  const Vec n = rounded - kRound;
  const Vec r = fused_multiply_add(n, broadcast(-kLn2Low),
                                   fused_multiply_add(n, broadcast(-kLn2High), bounded));
  Vec sum = broadcast(1.0f / 5040);
  for (const float term : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    sum = fused_multiply_add(sum, r, broadcast(term));
  }
  const Bits exponent = __builtin_bit_cast(Bits, rounded) - __builtin_bit_cast(int, kRound) + 127;
  const Vec power = __builtin_bit_cast(Vec, exponent << 23);
  return z < kLeast ? Vec{} : sum * power;
}

/// Activations that are no straight lines. Out of line: most sums have none.
MEGACONV_OUT_OF_LINE inline Vec gated(const ActivationTerms& terms, Vec v) {
  const Vec one = broadcast(1), size = v < Vec{} ? -v : v;
  Vec gate;
  if (terms.bend == Bend::line) {
    const Vec line = fused_multiply_add(broadcast(terms.alpha), v, broadcast(terms.beta));
    const Vec raised = line < Vec{} ? Vec{} : line;
    gate = raised > one ? one : raised;
  } else {
    Vec far;  // the gate of -|x|
    if (terms.bend == Bend::logistic) {
      const Vec bounded = size > kFarthest ? broadcast(kFarthest) : size;
      const Vec slope =
          fused_multiply_add(broadcast(terms.beta), bounded * bounded, broadcast(terms.alpha));
      const Vec power = exp_of_negative(-bounded * slope);
      far = power / (one + power);
    } else {
      const Vec t = one / fused_multiply_add(broadcast(kErfStep), size, one);
      Vec sum = broadcast(kErf5);
      for (const float term : {kErf4, kErf3, kErf2, kErf1}) {
        sum = fused_multiply_add(sum, t, broadcast(term));
      }
      far = broadcast(0.5f) * sum * t * exp_of_negative(broadcast(-0.5f) * size * size);
    }
    gate = v < Vec{} ? far : one - far;
  }
  if (!terms.times_x) return gate;
  return gate == Vec{} ? Vec{} : v * gate;
}

/// NaN stays.
class Activate {
 public:
  explicit Activate(const Activation& activation) : Activate(terms_of(activation)) {}
  explicit Activate(const ActivationTerms& terms)
      : least_(broadcast(terms.least)),
        most_(broadcast(terms.most)),
        slope_(broadcast(terms.slope)),
        terms_(terms) {}

  /// Whether nothing bends, so that clamped() is all.
  MEGACONV_INLINE bool only_clamps() const { return terms_.bend == Bend::none; }
  MEGACONV_INLINE Vec clamped(Vec v) const { return less_of(most_, greater_of(least_, v)); }

  MEGACONV_INLINE Vec operator()(Vec v) const {
    if (only_clamps()) return clamped(v);
    if (terms_.bend == Bend::slope) return v < Vec{} ? slope_ * v : v;
    return gated(terms_, v);
  }

 private:
  Vec least_, most_, slope_;
  ActivationTerms terms_;
};

}  // namespace megaconv::cpu::MEGACONV_ISA
