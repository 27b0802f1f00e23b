// SPDX-License-Identifier: Apache-2.0
// Values of sections, writing, and which task a name means.
#include "mapping/mapping_file.hpp"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

constexpr std::uint64_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void append(std::string& text, std::uint32_t value) {
  char digits[10];
  text.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

// "I[3,0]", without the allocations of name().
void append(std::string& text, const Stage& stage, char letter, const Task& task) {
  text += letter;
  text += '[';
  if (stage.role != Role::prepare) {
    append(text, task.group);
    text += ',';
  }
  append(text, task.block);
  text += ']';
}

std::string section_text(const FileSection& section, const char* indent) {
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [key, value] : section.values()) {
    const auto* const number = std::get_if<std::uint64_t>(&value);
    text += separator + std::string(indent) + "  " + quoted(key) + ": " +
            (number ? std::to_string(*number) : quoted(std::get<std::string>(value)));
    separator = ",\n";
  }
  return text + '\n' + indent + '}';
}

std::string node_text(const FileNode& node) {
  return "    {\n      \"name\": " + quoted(node.name) +
         ",\n      \"problem\": " + quoted(node.problem) +
         ",\n      \"cut\": " + section_text(node.cut, "      ") + "\n    }";
}

std::string stage_text(const TaskGraph& graph, const Stage& stage) {
  return "    {\"node\": " + std::to_string(stage.node) +
         ", \"role\": " + quoted(to_string(stage.role)) +
         ", \"kind\": " + quoted(graph.kinds[stage.kind].name) +
         ", \"groups\": " + std::to_string(stage.groups) +
         ", \"per_group\": " + std::to_string(stage.per_group) + "}";
}

template <class Items, class TextOf>
std::string list_text(const Items& items, TextOf text_of) {
  std::string text = "[";
  const char* separator = "\n";
  for (const auto& item : items) {
    text += separator + text_of(item);
    separator = ",\n";
  }
  return text + "\n  ]";
}

}  // namespace

void reject_mapping_file(const std::string& message) {
  throw Error(Status::invalid_argument, "mapping file: " + message);
}

void FileSection::refuse(const std::string& key, const std::string& found,
                         const std::string& allowed) const {
  reject_mapping_file(path_ + key + ": found \"" + excerpt(found) + "\", must be " + allowed);
}

FileSection::Value FileSection::take(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) reject_mapping_file("key \"" + path_ + key + "\" is missing");
  Value value = std::move(found->second);
  values_.erase(found);
  return value;
}

std::string FileSection::text(const std::string& key) {
  const Value value = take(key);
  if (const auto* found = std::get_if<std::string>(&value)) return *found;
  reject_mapping_file(path_ + key + ": found " + std::to_string(std::get<std::uint64_t>(value)) +
                      ", must be a text");
}

std::uint64_t FileSection::whole(const std::string& key, std::uint64_t least, std::uint64_t most) {
  const Value value = take(key);
  const auto* number = std::get_if<std::uint64_t>(&value);
  const std::string found = number
                                ? std::to_string(*number)
                                : std::string("\"") + excerpt(std::get<std::string>(value)) + "\"";
  if (number && *number >= least && *number <= most) return *number;
  reject_mapping_file(path_ + key + ": found " + found + ", must be " + std::to_string(least) +
                      " to " + std::to_string(most));
}

std::uint32_t FileSection::whole32(const std::string& key, std::uint64_t least) {
  return static_cast<std::uint32_t>(whole(key, least, kMaxU32));
}

std::optional<std::uint32_t> FileSection::optional32(const std::string& key, std::uint64_t least) {
  if (!values_.contains(key)) return std::nullopt;
  return whole32(key, least);
}

std::uint64_t FileSection::optional_seed(const std::string& key) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  return values_.contains(key) ? whole(key, 0, kMax) : 0;
}

void FileSection::expect_empty() const {
  if (values_.empty()) return;
  reject_mapping_file("key \"" + path_ + values_.begin()->first + "\" has no place here");
}

std::string write_mapping_file(const std::vector<FileNode>& nodes, const TaskGraph& graph,
                               const TaskMapping& mapping) {
  const MappingOptions& options = mapping.options;
  std::string text = "{\n";
  const auto put = [&](const char* key, const std::string& value) {
    text += "  " + quoted(key) + ": " + value + ",\n";
  };
  const auto put_optional = [&](const char* key, const std::optional<std::uint32_t>& value) {
    if (value) put(key, std::to_string(*value));
  };
  put("megaconv_mapping", std::to_string(kMappingFileVersion));
  put("nodes", list_text(nodes, node_text));
  put("stages",
      list_text(graph.stages, [&](const Stage& stage) { return stage_text(graph, stage); }));
  put("policy", quoted(mapping.policy));
  put_optional("dig", options.dig);
  put_optional("dgo", options.dgo);
  put_optional("m_groups", options.m_groups);
  if (options.seed != 0) put("seed", std::to_string(options.seed));
  text += "  \"tasks\": [";
  text.reserve(text.size() + mapping.order.size() * 20);
  const char* separator = "\n    \"";
  for (const std::uint32_t id : mapping.order) {
    const Stage& stage = graph.stages[graph.stage_of(id)];
    text += separator;
    append(text, stage, graph.kinds[stage.kind].letter, graph.tasks[id]);
    text += '"';
    separator = ",\n    \"";
  }
  return text + "\n  ]\n}\n";
}

std::vector<std::uint32_t> task_ids(const TaskGraph& graph, const std::vector<FileTask>& tasks) {
  std::vector<std::uint32_t> ids;
  ids.reserve(tasks.size());
  for (const FileTask& task : tasks) {
    const Stage* of = nullptr;
    for (const Stage& stage : graph.stages) {
      if (graph.kinds[stage.kind].letter == task.letter) of = &stage;
    }
    const std::uint32_t groups = of == nullptr ? 0 : of->groups;
    const std::uint32_t blocks = of == nullptr ? 0 : of->per_group;
    const auto reject = [&](const char* quote, const std::string& what) {
      reject_mapping_file("tasks[" + std::to_string(ids.size()) + "]: found " + quote +
                          std::string(1, task.letter) + "[" +
                          (task.has_group ? std::to_string(task.group) + "," : "") +
                          std::to_string(task.block) + "]" + quote + ", " + what);
    };
    if (of != nullptr && task.has_group != (of->role != Role::prepare)) {
      reject("\"", "must be a name like \"F[5]\" or \"I[3,0]\"");
    }
    if (task.group >= groups || task.block >= blocks) {
      reject("", "the graph has " + std::to_string(groups) + " groups of " +
                     std::to_string(blocks) + " such tasks");
    }
    ids.push_back(of->id(task.group, task.block));
  }
  return ids;
}

}  // namespace megaconv
