// SPDX-License-Identifier: Apache-2.0
// Arithmetic of values and constants, and activations.
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/onnx/graph.hpp"

namespace megaconv::onnx {
namespace {

/// y = scale x + shift, one of each a channel.
BatchNorm affine(std::vector<float> scale, std::vector<float> shift) {
  const std::size_t channels = scale.size();
  return {.gamma = make_weights(std::move(scale)),
          .beta = make_weights(std::move(shift)),
          .mean = make_weights(std::vector<float>(channels, 0.0f)),
          .variance = make_weights(std::vector<float>(channels, 1.0f)),
          .epsilon = 0};
}

}  // namespace

void Graph::binary(Arithmetic op) {
  const bool first = input(0).is_constant, second = input(1).is_constant;
  if (first && second) return fold_binary(op);
  if (first || second) return with_constant(op, first ? 1 : 0);
  const Value *a = &input(0), *b = &input(1);
  if (op == Arithmetic::divide) refuse("division by a value of the network is not supported");
  const auto is_scale = [&](const Value& value, const Value& of) {
    const Shape& shape = shape_of(of);
    return shape_of(value) == Shape{shape.n, shape.c, 1, 1} && of.dims == dims_of(of.name) &&
           value.dims == dims_of(value.name);
  };
  const bool scales = op == Arithmetic::multiply && a->dims != b->dims;
  if (scales && is_scale(*a, *b)) std::swap(a, b);
  if (a->dims != b->dims && !(scales && is_scale(*b, *a))) {
    refuse("shapes " + to_string(a->dims) + " and " + to_string(b->dims) + ", must be equal" +
           (op == Arithmetic::multiply ? ", or one of them of height and width 1" : ""));
  }
  if (shape_of(*a) != shape_of(*b) && !scales) {
    refuse("values of " + megaconv::to_string(shape_of(*a)) + " and " +
           megaconv::to_string(shape_of(*b)) + " in one shape, must not be reshaped");
  }
  const Dims dims = a->dims;
  std::string second_name = b->name;
  if (op == Arithmetic::subtract) {
    const auto channels = static_cast<std::size_t>(shape_of(*b).c);
    second_name = emit(affine(std::vector<float>(channels, -1.0f), std::vector<float>(channels)),
                       {b->name}, ".negative");
  }
  if (op == Arithmetic::multiply) {
    make(emit(Pixelwise{.function = PixelFunction::multiply}, {a->name, second_name}), dims);
  } else {
    make(emit(Add{}, {a->name, second_name}), dims);
  }
}

// Of shapes: few numbers, of one shape or a single one.
void Graph::fold_binary(Arithmetic op) {
  const Constant &a = input(0).constant, &b = input(1).constant;
  const std::int64_t a_count = count_elements(a.dims, node_text_);
  const std::int64_t b_count = count_elements(b.dims, node_text_);
  const bool fits = a.dims == b.dims || a_count == 1 || b_count == 1;
  if (!fits || a_count > kMostInts || b_count > kMostInts || a.floating_point != b.floating_point) {
    refuse("constants of shapes " + to_string(a.dims) + " and " + to_string(b.dims) +
           ", must be equal or one number, of one type and at most " + std::to_string(kMostInts));
  }
  Constant y{.dims = a_count == 1 ? b.dims : a.dims, .floating_point = a.floating_point};
  const std::int64_t count = a_count == 1 ? b_count : a_count;
  std::vector<float> floats;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t at_a = a_count == 1 ? 0 : static_cast<std::size_t>(i);
    const std::size_t at_b = b_count == 1 ? 0 : static_cast<std::size_t>(i);
    if (a.floating_point) {
      const double u = a.at(at_a), v = b.at(at_b);
      floats.push_back(static_cast<float>(op == Arithmetic::add        ? u + v
                                          : op == Arithmetic::subtract ? u - v
                                          : op == Arithmetic::multiply ? u * v
                                                                       : u / v));
      continue;
    }
    const std::int64_t u = a.ints[at_a], v = b.ints[at_b];
    std::int64_t result = 0;
    const bool overflows = op == Arithmetic::add        ? __builtin_add_overflow(u, v, &result)
                           : op == Arithmetic::subtract ? __builtin_sub_overflow(u, v, &result)
                           : op == Arithmetic::multiply ? __builtin_mul_overflow(u, v, &result)
                                                        : v == 0 || v == -1;
    if (overflows) {
      fail("whole numbers " + std::to_string(u) + " and " + std::to_string(v) +
           ", must stay within 64 bits and not be divided by 0 or -1");
    }
    y.ints.push_back(op == Arithmetic::divide ? u / v : result);
  }
  if (a.floating_point) y.floats = make_weights(std::move(floats));
  make_constant(std::move(y));
}

// A constant of one number, or of one for each channel, is scale or shift.
void Graph::with_constant(Arithmetic op, int activation_index) {
  const int constant_index = 1 - activation_index;
  const Value& x = activation(activation_index);
  const Constant& numbers = constant(constant_index, "");
  const Shape& shape = shape_of(x);
  const std::string who = node_text_ + ": " + input_text(constant_index);
  const std::int64_t count = count_elements(numbers.dims, who);
  const std::size_t rank = x.dims.size(), own = numbers.dims.size();
  bool by_channel = own <= rank && rank >= 2 && x.dims[1] == shape.c;
  for (std::size_t i = 0; by_channel && i < own; ++i) {
    const std::size_t axis = rank - own + i;
    by_channel = numbers.dims[i] == 1 || (axis == 1 && numbers.dims[i] == shape.c);
  }
  if ((count != 1 && !by_channel) || count == 0 || own > rank) {
    refuse(input_text(constant_index) + " has shape " + to_string(numbers.dims) +
           ", must be one number, or one for each of the " + std::to_string(shape.c) + " channels");
  }
  if (op == Arithmetic::divide && activation_index == 1) {
    refuse("division by a value of the network is not supported");
  }
  std::vector<float> values = floats_of(numbers, who);
  const auto channels = static_cast<std::size_t>(shape.c);
  if (values.size() != channels) values.assign(channels, values.front());
  std::vector<float> scale(channels, 1.0f), shift(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    switch (op) {
      case Arithmetic::add:
        shift[c] = values[c];
        break;
      case Arithmetic::subtract:
        scale[c] = activation_index == 0 ? 1.0f : -1.0f;
        shift[c] = activation_index == 0 ? -values[c] : values[c];
        break;
      case Arithmetic::multiply:
        scale[c] = values[c];
        break;
      case Arithmetic::divide:
        scale[c] = 1 / values[c];
        break;
    }
  }
  make_alike(affine(std::move(scale), std::move(shift)), x);
}

void Graph::sum() {
  const Value first = activation(0);
  if (node_->input_size() == 1) return make(first.name, first.dims);
  std::string total = first.name;
  for (int i = 1; i < node_->input_size(); ++i) {
    const Value& next = activation(i);
    if (next.dims != first.dims || shape_of(next) != shape_of(first)) {
      refuse(input_text(i) + " has shape " + to_string(next.dims) + ", must have " +
             to_string(first.dims) + " as the first one");
    }
    const bool last = i + 1 == node_->input_size();
    total = emit(Add{}, {total, next.name}, last ? "" : std::string(".sum") + std::to_string(i));
  }
  make(total, first.dims);
}

void Graph::relu() { make_alike(Clamp{}, activation(0)); }

void Graph::clip() {
  const float infinity = std::numeric_limits<float>::infinity();
  Clamp clamp{.least = -infinity, .most = infinity};
  if (opset_ < 11) {
    clamp.least = real("min", clamp.least);
    clamp.most = real("max", clamp.most);
  } else {
    if (has_input(1)) clamp.least = number_of(1, "(min)");
    if (has_input(2)) clamp.most = number_of(2, "(max)");
  }
  make_alike(clamp, activation(0));
}

void Graph::leaky_relu() {
  make_alike(Pixelwise{.function = PixelFunction::leaky_relu, .alpha = real("alpha", 0.01f)},
             activation(0));
}

void Graph::p_relu() {
  make_alike(Pixelwise{.function = PixelFunction::leaky_relu, .alpha = number_of(1, "(slope)")},
             activation(0));
}

void Graph::sigmoid() { make_alike(Pixelwise{.function = PixelFunction::sigmoid}, activation(0)); }

void Graph::hard_sigmoid() {
  make_alike(Pixelwise{.function = PixelFunction::hard_sigmoid,
                       .alpha = real("alpha", 0.2f),
                       .beta = real("beta", 0.5f)},
             activation(0));
}

void Graph::hard_swish() {
  make_alike(Pixelwise{.function = PixelFunction::hard_swish}, activation(0));
}

void Graph::gelu() {
  const std::string approximate = text("approximate", "none");
  if (approximate != "none" && approximate != "tanh") fail("approximate is neither none nor tanh");
  const bool by_tanh = approximate == "tanh";
  make_alike(Pixelwise{.function = by_tanh ? PixelFunction::gelu_tanh : PixelFunction::gelu},
             activation(0));
}

void Graph::tanh() { make_alike(Pixelwise{.function = PixelFunction::tanh}, activation(0)); }

}  // namespace megaconv::onnx
