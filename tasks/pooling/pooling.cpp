// SPDX-License-Identifier: Apache-2.0
// The pooling problem: its limits and its text; how it is cut.
#include "tasks/pooling/pooling.hpp"

#include <algorithm>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// A task that reads fewer numbers takes no longer than a worker takes to fetch and signal it.
constexpr double kLeastReads = 4096;
// Channels are split in cache lines.
constexpr std::uint64_t kLineBytes = 64;
// Columns are split only where rows are far longer.
constexpr std::uint64_t kLeastCols = 64;

}  // namespace

const char* to_string(PoolMode mode) noexcept {
  switch (mode) {
    case PoolMode::max:
      return "max";
    case PoolMode::average:
      return "average";
  }
  return "unknown";
}

void validate(const PoolProblem& problem) {
  const PoolProblem& a = problem;
  if (a.mode != PoolMode::max && a.mode != PoolMode::average) {
    fail("pool mode " + std::to_string(static_cast<int>(a.mode)) + ": must be max or average");
  }
  check_range("n", a.n, 1, kMaxExtent);
  check_range("c", a.c, 1, kMaxExtent);
  check_range("h", a.h, 1, kMaxExtent);
  check_range("w", a.w, 1, kMaxExtent);
  check_range("r", a.r, 1, kMaxExtent);
  check_range("s", a.s, 1, kMaxExtent);
  check_range("vertical stride", a.stride_h, 1, kMaxExtent);
  check_range("horizontal stride", a.stride_w, 1, kMaxExtent);
  constexpr const char* kLess = ", less than the window";
  check_range("vertical padding", a.pad_h, 0, a.r - 1, kLess);
  check_range("horizontal padding", a.pad_w, 0, a.s - 1, kLess);
  const std::int64_t padded_h = a.h + 2 * a.pad_h, padded_w = a.w + 2 * a.pad_w;
  if (a.r > padded_h || a.s > padded_w) {
    fail("window of " + pair_text(a.r, a.s) + ": must be at most the padded input, " +
         pair_text(padded_h, padded_w));
  }
  check_elements("input", {a.n, a.c, a.h, a.w});
  check_elements("output", {a.n, a.c, a.p(), a.q()});
  if (a.dtype != DataType::f32 && a.dtype != DataType::f16 && a.dtype != DataType::bf16) {
    throw Error(Status::unsupported, std::string("pooling: storage type ") + to_string(a.dtype) +
                                         ", must be f32, f16 or bf16");
  }
  if (a.layout != Layout::nchw && a.layout != Layout::nhwc) {
    throw Error(Status::unsupported,
                std::string("pooling: layout ") + to_string(a.layout) + ", must be nchw or nhwc");
  }
}

std::string to_string(const PoolProblem& problem) {
  const PoolProblem& a = problem;
  std::string text = std::string(to_string(a.mode)) + " pooling ";
  const auto put = [&](char key, const std::string& value) { text += key + value; };
  put('n', std::to_string(a.n));
  put('c', std::to_string(a.c));
  put('h', std::to_string(a.h));
  put('w', std::to_string(a.w));
  put('r', std::to_string(a.r));
  put('s', std::to_string(a.s));
  put('p', axes_text(a.pad_h, a.pad_w));
  put('u', axes_text(a.stride_h, a.stride_w));
  if (a.layout != Layout::nchw) text += std::string("+") + to_string(a.layout);
  if (a.dtype != DataType::f32) text += std::string("+") + to_string(a.dtype);
  return text;
}

WindowAxis rows_of(const PoolProblem& a) { return {a.h, a.p(), a.r, a.stride_h, a.pad_h}; }
WindowAxis cols_of(const PoolProblem& a) { return {a.w, a.q(), a.s, a.stride_w, a.pad_w}; }

Region x_extent(const PoolProblem& a) {
  return {.rows = {0, u64(a.n * a.h)}, .cols = {0, u64(a.w)}, .channels = {0, u64(a.c)}};
}
Region y_extent(const PoolProblem& a) {
  return {.rows = {0, u64(a.n * a.p())}, .cols = {0, u64(a.q())}, .channels = {0, u64(a.c)}};
}

void derive_counts(PoolCut& cut) {
  const PoolProblem& a = cut.problem;
  validate(a);
  check_range("rows_per_group", cut.rows_per_group, 1, a.p());
  check_range("cols_per_group", cut.cols_per_group, 1, a.q());
  check_range("channels_per_task", cut.channels_per_task, 1, a.c);
  // A task has an output, and y has at most 2^40, so that 64 bits hold these products.
  const std::uint64_t groups = u64(a.n) * ceil_div(u64(a.p()), std::uint64_t{cut.rows_per_group}) *
                               ceil_div(u64(a.q()), std::uint64_t{cut.cols_per_group});
  const std::uint64_t per_group = ceil_div(u64(a.c), std::uint64_t{cut.channels_per_task});
  if (groups * per_group > kMaxTasks) {
    throw Error(Status::unsupported, std::to_string(groups * per_group) +
                                         " tasks: must be at most 2^31; use larger groups");
  }
  cut.num_groups = cut.written_by_maker ? 0 : u32(groups);
  cut.tasks_per_group = u32(per_group);
}

namespace {

// In so many tasks or more, or in so many at most.
PoolCut cut_into(const PoolProblem& problem, std::uint64_t tasks, bool at_most) {
  const std::uint64_t n = u64(problem.n), c = u64(problem.c);
  const std::uint64_t p = u64(problem.p()), q = u64(problem.q());
  const double reads = static_cast<double>(problem.y_size()) * static_cast<double>(problem.r) *
                       static_cast<double>(problem.s);
  const auto wanted =
      static_cast<std::uint64_t>(std::clamp(reads / kLeastReads, 1.0, static_cast<double>(tasks)));
  const auto parts_of_each = [&](std::uint64_t existing) {
    return at_most ? std::max<std::uint64_t>(1, wanted / existing) : ceil_div(wanted, existing);
  };

  PoolCut cut;
  cut.problem = problem;
  const std::uint64_t bands = std::min(p, parts_of_each(n));
  const std::uint64_t rows = at_most ? ceil_div(p, bands) : p / bands;
  cut.rows_per_group = u32(rows);
  cut.cols_per_group = u32(q);
  cut.channels_per_task = u32(c);
  if (rows == 1 && n * p < wanted) {
    const std::uint64_t share = ceil_div(c, std::min(c, parts_of_each(n * p)));
    const std::uint64_t step = kLineBytes / size_of(problem.dtype);
    const std::uint64_t channels = std::min(c, ceil_div(share, step) * step);
    const std::uint64_t cols =
        ceil_div(q, std::min(q, parts_of_each(n * p * ceil_div(c, channels))));
    cut.channels_per_task = u32(channels);
    cut.cols_per_group = u32(std::min(q, std::max(cols, kLeastCols)));
  }
  derive_counts(cut);
  return cut;
}

}  // namespace

PoolCut cut_pooling(const PoolProblem& problem, std::uint32_t workers) {
  validate(problem);
  if (workers == 0) fail("workers = 0: must be at least 1");
  return cut_into(problem, std::uint64_t{kTasksPerWorker} * workers, false);
}

PoolCut cut_pooling_at_once(const PoolProblem& problem, std::uint32_t blocks) {
  validate(problem);
  if (blocks == 0) fail("blocks = 0: must be at least 1");
  return cut_into(problem, blocks, true);
}

PoolTask task_of(const PoolCut& cut, std::uint32_t group, std::uint32_t block) {
  const PoolProblem& a = cut.problem;
  const std::int64_t p = a.p(), q = a.q();
  const std::int64_t rows = cut.rows_per_group, cols = cut.cols_per_group;
  const std::int64_t row_chunks = ceil_div(p, rows), col_chunks = ceil_div(q, cols);
  const std::int64_t row = group / col_chunks % row_chunks * rows, col = group % col_chunks * cols;
  const std::int64_t first_channel = std::int64_t{block} * cut.channels_per_task;
  return {.image = group / (row_chunks * col_chunks),
          .row = row,
          .col = col,
          .rows = std::min(rows, p - row),
          .cols = std::min(cols, q - col),
          .first_channel = first_channel,
          .num_channels = std::min<std::int64_t>(cut.channels_per_task, a.c - first_channel),
          .p = p,
          .q = q};
}

std::string to_string(const PoolCut& cut) {
  return "problem: " + to_string(cut.problem) +
         "\npixels of a group: " + std::to_string(cut.rows_per_group) + " x " +
         std::to_string(cut.cols_per_group) +
         "\npooling task: " + std::to_string(cut.channels_per_task) + " channels" +
         "\ntask groups: " + std::to_string(cut.num_groups) +
         "\ntasks: " + std::to_string(std::uint64_t{cut.num_groups} * cut.tasks_per_group) +
         " (SG " + std::to_string(cut.tasks_per_group) + ")\n" +
         (cut.written_by_maker ? "written by the tasks that make x\n" : "");
}

}  // namespace megaconv
