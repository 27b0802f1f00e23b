// SPDX-License-Identifier: Apache-2.0
#include "tasks/fuse.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tasks/operator_order.hpp"
#include "tasks/operators.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {
namespace {

bool clamps(const ElementwiseProblem& a) {
  const ElementwiseProblem whole{};
  return a.least != whole.least || a.most != whole.most;
}

class Fuser {
 public:
  explicit Fuser(const Network& network) : network_(network), shapes_(shapes_of(network)) {
    for (const NetworkInput& input : network.inputs) {
      ids_[input.name] = static_cast<ValueId>(fused_.inputs.size());
      fused_.inputs.push_back(input);
    }
    for (const Operator& op : network.operators) {
      for (const std::string& value : op.reads) ++readers_[value];
    }
    for (const std::string& output : network.outputs) ++readers_[output];
  }

  FusedNetwork run() {
    for (const Operator& op : network_.operators) {
      op_ = &op;
      std::visit([this](const auto& does) { add(does); }, op.does);
    }
    for (const std::string& output : network_.outputs) {
      fused_.outputs.push_back(ids_.at(output));
    }
    return longest_chain_first(std::move(fused_));
  }

 private:
  const Shape& read_shape(std::size_t i) const { return shapes_.at(op_->reads[i]); }
  std::vector<Shape> read_shapes() const {
    std::vector<Shape> shapes;
    for (const std::string& value : op_->reads) shapes.push_back(shapes_.at(value));
    return shapes;
  }
  ValueId read(std::size_t i) const { return ids_.at(op_->reads[i]); }

  // The fused operator that makes a value which only the operator at hand reads; else null.
  FusedOperator* producer(std::size_t i) {
    const ValueId id = read(i);
    if (id < fused_.inputs.size() || readers_.at(op_->reads[i]) != 1) return nullptr;
    return &fused_.operators[id - fused_.inputs.size()];
  }
  template <class Problem>
  FusedOperator* producer_of(std::size_t i) {
    FusedOperator* const op = producer(i);
    return op != nullptr && std::holds_alternative<Problem>(op->problem) ? op : nullptr;
  }

  // The operator at hand becomes a part of `op`.
  void join(FusedOperator& op) {
    op.operators.push_back(op_->name);
    ids_[op_->name] = static_cast<ValueId>(fused_.inputs.size() + (&op - fused_.operators.data()));
  }

  FusedOperator& append(FusedOperator op) {
    op.operators = {op_->name};
    for (std::size_t i = 0; i < op_->reads.size(); ++i) op.reads.push_back(read(i));
    ids_[op_->name] = static_cast<ValueId>(fused_.inputs.size() + fused_.operators.size());
    int most = 0;
    for (const ValueId value : op.reads) most = std::max(most, depth(value));
    depths_.push_back(most + 1);
    fused_.operators.push_back(std::move(op));
    return fused_.operators.back();
  }

  // Operators of the longest chain that ends with a value.
  int depth(ValueId value) const {
    return value < fused_.inputs.size() ? 0 : depths_[value - fused_.inputs.size()];
  }

  ElementwiseProblem elementwise() const {
    const Shape& x = read_shape(0);
    return {.n = x.n,
            .h = x.h,
            .w = x.w,
            .channels = {x.c},
            .dtype = network_.dtype,
            .layout = network_.layout};
  }

  // An operator that is fused with nothing.
  template <class Op>
  void add(const Op& a) {
    append({.problem = problem_of(network_, a, read_shapes())});
  }

  template <class Op>
  void append_convolution(const Op& a) {
    FusedOperator op{.problem = problem_of(network_, a, read_shapes()), .w = a.w};
    if (a.bias.data != nullptr) {
      op.bias.assign(a.bias.values().begin(), a.bias.values().end());
    }
    append(std::move(op));
  }
  void add(const Convolution& a) { append_convolution(a); }
  void add(const FullyConnected& a) { append_convolution(a); }

  // scale x + shift of the operator that makes x, or by itself.
  void add(const BatchNorm& a) {
    const auto channels = static_cast<std::size_t>(read_shape(0).c);
    std::vector<double> scale(channels), shift(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      scale[c] = a.gamma.values()[c] / std::sqrt(double{a.variance.values()[c]} + a.epsilon);
      shift[c] = a.beta.values()[c] - a.mean.values()[c] * scale[c];
    }
    FusedOperator* op = producer_of<ConvProblem>(0);
    if (op != nullptr) {
      Epilogue& epilogue = std::get<ConvProblem>(op->problem).epilogue;
      if (epilogue.activation == Activation{} && !epilogue.residual) {
        epilogue.bias = true;
        scale_by(*op, scale, shift);
        return join(*op);
      }
    }
    op = producer_of<ElementwiseProblem>(0);
    const auto may_scale = [](const ElementwiseProblem& x) { return !x.residual && !clamps(x); };
    if (op != nullptr && may_scale(std::get<ElementwiseProblem>(op->problem))) {
      join(*op);
    } else {
      op = &append({.problem = elementwise()});
    }
    std::get<ElementwiseProblem>(op->problem).affine = true;
    scale_by(*op, scale, shift);
  }

  static void scale_by(FusedOperator& op, const std::vector<double>& scale,
                       const std::vector<double>& shift) {
    op.scale.resize(scale.size(), 1);
    op.bias.resize(scale.size(), 0);
    for (std::size_t c = 0; c < scale.size(); ++c) {
      op.scale[c] *= scale[c];
      op.bias[c] = op.bias[c] * scale[c] + shift[c];
    }
  }

  // A residual of a convolution: of the one that more operators stand before, so that none of these
  // waits for the other one. That may stand later.
  void add(const Add&) {
    const std::size_t deeper = depth(read(1)) > depth(read(0)) ? 1 : 0;
    for (const std::size_t summand : {deeper, 1 - deeper}) {
      FusedOperator* const op = producer_of<ConvProblem>(summand);
      if (op == nullptr) continue;
      Epilogue& epilogue = std::get<ConvProblem>(op->problem).epilogue;
      if (epilogue.activation != Activation{} || epilogue.residual) continue;
      epilogue.residual = true;
      op->reads.push_back(read(1 - summand));
      int& own = depths_[static_cast<std::size_t>(op - fused_.operators.data())];
      own = std::max(own, depth(read(1 - summand)) + 1);
      return join(*op);
    }
    ElementwiseProblem problem = elementwise();
    problem.residual = true;
    append({.problem = problem});
  }

  void add(const Concatenation&) {
    ElementwiseProblem problem = elementwise();
    for (std::size_t i = 1; i < op_->reads.size(); ++i) problem.channels.push_back(read_shape(i).c);
    append({.problem = problem});
  }

  void add(const Clamp& a) {
    const Clamp relu{};
    const bool is_relu = a.least == relu.least && a.most == relu.most;
    if (activate(is_relu ? kRelu : clamp(a.least, a.most))) return;
    FusedOperator* op = producer_of<ElementwiseProblem>(0);
    if (op != nullptr && !clamps(std::get<ElementwiseProblem>(op->problem))) {
      join(*op);
    } else {
      op = &append({.problem = elementwise()});
    }
    auto& problem = std::get<ElementwiseProblem>(op->problem);
    problem.least = a.least;
    problem.most = a.most;
  }

  // Whether the convolution that makes x takes it into its epilogue.
  bool activate(const Activation& activation) {
    FusedOperator* const op = producer_of<ConvProblem>(0);
    if (op == nullptr || activation == Activation{}) return false;
    Activation& own = std::get<ConvProblem>(op->problem).epilogue.activation;
    if (own != Activation{}) return false;
    own = activation;
    join(*op);
    return true;
  }

  // What an epilogue has of a function of x; else none.
  static Activation activation_of(const Pixelwise& a) {
    switch (a.function) {
      case PixelFunction::leaky_relu:
        return leaky_relu(a.alpha);
      case PixelFunction::sigmoid:
        return kSigmoid;
      case PixelFunction::hard_sigmoid:
        return hard_sigmoid(a.alpha, a.beta);
      case PixelFunction::hard_swish:
        return kHardSwish;
      case PixelFunction::gelu:
        return kGelu;
      case PixelFunction::gelu_tanh:
        return kGeluTanh;
      default:
        return {};
    }
  }

  // x sigmoid(x) is SiLU, of the convolution that makes x where nobody else reads it.
  bool join_silu() {
    if (fused_.operators.empty()) return false;
    const FusedOperator& last = fused_.operators.back();
    const auto* const gate = std::get_if<PixelwiseProblem>(&last.problem);
    if (gate == nullptr || gate->does.function != PixelFunction::sigmoid) return false;
    for (const std::size_t other : {0, 1}) {
      const ValueId x = read(other), inputs = static_cast<ValueId>(fused_.inputs.size());
      const bool own = producer(1 - other) == &last && last.reads.front() == x && x >= inputs &&
                       readers_.at(op_->reads[other]) == 2;
      if (!own) continue;
      FusedOperator& op = fused_.operators[x - inputs];
      auto* const problem = std::get_if<ConvProblem>(&op.problem);
      if (problem == nullptr || problem->epilogue.activation != Activation{}) continue;
      problem->epilogue.activation = kSilu;
      op.operators.push_back(last.name());
      join(op);
      fused_.operators.pop_back();
      depths_.pop_back();
      return true;
    }
    return false;
  }

  void add(const Pixelwise& a) {
    if (a.function == PixelFunction::multiply ? join_silu() : activate(activation_of(a))) return;
    append({.problem = problem_of(network_, a, read_shapes())});
  }

  const Network& network_;
  const std::map<std::string, Shape> shapes_;
  std::map<std::string, ValueId> ids_;
  std::map<std::string, int> readers_;
  const Operator* op_ = nullptr;  // at hand
  FusedNetwork fused_;
  std::vector<int> depths_;  // of the operators
};

template <class T>
void put(std::vector<std::byte>& bytes, std::int64_t at, double value) {
  reinterpret_cast<T*>(bytes.data())[at] = from_float<T>(static_cast<float>(value));
}

}  // namespace

FusedNetwork fuse(const Network& network) { return Fuser(network).run(); }

std::vector<std::byte> folded_filters(const FusedOperator& op) {
  const ConvProblem& a = std::get<ConvProblem>(op.problem);
  const Strides to = w_strides(a);
  const std::int64_t channels = a.c / a.groups, taps = a.r * a.s;
  const float* from = op.w.data.get();
  std::vector<std::byte> bytes(static_cast<std::size_t>(a.w_size()) * size_of(a.dtype));
  with_storage(a.dtype, [&](auto number) {
    for (std::int64_t k = 0; k < a.k; ++k) {
      const double scale = op.scale.empty() ? 1 : op.scale[static_cast<std::size_t>(k)];
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          put<decltype(number)>(bytes, k * to.image + c * to.channel + tap * to.pixel,
                                double{*from++} * scale);
        }
      }
    }
  });
  return bytes;
}

std::vector<std::byte> folded_bias(const FusedOperator& op) {
  const DataType dtype = std::get<ConvProblem>(op.problem).dtype;
  std::vector<std::byte> bytes(op.bias.size() * size_of(dtype));
  with_storage(dtype, [&](auto number) {
    for (std::size_t k = 0; k < op.bias.size(); ++k) {
      put<decltype(number)>(bytes, static_cast<std::int64_t>(k), op.bias[k]);
    }
  });
  return bytes;
}

std::string names_text(const FusedOperator& op) {
  std::string text;
  for (const std::string& name : op.operators) text += (text.empty() ? "" : " + ") + name;
  return text;
}

}  // namespace megaconv
