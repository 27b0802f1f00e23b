// SPDX-License-Identifier: Apache-2.0
// Activations: their names, their numbers and their text.
#include "megaconv/activation.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "mapping/text.hpp"
#include "tasks/activation.hpp"
#include "tasks/checks.hpp"

namespace megaconv {
namespace {

struct Named {
  ActivationFunction function;
  const char* name;
  int numbers;  // alpha, and beta
};
constexpr Named kFunctions[] = {
    {ActivationFunction::none, "none", 0},
    {ActivationFunction::relu, "relu", 0},
    {ActivationFunction::clamp, "clamp", 2},
    {ActivationFunction::leaky_relu, "leaky_relu", 1},
    {ActivationFunction::sigmoid, "sigmoid", 0},
    {ActivationFunction::hard_sigmoid, "hard_sigmoid", 2},
    {ActivationFunction::silu, "silu", 0},
    {ActivationFunction::hard_swish, "hard_swish", 0},
    {ActivationFunction::gelu, "gelu", 0},
    {ActivationFunction::gelu_tanh, "gelu_tanh", 0},
};
static_assert(std::size(kFunctions) == kNumActivationFunctions);

const Named& named(ActivationFunction function) {
  const auto index = static_cast<std::size_t>(function);
  if (index >= kNumActivationFunctions) {
    fail("activation " + std::to_string(index) + ": must be 0 to " +
         std::to_string(kNumActivationFunctions - 1));
  }
  return kFunctions[index];
}

std::string shortest(float value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr;
  return {text, end};
}

float read_number(std::string_view text, std::string_view number) {
  float value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, value);
  if (number.empty() || stop != end || error != std::errc{}) {
    fail("activation \"" + excerpt(text) + "\": \"" + excerpt(number) + "\", must be a number");
  }
  return value;
}

}  // namespace

const char* to_string(ActivationFunction function) noexcept {
  const auto index = static_cast<std::size_t>(function);
  return index < kNumActivationFunctions ? kFunctions[index].name : "unknown";
}

void validate(const Activation& activation) {
  const Named& function = named(activation.function);
  const auto reject = [&](const char* number, float value, const std::string& must) {
    fail(std::string("activation ") + function.name + ": " + number + " = " + number_text(value) +
         ", must be " + must);
  };
  if (activation.function == ActivationFunction::clamp) {
    if (!(activation.alpha < activation.beta)) {
      reject("alpha", activation.alpha, "less than beta = " + number_text(activation.beta));
    }
    return;
  }
  const auto check = [&](const char* number, float value, bool has) {
    if (!has && value != 0) reject(number, value, "0, since it has no such number");
    if (!std::isfinite(value)) reject(number, value, "finite");
  };
  check("alpha", activation.alpha, function.numbers > 0);
  check("beta", activation.beta, function.numbers > 1);
}

std::string to_string(const Activation& activation) {
  const Named& function = named(activation.function);
  std::string text = function.name;
  if (function.numbers > 0) text.append(":").append(shortest(activation.alpha));
  if (function.numbers > 1) text.append(":").append(shortest(activation.beta));
  return text;
}

ActivationTerms terms_of(const Activation& activation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ActivationTerms terms{.least = -kInfinity,
                        .most = kInfinity,
                        .slope = 1,
                        .bend = Bend::none,
                        .times_x = false,
                        .alpha = 0,
                        .beta = 0};
  const auto gate = [&](Bend of, bool times_x, double alpha, double beta) {
    terms.bend = of;
    terms.times_x = times_x;
    terms.alpha = static_cast<float>(alpha);
    terms.beta = static_cast<float>(beta);
  };
  switch (activation.function) {
    case ActivationFunction::none:
      break;
    case ActivationFunction::relu:
      terms.least = 0;
      break;
    case ActivationFunction::clamp:
      terms.least = activation.alpha;
      terms.most = activation.beta;
      break;
    case ActivationFunction::leaky_relu:
      terms.slope = activation.alpha;
      terms.bend = Bend::slope;
      break;
    case ActivationFunction::sigmoid:
      gate(Bend::logistic, false, 1, 0);
      break;
    case ActivationFunction::hard_sigmoid:
      gate(Bend::line, false, double{activation.alpha}, double{activation.beta});
      break;
    case ActivationFunction::silu:
      gate(Bend::logistic, true, 1, 0);
      break;
    case ActivationFunction::hard_swish:
      gate(Bend::line, true, 1.0 / 6, 0.5);
      break;
    case ActivationFunction::gelu:
      gate(Bend::normal, true, 0, 0);
      break;
    case ActivationFunction::gelu_tanh:
      gate(Bend::logistic, true, kTanhLinear, kTanhCubic);
      break;
  }
  return terms;
}

Activation parse_activation(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const Named& function : kFunctions) {
    if (parts[0] != function.name) continue;
    const int given = static_cast<int>(parts.size()) - 1;
    if (given != function.numbers) {
      fail("activation \"" + excerpt(text) + "\": " + std::to_string(given) +
           " numbers behind colons, must be " + std::to_string(function.numbers));
    }
    Activation activation{.function = function.function};
    if (given > 0) activation.alpha = read_number(text, parts[1]);
    if (given > 1) activation.beta = read_number(text, parts[2]);
    validate(activation);
    return activation;
  }
  fail("activation \"" + excerpt(text) + "\": must be none, " + activation_forms());
}

bool is_activation(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  return std::any_of(std::begin(kFunctions) + 1, std::end(kFunctions),
                     [&](const Named& function) { return name == function.name; });
}

std::string activation_forms() {
  std::string forms;
  for (const Named& function : std::span(kFunctions).subspan(1)) {
    if (!forms.empty()) forms += ", ";
    forms += function.name;
    if (function.numbers > 0) forms += ":ALPHA";
    if (function.numbers > 1) forms += ":BETA";
  }
  return forms;
}

}  // namespace megaconv
