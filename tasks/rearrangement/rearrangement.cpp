// SPDX-License-Identifier: Apache-2.0
// The rearrangement problem: its limits and its text; how it is cut.
#include "tasks/rearrangement/rearrangement.hpp"

#include <cmath>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/row_bands.hpp"

namespace megaconv {
namespace {

/// floor(a / b).
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

}  // namespace

std::int64_t RearrangementProblem::k() const {
  return does.channels != 0 ? does.channels : c - does.first_channel;
}

void validate(const RearrangementProblem& problem) {
  const RearrangementProblem& a = problem;
  const Rearrangement& does = a.does;
  check_range("n", a.n, 1, kMaxExtent);
  check_range("c", a.c, 1, kMaxExtent);
  check_range("h", a.h, 1, kMaxExtent);
  check_range("w", a.w, 1, kMaxExtent);
  check_range("first_channel", does.first_channel, 0, a.c - 1);
  check_range("channels", does.channels, 0, a.c - does.first_channel);
  check_range("groups", does.groups, 1, a.k());
  if (a.k() % does.groups != 0) {
    fail("groups = " + std::to_string(does.groups) + ": must divide the " + std::to_string(a.k()) +
         " channels");
  }
  check_range("repeat_h", does.repeat_h, 1, kMaxExtent / a.h);
  check_range("repeat_w", does.repeat_w, 1, kMaxExtent / a.w);
  const std::int64_t h = a.h * does.repeat_h, w = a.w * does.repeat_w;
  check_range("top", does.top, 1 - h, kMaxExtent);
  check_range("bottom", does.bottom, 1 - h, kMaxExtent);
  check_range("left", does.left, 1 - w, kMaxExtent);
  check_range("right", does.right, 1 - w, kMaxExtent);
  if (std::isnan(does.fill)) fail("fill = nan: must be a number");
  check_range("rows of y", a.p(), 1, kMaxExtent);
  check_range("columns of y", a.q(), 1, kMaxExtent);
  check_elements("input", {a.n, a.c, a.h, a.w});
  check_elements("output", {a.n, a.k(), a.p(), a.q()});
  const bool converts = a.y_layout() != a.layout;
  for (const Layout layout : {a.layout, a.y_layout()}) {
    if (converts && layout == Layout::nchw16c) continue;
    check_storage("rearrangement", a.dtype, layout);
  }
}

std::string to_string(const RearrangementProblem& problem) {
  const RearrangementProblem& a = problem;
  const Rearrangement& does = a.does;
  std::string text;
  const auto put = [&](const std::string& part) {
    text += text.empty() ? "" : ", ";
    text += part;
  };
  if (a.k() != a.c) {
    put(std::string("channels ") + std::to_string(does.first_channel) + "-" +
        std::to_string(does.first_channel + a.k()));
  }
  if (does.groups != 1) put(std::string("shuffle of ") + std::to_string(does.groups) + " groups");
  if (does.repeat_h != 1 || does.repeat_w != 1) {
    put(std::string("upsampling ") + std::to_string(does.repeat_h) + "x" +
        std::to_string(does.repeat_w));
  }
  if (does.top != 0 || does.bottom != 0 || does.left != 0 || does.right != 0) {
    put(std::string("padding ") + std::to_string(does.top) + " " + std::to_string(does.bottom) +
        " " + std::to_string(does.left) + " " + std::to_string(does.right));
  }
  if (a.y_layout() != a.layout)
    put(std::string(to_string(a.layout)) + " to " + to_string(a.y_layout()));
  if (text.empty()) put("copy");
  text += std::string(", n") + std::to_string(a.n) + "c" + std::to_string(a.c) + "h" +
          std::to_string(a.h) + "w" + std::to_string(a.w);
  if (a.layout != Layout::nchw) text += std::string("+") + to_string(a.layout);
  if (a.dtype != DataType::f32) text += std::string("+") + to_string(a.dtype);
  return text;
}

void derive_counts(RearrangementCut& cut) {
  validate(cut.problem);
  cut.num_groups = count_bands(cut.problem.n, cut.problem.p(), cut.rows_per_group);
}

RearrangementCut cut_rearrangement(const RearrangementProblem& problem, std::uint32_t workers) {
  validate(problem);
  RearrangementCut cut{.problem = problem};
  cut.rows_per_group = rows_of_bands(problem.n, problem.p(), problem.y_size(), workers);
  derive_counts(cut);
  return cut;
}

std::int64_t source_channel(const RearrangementProblem& a, std::int64_t c) {
  const std::int64_t groups = a.does.groups;
  return a.does.first_channel + c % groups * (a.k() / groups) + c / groups;
}
std::int64_t source_row(const RearrangementProblem& a, std::int64_t p) {
  return floor_div(p - a.does.top, a.does.repeat_h);
}
std::int64_t source_col(const RearrangementProblem& a, std::int64_t q) {
  return floor_div(q - a.does.left, a.does.repeat_w);
}

std::string to_string(const RearrangementCut& cut) {
  return "problem: " + to_string(cut.problem) +
         "\nrows of a task: " + std::to_string(cut.rows_per_group) +
         "\ntasks: " + std::to_string(cut.num_groups) + '\n';
}

}  // namespace megaconv
