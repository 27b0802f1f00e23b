// SPDX-License-Identifier: Apache-2.0
// Model-guided search: the cost model ranks, the device measures the best, and a Bayesian linear
// regression learns from every measurement by how much the model is wrong.
//
//   log(time) = log(estimate) + sum over parameters of effect[value] + noise
//
// with a normal prior on the effects. It is linear in indicators of the values, so a fit is one
// Cholesky factorisation, and it says how sure it is of every prediction: the next point is the one
// that could be fastest, a standard deviation below its prediction (a lower confidence bound).
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "runtime/tuning/search.hpp"

namespace megaconv {
namespace {

// Standard deviations, as shares of a time: of a value's effect and of one measurement.
constexpr double kEffectSigma = 0.2, kNoiseSigma = 0.04;
// How far below its prediction a point is hoped to be, in standard deviations.
constexpr double kOptimism = 0.7;
// Points that are ranked; of a larger space all of its small grids and a random sample of the
// others, and the neighbours of the best. Grids are algorithms and kinds of order: steps from one
// point to its neighbours do not lead from one to the other.
constexpr std::uint64_t kMostRanked = 20'000, kSmallGrid = 2'000;
constexpr std::size_t kFirstPoints = 6;
constexpr std::size_t kNeighbourhoods = 4;
// Points between two fits.
constexpr std::size_t kBatch = 3;

using Features = std::vector<std::size_t>;

// Indicator features of configurations: one for every value of every parameter, and one for all.
class FeatureTable {
 public:
  Features of(const Configuration& configuration) {
    Features features = {0};
    for (std::size_t i = 0; i < kNumParameters; ++i) {
      const auto value = configuration.get(static_cast<Parameter>(i));
      if (value) features.push_back(numbers_.emplace(std::pair(i, *value), size()).first->second);
    }
    return features;
  }
  std::size_t size() const { return numbers_.size() + 1; }

 private:
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> numbers_;
};

// Posterior of the effects: mean, and covariance as a full matrix.
class Regression {
 public:
  explicit Regression(std::size_t size) : size_(size), precision_(size * size), moment_(size) {
    for (std::size_t i = 0; i < size; ++i) {
      // The constant is the model's bias on this machine, of which nothing is known before.
      precision_[i * size + i] = i == 0 ? 1e-4 : 1 / (kEffectSigma * kEffectSigma);
    }
  }

  void add(const Features& features, double target) {
    constexpr double kWeight = 1 / (kNoiseSigma * kNoiseSigma);
    for (const std::size_t i : features) {
      moment_[i] += kWeight * target;
      for (const std::size_t j : features) precision_[i * size_ + j] += kWeight;
    }
  }

  void solve() {
    invert();
    mean_.assign(size_, 0);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) mean_[i] += covariance_[i * size_ + j] * moment_[j];
    }
  }

  double mean(const Features& features) const {
    double sum = 0;
    for (const std::size_t i : features) sum += mean_[i];
    return sum;
  }
  double sigma(const Features& features) const {
    double sum = 0;
    for (const std::size_t i : features) {
      for (const std::size_t j : features) sum += covariance_[i * size_ + j];
    }
    return std::sqrt(std::max(sum, 0.0));
  }

 private:
  // Gauss-Jordan; the matrix is positive definite, so every pivot is.
  void invert() {
    std::vector<double> a = precision_;
    covariance_.assign(size_ * size_, 0);
    for (std::size_t i = 0; i < size_; ++i) covariance_[i * size_ + i] = 1;
    for (std::size_t column = 0; column < size_; ++column) {
      const double pivot = a[column * size_ + column];
      for (std::size_t row = 0; row < size_; ++row) {
        if (row == column) continue;
        const double factor = a[row * size_ + column] / pivot;
        if (factor == 0) continue;
        for (std::size_t k = 0; k < size_; ++k) {
          a[row * size_ + k] -= factor * a[column * size_ + k];
          covariance_[row * size_ + k] -= factor * covariance_[column * size_ + k];
        }
      }
      for (std::size_t k = 0; k < size_; ++k) {
        a[column * size_ + k] /= pivot;
        covariance_[column * size_ + k] /= pivot;
      }
    }
  }

  std::size_t size_;
  std::vector<double> precision_, moment_, covariance_, mean_;
};

class ModelSearch {
 public:
  ModelSearch(const Search& search, const Evaluate& evaluate)
      : search_(search), evaluate_(evaluate), random_(search.seed) {}

  void run() {
    if (const auto heuristic = search_.space.index_of(search_.space.heuristic())) {
      add_to_pool(*heuristic);
      if (!measure(*heuristic)) return;
    }
    fill_pool();
    for (const std::uint64_t index : first_points()) {
      if (!measure(index)) return;
    }
    for (;;) {
      add_neighbours();
      const std::vector<std::uint64_t> batch = best_guesses();
      if (batch.empty()) return;
      for (const std::uint64_t index : batch) {
        if (!measure(index)) return;
      }
    }
  }

 private:
  struct Candidate {
    double log_estimate;
    Features features;
  };

  void add_to_pool(std::uint64_t index) {
    if (pool_.count(index) != 0) return;
    const Configuration configuration = search_.space.at(index);
    if (search_.space.rejection(configuration)) return;
    const double estimate = search_.estimate(configuration);
    if (!std::isfinite(estimate)) return;
    pool_.emplace(index, Candidate{std::log(estimate), table_.of(configuration)});
  }

  void fill_pool() {
    const std::uint64_t size = search_.space.size();
    if (size <= kMostRanked) {
      for (std::uint64_t index = 0; index < size; ++index) add_to_pool(index);
      return;
    }
    for (std::uint64_t i = 0; i < kMostRanked; ++i) add_to_pool(random_.below(size));
    std::uint64_t start = 0;
    for (const Space::Grid& grid : search_.space.grids()) {
      std::uint64_t end = start + 1;
      for (const Axis& axis : grid) end = start + (end - start) * axis.values.size();
      for (std::uint64_t at = start; end - start <= kSmallGrid && at < end; ++at) add_to_pool(at);
      start = end;
    }
  }

  // The fastest by the model, each different from those before it in at least two parameters.
  std::vector<std::uint64_t> first_points() const {
    std::vector<std::pair<double, std::uint64_t>> ranked;
    for (const auto& [index, candidate] : pool_) ranked.push_back({candidate.log_estimate, index});
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::uint64_t> chosen;
    for (const auto& [estimate, index] : ranked) {
      const auto alike = [&, i = index](std::uint64_t other) { return !differ(i, other, 2); };
      if (std::any_of(chosen.begin(), chosen.end(), alike)) continue;
      chosen.push_back(index);
      if (chosen.size() == kFirstPoints) break;
    }
    return chosen;
  }

  bool differ(std::uint64_t a, std::uint64_t b, int least) const {
    const Configuration first = search_.space.at(a), second = search_.space.at(b);
    int differences = 0;
    for (std::size_t i = 0; i < kNumParameters; ++i) {
      const auto parameter = static_cast<Parameter>(i);
      differences += first.get(parameter) != second.get(parameter) ? 1 : 0;
    }
    return differences >= least;
  }

  // False when the search shall stop.
  bool measure(std::uint64_t index) {
    if (!asked_.insert(index).second) return true;
    const std::optional<double> ms = evaluate_(index);
    if (!ms) return false;
    const auto known = pool_.find(index);
    if (std::isfinite(*ms) && known != pool_.end()) measured_.push_back({*ms, index});
    return true;
  }

  void add_neighbours() {
    std::sort(measured_.begin(), measured_.end());
    const std::size_t count = std::min(kNeighbourhoods, measured_.size());
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::uint64_t index : search_.space.neighbours(measured_[i].second)) {
        add_to_pool(index);
      }
    }
  }

  std::vector<std::uint64_t> best_guesses() {
    Regression regression(table_.size());
    for (const auto& [ms, index] : measured_) {
      const Candidate& candidate = pool_.at(index);
      regression.add(candidate.features, std::log(ms) - candidate.log_estimate);
    }
    regression.solve();
    std::vector<std::pair<double, std::uint64_t>> guesses;
    for (const auto& [index, candidate] : pool_) {
      if (asked_.count(index) != 0) continue;
      guesses.push_back({candidate.log_estimate + regression.mean(candidate.features) -
                             kOptimism * regression.sigma(candidate.features),
                         index});
    }
    const std::size_t count = std::min(kBatch, guesses.size());
    std::partial_sort(guesses.begin(), guesses.begin() + static_cast<std::ptrdiff_t>(count),
                      guesses.end());
    std::vector<std::uint64_t> batch;
    for (std::size_t i = 0; i < count; ++i) batch.push_back(guesses[i].second);
    return batch;
  }

  const Search& search_;
  const Evaluate& evaluate_;
  SearchRandom random_;
  FeatureTable table_;
  std::map<std::uint64_t, Candidate> pool_;  // ordered: the same search for the same seed
  std::vector<std::pair<double, std::uint64_t>> measured_;
  std::unordered_set<std::uint64_t> asked_;
};

}  // namespace

void search_by_model(const Search& search, const Evaluate& evaluate) {
  ModelSearch(search, evaluate).run();
}

}  // namespace megaconv
