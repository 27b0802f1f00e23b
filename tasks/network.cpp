// SPDX-License-Identifier: Apache-2.0
#include "megaconv/network.hpp"

#include <set>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

// An activation tensor between two operators.
struct Activation {
  std::int64_t n, c, h, w;
  DataType dtype;
  Layout layout;
  bool operator==(const Activation&) const = default;
};

std::string to_string(const Activation& a) {
  return std::string("n") + std::to_string(a.n) + "c" + std::to_string(a.c) + "h" +
         std::to_string(a.h) + "w" + std::to_string(a.w) + "+" + to_string(a.layout) + "+" +
         to_string(a.dtype);
}

Activation input_of(const ConvProblem& p) { return {p.n, p.c, p.h, p.w, p.dtype, p.layout}; }
Activation input_of(const PoolProblem& p) { return {p.n, p.c, p.h, p.w, p.dtype, p.layout}; }
Activation output_of(const ConvProblem& p) { return {p.n, p.k, p.p(), p.q(), p.dtype, p.layout}; }
Activation output_of(const PoolProblem& p) { return {p.n, p.c, p.p(), p.q(), p.dtype, p.layout}; }

template <class... Args>
Activation input_of(const std::variant<Args...>& problem) {
  return std::visit([](const auto& p) { return input_of(p); }, problem);
}
template <class... Args>
Activation output_of(const std::variant<Args...>& problem) {
  return std::visit([](const auto& p) { return output_of(p); }, problem);
}

[[noreturn]] void reject(const std::string& name, const std::string& message) {
  throw Error(Status::invalid_argument, "operator \"" + excerpt(name) + "\": " + message);
}

}  // namespace

void validate(const Network& network) {
  if (network.operators.empty()) {
    throw Error(Status::invalid_argument, "network: no operators, must be at least 1");
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const Operator& op = network.operators[i];
    if (op.name.empty() || excerpt(op.name) != op.name) {
      reject(op.name, "its name must be 1 to 80 printable characters");
    }
    if (!names.insert(op.name).second) reject(op.name, "another operator has this name");
    try {
      std::visit([](const auto& problem) { validate(problem); }, op.problem);
    } catch (const Error& error) {
      throw Error(error.status(), "operator \"" + op.name + "\": " + error.what());
    }
    if (i == 0) continue;
    const Operator& before = network.operators[i - 1];
    const Activation given = output_of(before.problem), wanted = input_of(op.problem);
    if (given == wanted) continue;
    reject(op.name, "its input is " + to_string(wanted) + ", must be " + to_string(given) +
                        ", the output of \"" + before.name + "\"");
  }
}

}  // namespace megaconv
