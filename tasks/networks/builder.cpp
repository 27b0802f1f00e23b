// SPDX-License-Identifier: Apache-2.0
#include "tasks/networks/builder.hpp"

#include <cmath>
#include <utility>

#include "tasks/random_data.hpp"

namespace megaconv {

NetworkBuilder::NetworkBuilder(const NetworkOptions& options, std::int64_t image)
    : seed_(options.seed) {
  const std::int64_t extent = options.image != 0 ? options.image : image;
  const Shape shape{options.batch, 3, extent, extent};
  network_.inputs = {{"x", shape}};
  network_.dtype = options.dtype;
  network_.layout = options.layout;
  shapes_["x"] = shape;
}

std::string NetworkBuilder::put(Operator op, const Shape& shape) {
  shapes_[op.name] = shape;
  network_.operators.push_back(std::move(op));
  return network_.operators.back().name;
}

// Every tensor has a seed of its own.
Weights NetworkBuilder::normal(std::int64_t count, double deviation) {
  const Filling filling{.kind = Filling::Kind::normal, .multiple = static_cast<float>(deviation)};
  const std::uint64_t seed = random_bits(seed_, network_.operators.size());
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = filling.at(seed, i);
  return make_weights(std::move(values));
}

Weights NetworkBuilder::even(std::int64_t channels, float least, float most) {
  const std::uint64_t seed = random_bits(++seed_, network_.operators.size());
  std::vector<float> values(static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto part = static_cast<float>(random_bits(seed, i) >> 40) * 0x1p-24f;
    values[i] = least + (most - least) * part;
  }
  return make_weights(std::move(values));
}

// He, Zhang, Ren, Sun, "Delving deep into rectifiers" (2015): with this deviation of weights,
// numbers keep their size from layer to layer.
std::string NetworkBuilder::conv(const std::string& name, const std::string& x, const Conv& a) {
  const Shape& in = shapes_.at(x);
  const std::int64_t s = a.s != 0 ? a.s : a.r;
  const std::int64_t pad_h = a.pad >= 0 ? a.pad : a.r / 2;
  const std::int64_t pad_w = a.pad_w >= 0 ? a.pad_w : a.pad >= 0 ? a.pad : s / 2;
  const std::int64_t terms = in.c / a.groups * a.r * s;
  Convolution op{.k = a.k,
                 .r = a.r,
                 .s = s,
                 .pad_h = pad_h,
                 .pad_w = pad_w,
                 .stride_h = a.stride,
                 .stride_w = a.stride,
                 .groups = a.groups,
                 .w = normal(a.k * terms, std::sqrt(2.0 / static_cast<double>(terms)))};
  if (a.bias) op.bias = even(a.k, -0.1f, 0.1f);
  const Shape y{in.n, a.k, (in.h + 2 * pad_h - a.r) / a.stride + 1,
                (in.w + 2 * pad_w - s) / a.stride + 1};
  return put({name, std::move(op), {x}}, y);
}

std::string NetworkBuilder::batch_norm(const std::string& name, const std::string& x, float gamma) {
  const Shape shape = shapes_.at(x);
  return put({name,
              BatchNorm{.gamma = even(shape.c, 0.75f * gamma, 1.25f * gamma),
                        .beta = even(shape.c, -0.25f, 0.25f),
                        .mean = even(shape.c, -0.25f, 0.25f),
                        .variance = even(shape.c, 0.75f, 1.5f)},
              {x}},
             shape);
}

std::string NetworkBuilder::relu(const std::string& name, const std::string& x) {
  return put({name, Clamp{}, {x}}, shapes_.at(x));
}

std::string NetworkBuilder::relu6(const std::string& name, const std::string& x) {
  return put({name, Clamp{.most = 6}, {x}}, shapes_.at(x));
}

std::string NetworkBuilder::leaky_relu(const std::string& name, const std::string& x, float slope) {
  return put({name, Pixelwise{.function = PixelFunction::leaky_relu, .alpha = slope}, {x}},
             shapes_.at(x));
}

std::string NetworkBuilder::upsample(const std::string& name, const std::string& x,
                                     std::int64_t factor) {
  const Shape& in = shapes_.at(x);
  return put({name, Rearrangement{.repeat_h = factor, .repeat_w = factor}, {x}},
             {in.n, in.c, in.h * factor, in.w * factor});
}

std::string NetworkBuilder::add(const std::string& name, const std::string& a,
                                const std::string& b) {
  return put({name, Add{}, {a, b}}, shapes_.at(a));
}

std::string NetworkBuilder::concat(const std::string& name, std::vector<std::string> reads) {
  Shape shape = shapes_.at(reads.front());
  shape.c = 0;
  for (const std::string& value : reads) shape.c += shapes_.at(value).c;
  return put({name, Concatenation{}, std::move(reads)}, shape);
}

std::string NetworkBuilder::max_pool(const std::string& name, const std::string& x, std::int64_t r,
                                     std::int64_t stride, std::int64_t pad) {
  const Shape& in = shapes_.at(x);
  const Shape y{in.n, in.c, (in.h + 2 * pad - r) / stride + 1, (in.w + 2 * pad - r) / stride + 1};
  return put({name, Pooling{PoolMode::max, r, r, pad, pad, stride, stride}, {x}}, y);
}

std::string NetworkBuilder::average_pool(const std::string& name, const std::string& x,
                                         std::int64_t r, std::int64_t stride, std::int64_t pad) {
  const Shape& in = shapes_.at(x);
  const Shape y{in.n, in.c, (in.h + 2 * pad - r) / stride + 1, (in.w + 2 * pad - r) / stride + 1};
  return put({name, Pooling{PoolMode::average, r, r, pad, pad, stride, stride}, {x}}, y);
}

std::string NetworkBuilder::global_average_pool(const std::string& name, const std::string& x) {
  const Shape& in = shapes_.at(x);
  return put({name, GlobalAveragePooling{}, {x}}, {in.n, in.c, 1, 1});
}

std::string NetworkBuilder::fully_connected(const std::string& name, const std::string& x,
                                            std::int64_t k) {
  const Shape& in = shapes_.at(x);
  const std::int64_t terms = in.c * in.h * in.w;
  FullyConnected op{.k = k,
                    .w = normal(k * terms, std::sqrt(1.0 / static_cast<double>(terms))),
                    .bias = even(k, -0.1f, 0.1f)};
  return put({name, std::move(op), {x}}, {in.n, k, 1, 1});
}

Network NetworkBuilder::finish(std::vector<std::string> outputs) {
  network_.outputs = std::move(outputs);
  return std::move(network_);
}

}  // namespace megaconv
