// SPDX-License-Identifier: Apache-2.0
#include "tasks/network_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "megaconv/plan.hpp"
#include "tasks/activation.hpp"
#include "tasks/operators.hpp"
#include "tasks/reference.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {
namespace {

using Numbers = std::vector<double>;

Numbers zeros(std::int64_t count) { return Numbers(static_cast<std::size_t>(count)); }

/// activation(scale[k] (w * x) + bias[k] + residual); scale and bias may be empty, residual null.
Numbers convolve(const ConvProblem& a, const Numbers& x, const float* w, const Numbers& scale,
                 const Numbers& bias, const Numbers* residual) {
  const std::int64_t p = a.p(), q = a.q(), channels = a.c / a.groups, filters = a.k / a.groups;
  Numbers y = zeros(a.y_size());
  for (std::int64_t image = 0; image < a.n; ++image) {
    for (std::int64_t k = 0; k < a.k; ++k) {
      double* const plane = y.data() + (image * a.k + k) * p * q;
      for (std::int64_t c = 0; c < channels; ++c) {
        const double* const in = x.data() + (image * a.c + k / filters * channels + c) * a.h * a.w;
        for (std::int64_t tap = 0; tap < a.r * a.s; ++tap) {
          const double weight = w[(k * channels + c) * a.r * a.s + tap];
          const std::int64_t down = tap / a.s * a.dilation_h - a.pad_h;
          const std::int64_t right = tap % a.s * a.dilation_w - a.pad_w;
          for (std::int64_t row = 0; row < p; ++row) {
            const std::int64_t h = row * a.stride_h + down;
            if (h < 0 || h >= a.h) continue;
            for (std::int64_t col = 0; col < q; ++col) {
              const std::int64_t at = col * a.stride_w + right;
              if (at >= 0 && at < a.w) plane[row * q + col] += weight * in[h * a.w + at];
            }
          }
        }
      }
      const auto filter = static_cast<std::size_t>(k);
      for (std::int64_t i = 0; i < p * q; ++i) {
        double value = plane[i];
        if (!scale.empty()) value *= scale[filter];
        if (!bias.empty()) value += bias[filter];
        if (residual != nullptr)
          value += (*residual)[static_cast<std::size_t>(plane - y.data() + i)];
        plane[i] = activated(a.epilogue.activation, value);
      }
    }
  }
  return y;
}

Numbers concatenate(std::int64_t images, const std::vector<const Numbers*>& parts) {
  Numbers y;
  for (std::int64_t image = 0; image < images; ++image) {
    for (const Numbers* part : parts) {
      const auto size = static_cast<std::ptrdiff_t>(part->size()) / images;
      y.insert(y.end(), part->begin() + image * size, part->begin() + (image + 1) * size);
    }
  }
  return y;
}

/// scale[c] y + bias[c].
void scale_channels(const Shape& shape, Numbers& y, const Numbers& scale, const Numbers& bias) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto c =
        static_cast<std::size_t>(static_cast<std::int64_t>(i) / (shape.h * shape.w) % shape.c);
    y[i] = scale[c] * y[i] + bias[c];
  }
}

void add(Numbers& y, const Numbers& b) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i];
}

void clamp(Numbers& y, double least, double most) {
  for (double& value : y) value = std::min(std::max(value, least), most);
}

ReadNumbers numbers_of(const std::vector<const Numbers*>& reads) {
  return [&reads](std::size_t i, const Shape&) { return *reads[i]; };
}

/// One operator of a network as it stands.
struct Compute {
  const Network& network;
  const std::vector<Shape>& shapes;  ///< of the values read
  const std::vector<const Numbers*>& reads;

  template <class Op>
  Numbers convolution(const Op& a) const {
    const std::span<const float> bias = a.bias.values();
    return convolve(problem_of(network, a, shapes), *reads[0], a.w.data.get(), {},
                    {bias.begin(), bias.end()}, reads.size() == 2 ? reads[1] : nullptr);
  }
  Numbers operator()(const Convolution& a) const { return convolution(a); }
  Numbers operator()(const FullyConnected& a) const { return convolution(a); }
  Numbers operator()(const BatchNorm& a) const {
    const Shape& x = shapes.front();
    Numbers scale, bias;
    for (std::size_t c = 0; c < static_cast<std::size_t>(x.c); ++c) {
      scale.push_back(a.gamma.values()[c] / std::sqrt(double{a.variance.values()[c]} + a.epsilon));
      bias.push_back(a.beta.values()[c] - a.mean.values()[c] * scale[c]);
    }
    Numbers y = *reads[0];
    scale_channels(x, y, scale, bias);
    return y;
  }
  Numbers operator()(const Add&) const {
    Numbers y = *reads[0];
    add(y, *reads[1]);
    return y;
  }
  Numbers operator()(const Concatenation&) const { return concatenate(shapes.front().n, reads); }
  Numbers operator()(const Clamp& a) const {
    Numbers y = *reads[0];
    clamp(y, double{a.least}, double{a.most});
    return y;
  }
  template <class Op>
  Numbers operator()(const Op& a) const {
    return truth_of(problem_of(network, a, shapes), FusedOperator{}, numbers_of(reads)).y;
  }
};

/// One fused operator.
struct ComputeFused {
  const FusedOperator& op;
  const std::vector<const Numbers*>& reads;

  Numbers operator()(const ConvProblem& a) const {
    return convolve(a, *reads[0], op.w.data.get(), op.scale, op.bias,
                    a.epilogue.residual ? reads[1] : nullptr);
  }
  template <class Problem>
  Numbers operator()(const Problem& a) const {
    return truth_of(a, op, numbers_of(reads)).y;
  }
};

/// A tensor in [N][C][H][W], in double.
Numbers numbers_of(DataType dtype, Layout layout, const Shape& shape, const void* tensor) {
  const std::int64_t pixels = shape.h * shape.w;
  const Strides at = strides_of(layout, shape.n, shape.c, pixels);
  return with_storage(dtype, [&](auto number) {
    const auto* const from = static_cast<const decltype(number)*>(tensor);
    Numbers numbers;
    for (std::int64_t image = 0; image < shape.n; ++image) {
      for (std::int64_t c = 0; c < shape.c; ++c) {
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
          numbers.push_back(to_float(from[image * at.image + c * at.channel + pixel * at.pixel]));
        }
      }
    }
    return numbers;
  });
}

/// The largest share that an error has of its bound: of roundings in FP32, and of one to the
/// storage type.
double worst_share(DataType dtype, const Numbers& y, const OperatorTruth& truth) {
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == truth.y[i]) continue;  // also where both are infinite
    const double computed =
        truth.roundings * unit_roundoff(DataType::f32) * 1.001 * truth.magnitude[i] + 0x1p-149;
    const double stored = dtype == DataType::f32
                              ? 0
                              : unit_roundoff(dtype) *
                                    std::max(std::fabs(truth.y[i]) + computed, least_normal(dtype));
    const double share = std::fabs(y[i] - truth.y[i]) / (computed + stored);
    worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : std::max(worst, share);
  }
  return worst;
}

std::string share_text(double share) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f of its bound", share);
  return text;
}

// Magnitudes are those of sums of `x_magnitude`, if it is given.
void convolve(const FusedOperator& op, const ConvProblem& a, std::span<const void* const> reads,
              const void* x_magnitude, Numbers& y, Numbers& magnitude) {
  const std::vector<std::byte> w = folded_filters(op), bias = folded_bias(op);
  const auto run = [&](const void* x) {
    reference_convolution(a,
                          {.x = x,
                           .w = w.data(),
                           .bias = a.epilogue.bias ? bias.data() : nullptr,
                           .residual = a.epilogue.residual ? reads[1] : nullptr},
                          y.data(), magnitude.data());
  };
  if (x_magnitude == nullptr) return run(reads[0]);
  run(x_magnitude);
  const Numbers of_x = magnitude;
  run(reads[0]);
  magnitude = of_x;
}

std::vector<std::byte> stored(DataType dtype, const Numbers& numbers) {
  std::vector<std::byte> bytes(numbers.size() * size_of(dtype));
  with_storage(dtype, [&](auto number) {
    using Stored = decltype(number);
    auto* const to = reinterpret_cast<Stored*>(bytes.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      to[i] = from_float<Stored>(static_cast<float>(numbers[i]));
    }
  });
  return bytes;
}

struct Check {
  const FusedOperator& op;
  std::span<const void* const> reads;
  const void* y;
  const void* x_magnitude;

  OperatorCheck operator()(const Tiling& tiling) const {
    const ConvProblem& a = tiling.problem;
    Numbers truth = zeros(a.y_size()), magnitude = zeros(a.y_size());
    convolve(op, a, reads, x_magnitude, truth, magnitude);
    const ErrorReport found = compare(tiling, y, truth.data(), magnitude.data());
    const ErrorBound bound = error_bound(tiling);
    return {
        names_text(op),
        std::max(found.relative_l2 / bound.relative_l2, found.worst_element / bound.worst_element),
        to_string(found)};
  }
  OperatorCheck operator()(const SmallGemmCut& cut) const {
    OperatorCheck check = (*this)(tiling_of_error(cut));
    check.share_of_bound /= 1 + (cut.depthwise ? 1 : 0) + (cut.expand ? 1 : 0);
    return check;
  }
  OperatorCheck operator()(const InReaderCut& cut) const {
    throw Error(Status::unsupported, names_text(op) + " of " + to_string(cut.problem) +
                                         ": must be stored to be compared");
  }
  template <class RoomCut>
  OperatorCheck operator()(const RoomCut& cut) const {
    const auto& a = cut.problem;
    const auto read = [&](std::size_t i, const Shape& shape) {
      return numbers_of(a.dtype, a.layout, shape, reads[i]);
    };
    const OperatorTruth truth = truth_of(a, rounded_op(), read);
    const double share =
        worst_share(a.dtype, numbers_of(a.dtype, y_layout(a), y_shape(a), y), truth);
    return {names_text(op), share, share_text(share)};
  }

 private:
  /// With the scale and the bias that tasks have.
  FusedOperator rounded_op() const {
    FusedOperator rounded = op;
    for (double& scale : rounded.scale) scale = static_cast<float>(scale);
    for (double& bias : rounded.bias) bias = static_cast<float>(bias);
    return rounded;
  }
};

}  // namespace

DoubleValues reference_network(const Network& network, const DoubleValues& inputs) {
  const std::map<std::string, Shape> shapes = shapes_of(network);
  DoubleValues values = inputs;
  for (const Operator& op : network.operators) {
    std::vector<Shape> read_shapes;
    std::vector<const Numbers*> reads;
    for (const std::string& value : op.reads) {
      read_shapes.push_back(shapes.at(value));
      reads.push_back(&values.at(value));
    }
    values[op.name] = std::visit(Compute{network, read_shapes, reads}, op.does);
  }
  return values;
}

DoubleValues reference_network(const FusedNetwork& network, const DoubleValues& inputs) {
  DoubleValues values = inputs;
  std::vector<std::string> names;
  for (const NetworkInput& input : network.inputs) names.push_back(input.name);
  for (const FusedOperator& op : network.operators) {
    std::vector<const Numbers*> reads;
    for (const ValueId value : op.reads) reads.push_back(&values.at(names[value]));
    values[op.value()] = std::visit(ComputeFused{op, reads}, op.problem);
    names.push_back(op.value());
  }
  return values;
}

OperatorCheck check_operator(const FusedOperator& op, const Cut& cut,
                             std::span<const void* const> reads, const void* y) {
  return std::visit(Check{op, reads, y, nullptr}, cut);
}

std::set<std::string> not_stored(const Lowering& lowering) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < lowering.nodes.size(); ++i) {
    if (!std::holds_alternative<InReaderCut>(lowering.nodes[i].cut)) continue;
    names.insert(lowering.graph.nodes[i]);
  }
  return names;
}

void check_operators(const FusedNetwork& network, std::span<const Node> nodes,
                     std::vector<std::vector<std::byte>>& values,
                     const std::function<bool(std::size_t op, const OperatorCheck& check)>& visit) {
  std::vector<std::vector<std::byte>> magnitudes(values.size());  // of those that are computed here
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const FusedOperator& op = network.operators[i];
    std::vector<const void*> reads;
    for (const ValueId value : op.reads) reads.push_back(values[value].data());
    const std::vector<std::byte>& of_x = magnitudes[op.reads.front()];
    const void* const x_magnitude = of_x.empty() ? nullptr : of_x.data();
    const std::size_t own = network.inputs.size() + i;
    if (!values[own].empty()) {
      const Check check{op, reads, values[own].data(), x_magnitude};
      if (!visit(i, std::visit(check, nodes[i].cut))) return;
      continue;
    }
    const ConvProblem& a = std::get<ConvProblem>(op.problem);
    Numbers y = zeros(a.y_size()), magnitude = zeros(a.y_size());
    convolve(op, a, reads, x_magnitude, y, magnitude);
    values[own] = stored(a.dtype, y);
    magnitudes[own] = stored(a.dtype, magnitude);
  }
}

}  // namespace megaconv
