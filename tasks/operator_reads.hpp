// SPDX-License-Identifier: Apache-2.0
// What an operator of a network reads, and the checks of it that rooms have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/network.hpp"

namespace megaconv {

/// A name, shortened, in quotes.
std::string quoted_name(const std::string& name);

/// Values and weights of one operator. What does not fit throws Error(invalid_argument) with its
/// name. `network` and `op` must outlive this.
class OperatorReads {
 public:
  OperatorReads(const Network& network, const Operator& op, std::vector<Shape> shapes)
      : network_(network), op_(op), shapes_(std::move(shapes)) {}

  const Network& network() const { return network_; }
  std::span<const Shape> shapes() const { return shapes_; }
  const Shape& x() const { return shapes_.front(); }

  void expect_count(std::size_t least, std::size_t most) const;
  /// Of the i-th value; `what`: "the residual".
  void expect_shape(std::size_t i, const Shape& wanted, const char* what) const;
  /// `shape`: "[K]".
  void expect_weights(const char* what, const Weights& weights, std::int64_t size,
                      const std::string& shape) const;
  [[noreturn]] void reject(const std::string& message) const;

  /// The shape of y. Throws what validate(problem) throws.
  template <class Problem>
  Shape y_of(const Problem& problem) const {
    with_name([&] { validate(problem); });
    return y_shape(problem);
  }

 private:
  /// Errors of a problem get the operator's name.
  template <class Call>
  void with_name(const Call& call) const {
    try {
      call();
    } catch (const Error& error) {
      throw Error(error.status(), text_of(error));
    }
  }
  std::string text_of(const Error& error) const;

  const Network& network_;
  const Operator& op_;
  std::vector<Shape> shapes_;
};

}  // namespace megaconv
