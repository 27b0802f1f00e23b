// SPDX-License-Identifier: Apache-2.0
// What an epilogue does to a number last.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace megaconv {

enum class ActivationFunction : std::uint8_t {
  none,          ///< y = x
  relu,          ///< y = x, but 0 where x < 0
  clamp,         ///< y = x, but alpha where x < alpha, and beta where x > beta
  leaky_relu,    ///< y = x, but alpha x where x < 0
  sigmoid,       ///< y = 1 / (1 + exp(-x))
  hard_sigmoid,  ///< y = clamp(alpha x + beta, 0, 1)
  silu,          ///< y = x / (1 + exp(-x))
  hard_swish,    ///< y = x clamp(x / 6 + 1/2, 0, 1)
  gelu,          ///< y = x (1 + erf(x / sqrt(2))) / 2
  gelu_tanh,     ///< y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};
inline constexpr std::uint32_t kNumActivationFunctions = 10;
const char* to_string(ActivationFunction function) noexcept;  ///< "none", "relu", "clamp", ...

/// A function and its numbers, of which it has those that its formula names; the others are 0.
/// Numbers are FP32. NaN stays NaN, and infinite x has the limit of y. From sigmoid on, y errs by
/// 4 units of 2^-24 |x| at most, gelu by 8; sigmoid and hard_sigmoid by 4 units of 2^-24. They are
/// not for i8, where results are defined to the bit.
struct Activation {
  ActivationFunction function = ActivationFunction::none;
  float alpha = 0, beta = 0;

  bool operator==(const Activation&) const = default;
};

inline constexpr Activation kRelu{ActivationFunction::relu};
/// At least `least`, at most `most`: ReLU6 is clamp(0, 6). Infinite numbers leave a side open.
constexpr Activation clamp(float least, float most) {
  return {ActivationFunction::clamp, least, most};
}
constexpr Activation leaky_relu(float slope) { return {ActivationFunction::leaky_relu, slope}; }
inline constexpr Activation kSigmoid{ActivationFunction::sigmoid};
constexpr Activation hard_sigmoid(float slope, float shift) {
  return {ActivationFunction::hard_sigmoid, slope, shift};
}
inline constexpr Activation kSilu{ActivationFunction::silu};
inline constexpr Activation kHardSwish{ActivationFunction::hard_swish};
inline constexpr Activation kGelu{ActivationFunction::gelu};
inline constexpr Activation kGeluTanh{ActivationFunction::gelu_tanh};

/// Throws Error(invalid_argument) naming the function and the number: one that is not finite
/// (of clamp: NaN), a clamp whose alpha is not below its beta, a number that the function has not.
void validate(const Activation& activation);

/// "relu", "clamp:0:6", "leaky_relu:0.1": the function, and its numbers behind colons.
std::string to_string(const Activation& activation);
/// Reads what to_string() writes. Throws Error(invalid_argument) naming the part that is wrong.
Activation parse_activation(std::string_view text);

}  // namespace megaconv
