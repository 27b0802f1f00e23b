// SPDX-License-Identifier: Apache-2.0
// The elementwise problem: its limits and its text; how it is cut.
#include "tasks/elementwise/elementwise.hpp"

#include <algorithm>
#include <numeric>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// A task that has fewer numbers takes no longer than a worker takes to fetch and signal it.
constexpr double kLeastNumbers = 8192;

// In nchw16c each tensor of a concatenation begins a block of y.
void check_blocks(const std::vector<std::int64_t>& channels) {
  for (std::size_t i = 0; i + 1 < channels.size(); ++i) {
    if (channels[i] % kChannelBlock == 0) continue;
    throw Error(Status::unsupported,
                "elementwise: concatenation in nchw16c of " + std::to_string(channels[i]) +
                    " channels with others behind them, must be a multiple of " +
                    std::to_string(kChannelBlock));
  }
}

}  // namespace

std::int64_t ElementwiseProblem::c() const {
  return std::accumulate(channels.begin(), channels.end(), std::int64_t{0});
}

void validate(const ElementwiseProblem& problem) {
  const ElementwiseProblem& a = problem;
  check_range("n", a.n, 1, kMaxExtent);
  check_range("h", a.h, 1, kMaxExtent);
  check_range("w", a.w, 1, kMaxExtent);
  if (a.channels.empty()) fail("tensors of x: 0, must be at least 1");
  std::int64_t c = 0;
  for (const std::int64_t channels : a.channels) {
    check_range("c", channels, 1, kMaxExtent);
    c += std::min(channels, kMaxExtent);
    check_range("c of y", c, 1, kMaxExtent);
  }
  check_elements("output", {a.n, c, a.h, a.w});
  if (!(a.least < a.most)) {
    fail("clamped to " + number_text(a.least) + " to " + number_text(a.most) +
         ": the least must be below the most");
  }
  if (a.dtype != DataType::f32 && a.dtype != DataType::f16 && a.dtype != DataType::bf16) {
    throw Error(Status::unsupported, std::string("elementwise: storage type ") +
                                         to_string(a.dtype) + ", must be f32, f16 or bf16");
  }
  if (a.layout == Layout::chwn) {
    throw Error(Status::unsupported, "elementwise: layout chwn, must be nchw, nhwc or nchw16c");
  }
  if (a.layout == Layout::nchw16c) check_blocks(a.channels);
}

std::string to_string(const ElementwiseProblem& problem) {
  const ElementwiseProblem& a = problem;
  std::string text;
  const auto put = [&](const std::string& part) {
    text += text.empty() ? "" : ", ";
    text += part;
  };
  if (a.channels.size() > 1) {
    std::string sum;
    for (const std::int64_t channels : a.channels) {
      sum += std::string(sum.empty() ? "" : "+") + std::to_string(channels);
    }
    put("concatenation of " + sum + " channels");
  }
  if (a.affine) put("scaled");
  if (a.residual) put("addition");
  const ElementwiseProblem whole{};
  if (a.least != whole.least || a.most != whole.most) {
    put("clamped to " + number_text(a.least) + " to " + number_text(a.most));
  }
  if (text.empty()) put("copy");
  text += ", n" + std::to_string(a.n) + "c" + std::to_string(a.c()) + "h" + std::to_string(a.h) +
          "w" + std::to_string(a.w);
  if (a.layout != Layout::nchw) text += std::string("+") + to_string(a.layout);
  if (a.dtype != DataType::f32) text += std::string("+") + to_string(a.dtype);
  return text;
}

void derive_counts(ElementwiseCut& cut) {
  const ElementwiseProblem& a = cut.problem;
  validate(a);
  if (cut.rows_per_group < 1 || cut.rows_per_group > u64(a.h)) {
    fail("rows_per_group = " + std::to_string(cut.rows_per_group) + ": must be 1 to " +
         std::to_string(a.h));
  }
  const std::uint64_t groups = u64(a.n) * ceil_div(u64(a.h), std::uint64_t{cut.rows_per_group});
  if (groups > kMaxTasks) {
    throw Error(Status::unsupported,
                std::to_string(groups) + " tasks: must be at most 2^31; use larger groups");
  }
  cut.num_groups = u32(groups);
}

ElementwiseCut cut_elementwise(const ElementwiseProblem& problem, std::uint32_t workers) {
  validate(problem);
  if (workers == 0) fail("workers = 0: must be at least 1");
  const double most = static_cast<double>(kTasksPerWorker * workers);
  const auto wanted = static_cast<std::uint64_t>(
      std::clamp(static_cast<double>(problem.y_size()) / kLeastNumbers, 1.0, most));
  const std::uint64_t h = u64(problem.h);
  ElementwiseCut cut;
  cut.problem = problem;
  cut.rows_per_group = u32(h / std::min(h, ceil_div(wanted, u64(problem.n))));
  derive_counts(cut);
  return cut;
}

ElementwiseTask task_of(const ElementwiseCut& cut, std::uint32_t group) {
  const ElementwiseProblem& a = cut.problem;
  const std::int64_t rows = cut.rows_per_group, bands = ceil_div(a.h, rows);
  const std::int64_t row = group % bands * rows;
  return {.image = group / bands,
          .row = row,
          .rows = std::min(rows, a.h - row),
          .h = a.h,
          .w = a.w,
          .c = a.c(),
          .channels = a.channels.data(),
          .num_inputs = static_cast<std::ptrdiff_t>(a.channels.size()),
          .least = a.least,
          .most = a.most,
          .layout = a.layout,
          .affine = a.affine,
          .residual = a.residual};
}

Region x_extent(const ElementwiseProblem& a, std::size_t i) {
  return {.rows = {0, u64(a.n * a.h)}, .cols = {0, u64(a.w)}, .channels = {0, u64(a.channels[i])}};
}
Region y_extent(const ElementwiseProblem& a) {
  return {.rows = {0, u64(a.n * a.h)}, .cols = {0, u64(a.w)}, .channels = {0, u64(a.c())}};
}

std::string to_string(const ElementwiseCut& cut) {
  return "problem: " + to_string(cut.problem) +
         "\nrows of a task: " + std::to_string(cut.rows_per_group) +
         "\ntasks: " + std::to_string(cut.num_groups) + '\n';
}

}  // namespace megaconv
