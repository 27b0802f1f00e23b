// SPDX-License-Identifier: Apache-2.0
// The convolution problem: its limits, and its one-line text form.
//
// validate() bounds every value before it multiplies any two of them, so that the arithmetic of
// ConvProblem's members and of every later stage stays inside 64 bits.
#include "megaconv/problem.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tasks/activation.hpp"
#include "tasks/checks.hpp"
#include "tasks/same_padding.hpp"

namespace megaconv {

double ConvProblem::flops() const {
  return 2.0 * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(p()) *
         static_cast<double>(q()) * static_cast<double>(c / groups) * static_cast<double>(r) *
         static_cast<double>(s);
}

namespace {

void check_blocked(const ConvProblem& a) {
  if (a.dtype != DataType::f32) {
    fail(std::string("layout nchw16c of ") + to_string(a.dtype) + " tensors: must be f32");
  }
  if (a.groups > 1 && !a.depthwise() && a.k / a.groups % kChannelBlock != 0) {
    fail("layout nchw16c, conv groups of " + std::to_string(a.k / a.groups) +
         " filters: must be a multiple of " + std::to_string(kChannelBlock) +
         ", or one filter per channel");
  }
}

}  // namespace

void validate(const ConvProblem& problem) {
  const ConvProblem& a = problem;
  check_range("n", a.n, 1, kMaxExtent);
  check_range("c", a.c, 1, kMaxExtent);
  check_range("h", a.h, 1, kMaxExtent);
  check_range("w", a.w, 1, kMaxExtent);
  check_range("k", a.k, 1, kMaxExtent);
  check_range("r", a.r, 1, kMaxExtent);
  check_range("s", a.s, 1, kMaxExtent);
  check_range("vertical stride", a.stride_h, 1, kMaxExtent);
  check_range("horizontal stride", a.stride_w, 1, kMaxExtent);
  check_range("vertical dilation", a.dilation_h, 1, kMaxExtent);
  check_range("horizontal dilation", a.dilation_w, 1, kMaxExtent);
  check_range("groups", a.groups, 1, kMaxExtent);
  // From here (r - 1) * dilation + 1 fits: both factors are below 2^31.
  check_range("vertical padding", a.pad_h, 0, std::min(a.filter_extent_h(), kMaxExtent));
  check_range("horizontal padding", a.pad_w, 0, std::min(a.filter_extent_w(), kMaxExtent));
  if (a.c % a.groups != 0 || a.k % a.groups != 0) {
    fail("groups = " + std::to_string(a.groups) + ": must divide c = " + std::to_string(a.c) +
         " and k = " + std::to_string(a.k));
  }
  const std::int64_t padded_h = a.h + 2 * a.pad_h, padded_w = a.w + 2 * a.pad_w;
  if (a.filter_extent_h() > padded_h || a.filter_extent_w() > padded_w) {
    fail("filter of " + std::to_string(a.filter_extent_h()) + "x" +
         std::to_string(a.filter_extent_w()) +
         " with dilation: must be at most the padded input, " + std::to_string(padded_h) + "x" +
         std::to_string(padded_w));
  }
  check_elements("input", {a.n, a.c, a.h, a.w});
  check_elements("filter", {a.k, a.c / a.groups, a.r, a.s});
  check_elements("output", {a.n, a.k, a.p(), a.q()});
  if (a.layout == Layout::nchw16c) check_blocked(a);
  validate(a.epilogue.activation);
  const Bend bend = terms_of(a.epilogue.activation).bend;
  if (a.dtype == DataType::i8 && bend != Bend::none && bend != Bend::slope) {
    fail(std::string("activation ") + to_string(a.epilogue.activation.function) +
         " of i8 tensors: must be none, relu, clamp or leaky_relu, which are exact");
  }
  // |x|, |w| <= 2^7: sums of fewer than 2^17 products are less than 2^31.
  constexpr std::int64_t kMostProducts = (std::int64_t{1} << 17) - 1;
  const std::int64_t products = a.c / a.groups * a.r * a.s;
  if (a.dtype == DataType::i8 && products > kMostProducts) {
    fail("i8: sums of " + std::to_string(products) +
         " products (c / groups * r * s): must be at most " + std::to_string(kMostProducts) +
         ", so that they fit 32 bits");
  }
}

void pad_same(ConvProblem& problem) {
  // These are multiplied, so they must be known to be small first.
  check_range("r", problem.r, 1, kMaxExtent);
  check_range("s", problem.s, 1, kMaxExtent);
  check_range("vertical dilation", problem.dilation_h, 1, kMaxExtent);
  check_range("horizontal dilation", problem.dilation_w, 1, kMaxExtent);
  problem.pad_h = (problem.filter_extent_h() - 1) / 2;
  problem.pad_w = (problem.filter_extent_w() - 1) / 2;
}

const char* to_string(DataType dtype) noexcept {
  switch (dtype) {
    case DataType::f32:
      return "f32";
    case DataType::f16:
      return "f16";
    case DataType::bf16:
      return "bf16";
    case DataType::i8:
      return "i8";
  }
  return "unknown";
}

const char* to_string(Layout layout) noexcept {
  switch (layout) {
    case Layout::nchw:
      return "nchw";
    case Layout::nhwc:
      return "nhwc";
    case Layout::chwn:
      return "chwn";
    case Layout::nchw16c:
      return "nchw16c";
  }
  return "unknown";
}

std::size_t size_of(DataType dtype) noexcept {
  return dtype == DataType::f32 ? 4 : dtype == DataType::i8 ? 1 : 2;
}

namespace {

// Reads one problem string, left to right.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  ConvProblem parse() {
    while (!rest_.empty() && rest_.front() != '+') read_field();
    while (!rest_.empty()) read_suffix();
    const ConvProblem problem = assemble();
    validate(problem);
    return problem;
  }

 private:
  static constexpr std::string_view kKeys = "nchwkrspudg";

  struct Field {
    std::int64_t vertical = 0, horizontal = 0;
  };

  [[noreturn]] void reject(const std::string& message) const {
    fail("problem \"" + excerpt(text_) + "\": " + message);
  }

  std::int64_t read_number(char key) {
    const char* const end = rest_.data() + rest_.size();
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(rest_.data(), end, value);
    const std::string_view digits = rest_.substr(0, static_cast<std::size_t>(stop - rest_.data()));
    if (error == std::errc::result_out_of_range) {
      reject(std::string(1, key) + std::string(digits.substr(0, 24)) + " must be at most " +
             std::to_string(kMaxExtent));
    }
    if (digits.empty() || digits.front() == '-') {
      reject(std::string("'") + key + "' must be followed by a number");
    }
    rest_.remove_prefix(digits.size());
    return value;
  }

  void read_field() {
    const char key = rest_.front();
    const std::size_t index = kKeys.find(key);
    if (index == std::string_view::npos) {
      reject("unexpected character at " + std::to_string(text_.size() - rest_.size()) +
             ", allowed are " + std::string(kKeys) + " each with a number, and +suffixes");
    }
    if (fields_[index]) reject(std::string("'") + key + "' is given twice");
    rest_.remove_prefix(1);
    Field field;
    field.vertical = field.horizontal = read_number(key);
    const bool pair_allowed = key == 'p' || key == 'u' || key == 'd';
    if (pair_allowed && !rest_.empty() && rest_.front() == 'x') {
      rest_.remove_prefix(1);
      field.horizontal = read_number('x');
    }
    fields_[index] = field;
  }

  void set_once(bool& given, std::string_view suffix) {
    if (given) reject("suffix +" + excerpt(suffix) + " repeats or contradicts another");
    given = true;
  }

  void read_suffix() {
    rest_.remove_prefix(1);  // '+'
    const std::string_view suffix = rest_.substr(0, rest_.find('+'));
    rest_.remove_prefix(suffix.size());
    for (DataType dtype : {DataType::f32, DataType::f16, DataType::bf16, DataType::i8}) {
      if (suffix != to_string(dtype)) continue;
      set_once(dtype_given_, suffix);
      suffixes_.dtype = dtype;
      return;
    }
    for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::chwn, Layout::nchw16c}) {
      if (suffix != to_string(layout)) continue;
      set_once(layout_given_, suffix);
      suffixes_.layout = layout;
      return;
    }
    Epilogue& epilogue = suffixes_.epilogue;
    if (suffix == "scale") return set_once(epilogue.scale, suffix);
    if (suffix == "bias") return set_once(epilogue.bias, suffix);
    if (suffix == "residual") return set_once(epilogue.residual, suffix);
    if (is_activation(suffix)) {
      set_once(activation_given_, suffix);
      epilogue.activation = parse_activation(suffix);
      return;
    }
    reject(
        "unknown suffix after '+', allowed are nchw, nhwc, chwn, nchw16c, f32, f16, bf16, i8, "
        "scale, bias, residual, " +
        activation_forms());
  }

  const std::optional<Field>& field(char key) const { return fields_[kKeys.find(key)]; }

  std::int64_t required(char key) const {
    if (!field(key)) reject(std::string("'") + key + "' is missing; c, h and k must be given");
    return field(key)->vertical;
  }

  ConvProblem assemble() const {
    ConvProblem problem = suffixes_;
    const auto value_or = [&](char key, std::int64_t otherwise) {
      return field(key) ? field(key)->vertical : otherwise;
    };
    problem.n = value_or('n', 1);
    problem.c = required('c');
    problem.h = required('h');
    problem.w = value_or('w', problem.h);
    problem.k = required('k');
    problem.r = value_or('r', 3);
    problem.s = value_or('s', problem.r);
    problem.groups = value_or('g', 1);
    const Field stride = field('u').value_or(Field{1, 1});
    problem.stride_h = stride.vertical;
    problem.stride_w = stride.horizontal;
    const Field dilation = field('d').value_or(Field{1, 1});
    problem.dilation_h = dilation.vertical;
    problem.dilation_w = dilation.horizontal;
    pad_same(problem);
    if (const auto& pad = field('p')) {
      problem.pad_h = pad->vertical;
      problem.pad_w = pad->horizontal;
    }
    return problem;
  }

  std::string_view text_, rest_;
  std::array<std::optional<Field>, kKeys.size()> fields_;
  ConvProblem suffixes_;
  bool dtype_given_ = false, layout_given_ = false, activation_given_ = false;
};

}  // namespace

ConvProblem parse_problem(std::string_view text) { return Parser(text).parse(); }

std::string to_string(const ConvProblem& problem) {
  const ConvProblem& a = problem;
  std::string text;
  const auto put = [&](char key, const std::string& value) { text += key + value; };
  put('n', std::to_string(a.n));
  put('c', std::to_string(a.c));
  put('h', std::to_string(a.h));
  put('w', std::to_string(a.w));
  put('k', std::to_string(a.k));
  put('r', std::to_string(a.r));
  put('s', std::to_string(a.s));
  put('p', axes_text(a.pad_h, a.pad_w));
  put('u', axes_text(a.stride_h, a.stride_w));
  put('d', axes_text(a.dilation_h, a.dilation_w));
  put('g', std::to_string(a.groups));
  if (a.layout != Layout::nchw) text += std::string("+") + to_string(a.layout);
  if (a.dtype != DataType::f32) text += std::string("+") + to_string(a.dtype);
  if (a.epilogue.scale) text += "+scale";
  if (a.epilogue.bias) text += "+bias";
  if (a.epilogue.residual) text += "+residual";
  if (a.epilogue.activation != Activation{}) {
    text.append("+").append(to_string(a.epilogue.activation));
  }
  return text;
}

}  // namespace megaconv
