// SPDX-License-Identifier: Apache-2.0
// Which problems a verb works on: the options that all verbs share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/problem.hpp"

namespace CLI {
class App;
}

namespace megaconv::cli {

struct NamedProblem {
  std::string name;
  ConvProblem problem;
};

struct ProblemArguments {
  std::vector<std::string> problems;
  std::string network, layers_file;
  bool suite = false;
  std::int64_t random = 0;        ///< so many layers drawn at random (random_layers.hpp)
  std::uint64_t random_seed = 1;  ///< of these
  std::optional<std::int64_t> batch;
  std::optional<Layout> layout;
  std::optional<DataType> dtype;
  std::optional<Epilogue> epilogue;
};

enum class Selection { one, many };

/// Adds the positional problems; with Selection::many also --network, --suite, --layers and
/// --batch; and --layout, --dtype and --epilogue. `arguments` must outlive the parsing.
void add_problem_options(CLI::App& app, ProblemArguments& arguments, Selection selection);

/// --layout, --dtype and --epilogue alone.
void add_tensor_options(CLI::App& app, ProblemArguments& arguments);

/// The problems in the order given: problem strings, network, suite, file, random. May be empty.
/// Throws Error(invalid_argument), Error(device_error) when the file cannot be read.
std::vector<NamedProblem> select_problems(const ProblemArguments& arguments);

/// Lines "name,N,C,H,W,K" (3x3, stride 1, padding 1) or "name,problem string"; '#' starts a
/// comment. Throws Error(invalid_argument) naming file and line.
std::vector<NamedProblem> parse_layers(std::string_view csv, const std::string& file);

/// The problem string without what has its default: "n64c128h28k128".
std::string short_name(const ConvProblem& problem);

/// "bias,relu", "residual,clamp:0:6", or "none"
Epilogue parse_epilogue(const std::string& list);

}  // namespace megaconv::cli
