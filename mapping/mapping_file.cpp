// SPDX-License-Identifier: Apache-2.0
// Writing the mapping file: what was chosen about a tiling, and the order of its tasks, one a line.
#include "mapping/mapping_file.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "mapping/tiling.hpp"

namespace megaconv {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void append(std::string& text, std::uint32_t value) {
  char digits[10];
  text.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

// "I[3,0]", without the allocations of name().
void append(std::string& text, const Task& task) {
  text += letter(task.kind);
  text += '[';
  if (task.kind != TaskKind::filter_transform) {
    append(text, task.group);
    text += ',';
  }
  append(text, task.block);
  text += ']';
}

std::string tiling_text(const Tiling& tiling) {
  std::string text = "{\n";
  const auto put = [&](const char* key, const std::string& value) {
    text += (text.size() > 2 ? ",\n    " : "    ") + quoted(key) + ": " + value;
  };
  put("algorithm", quoted(to_string(tiling.algorithm)));
  put("filters", quoted(to_string(tiling.filters)));
  if (is_winograd(tiling.algorithm)) put("points", quoted(to_string(tiling.points)));
  if (tiling.algorithm == Algorithm::winograd || tiling.algorithm == Algorithm::implicit_gemm) {
    put("arithmetic", quoted(to_string(tiling.arithmetic)));
  }
  if (tiling.algorithm == Algorithm::opencnn) {
    put("output_layout", quoted(to_string(tiling.output_layout)));
  }
  for (const TilingField& field : kTilingFields) {
    if (has_field(tiling, field)) put(field.name, std::to_string(tiling.*field.value));
  }
  return text + "\n  }";
}

}  // namespace

std::string export_mapping(const Lowering& lowering) {
  const TaskGraph& graph = lowering.graph;
  const MappingOptions& options = lowering.mapping.options;
  std::string text = "{\n";
  const auto put = [&](const char* key, const std::string& value) {
    text += "  " + quoted(key) + ": " + value + ",\n";
  };
  const auto put_optional = [&](const char* key, const std::optional<std::uint32_t>& value) {
    if (value) put(key, std::to_string(*value));
  };
  put("megaconv_mapping", std::to_string(kMappingFileVersion));
  put("problem", quoted(to_string(graph.tiling.problem)));
  put("tiling", tiling_text(graph.tiling));
  put("policy", quoted(lowering.mapping.policy));
  put_optional("dig", options.dig);
  put_optional("dgo", options.dgo);
  put_optional("m_groups", options.m_groups);
  if (options.seed != 0) put("seed", std::to_string(options.seed));
  text += "  \"tasks\": [";
  text.reserve(text.size() + lowering.mapping.order.size() * 20);
  const char* separator = "\n    \"";
  for (std::uint32_t id : lowering.mapping.order) {
    text += separator;
    append(text, graph.tasks[id]);
    text += '"';
    separator = ",\n    \"";
  }
  return text + "\n  ]\n}\n";
}

}  // namespace megaconv
