// SPDX-License-Identifier: Apache-2.0
#include "tasks/network_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "megaconv/plan.hpp"
#include "tasks/activation.hpp"
#include "tasks/elementwise/reference.hpp"
#include "tasks/network_problems.hpp"
#include "tasks/pixelwise/pixelwise.hpp"
#include "tasks/pixelwise/reference.hpp"
#include "tasks/pooling/reference.hpp"
#include "tasks/rearrangement/reference.hpp"
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

Numbers pool(const PoolProblem& a, const Numbers& x) {
  Numbers y = zeros(a.y_size());
  const std::int64_t p = a.p(), q = a.q();
  for (std::int64_t i = 0; i < a.y_size(); ++i) {
    const double* const plane = x.data() + i / (p * q) * a.h * a.w;
    const std::int64_t top = i / q % p * a.stride_h - a.pad_h, left = i % q * a.stride_w - a.pad_w;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
    for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + a.r, a.h); ++h) {
      for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + a.s, a.w); ++w) {
        largest = std::max(largest, plane[h * a.w + w]);
        sum += plane[h * a.w + w];
        ++count;
      }
    }
    y[static_cast<std::size_t>(i)] = a.mode == PoolMode::max ? largest : sum / count;
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

Numbers multiply_or_map(const PixelwiseProblem& a, const std::vector<const Numbers*>& reads) {
  return reference_pixelwise(
      a, *reads[0],
      reads.size() == 2 ? std::span<const double>(*reads[1]) : std::span<const double>());
}

/// One operator of a network as it stands.
struct Compute {
  const Network& network;
  const Shape& shape;  ///< of the first value read
  const std::vector<const Numbers*>& reads;

  Numbers operator()(const Convolution& a) const {
    const std::span<const float> bias = a.bias.values();
    return convolve(problem_of(network, a, shape), *reads[0], a.w.data.get(), {},
                    {bias.begin(), bias.end()}, reads.size() == 2 ? reads[1] : nullptr);
  }
  Numbers operator()(const FullyConnected& a) const {
    const std::span<const float> bias = a.bias.values();
    return convolve(problem_of(network, a, shape), *reads[0], a.w.data.get(), {},
                    {bias.begin(), bias.end()}, nullptr);
  }
  Numbers operator()(const Pooling& a) const {
    return pool(problem_of(network, a, shape), *reads[0]);
  }
  Numbers operator()(const GlobalAveragePooling& a) const {
    return pool(problem_of(network, a, shape), *reads[0]);
  }
  Numbers operator()(const BatchNorm& a) const {
    Numbers scale, bias;
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape.c); ++c) {
      scale.push_back(a.gamma.values()[c] / std::sqrt(double{a.variance.values()[c]} + a.epsilon));
      bias.push_back(a.beta.values()[c] - a.mean.values()[c] * scale[c]);
    }
    Numbers y = *reads[0];
    scale_channels(shape, y, scale, bias);
    return y;
  }
  Numbers operator()(const Add&) const {
    Numbers y = *reads[0];
    add(y, *reads[1]);
    return y;
  }
  Numbers operator()(const Concatenation&) const { return concatenate(shape.n, reads); }
  Numbers operator()(const Clamp& a) const {
    Numbers y = *reads[0];
    clamp(y, double{a.least}, double{a.most});
    return y;
  }
  Numbers operator()(const Pixelwise& a) const {
    const bool per_channel = reads.size() == 2 && reads[1]->size() != reads[0]->size();
    return multiply_or_map(problem_of(network, a, shape, per_channel), reads);
  }
  Numbers operator()(const Rearrangement& a) const {
    return reference_rearrangement(problem_of(network, a, shape), *reads[0]);
  }
};

/// One fused operator.
struct ComputeFused {
  const FusedOperator& op;
  const std::vector<const Numbers*>& reads;

  Numbers operator()(const ConvProblem& a) const {
    const Numbers* const residual = a.epilogue.residual ? reads.back() : nullptr;
    if (!op.input) return convolve(a, *reads[0], op.w.data.get(), op.scale, op.bias, residual);
    const Numbers x = elementwise(op.input->problem, op.input->scale, op.input->bias);
    return convolve(a, x, op.w.data.get(), op.scale, op.bias, residual);
  }
  Numbers operator()(const PoolProblem& a) const { return pool(a, *reads[0]); }
  Numbers operator()(const ElementwiseProblem& a) const {
    return elementwise(a, op.scale, op.bias);
  }
  Numbers operator()(const PixelwiseProblem& a) const { return multiply_or_map(a, reads); }
  Numbers operator()(const RearrangementProblem& a) const {
    return reference_rearrangement(a, *reads[0]);
  }

 private:
  Numbers elementwise(const ElementwiseProblem& a, const Numbers& scale,
                      const Numbers& bias) const {
    Numbers y = concatenate(
        a.n, {reads.begin(), reads.begin() + static_cast<std::ptrdiff_t>(a.channels.size())});
    if (a.affine) scale_channels({a.n, a.c(), a.h, a.w}, y, scale, bias);
    if (a.residual) add(y, *reads.back());
    clamp(y, double{a.least}, double{a.most});
    return y;
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

/// The largest share that an error has of its bound: rounding errors of `roundings` operations in
/// FP32 on numbers of that magnitude, and one rounding to the storage type.
double worst_share(DataType dtype, const void* y, const Numbers& truth, const Numbers& magnitude,
                   double roundings) {
  return with_storage(dtype, [&](auto number) {
    const auto* const values = static_cast<const decltype(number)*>(y);
    double worst = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      if (double{to_float(values[i])} == truth[i]) continue;  // also where both are infinite
      const double computed =
          roundings * unit_roundoff(DataType::f32) * 1.001 * magnitude[i] + 0x1p-149;
      const double stored = dtype == DataType::f32
                                ? 0
                                : unit_roundoff(dtype) *
                                      std::max(std::fabs(truth[i]) + computed, least_normal(dtype));
      const double share = std::fabs(double{to_float(values[i])} - truth[i]) / (computed + stored);
      worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : std::max(worst, share);
    }
    return worst;
  });
}

std::string share_text(double share) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f of its bound", share);
  return text;
}

struct Check {
  const FusedOperator& op;
  std::span<const void* const> reads;
  const void* y;

  OperatorCheck operator()(const Tiling& tiling) const {
    const ConvProblem& a = tiling.problem;
    const std::vector<std::byte> w = folded_filters(op), bias = folded_bias(op);
    Numbers truth = zeros(a.y_size()), magnitude = zeros(a.y_size());
    reference_convolution(a,
                          {.x = reads[0],
                           .w = w.data(),
                           .bias = a.epilogue.bias ? bias.data() : nullptr,
                           .residual = a.epilogue.residual ? reads[1] : nullptr},
                          truth.data(), magnitude.data());
    const ErrorReport found = compare(tiling, y, truth.data(), magnitude.data());
    const ErrorBound bound = error_bound(tiling);
    return {
        names_text(op),
        std::max(found.relative_l2 / bound.relative_l2, found.worst_element / bound.worst_element),
        to_string(found)};
  }
  OperatorCheck operator()(const SmallGemmCut& cut) const {
    if (!cut.input) return (*this)(tiling_of_error(cut));
    const std::vector<std::byte> x = joined_input(*cut.input);
    std::vector<const void*> tensors{x.data()};
    if (cut.problem.epilogue.residual) tensors.push_back(reads.back());
    return Check{op, tensors, y}(tiling_of_error(cut));
  }
  // Of T numbers all sums but the first round, and so does the division.
  OperatorCheck operator()(const PoolCut& cut) const {
    const PoolProblem& a = cut.problem;
    Numbers truth = zeros(a.y_size()), magnitude = zeros(a.y_size());
    reference_pooling(a, reads[0], truth.data(), magnitude.data());
    const double roundings = a.mode == PoolMode::max ? 0 : static_cast<double>(a.r * a.s);
    const double share = worst_share(a.dtype, y, truth, magnitude, roundings);
    return {names_text(op), share, share_text(share)};
  }
  // Scale and bias, which are rounded to FP32 before, and the sum of both; then the residual.
  OperatorCheck operator()(const ElementwiseCut& cut) const {
    const ElementwiseProblem& a = cut.problem;
    Numbers truth = zeros(a.y_size()), magnitude = zeros(a.y_size());
    const std::vector<float> scale(op.scale.begin(), op.scale.end());
    const std::vector<float> bias(op.bias.begin(), op.bias.end());
    reference_elementwise(a,
                          {.x = reads.first(a.channels.size()),
                           .residual = reads.back(),
                           .scale = scale.data(),
                           .bias = bias.data()},
                          truth.data(), magnitude.data());
    const double share = worst_share(a.dtype, y, truth, magnitude, a.affine + a.residual);
    return {names_text(op), share, share_text(share)};
  }
  // Which may make 0 of numbers below 2^-126.
  OperatorCheck operator()(const PixelwiseCut& cut) const {
    const PixelwiseProblem& a = cut.problem;
    const Shape shape{a.n, a.c, a.h, a.w};
    Numbers b;
    if (reads.size() == 2) {
      b = numbers_of(a.dtype, a.layout, a.per_channel ? Shape{a.n, a.c, 1, 1} : shape, reads[1]);
    }
    return compare_in_nchw(
        a.dtype, a.layout, shape,
        reference_pixelwise(a, numbers_of(a.dtype, a.layout, shape, reads[0]), b), roundings_of(a));
  }
  OperatorCheck operator()(const RearrangementCut& cut) const {
    const RearrangementProblem& a = cut.problem;
    const Numbers x = numbers_of(a.dtype, a.layout, {a.n, a.c, a.h, a.w}, reads[0]);
    return compare_in_nchw(a.dtype, a.y_layout(), {a.n, a.k(), a.p(), a.q()},
                           reference_rearrangement(a, x), 0);
  }

 private:
  /// x of a convolution whose tasks make it: rounded once, as they do.
  std::vector<std::byte> joined_input(const ElementwiseProblem& a) const {
    Numbers truth = zeros(a.y_size());
    const std::vector<float> scale(op.input->scale.begin(), op.input->scale.end());
    const std::vector<float> bias(op.input->bias.begin(), op.input->bias.end());
    reference_elementwise(a,
                          {.x = reads.first(a.channels.size()),
                           .residual = nullptr,
                           .scale = scale.data(),
                           .bias = bias.data()},
                          truth.data());
    std::vector<std::byte> x(truth.size() * size_of(a.dtype));
    with_storage(a.dtype, [&](auto number) {
      auto* const to = reinterpret_cast<decltype(number)*>(x.data());
      for (std::size_t i = 0; i < truth.size(); ++i) {
        to[i] = from_float<decltype(number)>(static_cast<float>(truth[i]));
      }
    });
    return x;
  }
  /// Rounding errors are relative to the numbers themselves.
  OperatorCheck compare_in_nchw(DataType dtype, Layout layout, const Shape& shape,
                                const Numbers& truth, double roundings) const {
    Numbers magnitude = truth;
    for (double& value : magnitude) value = std::max(std::fabs(value), 0x1p-102);
    std::vector<std::byte> tensor(truth.size() * size_of(dtype));
    with_storage(dtype, [&](auto number) {
      auto* const to = reinterpret_cast<decltype(number)*>(tensor.data());
      const Numbers computed = numbers_of(dtype, layout, shape, y);
      for (std::size_t i = 0; i < computed.size(); ++i) {
        to[i] = from_float<decltype(number)>(static_cast<float>(computed[i]));
      }
    });
    const double share = worst_share(dtype, tensor.data(), truth, magnitude, roundings);
    return {names_text(op), share, share_text(share)};
  }
};

}  // namespace

DoubleValues reference_network(const Network& network, const DoubleValues& inputs) {
  const std::map<std::string, Shape> shapes = shapes_of(network);
  DoubleValues values = inputs;
  for (const Operator& op : network.operators) {
    std::vector<const Numbers*> reads;
    for (const std::string& value : op.reads) reads.push_back(&values.at(value));
    values[op.name] = std::visit(Compute{network, shapes.at(op.reads.front()), reads}, op.does);
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
  return std::visit(Check{op, reads, y}, cut);
}

}  // namespace megaconv
