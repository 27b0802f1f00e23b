// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/problem_selection.hpp"

#include <charconv>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tasks/activation.hpp"
#include "tools/run/file_io.hpp"
#include "tools/run/networks.hpp"
#include "tools/run/random_layers.hpp"

namespace megaconv::cli {
namespace {

// Networks are inferred in small batches on a CPU.
constexpr std::int64_t kNetworkBatch = 4;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(trim(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::int64_t parse_extent(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(Status::invalid_argument, '"' + excerpt(text) + "\" is not a number");
  }
  return value;
}

NamedProblem parse_layer(std::string_view line) {
  const std::vector<std::string_view> fields = split_at(line, ',');
  NamedProblem layer{std::string(fields[0]), {}};
  if (excerpt(layer.name) != layer.name) {
    throw Error(Status::invalid_argument,
                "name \"" + excerpt(layer.name) + "\", must be at most 80 printable characters");
  }
  if (fields.size() == 2) {
    layer.problem = parse_problem(fields[1]);
  } else if (fields.size() == 6) {
    std::int64_t* const extents[] = {&layer.problem.n, &layer.problem.c, &layer.problem.h,
                                     &layer.problem.w, &layer.problem.k};
    for (std::size_t i = 0; i < 5; ++i) *extents[i] = parse_extent(fields[i + 1]);
    validate(layer.problem);
  } else {
    throw Error(Status::invalid_argument,
                std::to_string(fields.size()) + " fields, must be name,N,C,H,W,K or name,problem");
  }
  return layer;
}

}  // namespace

Epilogue parse_epilogue(const std::string& list) {
  Epilogue epilogue;
  if (list == "none") return epilogue;
  for (const std::string_view part : split_at(list, ',')) {
    if (part == "scale") {
      epilogue.scale = true;
    } else if (part == "bias") {
      epilogue.bias = true;
    } else if (part == "residual") {
      epilogue.residual = true;
    } else if (is_activation(part)) {
      epilogue.activation = parse_activation(part);
    } else {
      throw Error(
          Status::invalid_argument,
          "--epilogue " + excerpt(part) + ", must be scale, bias, residual, " + activation_forms());
    }
  }
  return epilogue;
}

std::vector<NamedProblem> parse_layers(std::string_view csv, const std::string& file) {
  std::vector<NamedProblem> layers;
  std::size_t line_number = 0;
  for (const std::string_view raw : split_at(csv, '\n')) {
    ++line_number;
    const std::string_view line = trim(raw.substr(0, raw.find('#')));
    if (line.empty()) continue;
    try {
      layers.push_back(parse_layer(line));
    } catch (const Error& error) {
      throw Error(error.status(), file + ':' + std::to_string(line_number) + ": " + error.what());
    }
  }
  if (layers.empty()) throw Error(Status::invalid_argument, file + ": no layers in it");
  return layers;
}

std::vector<NamedProblem> select_problems(const ProblemArguments& arguments) {
  std::vector<NamedProblem> selected;
  const auto take = [&](const Layer& layer) {
    selected.push_back({layer.name, to_problem(layer)});
  };
  for (const std::string& text : arguments.problems) {
    selected.push_back({"", parse_problem(text)});
  }
  if (!arguments.network.empty()) {
    for (Layer layer : network_layers(arguments.network)) {
      layer.n = kNetworkBatch;
      take(layer);
    }
  }
  if (arguments.suite) {
    for (const Layer& layer : suite_layers()) take(layer);
  }
  if (!arguments.layers_file.empty()) {
    const std::string& file = arguments.layers_file;
    for (NamedProblem& layer : parse_layers(read_file(file), file)) {
      selected.push_back(std::move(layer));
    }
  }
  for (NamedProblem& layer : random_layers(arguments.random, arguments.random_seed)) {
    selected.push_back(std::move(layer));
  }
  for (NamedProblem& entry : selected) {
    if (arguments.batch) entry.problem.n = *arguments.batch;
    if (arguments.layout) entry.problem.layout = *arguments.layout;
    if (arguments.dtype) entry.problem.dtype = *arguments.dtype;
    if (arguments.epilogue) entry.problem.epilogue = *arguments.epilogue;
    validate(entry.problem);
    if (entry.name.empty()) entry.name = short_name(entry.problem);
  }
  return selected;
}

std::string short_name(const ConvProblem& problem) {
  const std::string full = to_string(problem);
  const std::size_t suffix = full.find('+');
  std::string text = full.substr(0, suffix);
  const auto reads_as_problem = [&](const std::string& shorter) {
    try {
      return parse_problem(shorter) == problem;
    } catch (const Error&) {
      return false;  // with "same" padding a filter may be larger than the input
    }
  };
  // From the last field to the first: drop each that parse_problem would choose itself.
  for (const char key : std::string_view("gdupsrw")) {
    const std::size_t begin = text.find(key);
    std::size_t end = text.find_first_not_of("0123456789x", begin + 1);
    if (end == std::string::npos) end = text.size();
    const std::string shorter = text.substr(0, begin) + text.substr(end);
    const std::string tail = suffix == std::string::npos ? "" : full.substr(suffix);
    if (reads_as_problem(shorter + tail)) text = shorter;
  }
  return suffix == std::string::npos ? text : text + full.substr(suffix);
}

}  // namespace megaconv::cli
