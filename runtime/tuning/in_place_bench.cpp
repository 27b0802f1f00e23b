// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/in_place_bench.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "megaconv/error.hpp"
#include "runtime/tuning/search.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {
namespace {

constexpr int kProbes = 32;
// Samples past which a longer measurement says nothing more.
constexpr std::size_t kMostSamples = 1000;
// A candidate this much slower than the best after one sample is given up.
constexpr double kGiveUpAt = 1.3;
// S is a result with an error of its own, at most a tenth of it.
constexpr double kRoundings = 1.1;
// Every scale; a power of two, so that scaled sums of i8 numbers are exact in double and in float.
constexpr float kScale = 0.5f;

std::vector<float> random_numbers(DataType dtype, std::int64_t count, double least,
                                  std::uint64_t seed) {
  SearchRandom random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  with_storage(dtype, [&](auto number) {
    for (float& value : values) {
      const auto uniform = static_cast<float>(least + (1 - least) * random.uniform());
      value = to_float(from_float<decltype(number)>(uniform));
    }
  });
  return values;
}

std::size_t bytes_for(DataType dtype, std::size_t count) { return count * size_of(dtype); }

double norm(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

PlanOptions by_heuristic(PlanOptions options) {
  options.source = PlanSource::heuristic;
  return options;
}

}  // namespace

/// A plan with the memory it needs.
class InPlaceBench::Run {
 public:
  Run(InPlaceBench& bench, const Plan& plan)
      : plan_(plan),
        workspace_(*bench.device_, plan.workspace_bytes()),
        filters_(*bench.device_, plan.prepared_filter_bytes()),
        tensors_{.x = bench.x_.data(),
                 .w = filters_.data() == nullptr ? bench.w_.data() : nullptr,
                 .scale = bench.scale_.data(),
                 .bias = bench.bias_.data(),
                 .residual = bench.residual_.data(),
                 .y = bench.y_.data(),
                 .prepared_filters = filters_.data()} {
    if (filters_.data() != nullptr) plan_.prepare_filters(bench.w_.data(), filters_.data());
  }
  void enqueue() { plan_.execute(tensors_, workspace_.data(), plan_.workspace_bytes()); }
  void execute() {
    enqueue();
    plan_.wait(workspace_.data());
  }

 private:
  const Plan& plan_;
  ScratchMemory workspace_, filters_;
  Tensors tensors_;
};

InPlaceBench::InPlaceBench(const ConvProblem& problem, const PlanOptions& options,
                           const InPlaceSamples& samples)
    : problem_(problem),
      options_(options),
      samples_(samples),
      heuristic_(Plan::create(problem, by_heuristic(options))),
      device_(options.backend == Backend::cuda ? make_cuda_scratch_device()
                                               : make_cpu_scratch_device()),
      x_host_(random_numbers(problem.dtype, problem.x_size(), 0, 1)),
      w_host_(random_numbers(problem.dtype, problem.w_size(), -1, 2)),
      scale_host_(static_cast<std::size_t>(problem.epilogue.scale ? problem.k : 0), kScale),
      bias_host_(random_numbers(problem.dtype, problem.epilogue.bias ? problem.k : 0, 0, 3)),
      residual_host_(
          random_numbers(problem.dtype, problem.epilogue.residual ? problem.y_size() : 0, 0, 4)),
      x_(*device_, bytes_for(problem.dtype, x_host_.size())),
      w_(*device_, bytes_for(problem.dtype, w_host_.size())),
      scale_(*device_, bytes_for(problem.vector_type(), scale_host_.size())),
      bias_(*device_, bytes_for(problem.vector_type(), bias_host_.size())),
      residual_(*device_, bytes_for(problem.dtype, residual_host_.size())),
      y_(*device_, bytes_for(problem.dtype, static_cast<std::size_t>(problem.y_size()))) {
  upload(problem.dtype, x_, x_host_);
  upload(problem.vector_type(), scale_, scale_host_);
  upload(problem.vector_type(), bias_, bias_host_);
  upload(problem.dtype, residual_, residual_host_);
  set_truth();
}

// Makes the heuristic's plan the truth.
void InPlaceBench::set_truth() {
  std::vector<float> magnitudes = w_host_;
  for (float& w : magnitudes) w = std::fabs(w);
  upload(problem_.dtype, w_, magnitudes);
  const std::vector<float> sizes = output_of(heuristic_);
  upload(problem_.dtype, w_, w_host_);
  truth_ = output_of(heuristic_);
  truth_bound_ = error_bound(heuristic_.lowering().tiling());
  worst_unit_ = kRoundings * unit_roundoff(problem_.dtype) *
                static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
  l2_unit_ =
      kRoundings *
      std::max(norm(truth_), 2 * norm(sizes) / std::sqrt(static_cast<double>(num_terms(problem_))));
  SearchRandom random(5);
  for (int i = 0; i < kProbes; ++i) {
    const std::size_t at = random.below(truth_.size());
    if (std::fabs(exact(static_cast<std::int64_t>(at)) - static_cast<double>(truth_[at])) >
        truth_bound_.worst_element * worst_unit_) {
      throw Error(Status::internal, "measuring in place: the heuristic's plan of " +
                                        to_string(problem_) + " is wrong at " + std::to_string(at));
    }
  }
}

Measurement InPlaceBench::measure(const Configuration& configuration, double best_ms) {
  Measurement result;
  try {
    const Plan plan = Plan::create(problem_, apply(configuration, options_));
    const std::size_t bytes = plan.workspace_bytes(), most = options_.workspace_limit;
    if (most != 0 && bytes > most) {
      throw Error(Status::unsupported, "workspace of " + std::to_string(bytes) +
                                           " bytes, must be at most " + std::to_string(most));
    }
    result = measure(plan, best_ms);
  } catch (const Error& error) {  // no such plan, or one that failed
    result.verdict = error.status() == Status::timeout ? Verdict::hung : Verdict::refused;
    result.reason = error.what();
  }
  result.configuration = configuration;
  return result;
}

Measurement InPlaceBench::measure(const Plan& plan, double best_ms) {
  Measurement result;
  result.workspace_bytes = plan.workspace_bytes();
  Run run(*this, plan);
  run.execute();
  compare(download_y(), error_bound(plan.lowering().tiling()), result);
  if (result.verdict != Verdict::right) return result;
  double total = 0, least = 0;
  const auto enough = [&] {
    const std::size_t taken = result.samples_ms.size();
    if (taken != 0 && best_ms > 0 && least > kGiveUpAt * best_ms) return true;
    return taken >= kMostSamples ||
           (taken >= static_cast<std::size_t>(samples_.count) && total >= samples_.least_ms);
  };
  while (!enough()) {
    const double ms = device_->time_ms([&] { run.enqueue(); });
    result.samples_ms.push_back(ms);
    total += ms;
    least = result.samples_ms.size() == 1 ? ms : std::min(least, ms);
  }
  summarize(result);
  return result;
}

// Errors here are differences from the heuristic's result, and bounds those of the two together.
void InPlaceBench::compare(const std::vector<float>& y, const ErrorBound& bound,
                           Measurement& result) const {
  std::vector<float> errors(y.size());
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    errors[i] = std::fabs(y[i] - truth_[i]);
    worst = std::max(worst, static_cast<double>(errors[i]));  // NaN is for the norm
  }
  result.relative_l2 = norm(errors) / l2_unit_;
  result.worst_element = worst / worst_unit_;
  result.bound_l2 = bound.relative_l2 + truth_bound_.relative_l2;
  result.bound_element = bound.worst_element + truth_bound_.worst_element;
  if (result.worst_element <= result.bound_element && result.relative_l2 <= result.bound_l2) return;
  result.verdict = Verdict::wrong;
  result.reason = "differs from the heuristic's result by more than the bounds of both";
}

void InPlaceBench::upload(DataType dtype, const ScratchMemory& to,
                          const std::vector<float>& values) {
  if (values.empty()) return;
  with_storage(dtype, [&](auto number) {
    std::vector<decltype(number)> stored(values.size());
    std::transform(values.begin(), values.end(), stored.begin(), from_float<decltype(number)>);
    device_->upload(to.data(), stored.data(), bytes_for(dtype, stored.size()));
  });
}
std::vector<float> InPlaceBench::download_y() {
  std::vector<float> y(static_cast<std::size_t>(problem_.y_size()));
  with_storage(problem_.dtype, [&](auto number) {
    std::vector<decltype(number)> stored(y.size());
    device_->download(stored.data(), y_.data(), bytes_for(problem_.dtype, stored.size()));
    std::transform(stored.begin(), stored.end(), y.begin(),
                   [](auto value) { return to_float(value); });
  });
  return y;
}
std::vector<float> InPlaceBench::output_of(const Plan& plan) {
  Run(*this, plan).execute();
  return download_y();
}

// One element of y in double, from its place in memory; of i8 as it is stored.
double InPlaceBench::exact(std::int64_t at) const {
  const ConvProblem& a = problem_;
  const std::int64_t p = a.p(), q = a.q(), group_c = a.c / a.groups;
  std::int64_t n = 0, k = 0, row = 0, col = 0;
  if (a.layout == Layout::nchw) {
    n = at / (a.k * p * q), k = at / (p * q) % a.k, row = at / q % p, col = at % q;
  } else if (a.layout == Layout::nhwc) {
    n = at / (p * q * a.k), row = at / (q * a.k) % p, col = at / a.k % q, k = at % a.k;
  } else if (a.layout == Layout::nchw16c) {
    n = at / (a.k * p * q);
    const std::int64_t block = at % (a.k * p * q) / (kChannelBlock * p * q) * kChannelBlock;
    const std::int64_t rest = at % (a.k * p * q) - block * p * q;
    const std::int64_t channels = std::min(kChannelBlock, a.k - block);
    k = block + rest % channels, row = rest / channels / q, col = rest / channels % q;
  } else {
    k = at / (p * q * a.n), row = at / (q * a.n) % p, col = at / a.n % q, n = at % a.n;
  }
  double sum = 0;
  for (std::int64_t c = 0; c < group_c; ++c) {
    const std::int64_t channel = k / (a.k / a.groups) * group_c + c;
    for (std::int64_t r = 0; r < a.r; ++r) {
      for (std::int64_t s = 0; s < a.s; ++s) {
        const std::int64_t h = row * a.stride_h + r * a.dilation_h - a.pad_h;
        const std::int64_t w = col * a.stride_w + s * a.dilation_w - a.pad_w;
        if (h < 0 || h >= a.h || w < 0 || w >= a.w) continue;
        sum += static_cast<double>(x_host_[x_index(n, channel, h, w)]) *
               static_cast<double>(w_host_[w_index(k, c, r, s)]);
      }
    }
  }
  if (a.epilogue.scale) sum *= static_cast<double>(kScale);
  if (a.epilogue.bias) sum += static_cast<double>(bias_host_[static_cast<std::size_t>(k)]);
  if (a.epilogue.residual) {
    sum += static_cast<double>(residual_host_[static_cast<std::size_t>(at)]);
  }
  if (a.epilogue.relu) sum = std::max(sum, 0.0);
  return a.dtype == DataType::i8
             ? static_cast<double>(to_float(from_float<Int8>(static_cast<float>(sum))))
             : sum;
}
std::size_t InPlaceBench::x_index(std::int64_t n, std::int64_t c, std::int64_t h,
                                  std::int64_t w) const {
  const ConvProblem& a = problem_;
  return static_cast<std::size_t>(x_strides(a).at(n, c, h * a.w + w));
}
std::size_t InPlaceBench::w_index(std::int64_t k, std::int64_t c, std::int64_t r,
                                  std::int64_t s) const {
  const ConvProblem& a = problem_;
  return static_cast<std::size_t>(w_strides(a).at(k, c, r * a.s + s));
}

}  // namespace megaconv
