// SPDX-License-Identifier: Apache-2.0
#include "tests/checksums/case.hpp"

#include "megaconv/tuning.hpp"

namespace megaconv::checksums {

std::string to_string(const Case& item) {
  std::string text = to_string(parse_problem(item.problem)) + ' ' + item.configuration;
  if (item.prepared) text += ";prepared";
  if (item.v_slots != 0) {
    text += ";slots=" + std::to_string(item.v_slots) + 'x' + std::to_string(item.m_slots);
  }
  if (item.policy_seed != 0) text += ";seed=" + std::to_string(item.policy_seed);
  if (item.residual_in_y) text += ";residual=y";
  if (item.x_exponent != 0) text += ";x=2^" + std::to_string(item.x_exponent);
  if (item.w_exponent != 0) text += ";w=2^" + std::to_string(item.w_exponent);
  return text;
}

PlanOptions plan_options(const Case& item, Backend backend) {
  PlanOptions options;
  options.backend = backend;
  options = apply(parse_configuration(item.configuration), options);
  options.source = PlanSource::heuristic;
  options.tiling.filters = item.prepared ? FilterMode::prepared : FilterMode::every_run;
  options.tiling.v_slots = item.v_slots;
  options.tiling.m_slots = item.m_slots;
  options.mapping.seed = item.policy_seed;
  return options;
}

const char* to_string(EmulatedCode code) {
  return code == EmulatedCode::sm75 ? "sm75" : code == EmulatedCode::sm80 ? "sm80" : "sm90";
}

}  // namespace megaconv::checksums
