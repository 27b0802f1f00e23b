// SPDX-License-Identifier: Apache-2.0
// The table of parameters: names, words, and where each lives in PlanOptions.
#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "mapping/policies/policies.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/tuning.hpp"
#include "tasks/checks.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

using Words = std::vector<std::pair<std::string, std::int64_t>>;

struct ParameterInfo {
  const char* name;
  Words words;  // empty: a number of at least 1
  std::function<void(PlanOptions&, std::int64_t)> set;
  std::function<std::optional<std::int64_t>(const PlanOptions&)> fixed;
};

template <class Enum>
std::pair<std::string, std::int64_t> word(const char* name, Enum value) {
  return {name, static_cast<std::int64_t>(value)};
}

// A number of TilingOptions for which 0 means "choose".
ParameterInfo size(const char* name, std::uint32_t TilingOptions::*member, Words words = {}) {
  return {name, std::move(words),
          [member](PlanOptions& options, std::int64_t value) {
            options.tiling.*member = static_cast<std::uint32_t>(value);
          },
          [member](const PlanOptions& options) {
            const std::uint32_t value = options.tiling.*member;
            return value == 0 ? std::nullopt : std::optional<std::int64_t>(value);
          }};
}

ParameterInfo distance(const char* name, std::optional<std::uint32_t> MappingOptions::*member) {
  return {name,
          {},
          [member](PlanOptions& options, std::int64_t value) {
            options.mapping.*member = static_cast<std::uint32_t>(value);
          },
          [member](const PlanOptions& options) {
            const std::optional<std::uint32_t> value = options.mapping.*member;
            return value ? std::optional<std::int64_t>(*value) : std::nullopt;
          }};
}

// An enumerator that counts as fixed when it is not the default.
template <class Enum, class Options>
ParameterInfo choice(const char* name, Words words, Options PlanOptions::*part,
                     Enum Options::*member) {
  return {name, std::move(words),
          [part, member](PlanOptions& options, std::int64_t value) {
            options.*part.*member = static_cast<Enum>(value);
          },
          [part, member](const PlanOptions& options) {
            const Enum value = options.*part.*member;
            return value == Options{}.*member
                       ? std::nullopt
                       : std::optional<std::int64_t>(static_cast<std::int64_t>(value));
          }};
}

// The order is PlanOptions::policy.
constexpr const char* kOwnPolicy = "own";

Words policy_words() {
  Words words;
  for (const std::string& policy : policy_names()) {
    words.push_back({policy, static_cast<std::int64_t>(words.size())});
  }
  words.push_back({kOwnPolicy, static_cast<std::int64_t>(words.size())});
  return words;
}

Words output_layout_words() {
  Words words;
  for (const OutputLayout layout : {OutputLayout::baseline, OutputLayout::optSTS64,
                                    OutputLayout::optSTS64_compact, OutputLayout::optLDS64}) {
    words.push_back(word(to_string(layout), layout));
  }
  return words;
}

// An order of blocks that CUDA does not promise (CudaLaunch::raw_block_index) is for no plan that
// somebody will rely on.
Words launch_words() {
  return {word("persistent", CudaLaunch::persistent),
          word("one-block-per-task", CudaLaunch::one_block_per_task),
          word("staged", CudaLaunch::staged)};
}

std::uint32_t& workers_of(PlanOptions& options) {
  return options.backend == Backend::cpu ? options.num_threads : options.num_blocks;
}

std::vector<ParameterInfo> make_table() {
  std::vector<ParameterInfo> table(kNumParameters);
  const auto put = [&](Parameter parameter, ParameterInfo info) {
    table[static_cast<std::size_t>(parameter)] = std::move(info);
  };
  put(Parameter::algo,
      choice(
          "algo",
          {word("direct", Algorithm::direct), word("winograd", Algorithm::winograd),
           word("opencnn", Algorithm::opencnn), word("fused-winograd", Algorithm::fused_winograd),
           word("implicit-gemm", Algorithm::implicit_gemm),
           word("small-gemm", Algorithm::small_gemm)},
          &PlanOptions::tiling, &TilingOptions::algorithm));
  put(Parameter::tile,
      size("tile", &TilingOptions::m, {{"2", 2}, {"4", 4}, {"4x6", kWideTile}, {"6", 6}}));
  put(Parameter::points,
      choice("points", {word("low-error", Points::low_error), word("integer", Points::integer)},
             &PlanOptions::tiling, &TilingOptions::points));
  put(Parameter::arithmetic,
      choice("arithmetic",
             {word("fma", Arithmetic::fma), word("split-f16", Arithmetic::split_f16),
              word("tf32", Arithmetic::tf32), word("f16", Arithmetic::f16),
              word("bf16", Arithmetic::bf16)},
             &PlanOptions::tiling, &TilingOptions::arithmetic));
  put(Parameter::output_layout, choice("output-layout", output_layout_words(), &PlanOptions::tiling,
                                       &TilingOptions::output_layout));
  put(Parameter::group_tiles, size("group-tiles", &TilingOptions::group_tiles));
  put(Parameter::input_channels,
      size("input-channels", &TilingOptions::channel_blocks_per_input_task));
  put(Parameter::gemm_filters, size("gemm-filters", &TilingOptions::filter_blocks_per_gemm_task));
  put(Parameter::gemm_positions, size("gemm-positions", &TilingOptions::positions_per_gemm_task));
  put(Parameter::output_filters,
      size("output-filters", &TilingOptions::filter_blocks_per_output_task));
  put(Parameter::transform_tiles,
      size("transform-tiles", &TilingOptions::tiles_per_transform_task));
  put(Parameter::rows, size("rows", &TilingOptions::rows_per_group));
  put(Parameter::cols, size("cols", &TilingOptions::cols_per_group));
  put(Parameter::places, size("places", &TilingOptions::places_per_group));
  put(Parameter::window, choice("window", {word("auto", 0), word("whole", 1)}, &PlanOptions::tiling,
                                &TilingOptions::whole_tensors));
  put(Parameter::policy, {"policy", policy_words(),
                          [](PlanOptions& options, std::int64_t value) {
                            const std::string name = policy_words().at(u64(value)).first;
                            if (name != kOwnPolicy) {
                              options.mapping.policy = name;
                            } else if (!options.policy) {
                              fail("policy = own, must be a name where no policy of one's own is");
                            }
                          },
                          [](const PlanOptions& options) -> std::optional<std::int64_t> {
                            if (options.policy) return policy_value(kOwnPolicy);
                            const bool free = options.mapping.policy == MappingOptions{}.policy;
                            return free ? std::nullopt
                                        : std::optional(policy_value(options.mapping.policy));
                          }});
  put(Parameter::dig, distance("dig", &MappingOptions::dig));
  put(Parameter::dgo, distance("dgo", &MappingOptions::dgo));
  put(Parameter::m_groups, distance("m-groups", &MappingOptions::m_groups));
  put(Parameter::workers, {"workers",
                           {},
                           [](PlanOptions& options, std::int64_t value) {
                             workers_of(options) = static_cast<std::uint32_t>(value);
                           },
                           [](const PlanOptions& options) {
                             const std::uint32_t value =
                                 workers_of(const_cast<PlanOptions&>(options));
                             return value == 0 ? std::nullopt : std::optional<std::int64_t>(value);
                           }});
  put(Parameter::launch,
      {"launch", launch_words(),
       [](PlanOptions& options, std::int64_t value) {
         options.cuda_launch = static_cast<CudaLaunch>(value);
       },
       [](const PlanOptions& options) {
         // A CPU has one way, whatever is said.
         const bool on_cpu = options.backend == Backend::cpu ||
                             (options.backend == Backend::sim && options.machine &&
                              options.machine->tilings == Backend::cpu);
         const bool free = on_cpu || options.cuda_launch == PlanOptions{}.cuda_launch;
         return free ? std::nullopt : std::optional(static_cast<std::int64_t>(options.cuda_launch));
       }});
  put(Parameter::cluster, size("cluster", &TilingOptions::cluster_blocks));
  return table;
}

const std::vector<ParameterInfo>& table() {
  static const std::vector<ParameterInfo> kTable = make_table();
  return kTable;
}

const ParameterInfo& info(Parameter parameter) {
  return table()[static_cast<std::size_t>(parameter)];
}

}  // namespace

const char* to_string(Parameter parameter) noexcept { return info(parameter).name; }

std::int64_t policy_value(const std::string& policy) {
  return parse_value(Parameter::policy, policy);
}

Parameter parse_parameter(std::string_view name) {
  std::string allowed;
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    if (name == table()[i].name) return static_cast<Parameter>(i);
    allowed += (allowed.empty() ? "" : ", ") + std::string(table()[i].name);
  }
  fail("parameter \"" + excerpt(name) + "\", must be one of " + allowed);
}

std::string value_text(Parameter parameter, std::int64_t value) {
  for (const auto& [text, number] : info(parameter).words) {
    if (number == value) return text;
  }
  return std::to_string(value);
}

std::int64_t parse_value(Parameter parameter, std::string_view text) {
  const ParameterInfo& known = info(parameter);
  if (!known.words.empty()) {
    std::string allowed;
    for (const auto& [name, value] : known.words) {
      if (text == name) return value;
      allowed += (allowed.empty() ? "" : ", ") + std::string(name);
    }
    fail(std::string(known.name) + " = " + excerpt(text) + ", must be one of " + allowed);
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMost) {
    fail(std::string(known.name) + " = " + excerpt(text) + ", must be a number of 1 to 2^31");
  }
  return value;
}

std::string to_string(const Configuration& configuration) {
  std::string text;
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    const std::optional<std::int64_t> value = configuration.get(parameter);
    if (!value) continue;
    if (!text.empty()) text += ',';
    text += std::string(to_string(parameter)) + '=' + value_text(parameter, *value);
  }
  return text;
}

Configuration parse_configuration(std::string_view text) {
  Configuration configuration;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      fail("configuration: \"" + excerpt(part) + "\", must be NAME=VALUE");
    }
    const Parameter parameter = parse_parameter(part.substr(0, equals));
    if (configuration.get(parameter)) {
      fail("configuration: " + std::string(to_string(parameter)) + " is given twice");
    }
    configuration.set(parameter, parse_value(parameter, part.substr(equals + 1)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return configuration;
}

PlanOptions apply(const Configuration& configuration, PlanOptions options) {
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    if (const auto value = configuration.get(parameter)) info(parameter).set(options, *value);
  }
  options.source = PlanSource::heuristic;
  return options;
}

std::optional<std::int64_t> fixed_value(Parameter parameter, const PlanOptions& options) {
  return info(parameter).fixed(options);
}

Configuration configuration_of(const Lowering& lowering, const Target& target, CudaLaunch launch) {
  const Tiling& tiling = lowering.tiling();
  const MappingOptions& mapping = lowering.mapping.options;
  Configuration configuration;
  configuration.set(Parameter::algo, static_cast<std::int64_t>(tiling.algorithm()));
  const ConvAlgorithm& algorithm = algorithm_of(tiling);
  algorithm.configure(tiling, launch, configuration);
  const std::vector<std::string> policies = policy_names();
  const bool named =
      std::find(policies.begin(), policies.end(), lowering.mapping.policy) != policies.end();
  configuration.set(Parameter::policy, policy_value(named ? lowering.mapping.policy : kOwnPolicy));
  if (has_distances(lowering.mapping.policy)) {
    if (algorithm.has_transforms()) {
      configuration.set(Parameter::dig, mapping.dig.value_or(1));
      configuration.set(Parameter::dgo, mapping.dgo.value_or(1));
    }
    configuration.set(Parameter::m_groups, mapping.m_groups.value_or(1));
  }
  configuration.set(Parameter::workers, algorithm.resident_workers(target));
  if (target.backend == Backend::cuda) {
    configuration.set(Parameter::launch, static_cast<std::int64_t>(launch));
  }
  return configuration;
}

}  // namespace megaconv
