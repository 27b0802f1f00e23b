// SPDX-License-Identifier: Apache-2.0
#include "tasks/operator_reads.hpp"

#include "mapping/text.hpp"

namespace megaconv {

std::string quoted_name(const std::string& name) { return '"' + excerpt(name) + '"'; }

void OperatorReads::reject(const std::string& message) const {
  throw Error(Status::invalid_argument, "operator " + quoted_name(op_.name) + ": " + message);
}

void OperatorReads::expect_count(std::size_t least, std::size_t most) const {
  if (shapes_.size() >= least && shapes_.size() <= most) return;
  reject("reads " + std::to_string(shapes_.size()) + " values, a " + kind_of(op_) + " must read " +
         std::to_string(least) + (most > least ? " to " + std::to_string(most) : ""));
}

void OperatorReads::expect_shape(std::size_t i, const Shape& wanted, const char* what) const {
  if (shapes_[i] == wanted) return;
  reject(std::string(what) + ", " + quoted_name(op_.reads[i]) + ", is " + to_string(shapes_[i]) +
         ", must be " + to_string(wanted));
}

void OperatorReads::expect_weights(const char* what, const Weights& weights, std::int64_t size,
                                   const std::string& shape) const {
  if (weights.data == nullptr) reject(std::string(what) + " is missing, must be " + shape);
  if (weights.size == size) return;
  reject(std::string(what) + " has " + std::to_string(weights.size) + " numbers, must have " +
         std::to_string(size) + ", " + shape);
}

std::string OperatorReads::text_of(const Error& error) const {
  return "operator " + quoted_name(op_.name) + ": " + error.what() + ", reads " +
         quoted_name(op_.reads.front()) + " of " + to_string(x());
}

}  // namespace megaconv
