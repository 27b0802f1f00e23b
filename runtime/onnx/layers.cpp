// SPDX-License-Identifier: Apache-2.0
// Convolutions, poolings, fully connected layers and normalisations.
#include <algorithm>
#include <limits>
#include <utility>

#include "mapping/text.hpp"
#include "runtime/onnx/graph.hpp"

namespace megaconv::onnx {
namespace {

constexpr std::int64_t kMostExtent = 0x7fffffff;

std::int64_t ceil_quotient(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

}  // namespace

// With `ceil`, the last window may end outside; it begins inside or in the padding before.
std::int64_t Axis::output(bool ceil) const {
  const std::int64_t room = input + before + behind - ((extent - 1) * dilation + 1);
  if (room < 0) return 0;
  std::int64_t count = (ceil ? ceil_quotient(room, stride) : room / stride) + 1;
  if (ceil && (count - 1) * stride >= input + before) --count;
  return count;
}

Axis Graph::window_axis(std::size_t axis, std::int64_t input,
                        const std::vector<std::int64_t>& extents,
                        const std::vector<std::int64_t>& strides,
                        const std::vector<std::int64_t>& dilations,
                        const std::vector<std::int64_t>& pads, const std::string& auto_pad) const {
  const auto in_range = [&](const char* name, std::int64_t value, std::int64_t least,
                            std::int64_t most) {
    if (value >= least && value <= most) return value;
    fail(std::string(name) + " = " + std::to_string(value) + ", must be " + std::to_string(least) +
         " to " + std::to_string(most));
  };
  constexpr std::int64_t kMostWindow = 1 << 24;  // so that no product overflows
  Axis window{.input = input,
              .extent = in_range("kernel_shape", extents[axis], 1, kMostWindow),
              .stride = in_range("strides", strides[axis], 1, kMostExtent),
              .dilation = in_range("dilations", dilations[axis], 1, kMostWindow)};
  if (auto_pad == "NOTSET") {
    window.before = in_range("pads", pads[axis], 0, kMostWindow);
    window.behind = in_range("pads", pads[axis + 2], 0, kMostWindow);
  } else if (auto_pad != "VALID") {
    const std::int64_t outputs = ceil_quotient(input, window.stride);
    const std::int64_t reach =
        (outputs - 1) * window.stride + (window.extent - 1) * window.dilation + 1;
    const std::int64_t padding = std::max<std::int64_t>(0, reach - input);
    window.behind = auto_pad == "SAME_UPPER" ? padding - padding / 2 : padding / 2;
    window.before = padding - window.behind;
  }
  return window;
}

Graph::Window Graph::read_window(const Shape& x, std::vector<std::int64_t> extents) {
  extents = integers("kernel_shape", std::move(extents));
  const std::vector<std::int64_t> strides = integers("strides", {1, 1});
  const std::vector<std::int64_t> dilations = integers("dilations", {1, 1});
  const std::vector<std::int64_t> pads = integers("pads", {0, 0, 0, 0});
  const std::string auto_pad = text("auto_pad", "NOTSET");
  const auto check_size = [&](const char* name, const std::vector<std::int64_t>& numbers,
                              std::size_t size) {
    if (numbers.size() == size) return;
    fail(std::string(name) + " has " + std::to_string(numbers.size()) + " numbers, must have " +
         std::to_string(size) + ", of images");
  };
  check_size("kernel_shape", extents, 2);
  check_size("strides", strides, 2);
  check_size("dilations", dilations, 2);
  check_size("pads", pads, 4);
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" &&
      auto_pad != "SAME_LOWER") {
    fail("auto_pad \"" + excerpt(auto_pad) + "\", must be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  return {window_axis(0, x.h, extents, strides, dilations, pads, auto_pad),
          window_axis(1, x.w, extents, strides, dilations, pads, auto_pad)};
}

std::string Graph::padded(const std::string& x, const Rearrangement& padding) {
  return padding == Rearrangement{.fill = padding.fill} ? x : emit(padding, {x}, ".pad");
}

// What is padded more on one side than on the other is a rearrangement before.
void Graph::conv() {
  const Shape x = image(0);
  const Constant& w = constant(1, "(w)");
  if (w.dims.size() != 4) {
    refuse(input_text(1) + " (w) has shape " + to_string(w.dims) +
           ", must have 4 dimensions: filters, channels, height, width");
  }
  Window window = read_window(x, {w.dims[2], w.dims[3]});
  if (window.rows.extent != w.dims[2] || window.cols.extent != w.dims[3]) {
    fail("kernel_shape = " + to_string(Dims{window.rows.extent, window.cols.extent}) +
         ", must be that of " + input_text(1) + " (w) with shape " + to_string(w.dims));
  }
  Rearrangement padding;
  const auto symmetric = [](Axis& axis, std::int64_t& before, std::int64_t& behind) {
    const std::int64_t both = std::min(axis.before, axis.behind);
    before = axis.before - both;
    behind = axis.behind - both;
    Axis without = axis;
    without.behind = both;
    if (before == 0 && without.output(false) == axis.output(false)) behind = 0;  // nobody reads it
    return both;
  };
  Convolution conv{.k = w.dims[0], .r = w.dims[2], .s = w.dims[3]};
  conv.pad_h = symmetric(window.rows, padding.top, padding.bottom);
  conv.pad_w = symmetric(window.cols, padding.left, padding.right);
  conv.stride_h = window.rows.stride;
  conv.stride_w = window.cols.stride;
  conv.dilation_h = window.rows.dilation;
  conv.dilation_w = window.cols.dilation;
  conv.groups = integer("group", 1);
  if (conv.groups < 1 || w.dims[1] != x.c / conv.groups) {
    fail(input_text(1) + " (w) has shape " + to_string(w.dims) + " and group is " +
         std::to_string(conv.groups) + ", must be of " + std::to_string(x.c) + " channels");
  }
  conv.w = weights(1, "(w)", count_elements(w.dims, node_text_));
  if (has_input(2)) conv.bias = weights(2, "(bias)", conv.k);
  make_image(emit(std::move(conv), {padded(activation(0).name, padding)}));
}

void Graph::max_pool() {
  if (node_->output_size() > 1 && !node_->output(1).empty()) {
    refuse("output 1, the indices, is not supported");
  }
  check_integer("storage_order", integer("storage_order", 0), 0);
  pool(PoolMode::max);
}

void Graph::average_pool() { pool(PoolMode::average); }

// Poolings pad both sides alike, and an average does not count padding. So
//
//   max                            the rest of the padding comes before, of -infinity
//   average that counts padding    all of it comes before, of zeros
//   average that does not          outputs that the other side's padding adds are cut off behind
void Graph::pool(PoolMode mode) {
  const Shape x = image(0);
  const Window window = read_window(x, {});
  const bool ceil = integer("ceil_mode", 0) != 0;
  const bool counts = mode == PoolMode::average && integer("count_include_pad", 0) != 0;
  Rearrangement before{.fill =
                           mode == PoolMode::max ? -std::numeric_limits<float>::infinity() : 0.0f};
  Rearrangement behind;
  const auto fit = [&](const Axis& a, std::int64_t& pad, std::int64_t& pad_before,
                       std::int64_t& pad_behind, std::int64_t& cut_before,
                       std::int64_t& cut_behind) {
    check_integer("dilations", a.dilation, 1);
    const std::int64_t outputs = a.output(ceil);
    if (outputs < 1) {
      fail("a window of " + std::to_string(a.extent) + ", must be at most the padded input, " +
           std::to_string(a.input + a.before + a.behind));
    }
    const std::int64_t end = (outputs - 1) * a.stride + a.extent;  // of the last window
    const std::int64_t missing = std::max<std::int64_t>(0, end - a.before - a.input);
    const auto made = [&](std::int64_t padding) {
      return Axis{a.input, a.extent, a.stride, 1, padding, padding}.output(false);
    };
    if (counts && (a.before > 0 || a.behind > 0)) {
      if (missing > a.behind) refuse("ceil_mode with count_include_pad is not supported");
      pad_before = a.before;
      pad_behind = missing;
    } else if (a.before < a.extent && made(a.before) == outputs) {
      pad = a.before;
    } else if (mode == PoolMode::max) {
      pad_before = a.before;
      pad_behind = missing;
    } else {
      const std::int64_t steps =
          ceil_quotient(std::max<std::int64_t>(0, missing - a.before), a.stride);
      pad = a.before + steps * a.stride;
      if (pad >= a.extent) {
        refuse("padding of " + std::to_string(a.before) + " before and " + std::to_string(missing) +
               " behind that the average does not count: must be equal, or the window larger");
      }
      cut_before = -(pad - a.before) / a.stride;
      cut_behind = -(made(pad) + cut_before - outputs);
    }
  };
  Pooling pooling{.mode = mode,
                  .r = window.rows.extent,
                  .s = window.cols.extent,
                  .stride_h = window.rows.stride,
                  .stride_w = window.cols.stride};
  fit(window.rows, pooling.pad_h, before.top, before.bottom, behind.top, behind.bottom);
  fit(window.cols, pooling.pad_w, before.left, before.right, behind.left, behind.right);
  const std::string padded_x = padded(activation(0).name, before);
  if (behind == Rearrangement{}) return make_image(emit(pooling, {padded_x}));
  make_image(emit(behind, {emit(pooling, {padded_x}, ".whole")}));
}

void Graph::global_average_pool() {
  image(0);
  make_image(emit(GlobalAveragePooling{}, {activation(0).name}));
}

void Graph::global_max_pool() {
  const Shape x = image(0);
  make_image(emit(Pooling{PoolMode::max, x.h, x.w, 0, 0, 1, 1}, {activation(0).name}));
}

void Graph::reduce_mean() {
  const Shape x = image(0);
  std::vector<std::int64_t> axes = ints_since(18, 1, "axes", {});
  check_integer("noop_with_empty_axes", integer("noop_with_empty_axes", 0), 0);
  const bool keeps = integer("keepdims", 1) != 0;
  for (std::int64_t& axis : axes) axis = axis_in(axis, 4);
  std::sort(axes.begin(), axes.end());
  if (axes != Dims{2, 3}) refuse("axes " + to_string(axes) + ", must be those of height and width");
  const std::string y = emit(GlobalAveragePooling{}, {activation(0).name});
  make(y, keeps ? Dims{x.n, x.c, 1, 1} : Dims{x.n, x.c});
}

void Graph::batch_normalization() {
  const Value& x = activation(0);
  const Shape& shape = shape_of(x);
  if (x.dims.size() < 2 || x.dims[1] != shape.c) {
    refuse(input_text(0) + " has shape " + to_string(x.dims) + ", must have its channels second");
  }
  check_integer("training_mode", integer("training_mode", 0), 0);
  check_integer("spatial", integer("spatial", 1), 1);
  real("momentum", 0);
  integer("is_test", 1);
  make_alike(BatchNorm{.gamma = weights(1, "(scale)", shape.c),
                       .beta = weights(2, "(bias)", shape.c),
                       .mean = weights(3, "(mean)", shape.c),
                       .variance = weights(4, "(variance)", shape.c),
                       .epsilon = double{real("epsilon", 1e-5f)}},
             x);
}

void Graph::mat_mul() {
  const Constant& w = constant(1, "(the second matrix)");
  const Value& x = activation(0);
  if (x.dims.size() != 2 || w.dims.size() != 2) {
    refuse("shapes " + to_string(x.dims) + " and " + to_string(w.dims) +
           ", must have 2 dimensions");
  }
  gemm();
}

// y = alpha x w + beta c. The numbers of x are those of an image, in the order of the filters.
void Graph::gemm() {
  const Value& x = activation(0);
  const Shape& shape = shape_of(x);
  const Constant& w = constant(1, "(w)");
  check_integer("transA", integer("transA", 0), 0);
  const bool transposed = integer("transB", 0) != 0;
  const float alpha = real("alpha", 1), beta = real("beta", 1);
  const std::int64_t terms = shape.c * shape.h * shape.w;
  if (x.dims.size() != 2 || x.dims[0] != shape.n || w.dims.size() != 2) {
    refuse("shapes " + to_string(x.dims) + " and " + to_string(w.dims) +
           ", must be matrices, the first one of images");
  }
  const std::int64_t k = w.dims[transposed ? 0 : 1];
  if (w.dims[transposed ? 1 : 0] != terms || k < 1) {
    fail("shapes " + to_string(x.dims) + " and " + to_string(w.dims) +
         (transposed ? " transposed" : "") + ", must fit");
  }
  FullyConnected layer{.k = k, .w = weights(1, "(w)", k * terms)};
  if ((!transposed && !w.uniform) || alpha != 1) {
    const std::span<const float> from = layer.w.values();
    budget_.take(k * terms, node_text_);
    std::vector<float> scaled(from.size());
    const auto rows = static_cast<std::size_t>(k), cols = static_cast<std::size_t>(terms);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t col = 0; col < cols; ++col) {
        scaled[row * cols + col] =
            alpha * from[transposed || w.uniform ? row * cols + col : col * rows + row];
      }
    }
    layer.w = make_weights(std::move(scaled));
  }
  if (has_input(2)) {
    const Constant& c = constant(2, "(bias)");
    const std::string who = node_text_ + ": " + input_text(2) + " (bias)";
    const std::int64_t count = count_elements(c.dims, who);
    if ((count != 1 && (count != k || c.dims.back() != k)) || !c.floating_point) {
      refuse(input_text(2) + " (bias) has shape " + to_string(c.dims) + ", must have " +
             std::to_string(k) + " numbers");
    }
    std::vector<float> bias = floats_of(c, who);
    if (count != k) bias.assign(static_cast<std::size_t>(k), bias.front());
    for (float& number : bias) number *= beta;
    layer.bias = make_weights(std::move(bias));
  }
  make(emit(std::move(layer), {x.name}), {shape.n, k});
}

void Graph::local_response_norm() {
  image(0);
  const Pixelwise norm{.function = PixelFunction::local_response_norm,
                       .alpha = real("alpha", 1e-4f),
                       .beta = real("beta", 0.75f),
                       .bias = real("bias", 1),
                       .size = integer("size", 0)};
  make_alike(norm, activation(0));
}

// Over the channels of a pixel. Before operator set 13, over all that stands from the axis on.
void Graph::softmax() {
  const Value& x = activation(0);
  const Shape& shape = shape_of(x);
  const std::int64_t axis = axis_in(integer("axis", opset_ < 13 ? 1 : -1), x.dims.size());
  const bool one_pixel = shape.h * shape.w == 1;
  bool ones_behind = true;
  for (std::size_t i = 2; i < x.dims.size(); ++i) ones_behind = ones_behind && x.dims[i] == 1;
  const bool is_image = x.dims == dims_of(x.name);
  const bool is_matrix = x.dims.size() >= 2 && x.dims[0] == shape.n && x.dims[1] == shape.c &&
                         one_pixel && ones_behind;
  if (axis != 1 || (!is_matrix && (!is_image || opset_ < 13))) {
    refuse("axis " + std::to_string(axis) + " of shape " + to_string(x.dims) +
           ", must be the channels of every pixel");
  }
  make_alike(Pixelwise{.function = PixelFunction::softmax}, x);
}

}  // namespace megaconv::onnx
