// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune_child.hpp"

#include "tools/tune/tune_json.hpp"

namespace megaconv::cli {

void MeasuringProcess::start() {
  if (process_.running()) return;
  const Json hello = process_.start();
  if (!hello.is_null()) key_ = key_from_json(hello);
}

PlanKey MeasuringProcess::key() {
  start();
  return key_;
}

std::optional<Measurement> MeasuringProcess::measure(const Configuration& configuration,
                                                     double best_ms) {
  using Outcome = ChildProcess::Outcome;
  start();
  Json answer;
  Outcome outcome =
      process_.send({{"configuration", to_string(configuration)}, {"best_ms", best_ms}});
  if (outcome == Outcome::answered) outcome = process_.receive(answer, patience_);
  Measurement result;
  result.configuration = configuration;
  switch (outcome) {
    case Outcome::answered:
      result = measurement_from_json(answer);
      if (result.verdict == Verdict::crashed) process_.stop();
      break;
    case Outcome::interrupted:
      return std::nullopt;
    case Outcome::late:
      result.verdict = Verdict::hung;
      result.reason = "no answer in " + Json(patience_.count()).dump() + " s";
      process_.stop();
      break;
    case Outcome::ended:
      result.verdict = Verdict::crashed;
      result.reason = process_.stop();
      break;
  }
  return result;
}

}  // namespace megaconv::cli
