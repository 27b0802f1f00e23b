// SPDX-License-Identifier: Apache-2.0
#include "tools/verify_case.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

#include "megaconv/error.hpp"
#include "tools/summary.hpp"
#include "tools/tensors.hpp"

namespace megaconv::cli {
namespace {

/// Memory that a run may write, between two bands that it may not.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kBand) {
    std::memset(memory_.data(), kCanary, memory_.bytes());
  }
  std::byte* data() { return memory_.data() + kBand; }
  std::size_t bytes() const { return bytes_; }
  /// All bits set: not a number in every floating-point format.
  void poison() { std::memset(data(), 0xff, bytes_); }
  bool bands_intact() const {
    const auto intact = [](const std::byte* band) {
      return std::all_of(band, band + kBand, [](std::byte b) { return b == std::byte{kCanary}; });
    };
    return intact(memory_.data()) && intact(memory_.data() + kBand + bytes_);
  }

 private:
  static constexpr std::size_t kBand = 4096;  // a multiple of Plan::kAlignment
  static constexpr unsigned char kCanary = 0xa5;
  std::size_t bytes_;
  Buffer memory_;
};

bool same_bits(const void* a, const void* b, std::size_t bytes) {
  return std::memcmp(a, b, bytes) == 0;
}

std::uint64_t input_checksum(const HostTensors& tensors) {
  std::uint64_t sum = 0;
  for (const Buffer* buffer : {&tensors.x, &tensors.w, &tensors.bias, &tensors.residual}) {
    sum = sum * 31 + checksum(*buffer);
  }
  return sum;
}

/// Runs `plan` with y and workspace poisoned; what went wrong in memory, or nothing.
std::string run_guarded(const Plan& plan, HostTensors& tensors, GuardedBuffer& workspace,
                        GuardedBuffer& y, const Buffer& filters) {
  Tensors arguments = pointers(tensors, filters.data());
  arguments.y = y.data();
  y.poison();
  plan.execute(arguments, workspace.data(), workspace.bytes());
  if (!y.bands_intact()) return "wrote outside of y";
  if (!workspace.bands_intact()) return "wrote outside of the workspace";
  return {};
}

/// "4 of 2000 elements are not exact; y[17] = 3e-12, must be 0"
std::string compare_bits(const std::vector<double>& reference, const float* y) {
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = reference.size(); i-- > 0;) {
    if (static_cast<double>(y[i]) == reference[i]) continue;
    first = i;
    ++wrong;
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} elements are not exact; y[{}] = {:g}, must be {:g}", wrong,
                     reference.size(), first, y[first], reference[first]);
}

std::string compare_with_reference(const VerifyCase& item, const HostTensors& tensors,
                                   const Tiling& tiling, const float* y, double& share) {
  const Reference reference(item.problem, tensors);
  if (item.integer) return compare_bits(reference.y(), y);
  const ErrorReport error = reference.compare(tiling, y);
  const ErrorBound bound = error_bound(tiling);
  share = share_of_bound(error, bound);
  return bound.covers(error) ? std::string() : error_text(error, bound);
}

Verdict check_plan(const VerifyCase& item, const Plan& plan) {
  const Tiling& tiling = plan.lowering().graph.tiling;
  HostTensors tensors = allocate_tensors(item.problem, true);
  if (item.integer) {
    fill_exact(tensors, tiling, item.plan.seed);
  } else {
    fill_random(tensors, item.plan.seed);
  }
  const std::uint64_t inputs = input_checksum(tensors);
  Buffer filters(plan.prepared_filter_bytes());
  if (filters.bytes() != 0) plan.prepare_filters(tensors.w.data(), filters.data());
  GuardedBuffer workspace(plan.workspace_bytes()), y(tensors.y.bytes()), again(tensors.y.bytes());
  workspace.poison();

  Verdict verdict;
  verdict.algorithm = algorithm_text(tiling);
  const auto fail = [&](const std::string& failure) {
    if (!verdict.failed()) verdict.failure = failure;
  };
  fail(run_guarded(plan, tensors, workspace, y, filters));
  fail(compare_with_reference(item, tensors, tiling, reinterpret_cast<const float*>(y.data()),
                              verdict.share_of_bound));
  fail(run_guarded(plan, tensors, workspace, again, filters));
  if (!same_bits(y.data(), again.data(), y.bytes())) fail("a second run gave other bits");

  PlanOptions other = item.plan.options;
  other.num_threads = plan.num_workers() == 1 ? 2 : 1;
  const Plan other_plan = Plan::create(plan.lowering(), other);
  GuardedBuffer other_workspace(other_plan.workspace_bytes());
  other_workspace.poison();
  fail(run_guarded(other_plan, tensors, other_workspace, again, filters));
  if (!same_bits(y.data(), again.data(), y.bytes())) {
    fail(fmt::format("{} and {} gave different bits", count_text(plan.num_workers(), "thread"),
                     count_text(other.num_threads, "thread")));
  }
  if (input_checksum(tensors) != inputs) fail("wrote into an input");
  return verdict;
}

}  // namespace

std::string to_command(const VerifyCase& item) {
  return "megaconv verify " + to_string(item.problem) + ' ' + to_command_line(item.plan) +
         (item.integer ? " --integer" : "");
}

Verdict check(const VerifyCase& item) {
  Verdict verdict;
  try {
    const Plan plan = make_plan(item.problem, item.plan);
    return check_plan(item, plan);
  } catch (const Error& error) {
    // A window of one's own may be too small for the order; then the plan must say so.
    const bool own_window = item.plan.options.tiling.v_slots != 0;
    if (own_window && error.status() == Status::invalid_argument) {
      verdict.refusal = error.what();
    } else {
      verdict.error = error.status();
      verdict.failure = std::string(to_string(error.status())) + ": " + error.what();
    }
  }
  return verdict;
}

}  // namespace megaconv::cli
