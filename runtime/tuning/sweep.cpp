// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/sweep.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace megaconv {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
// Rejections are written with the next measurement, or when there are this many.
constexpr std::size_t kMostPendingRejections = 1000;
// Turns in which finalists are measured again: a slow phase of the machine then meets all of them.
constexpr int kFinalTurns = 3;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::vector<Measurement> without_finals(std::vector<Measurement> measurements) {
  std::erase_if(measurements, [](const Measurement& m) { return m.strategy == kFinalStrategy; });
  return measurements;
}

}  // namespace

bool Shard::has(std::uint64_t point) const {
  return SearchRandom(point).next() % count == index - 1;  // neighbours go to different shards
}

Sweep::Sweep(const Search& search, const PlanKey& key, PlanDatabase* database,
             const std::vector<Measurement>& known, SweepOptions options, Measure measure,
             Report report)
    : search_(search),
      key_(key),
      database_(database),
      options_(std::move(options)),
      measure_(std::move(measure)),
      report_(std::move(report)),
      measurements_(known),
      begin_ns_(now_ns()) {
  for (const Measurement& m : known) times_[to_string(m.configuration)] = {kNone, false};
  // A finalist's later, better time would lead the same strategy elsewhere.
  for (const Measurement& m : rank(without_finals(known)))
    times_[to_string(m.configuration)] = {m.best_ms, false};
}

SweepEnd Sweep::run() {
  if (!measure_heuristic()) return end_;
  run_search(options_.strategy, search_, [this](std::uint64_t index) { return evaluate(index); });
  measure_finalists();
  if (database_ != nullptr && !rejections_.empty()) database_->add(key_, rejections_);
  rejections_.clear();
  state_.elapsed_s = elapsed_s();
  return end_;
}

bool Sweep::measure_heuristic() {
  const std::optional<double> ms = time(search_.space.heuristic());
  state_.heuristic_ms = ms && std::isfinite(*ms) ? *ms : 0;
  return ms.has_value();
}

std::optional<double> Sweep::evaluate(std::uint64_t index) {
  if (!options_.shard.has(index)) return kNone;
  const Configuration configuration = search_.space.at(index);
  const std::optional<Rejection> rejection = search_.space.rejection(configuration);
  if (!rejection) return time(configuration);
  if (times_.emplace(to_string(configuration), Known{kNone}).second) {
    ++state_.rejected;
    Measurement rejected;
    rejected.configuration = configuration;
    rejected.verdict = Verdict::rejected;
    rejected.reason = rejection->rule + ' ' + rejection->reason;
    rejected.strategy = to_string(options_.strategy);
    rejections_.push_back(std::move(rejected));
    if (database_ != nullptr && rejections_.size() >= kMostPendingRejections) {
      database_->add(key_, rejections_);
      rejections_.clear();
    }
  }
  if (options_.interrupted()) {
    end_ = SweepEnd::interrupted;
    return std::nullopt;
  }
  return kNone;
}

std::optional<double> Sweep::time(const Configuration& configuration) {
  const auto known = times_.find(to_string(configuration));
  if (known != times_.end() && known->second.fresh) return known->second.ms;
  if (spent()) return std::nullopt;
  if (known != times_.end()) {
    known->second.fresh = true;
    ++state_.known;
    note_best(configuration, known->second.ms);
    return known->second.ms;
  }
  std::optional<Measurement> measurement = measure_(configuration, state_.best_ms);
  if (!measurement) {
    end_ = SweepEnd::interrupted;
    return std::nullopt;
  }
  const double ms = measurement->verdict == Verdict::right ? measurement->best_ms : kNone;
  times_[to_string(configuration)] = {ms};
  ++state_.measured;
  if (!std::isfinite(ms)) ++state_.failed;
  note_best(configuration, ms);
  keep(std::move(*measurement), to_string(options_.strategy));
  return ms;
}

void Sweep::note_best(const Configuration& configuration, double ms) {
  if (!std::isfinite(ms)) return;
  // Equal times as in rank(): whichever the search came to first.
  const auto place = [](double time, const Configuration& c) {
    return std::pair(time, to_string(c));
  };
  if (state_.best_ms != 0 && place(ms, configuration) >= place(state_.best_ms, state_.best)) return;
  state_.best_ms = ms;
  state_.best = configuration;
}

void Sweep::keep(Measurement measurement, const char* strategy) {
  measurement.id = new_measurement_id();
  measurement.strategy = strategy;
  if (database_ != nullptr) {
    rejections_.push_back(measurement);  // one transaction with what was rejected on the way
    database_->add(key_, rejections_);
  }
  rejections_.clear();
  measurements_.push_back(std::move(measurement));
  state_.elapsed_s = elapsed_s();
  report_(state_, measurements_.back());
}

// The least of some samples favours a lucky candidate: those close to the best are measured again,
// in turns, and with the heuristic's choice.
void Sweep::measure_finalists() {
  if (end_ == SweepEnd::interrupted || options_.finalists == 0) return;
  std::vector<Measurement> ranked = rank(without_finals(measurements_));
  if (ranked.size() < 2) return;
  ranked.resize(std::min<std::size_t>(ranked.size(), options_.finalists));
  std::vector<Configuration> finalists;
  for (const Measurement& m : ranked) finalists.push_back(m.configuration);
  if (std::find(finalists.begin(), finalists.end(), search_.space.heuristic()) == finalists.end()) {
    finalists.push_back(search_.space.heuristic());
  }
  for (int turn = 0; turn < kFinalTurns; ++turn) {
    for (const Configuration& configuration : finalists) {
      const auto done =
          std::count_if(measurements_.begin(), measurements_.end(), [&](const Measurement& m) {
            return m.strategy == kFinalStrategy && m.configuration == configuration;
          });
      if (done > turn) continue;  // before this search was resumed
      std::optional<Measurement> measurement = measure_(configuration, 0);
      if (!measurement) {
        end_ = SweepEnd::interrupted;
        return;
      }
      keep(std::move(*measurement), kFinalStrategy);
    }
  }
  const std::vector<Measurement> final_ranking = rank(measurements_);
  for (const Measurement& m : final_ranking) {
    if (m.configuration == search_.space.heuristic()) state_.heuristic_ms = m.best_ms;
  }
  if (final_ranking.empty()) return;
  state_.best = final_ranking.front().configuration;
  state_.best_ms = final_ranking.front().best_ms;
}

bool Sweep::spent() {
  if (options_.interrupted()) {
    end_ = SweepEnd::interrupted;
  } else if (options_.evaluations != 0 && state_.measured + state_.known >= options_.evaluations) {
    end_ = SweepEnd::evaluations;
  } else if (options_.seconds != 0 && elapsed_s() >= options_.seconds) {
    end_ = SweepEnd::seconds;
  } else {
    return false;
  }
  return true;
}

double Sweep::elapsed_s() const { return static_cast<double>(now_ns() - begin_ns_) * 1e-9; }

}  // namespace megaconv
