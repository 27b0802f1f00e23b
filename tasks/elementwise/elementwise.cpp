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
// Channels are split in cache lines of floats.
constexpr std::uint64_t kLineOfChannels = Tiling::kLaneBlock;

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
  if (a.layout != Layout::nchw && a.layout != Layout::nhwc) {
    throw Error(Status::unsupported, std::string("elementwise: layout ") + to_string(a.layout) +
                                         ", must be nchw or nhwc");
  }
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
  if (cut.channels_per_task < 1 || cut.channels_per_task > u64(a.c())) {
    fail("channels_per_task = " + std::to_string(cut.channels_per_task) + ": must be 1 to " +
         std::to_string(a.c()));
  }
  const bool no_residual = cut.written_by_makers == 0 || !a.residual;
  if (cut.written_by_makers > a.channels.size() || !no_residual) {
    fail("written_by_makers = " + std::to_string(cut.written_by_makers) + ": must be 0 to " +
         std::to_string(no_residual ? a.channels.size() : 0));
  }
  const std::uint64_t chunks = std::uint64_t{older_chunks(cut)} + last_chunks(cut);
  const std::uint64_t groups =
      u64(a.n) * ceil_div(u64(a.h), std::uint64_t{cut.rows_per_group}) * chunks;
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
  const std::uint64_t h = u64(problem.h), c = u64(problem.c()), last = u64(problem.channels.back());
  ElementwiseCut cut;
  cut.problem = problem;
  const std::uint64_t rows = h / std::min(h, ceil_div(wanted, u64(problem.n)));
  const std::uint64_t bands = u64(problem.n) * ceil_div(h, rows);
  std::uint64_t channels = c;
  if (bands < wanted) {
    const std::uint64_t share = ceil_div(c, std::min(c, ceil_div(wanted, bands)));
    channels = std::min(c, ceil_div(share, kLineOfChannels) * kLineOfChannels);
  }
  if (last < c && bands < workers) channels = std::min(channels, std::max(last, c - last));
  cut.rows_per_group = u32(rows);
  cut.channels_per_task = u32(channels);
  derive_counts(cut);
  return cut;
}

ElementwiseCut with_makers_writing(ElementwiseCut cut, std::uint32_t tensors) {
  cut.written_by_makers = tensors;
  derive_counts(cut);
  return cut;
}

std::size_t older_tensors(const ElementwiseCut& cut) {
  return cut.problem.channels.size() - std::max(1u, cut.written_by_makers);
}
std::int64_t older_channels(const ElementwiseCut& cut) {
  const bool apart = cut.written_by_makers > 0 || cut.channels_per_task < cut.problem.c();
  if (!apart) return 0;
  const auto begin = cut.problem.channels.begin();
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(older_tensors(cut)),
                         std::int64_t{0});
}
std::uint32_t older_chunks(const ElementwiseCut& cut) {
  return u32(ceil_div(older_channels(cut), std::int64_t{cut.channels_per_task}));
}
std::uint32_t last_chunks(const ElementwiseCut& cut) {
  if (cut.written_by_makers > 0) return 0;
  const std::int64_t channels = cut.problem.c() - older_channels(cut);
  return u32(ceil_div(channels, std::int64_t{cut.channels_per_task}));
}

// All tasks of older channels stand before all others: so those that read the same are neighbours.
ElementwiseTask task_of(const ElementwiseCut& cut, std::uint32_t group) {
  const ElementwiseProblem& a = cut.problem;
  const std::int64_t rows = cut.rows_per_group, bands = ceil_div(a.h, rows);
  const std::int64_t older_tasks = a.n * bands * older_chunks(cut);
  const bool older = group < older_tasks;
  const std::int64_t chunks = older ? older_chunks(cut) : last_chunks(cut);
  const std::int64_t i = older ? group : group - older_tasks, band = i / chunks;
  const std::int64_t row = band % bands * rows;
  const std::int64_t first = (older ? 0 : older_channels(cut)) + i % chunks * cut.channels_per_task;
  const std::int64_t end = older ? older_channels(cut) : a.c();
  return {.image = band / bands,
          .row = row,
          .rows = std::min(rows, a.h - row),
          .first_channel = first,
          .end_channel = std::min<std::int64_t>(first + cut.channels_per_task, end),
          .h = a.h,
          .w = a.w,
          .c = a.c(),
          .channels = a.channels.data(),
          .num_inputs = static_cast<std::ptrdiff_t>(a.channels.size()),
          .least = a.least,
          .most = a.most,
          .nhwc = a.layout == Layout::nhwc,
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
         "\nchannels of a task: " + std::to_string(cut.channels_per_task) +
         "\ntensors whose makers write y: " + std::to_string(cut.written_by_makers) +
         "\ntasks: " + std::to_string(cut.num_groups) + '\n';
}

}  // namespace megaconv
