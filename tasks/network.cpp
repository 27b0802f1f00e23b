// SPDX-License-Identifier: Apache-2.0
// What a network must be: names, values, shapes and weights.
#include "megaconv/network.hpp"

#include <algorithm>
#include <set>

#include "mapping/text.hpp"
#include "megaconv/elementwise.hpp"
#include "megaconv/error.hpp"
#include "tasks/network_problems.hpp"
#include "tasks/pixelwise/pixelwise.hpp"
#include "tasks/rearrangement/rearrangement.hpp"

namespace megaconv {
namespace {

[[noreturn]] void reject(const std::string& name, const std::string& message) {
  throw Error(Status::invalid_argument, "operator \"" + excerpt(name) + "\": " + message);
}

std::string quoted(const std::string& name) { return '"' + excerpt(name) + '"'; }

void check_name(const std::string& what, const std::string& name, std::set<std::string>& names) {
  if (name.empty() || excerpt(name) != name) {
    throw Error(Status::invalid_argument,
                what + quoted(name) + ": its name must be 1 to 80 printable characters");
  }
  if (!names.insert(name).second) {
    throw Error(Status::invalid_argument,
                what + quoted(name) + ": another input or operator has this name");
  }
}

// What an operator makes of what it reads; throws for what does not fit.
class ShapeOf {
 public:
  ShapeOf(const Network& network, const Operator& op, std::vector<Shape> reads)
      : network_(network), op_(op), reads_(std::move(reads)) {}

  Shape operator()(const Convolution& a) const {
    expect_reads(1, 2);
    const ConvProblem problem = problem_of(network_, a, x());
    check([&] { megaconv::validate(problem); });
    expect_weights("w", a.w, problem.w_size(), to_string_of_w(problem));
    if (a.bias.data != nullptr) expect_weights("bias", a.bias, a.k, "[K]");
    const Shape y{problem.n, problem.k, problem.p(), problem.q()};
    if (reads_.size() == 2) expect_shape(1, y, "the residual");
    return y;
  }
  Shape operator()(const Pooling& a) const {
    expect_reads(1, 1);
    const PoolProblem problem = problem_of(network_, a, x());
    check([&] { megaconv::validate(problem); });
    return {problem.n, problem.c, problem.p(), problem.q()};
  }
  Shape operator()(const GlobalAveragePooling&) const {
    expect_reads(1, 1);
    return {x().n, x().c, 1, 1};
  }
  Shape operator()(const BatchNorm& a) const {
    expect_reads(1, 1);
    expect_weights("gamma", a.gamma, x().c, "[C]");
    expect_weights("beta", a.beta, x().c, "[C]");
    expect_weights("mean", a.mean, x().c, "[C]");
    expect_weights("variance", a.variance, x().c, "[C]");
    for (const float variance : a.variance.values()) {
      if (double{variance} + a.epsilon > 0) continue;
      reject(op_.name, "variance " + std::to_string(variance) + " + epsilon " +
                           std::to_string(a.epsilon) + ", must be more than 0");
    }
    return x();
  }
  Shape operator()(const Add&) const {
    expect_reads(2, 2);
    expect_shape(1, x(), "the second summand");
    return x();
  }
  Shape operator()(const Concatenation&) const {
    expect_reads(1, 65536);
    ElementwiseProblem problem{.n = x().n, .h = x().h, .w = x().w, .channels = {x().c}};
    for (std::size_t i = 1; i < reads_.size(); ++i) {
      expect_shape(i, {x().n, reads_[i].c, x().h, x().w}, "what is concatenated");
      problem.channels.push_back(reads_[i].c);
    }
    check([&] { megaconv::validate(problem); });
    return {x().n, problem.c(), x().h, x().w};
  }
  Shape operator()(const FullyConnected& a) const {
    expect_reads(1, 1);
    const ConvProblem problem = problem_of(network_, a, x());
    check([&] { megaconv::validate(problem); });
    expect_weights("w", a.w, problem.w_size(), to_string_of_w(problem));
    if (a.bias.data != nullptr) expect_weights("bias", a.bias, a.k, "[K]");
    return {x().n, a.k, 1, 1};
  }
  Shape operator()(const Clamp& a) const {
    expect_reads(1, 1);
    if (!(a.least < a.most)) {
      reject(op_.name, "least " + std::to_string(a.least) + ", must be below most, " +
                           std::to_string(a.most));
    }
    return x();
  }
  Shape operator()(const Pixelwise& a) const {
    const bool multiplies = a.function == PixelFunction::multiply;
    expect_reads(multiplies ? 2 : 1, multiplies ? 2 : 1);
    const Shape channels{x().n, x().c, 1, 1};
    if (multiplies && reads_[1] != channels) expect_shape(1, x(), "the second factor");
    const bool per_channel = multiplies && reads_[1] == channels;
    check([&] { megaconv::validate(problem_of(network_, a, x(), per_channel)); });
    return x();
  }
  Shape operator()(const Rearrangement& a) const {
    expect_reads(1, 1);
    const RearrangementProblem problem = problem_of(network_, a, x());
    check([&] { megaconv::validate(problem); });
    return {problem.n, problem.k(), problem.p(), problem.q()};
  }

 private:
  const Shape& x() const { return reads_.front(); }

  static std::string to_string_of_w(const ConvProblem& p) {
    return std::string("[") + std::to_string(p.k) + "][" + std::to_string(p.c / p.groups) + "][" +
           std::to_string(p.r) + "][" + std::to_string(p.s) + "]";
  }

  void expect_reads(std::size_t least, std::size_t most) const {
    if (reads_.size() >= least && reads_.size() <= most) return;
    reject(op_.name, "reads " + std::to_string(reads_.size()) + " values, a " + kind_of(op_) +
                         " must read " + std::to_string(least) +
                         (most > least ? " to " + std::to_string(most) : ""));
  }
  void expect_shape(std::size_t i, const Shape& wanted, const char* what) const {
    if (reads_[i] == wanted) return;
    reject(op_.name, std::string(what) + ", " + quoted(op_.reads[i]) + ", is " +
                         to_string(reads_[i]) + ", must be " + to_string(wanted));
  }
  void expect_weights(const char* what, const Weights& weights, std::int64_t size,
                      const std::string& shape) const {
    if (weights.data == nullptr) {
      reject(op_.name, std::string(what) + " is missing, must be " + shape);
    }
    if (weights.size == size) return;
    reject(op_.name, std::string(what) + " has " + std::to_string(weights.size) +
                         " numbers, must have " + std::to_string(size) + ", " + shape);
  }
  // Errors of a problem get the operator's name.
  template <class Call>
  void check(const Call& call) const {
    try {
      call();
    } catch (const Error& error) {
      throw Error(error.status(), "operator " + quoted(op_.name) + ": " + error.what() +
                                      ", reads " + quoted(op_.reads.front()) + " of " +
                                      to_string(x()));
    }
  }

  const Network& network_;
  const Operator& op_;
  const std::vector<Shape> reads_;
};

[[noreturn]] void reject_unknown(const Network& network, std::size_t index,
                                 const std::string& value) {
  const auto later =
      std::find_if(network.operators.begin() + static_cast<std::ptrdiff_t>(index),
                   network.operators.end(), [&](const Operator& op) { return op.name == value; });
  reject(network.operators[index].name,
         "reads " + quoted(value) +
             (later != network.operators.end()
                  ? ", which it makes itself or a later operator makes; must be an input or an "
                    "operator before it, without cycles"
                  : ", which is none; must be an input or an operator before it"));
}

void check_tensors(const Network& network) {
  if (network.dtype == DataType::i8) {
    throw Error(Status::unsupported, "network: storage type i8, must be f32, f16 or bf16");
  }
  if (network.layout == Layout::chwn) {
    throw Error(Status::unsupported, "network: layout chwn, must be nchw, nhwc or nchw16c");
  }
}

void check_outputs(const Network& network, const std::map<std::string, Shape>& shapes) {
  if (network.outputs.empty()) {
    throw Error(Status::invalid_argument, "network: no outputs, must be at least 1");
  }
  std::set<std::string> seen;
  for (const std::string& output : network.outputs) {
    const auto is_output = [&](const auto& value) { return value.name == output; };
    const bool is_input = std::any_of(network.inputs.begin(), network.inputs.end(), is_output);
    if (!shapes.contains(output) || is_input || !seen.insert(output).second) {
      throw Error(Status::invalid_argument, "network: output " + quoted(output) + " is " +
                                                (is_input                  ? "an input"
                                                 : shapes.contains(output) ? "there twice"
                                                                           : "none") +
                                                ", must be the name of an operator, once");
    }
  }
}

}  // namespace

Weights make_weights(std::vector<float> values) {
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return {std::shared_ptr<const float[]>(kept, kept->data()),
          static_cast<std::int64_t>(kept->size())};
}

Weights view_weights(std::span<const float> values) {
  return {std::shared_ptr<const float[]>(std::shared_ptr<void>(), values.data()),
          static_cast<std::int64_t>(values.size())};
}

std::string to_string(const Shape& s) {
  return std::string("n") + std::to_string(s.n) + "c" + std::to_string(s.c) + "h" +
         std::to_string(s.h) + "w" + std::to_string(s.w);
}

const char* kind_of(const Operator& op) noexcept {
  struct {
    const char* operator()(const Convolution&) const { return "convolution"; }
    const char* operator()(const Pooling& a) const {
      return a.mode == PoolMode::max ? "max pooling" : "average pooling";
    }
    const char* operator()(const GlobalAveragePooling&) const { return "global average pooling"; }
    const char* operator()(const BatchNorm&) const { return "batch norm"; }
    const char* operator()(const Add&) const { return "addition"; }
    const char* operator()(const Concatenation&) const { return "concatenation"; }
    const char* operator()(const FullyConnected&) const { return "fully connected layer"; }
    const char* operator()(const Clamp&) const { return "clamp"; }
    const char* operator()(const Pixelwise& a) const { return to_string(a.function); }
    const char* operator()(const Rearrangement&) const { return "rearrangement"; }
  } visitor;
  return std::visit(visitor, op.does);
}

ConvProblem problem_of(const Network& network, const Convolution& a, const Shape& x) {
  return {.n = x.n,
          .c = x.c,
          .h = x.h,
          .w = x.w,
          .k = a.k,
          .r = a.r,
          .s = a.s,
          .pad_h = a.pad_h,
          .pad_w = a.pad_w,
          .stride_h = a.stride_h,
          .stride_w = a.stride_w,
          .dilation_h = a.dilation_h,
          .dilation_w = a.dilation_w,
          .groups = a.groups,
          .dtype = network.dtype,
          .layout = network.layout,
          .epilogue = {.bias = a.bias.data != nullptr, .relu = a.relu}};
}

ConvProblem problem_of(const Network& network, const FullyConnected& a, const Shape& x) {
  return {.n = x.n,
          .c = x.c,
          .h = x.h,
          .w = x.w,
          .k = a.k,
          .r = x.h,
          .s = x.w,
          .pad_h = 0,
          .pad_w = 0,
          .dtype = network.dtype,
          .layout = network.layout,
          .epilogue = {.bias = a.bias.data != nullptr}};
}

PoolProblem problem_of(const Network& network, const Pooling& a, const Shape& x) {
  return {.mode = a.mode,
          .n = x.n,
          .c = x.c,
          .h = x.h,
          .w = x.w,
          .r = a.r,
          .s = a.s,
          .pad_h = a.pad_h,
          .pad_w = a.pad_w,
          .stride_h = a.stride_h,
          .stride_w = a.stride_w,
          .dtype = network.dtype,
          .layout = network.layout};
}

PoolProblem problem_of(const Network& network, const GlobalAveragePooling&, const Shape& x) {
  return problem_of(network, Pooling{.mode = PoolMode::average, .r = x.h, .s = x.w}, x);
}

PixelwiseProblem problem_of(const Network& network, const Pixelwise& a, const Shape& x,
                            bool per_channel) {
  return {.does = a,
          .n = x.n,
          .c = x.c,
          .h = x.h,
          .w = x.w,
          .per_channel = per_channel,
          .dtype = network.dtype,
          .layout = network.layout};
}

RearrangementProblem problem_of(const Network& network, const Rearrangement& a, const Shape& x) {
  return {.does = a,
          .n = x.n,
          .c = x.c,
          .h = x.h,
          .w = x.w,
          .dtype = network.dtype,
          .layout = network.layout};
}

std::map<std::string, Shape> shapes_of(const Network& network) {
  check_tensors(network);
  if (network.operators.empty()) {
    throw Error(Status::invalid_argument, "network: no operators, must be at least 1");
  }
  std::set<std::string> names;
  std::map<std::string, Shape> shapes;
  for (const NetworkInput& input : network.inputs) {
    check_name("input ", input.name, names);
    try {  // the limits of a tensor are those of an operation that copies it
      const Shape& s = input.shape;
      validate(ElementwiseProblem{.n = s.n, .h = s.h, .w = s.w, .channels = {s.c}});
    } catch (const Error& error) {
      throw Error(error.status(), "input " + quoted(input.name) + ": " + error.what());
    }
    shapes[input.name] = input.shape;
  }
  for (const Operator& op : network.operators) check_name("operator ", op.name, names);
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const Operator& op = network.operators[i];
    std::vector<Shape> reads;
    for (const std::string& value : op.reads) {
      const auto known = shapes.find(value);
      if (known == shapes.end()) reject_unknown(network, i, value);
      reads.push_back(known->second);
    }
    shapes[op.name] = std::visit(ShapeOf(network, op, std::move(reads)), op.does);
  }
  check_outputs(network, shapes);
  return shapes;
}

void validate(const Network& network) { static_cast<void>(shapes_of(network)); }

}  // namespace megaconv
