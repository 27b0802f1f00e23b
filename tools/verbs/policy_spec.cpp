// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/policy_spec.hpp"

#include <CLI/CLI.hpp>
#include <charconv>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/simulation.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kPaced = "paced";

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char ch : text) {
    if (ch == separator) {
      parts.emplace_back();
    } else {
      parts.back() += ch;
    }
  }
  return parts;
}

[[noreturn]] void reject(const std::string& part, const std::string& allowed) {
  throw Error(Status::invalid_argument, "policy \"" + excerpt(part) + "\": must be " + allowed);
}

template <typename Int>
Int number(const std::string& part, const std::string& text) {
  Int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) reject(part, "a key and a whole number");
  return value;
}

bool ends_with(const std::string& text, const char* ending) { return text.ends_with(ending); }

PolicySpec parse_policy_spec(const std::string& word) {
  PolicySpec spec;
  spec.text = word;
  if (ends_with(word, ".so")) {
    spec.library = word;
    return spec;
  }
  if (ends_with(word, ".json")) {
    spec.mapping_file = word;
    return spec;
  }
  if (word == kPaced) {
    spec.paced = true;
    return spec;
  }
  const std::vector<std::string> parts = split(word, ':');
  check_policy(parts.front());
  spec.mapping.policy = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    const std::string key = parts[i].substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : parts[i].substr(equals + 1);
    if (key == "dig") {
      spec.mapping.dig = number<std::uint32_t>(parts[i], value);
    } else if (key == "dgo") {
      spec.mapping.dgo = number<std::uint32_t>(parts[i], value);
    } else if (key == "m") {
      spec.mapping.m_groups = number<std::uint32_t>(parts[i], value);
    } else if (key == "seed") {
      spec.mapping.seed = number<std::uint64_t>(parts[i], value);
    } else if (key == "window") {
      spec.window = value;
      const std::size_t times = value.find('x');
      if (times != std::string::npos) spec.window[times] = ',';
    } else {
      reject(parts[i], "dig=N, dgo=N, m=N, seed=N or window=whole, auto or VxM");
    }
  }
  return spec;
}

}  // namespace

PlanArguments PolicySpec::apply(PlanArguments plan) const {
  plan.options.mapping = mapping;
  if (mapping.seed != 0) plan.seed = mapping.seed;
  if (!window.empty()) parse_window(window, plan.options.tiling);
  if (!library.empty()) {
    plan.options.policy = load_policy(library);
    plan.options.mapping.policy = library;
  }
  if (paced) plan.options.policy = paced_policy(machine_of(plan));
  plan.mapping_file = mapping_file;
  return plan;
}

void add_policy_option(CLI::App& app, PlanOptions& options, bool launch) {
  app.add_option_function<std::string>(
         "--policy",
         [&options, launch](const std::string& word) {
           if (ends_with(word, ".so")) {
             options.policy = load_policy(word);
           } else {
             check_policy(word);
           }
           options.mapping.policy = word;
           // The usual order, when named, is asked for like any other.
           if (launch) options.cuda_launch = CudaLaunch::persistent;
         },
         "Order of the tasks: interleaved (default), blended, staged,\n"
         "depth_first, critical_path or random_topological, or a shared object, ./mine.so")
      ->type_name("NAME|FILE")
      ->group("Plan");
}

std::vector<PolicySpec> parse_policies(std::string_view list) {
  std::vector<PolicySpec> specs;
  for (const std::string& word : split(list, ',')) specs.push_back(parse_policy_spec(word));
  return specs;
}

}  // namespace megaconv::cli
