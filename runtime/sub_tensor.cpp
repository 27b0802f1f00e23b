// SPDX-License-Identifier: Apache-2.0
#include "runtime/sub_tensor.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace megaconv {
namespace {

// In the order of TensorExtents.
std::array<std::int64_t, 4> in_order(const TensorStrides& s) { return {s.n, s.c, s.h, s.w}; }

std::string to_string(const std::array<std::int64_t, 4>& values) {
  std::string text;
  for (const std::int64_t value : values)
    text += (text.empty() ? "(" : ", ") + std::to_string(value);
  return text + ")";
}

TensorStrides dense(Layout layout, const TensorExtents& extents) {
  const auto [n, c, h, w] = extents;
  return layout == Layout::nhwc ? TensorStrides{c * h * w, 1, w * c, c}
                                : TensorStrides{c * h * w, h * w, w, 1};
}

// Axes of one index have the strides that a tensor with the others' would have.
void fill_single_axes(Layout layout, const TensorExtents& extents, TensorStrides& s) {
  const auto [n, c, h, w] = extents;
  if (layout == Layout::nhwc) {
    if (c == 1) s.c = 1;
    if (w == 1) s.w = h == 1 ? c : s.h;
    if (h == 1) s.h = s.w * w;
  } else {
    if (w == 1) s.w = 1;
    if (h == 1) s.h = w;
    if (c == 1) s.c = s.h * h;
  }
  if (n == 1) s.n = 1 + (c - 1) * s.c + (h - 1) * s.h + (w - 1) * s.w;
}

// Each axis steps over all that the axes with smaller strides reach.
bool elements_are_apart(const TensorExtents& extents, const TensorStrides& strides) {
  const auto steps = in_order(strides);
  std::array<std::size_t, 4> axes{0, 1, 2, 3};
  std::sort(axes.begin(), axes.end(),
            [&](std::size_t a, std::size_t b) { return steps[a] < steps[b]; });
  std::int64_t reach = 1;
  for (const std::size_t axis : axes) {
    if (extents[axis] == 1) continue;
    if (steps[axis] < reach) return false;
    reach += (extents[axis] - 1) * steps[axis];
  }
  return true;
}

// Elements that the axes with strides below `period` reach; none unless the others' are multiples.
std::optional<std::int64_t> reach_within(const SubTensor& tensor, std::int64_t period) {
  const auto steps = in_order(tensor.strides);
  std::int64_t reach = 1;
  for (std::size_t axis = 0; axis < steps.size(); ++axis) {
    if (tensor.extents[axis] == 1) continue;
    if (steps[axis] < period) {
      reach += (tensor.extents[axis] - 1) * steps[axis];
    } else if (steps[axis] % period != 0) {
      return std::nullopt;
    }
  }
  return reach;
}

}  // namespace

TensorStrides resolve_strides(const char* name, const TensorStrides& given, Layout layout,
                              const TensorExtents& extents) {
  if (given == TensorStrides{}) return dense(layout, extents);
  const auto refuse = [&](Status status, const std::string& allowed) {
    throw Error(status, std::string(name) + "_strides " + to_string(in_order(given)) + " of " +
                            to_string(extents) + " in " + megaconv::to_string(layout) + ": " +
                            allowed);
  };
  if (layout != Layout::nchw && layout != Layout::nhwc) {
    refuse(Status::unsupported, "must be all 0, dense, in this layout");
  }
  TensorStrides strides = given;
  fill_single_axes(layout, extents, strides);
  for (const std::int64_t stride : in_order(strides)) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (stride < 1 || stride > kMost) refuse(Status::invalid_argument, "must be 1 to 2^40 each");
  }
  if (layout == Layout::nchw && strides.w != 1) {
    refuse(Status::invalid_argument, "pixels of a row must be neighbours, w = 1");
  }
  if (layout == Layout::nhwc && strides.c != 1) {
    refuse(Status::invalid_argument, "channels must be neighbours, c = 1");
  }
  if (layout == Layout::nhwc && strides.h % strides.w != 0) {
    refuse(Status::invalid_argument, "h must be a multiple of w");
  }
  if (!elements_are_apart(extents, strides)) {
    refuse(Status::invalid_argument, "no two elements may share memory");
  }
  return strides;
}

std::int64_t span_of(const TensorExtents& extents, const TensorStrides& strides) {
  const auto steps = in_order(strides);
  std::int64_t span = 1;
  for (std::size_t axis = 0; axis < steps.size(); ++axis) span += (extents[axis] - 1) * steps[axis];
  return span;
}

bool side_by_side(const SubTensor& a, const SubTensor& b, std::size_t element_bytes) {
  const auto size = static_cast<std::int64_t>(element_bytes);
  const auto bytes = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(b.data) -
                                               reinterpret_cast<std::uintptr_t>(a.data));
  if (bytes % size != 0) return false;
  const auto periods = in_order(a.strides);
  for (std::size_t axis = 0; axis < periods.size(); ++axis) {
    if (a.extents[axis] == 1) continue;
    const std::int64_t period = periods[axis];
    const auto of_a = reach_within(a, period), of_b = reach_within(b, period);
    if (!of_a || !of_b) continue;
    const std::int64_t place = (bytes / size % period + period) % period;  // of b, in a's period
    if (place >= *of_a && place + *of_b <= period) return true;
  }
  return false;
}

}  // namespace megaconv
