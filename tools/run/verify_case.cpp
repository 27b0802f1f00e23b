// SPDX-License-Identifier: Apache-2.0
#include "tools/run/verify_case.hpp"

#include <spdlog/fmt/fmt.h>

#include "megaconv/error.hpp"
#include "tools/report/summary.hpp"
#include "tools/run/tensors.hpp"

namespace megaconv::cli {
namespace {

/// Memory that a run may write, between two bands that it may not.
class GuardedBuffer {
 public:
  GuardedBuffer(Device& device, std::size_t bytes)
      : device_(device), bytes_(bytes), memory_(device, bytes + 2 * kBand) {
    device.fill_bytes(memory_.data(), kCanary, memory_.bytes());
  }
  std::byte* data() const { return memory_.data() + kBand; }
  std::size_t bytes() const { return bytes_; }
  /// All bits set: not a number in every floating-point format, -1 in i8.
  void poison() { device_.fill_bytes(data(), std::byte{0xff}, bytes_); }
  bool bands_intact() const {
    return device_.all_bytes_are(memory_.data(), kCanary, kBand) &&
           device_.all_bytes_are(data() + bytes_, kCanary, kBand);
  }

 private:
  static constexpr std::size_t kBand = 4096;  // a multiple of Plan::kAlignment
  static constexpr std::byte kCanary{0xa5};
  Device& device_;
  std::size_t bytes_;
  Buffer memory_;
};

std::uint64_t input_checksum(const TensorSet& tensors) {
  std::uint64_t sum = 0;
  for (const Buffer* buffer :
       {&tensors.x, &tensors.w, &tensors.scale, &tensors.bias, &tensors.residual}) {
    sum = sum * 31 + checksum(download(tensors, *buffer));
  }
  return sum;
}

/// One case on its device.
class Check {
 public:
  Check(const VerifyCase& item, const Plan& plan)
      : item_(item),
        plan_(plan),
        device_(device_of(plan.backend())),
        tensors_(allocate_tensors(device_, item.problem, true)),
        filters_(device_, plan.prepared_filter_bytes()) {}

  CaseVerdict run() {
    if (item_.integer) {
      fill_exact(tensors_, tiling(), item_.plan.seed);
    } else {
      fill_random(tensors_, item_.plan.seed);
    }
    const std::uint64_t inputs = input_checksum(tensors_);
    if (filters_.bytes() != 0) plan_.prepare_filters(tensors_.w.data(), filters_.data());
    verdict_.algorithm = algorithm_text(tiling());

    GuardedBuffer y(device_, tensors_.y.bytes()), again(device_, tensors_.y.bytes());
    GuardedBuffer workspace(device_, plan_.workspace_bytes());
    workspace.poison();
    run_guarded(plan_, workspace, y);
    compare_with_reference(y);
    run_guarded(plan_, workspace, again);
    if (!same(y, again)) fail("a second run gave other bits");

    const Plan other = other_plan();
    GuardedBuffer other_workspace(device_, other.workspace_bytes());
    other_workspace.poison();
    run_guarded(other, other_workspace, again);
    if (!same(y, again)) {
      fail(fmt::format("{} and {} gave different bits", workers_text(plan_), workers_text(other)));
    }
    if (input_checksum(tensors_) != inputs) fail("wrote into an input");
    return std::move(verdict_);
  }

 private:
  const Tiling& tiling() const { return plan_.lowering().tiling(); }
  void fail(const std::string& failure) {
    if (!verdict_.failed()) verdict_.failure = failure;
  }
  bool same(const GuardedBuffer& a, const GuardedBuffer& b) {
    return device_.same_bytes(a.data(), b.data(), a.bytes());
  }

  /// Poisons y and runs.
  void run_guarded(const Plan& plan, GuardedBuffer& workspace, GuardedBuffer& y) {
    Tensors arguments = tensors_.pointers(filters_.data());
    arguments.y = y.data();
    y.poison();
    plan.execute(arguments, workspace.data(), workspace.bytes());
    plan.wait(workspace.data());
    if (!y.bands_intact()) fail("wrote outside of y");
    if (!workspace.bands_intact()) fail("wrote outside of the workspace");
  }

  void compare_with_reference(const GuardedBuffer& y) {
    const Reference reference(tensors_);
    if (item_.integer) {
      if (const Mismatch wrong = reference.mismatch(y.data()); wrong.count != 0) {
        const float value = number_at(device_, item_.problem.dtype, y.data(), wrong.first);
        fail(fmt::format("{} of {} elements are not exact; y[{}] = {:g}, must be {:g}", wrong.count,
                         item_.problem.y_size(), wrong.first, value, reference.at(wrong.first)));
      }
      return;
    }
    const ErrorReport error = reference.compare(tiling(), y.data());
    const ErrorBound bound = error_bound(tiling());
    verdict_.share_of_bound = share_of_bound(error, bound);
    if (!bound.covers(error)) fail(error_text(error, bound));
  }

  /// The same lowering with another number of workers. Small tiles are launched in stages only,
  /// where the device chooses that.
  Plan other_plan() const {
    const bool staged = tiling().algorithm() == Algorithm::small_gemm;
    PlanOptions other = item_.plan.options;
    other.cuda_launch = staged ? CudaLaunch::staged : CudaLaunch::persistent;
    other.num_threads = other.num_blocks = plan_.num_workers() == 1 ? 2 : 1;
    return Plan::create(plan_.lowering(), other);
  }
  static std::string workers_text(const Plan& plan) {
    return count_text(plan.num_workers(), plan.backend() == Backend::cpu ? "thread" : "block");
  }

  const VerifyCase& item_;
  const Plan& plan_;
  Device& device_;
  TensorSet tensors_;
  Buffer filters_;
  CaseVerdict verdict_;
};

}  // namespace

std::string to_command(const VerifyCase& item) {
  return "megaconv verify " + to_string(item.problem) + ' ' + to_command_line(item.plan) +
         (item.integer ? " --integer" : "");
}

CaseVerdict check(const VerifyCase& item) {
  CaseVerdict verdict;
  try {
    const Plan plan = make_plan(item.problem, item.plan);
    return Check(item, plan).run();
  } catch (const Error& error) {
    if (error.status() == Status::out_of_memory) throw;  // says nothing about the result
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
