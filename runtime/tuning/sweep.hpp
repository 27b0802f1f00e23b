// SPDX-License-Identifier: Apache-2.0
// One problem's search: strategy, budgets, what is known from before, and the database.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "megaconv/plan_database.hpp"
#include "runtime/tuning/search.hpp"

namespace megaconv {

/// Part `index` of `count` of a space: 1 of 1 is all of it.
struct Shard {
  std::uint64_t index = 1, count = 1;
  bool has(std::uint64_t point) const;
};

struct SweepOptions {
  Strategy strategy = Strategy::model;
  /// Measurements, with those known from before that the strategy asks for, so that a search that
  /// was cut off ends where it would have ended; 0: no limit.
  std::uint64_t evaluations = 100;
  double seconds = 0;  ///< 0: no limit
  std::uint64_t seed = 1;
  Shard shard;
  std::uint64_t finalists = 5;  ///< measured again in turns when the search is over
  std::function<bool()> interrupted = [] { return false; };  ///< ends it between measurements
};

/// How far a sweep is.
struct SweepState {
  std::uint64_t measured = 0, known = 0, rejected = 0, failed = 0;
  double best_ms = 0, heuristic_ms = 0, elapsed_s = 0;
  Configuration best;
};

enum class SweepEnd { exhausted, evaluations, seconds, interrupted };

class Sweep {
 public:
  /// nullopt: interrupted.
  using Measure = std::function<std::optional<Measurement>(const Configuration&, double best_ms)>;
  /// Called when a measurement is on stable storage.
  using Report = std::function<void(const SweepState&, const Measurement&)>;

  /// `database` may be null: nothing is kept. `known`: measurements that need not be made again.
  Sweep(const Search& search, const PlanKey& key, PlanDatabase* database,
        const std::vector<Measurement>& known, SweepOptions options, Measure measure,
        Report report);

  SweepEnd run();
  const SweepState& state() const { return state_; }

 private:
  std::optional<double> evaluate(std::uint64_t index);
  /// Milliseconds of a configuration, measured or known; nullopt when a budget is spent.
  std::optional<double> time(const Configuration& configuration);
  bool measure_heuristic();
  void measure_finalists();
  void note_best(const Configuration& configuration, double ms);
  void keep(Measurement measurement, const char* strategy);
  bool spent();
  double elapsed_s() const;

  const Search& search_;
  PlanKey key_;
  PlanDatabase* database_;
  SweepOptions options_;
  Measure measure_;
  Report report_;
  struct Known {
    double ms;          // infinity without a right result
    bool fresh = true;  // measured here; else from before, and not asked for yet
  };
  std::map<std::string, Known> times_;     // of configurations
  std::vector<Measurement> measurements_;  // those from before, and our own
  std::vector<Measurement> rejections_;    // to be written with the next measurement
  SweepState state_;
  SweepEnd end_ = SweepEnd::exhausted;
  std::int64_t begin_ns_;
};

}  // namespace megaconv
