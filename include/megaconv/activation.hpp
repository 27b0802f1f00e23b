// SPDX-License-Identifier: Apache-2.0
// What an epilogue does to a number last.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace megaconv {

enum class ActivationFunction : std::uint8_t {
  none,        ///< y = x
  relu,        ///< y = x, but 0 where x < 0
  clamp,       ///< y = x, but alpha where x < alpha, and beta where x > beta
  leaky_relu,  ///< y = x, but alpha x where x < 0
};
inline constexpr std::uint32_t kNumActivationFunctions = 4;
const char* to_string(ActivationFunction function) noexcept;  ///< "none", "relu", "clamp", ...

/// A function and its numbers, of which it has those that its formula names; the others are 0.
/// Numbers are FP32. NaN stays NaN.
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

/// Throws Error(invalid_argument) naming the function and the number: one that is not finite
/// (of clamp: NaN), a clamp whose alpha is not below its beta, a number that the function has not.
void validate(const Activation& activation);

/// "relu", "clamp:0:6", "leaky_relu:0.1": the function, and its numbers behind colons.
std::string to_string(const Activation& activation);
/// Reads what to_string() writes. Throws Error(invalid_argument) naming the part that is wrong.
Activation parse_activation(std::string_view text);

}  // namespace megaconv
