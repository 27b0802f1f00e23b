// SPDX-License-Identifier: Apache-2.0
// What changes shapes and places, and what computes shapes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "mapping/text.hpp"
#include "runtime/onnx/graph.hpp"

namespace megaconv::onnx {
namespace {

std::int64_t product(Dims::const_iterator first, Dims::const_iterator last) {
  return std::accumulate(first, last, std::int64_t{1}, std::multiplies<>());
}

/// The extents that are not 1, in the order of `perm`.
Dims long_extents(const Dims& dims, const std::vector<std::int64_t>& perm) {
  Dims order;
  for (const std::int64_t axis : perm) {
    if (dims[static_cast<std::size_t>(axis)] != 1) order.push_back(axis);
  }
  return order;
}

}  // namespace

void Graph::alias() { make_output(0, Value(input(0))); }

void Graph::dropout() {
  real("ratio", 0);
  integer("seed", 0);
  integer("is_test", 1);
  if (has_input(2) && number_of(2, "(training_mode)") != 0) refuse("training_mode must be false");
  alias();
}

void Graph::cast() {
  const std::int64_t to = integer("to", 0);
  integer("saturate", 1);
  const Value& x = input(0);
  const bool to_float = is_floating_point(static_cast<int>(std::clamp<std::int64_t>(to, 0, 100)));
  if (!x.is_constant) {
    if (to_float) return alias();
    refuse("of a value of the network to whole numbers, must be to floating-point");
  }
  Constant y{.dims = x.dims, .floating_point = to_float};
  const std::int64_t count = count_elements(x.dims, node_text_);
  if (to_float == x.constant.floating_point) return alias();
  if (count > kMostInts) {
    refuse("of a constant of shape " + to_string(x.dims) + ", must have at most " +
           std::to_string(kMostInts) + " numbers");
  }
  std::vector<float> floats;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double value = x.constant.at(i);
    if (to_float) {
      floats.push_back(static_cast<float>(value));
    } else if (std::fabs(value) < 0x1p62) {
      y.ints.push_back(static_cast<std::int64_t>(value));
    } else {
      fail("of " + std::to_string(value) + " to a whole number, must be less than 2^62");
    }
  }
  if (to_float) y.floats = make_weights(std::move(floats));
  make_constant(std::move(y));
}

void Graph::constant_node() {
  if (auto* const value = attribute("value", kTensor)) {
    return make_constant(
        read_tensor(*value->mutable_t(), node_text_ + ": value", folder_, budget_));
  }
  if (const auto* const value = attribute("value_float", kFloat)) {
    return make_constant({.uniform = value->f()});
  }
  if (const auto* const value = attribute("value_int", kInt)) {
    return make_constant({.floating_point = false, .ints = {value->i()}});
  }
  if (const auto* const value = attribute("value_floats", kFloats)) {
    budget_.take(value->floats_size(), node_text_);
    return make_constant(
        {.dims = {value->floats_size()},
         .floats = make_weights({value->floats().begin(), value->floats().end()})});
  }
  const std::vector<std::int64_t> ints = integers("value_ints", {});
  if (ints.empty()) refuse("has no value, value_float, value_int, value_floats or value_ints");
  make_constant(
      {.dims = {static_cast<std::int64_t>(ints.size())}, .floating_point = false, .ints = ints});
}

void Graph::constant_of_shape() {
  Constant y{.dims = ints_of(0, "(shape)"), .uniform = 0.0f};
  const std::int64_t count = count_elements(y.dims, node_text_);
  if (auto* const value = attribute("value", kTensor)) {
    const Constant one = read_tensor(*value->mutable_t(), node_text_ + ": value", folder_, budget_);
    if (count_elements(one.dims, node_text_) != 1) {
      fail("value has shape " + to_string(one.dims) + ", must be one number");
    }
    y.floating_point = one.floating_point;
    y.uniform = static_cast<float>(one.at(0));
    if (!one.floating_point) {
      if (count > kMostInts) {
        fail("shape " + to_string(y.dims) + " of whole numbers, must have at most " +
             std::to_string(kMostInts));
      }
      y.uniform.reset();
      y.ints.assign(static_cast<std::size_t>(count), one.ints.front());
    }
  }
  make_constant(std::move(y));
}

void Graph::shape() {
  const Dims& dims = input(0).dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t first = place(integer("start", 0));
  const std::int64_t last = std::max(first, place(integer("end", rank)));
  Constant y{.dims = {last - first}, .floating_point = false};
  y.ints.assign(dims.begin() + first, dims.begin() + last);
  make_constant(std::move(y));
}

// Of a list of whole numbers.
void Graph::gather() {
  const std::vector<std::int64_t> data = ints_of(0, "(data)");
  const Constant& indices = constant(1, "(indices)");
  check_integer("axis", axis_in(integer("axis", 0), 1), 0);
  if (indices.floating_point) fail("indices must be whole numbers");
  Constant y{.dims = indices.dims, .floating_point = false};
  for (const std::int64_t index : indices.ints) {
    y.ints.push_back(data[static_cast<std::size_t>(axis_in(index, data.size()))]);
  }
  make_constant(std::move(y));
}

/// The input in another shape.
void Graph::view(Dims dims) {
  Value y = input(0);
  const std::int64_t before = count_elements(y.dims, node_text_ + ": input");
  if (count_elements(dims, node_text_ + ": output") != before) {
    fail("shape " + to_string(y.dims) + " cannot become " + to_string(dims));
  }
  y.dims = y.constant.dims = std::move(dims);
  make_output(0, std::move(y));
}

void Graph::reshape() {
  const Dims from = input(0).dims;
  Dims to = ints_of(1, "(shape)");
  const bool keeps_zeros = integer("allowzero", 0) != 0;
  std::int64_t known = 1, open = -1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !keeps_zeros) {
      if (i >= from.size()) fail("shape " + to_string(to) + ": 0 at a place that the input lacks");
      to[i] = from[i];
    }
    if (to[i] == -1 && open < 0) {
      open = static_cast<std::int64_t>(i);
      continue;
    }
    if (to[i] < 0 || (to[i] != 0 && known > (std::int64_t{1} << 40) / to[i])) {
      fail("shape " + to_string(to) + ", must be extents, and -1 once");
    }
    known *= to[i];
  }
  if (open >= 0) {
    const std::int64_t count = count_elements(from, node_text_ + ": input");
    if (known == 0 || count % known != 0) {
      fail("shape " + to_string(from) + " cannot become " + to_string(to));
    }
    to[static_cast<std::size_t>(open)] = count / known;
  }
  view(std::move(to));
}

void Graph::flatten() {
  const Dims& dims = input(0).dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t axis = integer("axis", 1);
  const std::int64_t at = axis == rank ? rank : axis_in(axis, dims.size());
  count_elements(dims, node_text_ + ": input");
  view({product(dims.begin(), dims.begin() + at), product(dims.begin() + at, dims.end())});
}

void Graph::squeeze() {
  const Dims& dims = input(0).dims;
  std::vector<std::int64_t> axes = ints_since(13, 1, "axes", {});
  const bool all = axes.empty();
  for (std::int64_t& axis : axes) axis = axis_in(axis, dims.size());
  Dims to;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool named =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    if (named && dims[i] != 1)
      fail("axis " + std::to_string(i) + " of " + to_string(dims) + ", must be of extent 1");
    if (!(named || (all && dims[i] == 1))) to.push_back(dims[i]);
  }
  view(std::move(to));
}

void Graph::unsqueeze() {
  const Dims& dims = input(0).dims;
  std::vector<std::int64_t> axes = ints_since(13, 1, "axes", {});
  const std::size_t rank = dims.size() + axes.size();
  if (rank > 8) fail(std::to_string(rank) + " dimensions, must be at most 8");
  for (std::int64_t& axis : axes) axis = axis_in(axis, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    fail("axes " + to_string(axes) + ", each must be there once");
  }
  Dims to = dims;
  for (const std::int64_t axis : axes) to.insert(to.begin() + axis, 1);
  view(std::move(to));
}

// What moves no number is a shape. What exchanges groups of channels with the channels of a group
// is a channel shuffle.
void Graph::transpose() {
  const Value& x = input(0);
  std::vector<std::int64_t> perm(x.dims.size());
  std::iota(perm.rbegin(), perm.rend(), std::int64_t{0});
  perm = integers("perm", std::move(perm));
  std::vector<std::int64_t> order = perm;
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> whole(x.dims.size());
  std::iota(whole.begin(), whole.end(), std::int64_t{0});
  if (order != whole) fail("perm " + to_string(perm) + ", must have every axis once");
  Dims to;
  for (const std::int64_t axis : perm) to.push_back(x.dims[static_cast<std::size_t>(axis)]);
  if (long_extents(x.dims, perm) == long_extents(x.dims, whole)) return view(std::move(to));
  if (x.is_constant) {
    if (x.dims.size() != 2 || !x.constant.floating_point) {
      refuse("of a constant of shape " + to_string(x.dims) + ", must be a matrix");
    }
    Constant y{.dims = to, .floats = x.constant.floats, .uniform = x.constant.uniform};
    if (!y.uniform) {
      const auto rows = static_cast<std::size_t>(x.dims[0]);
      const auto cols = static_cast<std::size_t>(x.dims[1]);
      budget_.take(x.dims[0] * x.dims[1], node_text_);
      std::vector<float> numbers(rows * cols);
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t col = 0; col < cols; ++col) {
          numbers[col * rows + row] = x.constant.floats.data[row * cols + col];
        }
      }
      y.floats = make_weights(std::move(numbers));
    }
    return make_constant(std::move(y));
  }
  const Shape& shape = shape_of(x);
  std::vector<std::int64_t> shuffle = whole;
  if (shuffle.size() >= 3) std::swap(shuffle[1], shuffle[2]);
  if (x.dims.size() < 3 || perm != shuffle || x.dims[0] != shape.n ||
      x.dims[1] * x.dims[2] != shape.c) {
    refuse("perm " + to_string(perm) + " of shape " + to_string(x.dims) +
           ", must move no number, or exchange groups of channels with the channels of a group");
  }
  make(emit(Rearrangement{.groups = x.dims[1]}, {x.name}), to);
}

void Graph::concat() {
  const std::size_t rank = input(0).dims.size();
  const std::int64_t axis = axis_in(integer("axis", 1), rank);
  bool constant = true;
  for (int i = 0; i < node_->input_size(); ++i) constant = constant && input(i).is_constant;
  if (constant) {
    Constant y{.floating_point = false};
    for (int i = 0; i < node_->input_size(); ++i) {
      const std::vector<std::int64_t> part = ints_of(i, "");
      y.ints.insert(y.ints.end(), part.begin(), part.end());
      if (static_cast<std::int64_t>(y.ints.size()) > kMostInts) {
        fail("more than " + std::to_string(kMostInts) + " whole numbers");
      }
    }
    y.dims = {static_cast<std::int64_t>(y.ints.size())};
    return make_constant(std::move(y));
  }
  Dims dims = input(0).dims;
  std::vector<std::string> reads;
  std::int64_t channels = 0;
  for (int i = 0; i < node_->input_size(); ++i) {
    const Value& part = activation(i);
    const Shape& shape = shape_of(part);
    const bool is_matrix = part.dims == Dims{shape.n, shape.c} && shape.h * shape.w == 1;
    if (axis != 1 || part.dims.size() != rank || (!is_matrix && part.dims != dims_of(part.name))) {
      refuse("axis " + std::to_string(axis) + " of " + input_text(i) + " with shape " +
             to_string(part.dims) + ", must be that of channels");
    }
    reads.push_back(part.name);
    channels += shape.c;
  }
  dims[1] = channels;
  make(emit(Concatenation{}, std::move(reads)), dims);
}

std::string Graph::channel_slice(const Value& x, std::int64_t first, std::int64_t count,
                                 const std::string& suffix) {
  return emit(Rearrangement{.first_channel = first, .channels = count}, {x.name}, suffix);
}

// Of a list of whole numbers, of channels, or of rows and columns.
void Graph::slice() {
  const Value& x = input(0);
  const std::vector<std::int64_t> starts = ints_since(10, 1, "starts", {});
  const std::vector<std::int64_t> ends = ints_since(10, 2, "ends", {});
  std::vector<std::int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  axes = ints_since(10, 3, "axes", std::move(axes));
  std::vector<std::int64_t> steps(starts.size(), 1);
  if (opset_ >= 10 && has_input(4)) steps = ints_of(4, "(steps)");
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    fail("starts, ends, axes and steps must be equally many");
  }
  Dims first(x.dims.size(), 0), last = x.dims;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axis_in(axes[i], x.dims.size()));
    const std::int64_t extent = x.dims[axis];
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? std::max(at, -extent) + extent : at, 0, extent);
    };
    check_integer("step", steps[i], 1);
    first[axis] = place(starts[i]);
    last[axis] = place(ends[i]);
    if (last[axis] <= first[axis]) {
      refuse("from " + std::to_string(starts[i]) + " to " + std::to_string(ends[i]) + " of " +
             std::to_string(extent) + ", must not be empty");
    }
  }
  if (x.is_constant) {
    const std::vector<std::int64_t> list = ints_of(0, "(data)");
    if (x.dims.size() != 1) fail("data has shape " + to_string(x.dims) + ", must be a list");
    Constant y{.dims = {last[0] - first[0]}, .floating_point = false};
    y.ints.assign(list.begin() + first[0], list.begin() + last[0]);
    return make_constant(std::move(y));
  }
  const Shape shape = image(0);
  if (first[0] != 0 || last[0] != shape.n) refuse("of images, must be of channels or pixels");
  make_image(emit(Rearrangement{.first_channel = first[1],
                                .channels = last[1] - first[1],
                                .top = -first[2],
                                .bottom = last[2] - shape.h,
                                .left = -first[3],
                                .right = last[3] - shape.w},
                  {x.name}));
}

void Graph::split() {
  const Value x = activation(0);
  const Shape& shape = shape_of(x);
  const std::int64_t axis = axis_in(integer("axis", 0), x.dims.size());
  const bool is_matrix = x.dims == Dims{shape.n, shape.c} && shape.h * shape.w == 1;
  if (axis != 1 || (!is_matrix && x.dims != dims_of(x.name))) {
    refuse("axis " + std::to_string(axis) + " of shape " + to_string(x.dims) +
           ", must be that of channels");
  }
  const std::int64_t parts = node_->output_size();
  check_integer("num_outputs", integer("num_outputs", parts), parts);
  std::vector<std::int64_t> counts = ints_since(13, 1, "split", {});
  if (counts.empty()) {  // equal parts, the last one perhaps smaller
    const std::int64_t each = shape.c / parts + (shape.c % parts != 0);
    for (std::int64_t i = 0; i < parts; ++i) {
      counts.push_back(std::clamp<std::int64_t>(shape.c - i * each, 0, each));
    }
  }
  std::int64_t first = 0;
  if (static_cast<std::int64_t>(counts.size()) != parts) {
    fail("split " + to_string(counts) + ", must be of " + std::to_string(parts) + " outputs");
  }
  for (int i = 0; i < node_->output_size(); ++i) {
    const std::int64_t count = counts[static_cast<std::size_t>(i)];
    if (count < 1 || count > shape.c - first) {
      fail("split " + to_string(counts) + ", must be parts of " + std::to_string(shape.c) +
           " channels");
    }
    Dims dims = x.dims;
    dims[1] = count;
    const std::string suffix = i == 0 ? "" : std::string(".") + std::to_string(i);
    make_output(i, {.name = channel_slice(x, first, count, suffix), .dims = dims});
    first += count;
  }
  if (first != shape.c) {
    fail("split " + to_string(counts) + ", must be all of " + std::to_string(shape.c) +
         " channels");
  }
}

void Graph::pad() {
  const Shape shape = image(0);
  const std::string mode = text("mode", "constant");
  if (mode != "constant") refuse("mode must be constant");
  const std::vector<std::int64_t> pads = ints_since(11, 1, "pads", {});
  float fill = 0;
  if (opset_ < 11) {
    fill = real("value", 0);
  } else if (has_input(2)) {
    fill = number_of(2, "(the number to pad with)");
  }
  if (opset_ >= 18 && has_input(3)) refuse(input_text(3) + " (axes) is not supported");
  const bool right_size = pads.size() == 8;
  if (!right_size || pads[0] != 0 || pads[1] != 0 || pads[4] != 0 || pads[5] != 0) {
    refuse("pads " + to_string(pads) + ", must be 8 and those of rows and columns only");
  }
  for (const std::int64_t count : pads) {
    if (count < -shape.h - shape.w || count > std::numeric_limits<std::int32_t>::max()) {
      fail("pads " + to_string(pads) + ", must be at most 2^31 - 1 and not cut off more than all");
    }
  }
  make_image(emit(
      Rearrangement{
          .top = pads[2], .bottom = pads[6], .left = pads[3], .right = pads[7], .fill = fill},
      {activation(0).name}));
}

void Graph::upsample_by(const std::vector<double>& scales) {
  const auto whole = [](double scale) {
    return scale >= 1 && scale <= 65536 && scale == std::floor(scale);
  };
  if (scales.size() != 4 || scales[0] != 1 || scales[1] != 1 || !whole(scales[2]) ||
      !whole(scales[3])) {
    std::string list;
    for (const double scale : scales) list += (list.empty() ? "" : ", ") + std::to_string(scale);
    refuse("scales [" + list + "], must be 1, 1, and whole numbers for height and width");
  }
  image(0);
  make_image(emit(Rearrangement{.repeat_h = static_cast<std::int64_t>(scales[2]),
                                .repeat_w = static_cast<std::int64_t>(scales[3])},
                  {activation(0).name}));
}

void Graph::upsample() {
  const std::string mode = text("mode", "nearest");
  if (mode != "nearest") refuse("mode \"" + excerpt(mode) + "\", must be nearest");
  std::vector<float> scales;
  if (opset_ < 9) {
    if (const auto* const given = attribute("scales", kFloats)) {
      scales.assign(given->floats().begin(), given->floats().end());
    }
  } else {
    scales = floats_of(constant(1, "(scales)"), node_text_);
  }
  upsample_by({scales.begin(), scales.end()});
}

// Nearest, by whole factors: then all ways to round give the same, but those of which it is said
// here that they do not.
void Graph::resize() {
  const Shape shape = image(0);
  const std::string mode = text("mode", "nearest");
  const std::string where = text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = text("nearest_mode", "round_prefer_floor");
  real("cubic_coeff_a", 0);
  real("extrapolation_value", 0);
  check_integer("exclude_outside", integer("exclude_outside", 0), 0);
  check_integer("antialias", integer("antialias", 0), 0);
  if (mode != "nearest") refuse("mode \"" + excerpt(mode) + "\", must be nearest");
  const bool half = where == "half_pixel" || where == "pytorch_half_pixel";
  const bool rounds = rounding.starts_with("round_prefer_");
  const bool floors = where == "asymmetric" || where == "tf_half_pixel_for_nn";
  std::vector<double> scales;
  const int scales_at = opset_ < 11 ? 1 : 2;
  if (has_input(scales_at) && !input(scales_at).dims.empty() && input(scales_at).dims[0] > 0) {
    const std::vector<float> given = floats_of(constant(scales_at, "(scales)"), node_text_);
    scales.assign(given.begin(), given.end());
  } else if (opset_ >= 11) {
    const std::vector<std::int64_t> sizes = ints_of(3, "(sizes)");
    const double extents[] = {static_cast<double>(shape.n), static_cast<double>(shape.c),
                              static_cast<double>(shape.h), static_cast<double>(shape.w)};
    for (std::size_t i = 0; i < std::min<std::size_t>(sizes.size(), 4); ++i) {
      scales.push_back(static_cast<double>(sizes[i]) / extents[i]);
    }
  }
  const bool twice = scales.size() == 4 && scales[2] <= 2 && scales[3] <= 2;
  const bool prefers_floor = rounding == "round_prefer_floor";
  if (opset_ >= 11 && !(half && rounds) && !(floors && rounding == "floor") &&
      !(where == "asymmetric" && prefers_floor && twice)) {
    refuse(
        "coordinate_transformation_mode and nearest_mode must be half_pixel and round_..., or "
        "asymmetric and floor");
  }
  upsample_by(scales);
}

}  // namespace megaconv::onnx
