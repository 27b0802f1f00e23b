// SPDX-License-Identifier: Apache-2.0
// cuDNN has many algorithms and some are a hundred times slower than the best. So each is screened
// by a few samples; those that come near the fastest then take turns with ours, the others keep
// what the screening found. Of the graph API's plans only the best one of each memory order is
// shown.
#include "tools/peers/peer_cudnn.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "megaconv/error.hpp"
#include "runtime/cuda/error.hpp"
#include "tasks/cuda/reference.hpp"
#include "tools/peers/cudnn.hpp"
#include "tools/report/terminal.hpp"

namespace megaconv::cli {
namespace cudnn {

std::string status_text(cudnnStatus_t status) {
  char detail[256] = "";
  cudnnGetLastErrorString(detail, sizeof(detail));
  std::string text = cudnnGetErrorString(status);
  if (detail[0] != '\0') text += ": " + one_line(detail);
  return text;
}

void check(cudnnStatus_t status, const std::string& doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(Status::unsupported, doing + ": " + status_text(status));
}

Arithmetic arithmetic_of(DataType dtype, Precision precision) {
  const bool exact = dtype == DataType::f32 && precision == Precision::f32;
  return {.storage = dtype == DataType::f16    ? CUDNN_DATA_HALF
                     : dtype == DataType::bf16 ? CUDNN_DATA_BFLOAT16
                                               : CUDNN_DATA_FLOAT,
          .sums = CUDNN_DATA_FLOAT,
          .math = exact                    ? CUDNN_FMA_MATH
                  : dtype == DataType::f32 ? CUDNN_DEFAULT_MATH
                                           : CUDNN_TENSOR_OP_MATH,
          .tensor_cores = !exact,
          .alignment = 16};
}

}  // namespace cudnn

namespace {

using cudnn::Algorithm;
using cudnn::TensorView;

constexpr std::size_t kScreeningSamples = 3;
// Screened times are good to some percent; whatever is slower than this cannot be the fastest. What
// takes so many times as long is sampled once.
constexpr double kNear = 1.3, kFar = 3;
// An algorithm may take this part of the free memory for its workspace.
constexpr double kWorkspaceShare = 0.5;

/// A problem's tensors in another memory order: x and w copied once, y copied back after a run.
class Reordered {
 public:
  Reordered(const TensorSet& tensors, Layout order, Precision precision) : user_(tensors) {
    view_ = {tensors.problem, precision, tensors.x.data(), tensors.w.data(), tensors.y.data()};
    view_.problem.layout = order;
    if (order == tensors.problem.layout) return;
    const ConvProblem &from = tensors.problem, &to = view_.problem;
    x_ = number_buffer(*tensors.device, from.dtype, from.x_size());
    w_ = number_buffer(*tensors.device, from.dtype, from.w_size());
    y_ = number_buffer(*tensors.device, from.dtype, from.y_size());
    cuda::reorder(from.dtype, {from.n, from.c, from.h * from.w}, tensors.x.data(), x_strides(from),
                  x_.data(), x_strides(to));
    cuda::reorder(from.dtype, {from.k, from.c / from.groups, from.r * from.s}, tensors.w.data(),
                  w_strides(from), w_.data(), w_strides(to));
    view_.x = x_.data();
    view_.w = w_.data();
    view_.y = y_.data();
  }
  const TensorView& view() const { return view_; }
  /// y into the tensors' y.
  void finish() const {
    if (y_.bytes() == 0) return;
    const ConvProblem &from = view_.problem, &to = user_.problem;
    const std::int64_t pixels = to.p() * to.q();
    cuda::reorder(to.dtype, {to.n, to.k, pixels}, y_.data(), y_strides(from, pixels),
                  user_.y.data(), y_strides(to, pixels));
  }

 private:
  const TensorSet& user_;
  TensorView view_;
  Buffer x_, w_, y_;
};

/// What all variants of a layer hold together.
struct Session {
  cudnnHandle_t handle = nullptr;
  Buffer workspace;  // of the hungriest; variants run one after the other
  std::vector<std::unique_ptr<Reordered>> orders;

  Session() { cudnn::check(cudnn::cudnnCreate(&handle), "cudnnCreate"); }
  ~Session() { cudnn::cudnnDestroy(handle); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

struct Candidate {
  Algorithm algorithm;
  const Reordered* order;
  bool graph = false;  ///< of the graph API
};

class Screening {
 public:
  Screening(const TensorSet& tensors, const PeerOptions& options)
      : device_(*tensors.device),
        options_(options),
        session_(std::make_shared<Session>()),
        workspace_limit_(kWorkspaceShare * device_.available_bytes()) {
    for (const Layout order : {Layout::nchw, Layout::nhwc}) {
      collect(*session_->orders.emplace_back(
          std::make_unique<Reordered>(tensors, order, options.precision)));
    }
  }

  std::vector<PeerVariant> run() {
    allocate_workspace();
    std::vector<PeerVariant> variants = std::move(without_plans_);
    for (Candidate& candidate : candidates_) {
      if (!options_.may_run(candidate.algorithm.name)) continue;
      PeerVariant variant = screen(candidate);
      // Of the graph API's plans one is kept: the fastest so far of this memory order.
      PeerVariant* const rival = candidate.graph ? plan_of(variants, candidate) : nullptr;
      if (rival == nullptr) {
        if (candidate.graph) best_plans_.emplace_back(candidate.order, variants.size());
        variants.push_back(std::move(variant));
      } else if (ran(variant) && (!ran(*rival) || median_ms(variant) < median_ms(*rival))) {
        *rival = std::move(variant);
      }
    }
    leave_turns_to_the_fastest(variants);
    return variants;
  }

 private:
  static bool ran(const PeerVariant& variant) { return variant.algorithm.obstacle.empty(); }
  static double median_ms(const PeerVariant& variant) {
    return variant.algorithm.screened->median_ms;
  }

  void collect(const Reordered& order) {
    for (Algorithm& algorithm : cudnn::legacy_algorithms(session_->handle, order.view())) {
      candidates_.push_back({std::move(algorithm), &order, false});
    }
    const std::string name = std::string("graph, ") + to_string(order.view().problem.layout);
    try {
      cudnn::GraphPlans plans = cudnn::graph_plans(order.view());
      if (plans.plans.empty()) {
        add_obstacle(name, fmt::format("no plan: {} engine configurations refuse the problem, "
                                       "{} would compute in less than the precision asked for",
                                       plans.refused, plans.other_arithmetic));
      }
      for (Algorithm& plan : plans.plans) candidates_.push_back({std::move(plan), &order, true});
    } catch (const Error& error) {
      add_obstacle(name, error.what());
    }
  }

  void add_obstacle(const std::string& name, const std::string& obstacle) {
    without_plans_.push_back({.algorithm = {.name = name, .obstacle = obstacle}});
  }

  void allocate_workspace() {
    std::size_t most = 1;
    for (Candidate& candidate : candidates_) {
      Algorithm& algorithm = candidate.algorithm;
      if (static_cast<double>(algorithm.workspace_bytes) > workspace_limit_) {
        algorithm.obstacle =
            fmt::format("workspace of {}, the limit is {}", format_bytes(algorithm.workspace_bytes),
                        format_bytes(static_cast<std::uint64_t>(workspace_limit_)));
      }
      if (algorithm.obstacle.empty()) most = std::max(most, algorithm.workspace_bytes);
    }
    session_->workspace = Buffer(device_, most);
  }

  PeerVariant screen(const Candidate& candidate) {
    PeerVariant variant{.algorithm = {.name = candidate.algorithm.name,
                                      .obstacle = candidate.algorithm.obstacle,
                                      .workspace_bytes = candidate.algorithm.workspace_bytes}};
    if (!ran(variant)) return variant;
    // The session outlives the variants; `order` is its own.
    const auto run = [session = session_, enqueue = candidate.algorithm.enqueue](void* stream) {
      enqueue(static_cast<cudaStream_t>(stream), session->workspace.data());
    };
    const auto wait = [](void* stream) {
      cuda::check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "cuDNN");
    };
    try {
      variant.sample_ms = device_.clock({run, wait}, options_.caches);
      std::vector<double> samples;
      do {
        samples.push_back(variant.sample_ms());
        fastest_ms_ = std::min(fastest_ms_, samples.back());
      } while (samples.size() < kScreeningSamples && samples.back() < kFar * fastest_ms_);
      variant.algorithm.screened = summarize(std::move(samples));
    } catch (const Error& error) {
      // What writes where it must not leaves a context in which nothing runs any more.
      const cudaError_t left = cudaDeviceSynchronize();
      if (left != cudaSuccess) throw Error(Status::device_error, cudaGetErrorString(left));
      variant.algorithm.obstacle = error.what();
      variant.sample_ms = nullptr;
      return variant;
    }
    variant.compute = [run, wait, order = candidate.order] {
      run(nullptr);
      wait(nullptr);
      order->finish();
    };
    return variant;
  }

  PeerVariant* plan_of(std::vector<PeerVariant>& variants, const Candidate& candidate) {
    for (const auto& [order, index] : best_plans_) {
      if (order == candidate.order) return &variants[index];
    }
    return nullptr;
  }

  static void leave_turns_to_the_fastest(std::vector<PeerVariant>& variants) {
    double fastest = 1e300;
    for (const PeerVariant& variant : variants) {
      if (variant.algorithm.screened) fastest = std::min(fastest, median_ms(variant));
    }
    for (PeerVariant& variant : variants) {
      auto& screened = variant.algorithm.screened;
      if (screened && median_ms(variant) <= kNear * fastest) screened.reset();
    }
  }

  Device& device_;
  PeerOptions options_;
  std::shared_ptr<Session> session_;
  double workspace_limit_;
  double fastest_ms_ = std::numeric_limits<double>::infinity();
  std::vector<Candidate> candidates_;
  std::vector<PeerVariant> without_plans_;
  std::vector<std::pair<const Reordered*, std::size_t>> best_plans_;  // places in the variants
};

}  // namespace

std::vector<PeerVariant> make_cudnn_variants(const TensorSet& tensors, const PeerOptions& options) {
  return Screening(tensors, options).run();
}

std::string cudnn_version() {
  const std::size_t version = cudnn::cudnnGetVersion();  // 91900
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace megaconv::cli
