// SPDX-License-Identifier: Apache-2.0
// Reading the mapping file's JSON.
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "mapping/json_text.hpp"
#include "mapping/mapping_file.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

using nlohmann::json;

constexpr const char* kWhat = "mapping file";

// A network has no more operators than this.
constexpr std::size_t kMostItems = 65536;

// "F[5]", "I[3,0]".
std::optional<FileTask> parse_task_name(std::string_view text) {
  FileTask task;
  const auto take = [&](char expected) {
    if (text.empty() || text.front() != expected) return false;
    text.remove_prefix(1);
    return true;
  };
  const auto take_number = [&](std::uint32_t& value) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto length = static_cast<std::size_t>(stop - text.data());
    if (error != std::errc() || (text.front() == '0' && length > 1)) return false;
    text.remove_prefix(length);
    return true;
  };
  if (text.empty() || text.front() < 'A' || text.front() > 'Z') return std::nullopt;
  task.letter = text.front();
  text.remove_prefix(1);
  if (!take('[') || !take_number(task.block)) return std::nullopt;
  if (take(',')) {
    task.has_group = true;
    task.group = task.block;
    if (!take_number(task.block)) return std::nullopt;
  }
  if (!take(']') || !text.empty()) return std::nullopt;
  return task;
}

// Receives the parser's events and keeps the values of known keys, section by section, and the
// tasks. Nesting other than the format's own is refused where it opens, so depth is bounded.
class FileHandler : public nlohmann::json_sax<json> {
 public:
  FileSection top;
  std::vector<FileSection> nodes, cuts, stages;
  std::vector<FileTask> tasks;

  bool null() override { refuse_value("null"); }
  bool boolean(bool) override { refuse_value("a boolean"); }
  bool number_integer(number_integer_t value) override { refuse_value(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { refuse_value(excerpt(text)); }
  bool binary(binary_t&) override { refuse_value("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::tasks) refuse_value(std::to_string(value));
    keep(value);
    return true;
  }

  bool string(string_t& text) override {
    if (place_ != Place::tasks) {
      keep(std::move(text));
      return true;
    }
    const auto task = parse_task_name(text);
    if (!task) refuse_value("\"" + excerpt(text) + "\"");
    tasks.push_back(*task);
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::outside:
        return enter(Place::top);
      case Place::nodes:
        add(nodes, "nodes");
        return enter(Place::node);
      case Place::stages:
        add(stages, "stages");
        return enter(Place::stage);
      case Place::node:
        if (key_ != "cut" || nodes.size() == cuts.size()) refuse_value("an object");
        cuts.emplace_back(nodes.back().path() + "cut.");
        return enter(Place::cut);
      default:
        refuse_value("an object");
    }
  }

  bool end_object() override {
    switch (place_) {
      case Place::cut:
        place_ = Place::node;
        return true;
      case Place::node:
        if (cuts.size() != nodes.size()) {
          reject_mapping_file("key \"" + nodes.back().path() + "cut\" is missing");
        }
        place_ = Place::nodes;
        return true;
      case Place::stage:
        place_ = Place::stages;
        return true;
      default:
        place_ = Place::outside;
        return true;
    }
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::top && key_ == "tasks") return enter(Place::tasks);
    if (place_ == Place::top && key_ == "nodes") return enter(Place::nodes);
    if (place_ == Place::top && key_ == "stages") return enter(Place::stages);
    refuse_value("an array");
  }

  bool end_array() override {
    place_ = Place::top;
    return true;
  }

  bool key(string_t& text) override {
    key_ = excerpt(text, 40);
    if (!known()) reject_mapping_file("unknown key \"" + path() + "\"");
    if (!seen_.insert(path()).second) {
      reject_mapping_file("key \"" + path() + "\" is given twice");
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    reject_json(kWhat, error.what());
  }

 private:
  enum class Place { outside, top, nodes, node, cut, stages, stage, tasks };

  bool enter(Place place) {
    place_ = place;
    key_.clear();
    return true;
  }

  static void add(std::vector<FileSection>& sections, const std::string& name) {
    if (sections.size() == kMostItems) {
      reject_mapping_file(name + ": must be at most " + std::to_string(kMostItems));
    }
    sections.emplace_back(name + "[" + std::to_string(sections.size()) + "].");
  }

  const FileSection& section() const {
    return place_ == Place::node    ? nodes.back()
           : place_ == Place::cut   ? cuts.back()
           : place_ == Place::stage ? stages.back()
                                    : top;
  }
  std::string path() const { return section().path() + key_; }

  // Keys of a cut are the room's business.
  bool known() const {
    const auto is_one_of = [this](std::initializer_list<const char*> names) {
      for (const char* name : names) {
        if (key_ == name) return true;
      }
      return false;
    };
    switch (place_) {
      case Place::node:
        return is_one_of({"name", "problem", "cut"});
      case Place::stage:
        return is_one_of({"node", "role", "kind", "groups", "per_group"});
      case Place::cut:
        return true;
      default:
        // Of version 1, which is refused for its number.
        return is_one_of({"megaconv_mapping", "nodes", "stages", "policy", "dig", "dgo", "m_groups",
                          "seed", "tasks", "problem", "tiling"});
    }
  }

  void keep(FileSection::Value value) {
    const bool scalar =
        place_ == Place::cut || place_ == Place::stage ||
        (place_ == Place::node && key_ != "cut") ||
        (place_ == Place::top && key_ != "nodes" && key_ != "stages" && key_ != "tasks");
    if (!scalar) refuse_value("a single value");
    const_cast<FileSection&>(section()).put(key_, std::move(value));
    if (place_ == Place::top && key_ == "megaconv_mapping") check_version();
  }

  void check_version() {
    const auto found = top.values().find("megaconv_mapping");
    const auto* const version = std::get_if<std::uint64_t>(&found->second);
    if (version == nullptr || *version != 1) {
      FileSection(top).whole("megaconv_mapping", kMappingFileVersion, kMappingFileVersion);
      return;
    }
    reject_mapping_file("megaconv_mapping: found 1, must be " +
                        std::to_string(kMappingFileVersion) +
                        "; export the mapping again with this version of megaconv");
  }

  [[noreturn]] void refuse_value(const std::string& found) const {
    if (place_ == Place::outside) reject_mapping_file("found " + found + ", must be an object");
    if (place_ == Place::tasks) {
      reject_mapping_file("tasks[" + std::to_string(tasks.size()) + "]: found " + found +
                          ", must be a name like \"F[5]\" or \"I[3,0]\"");
    }
    if (place_ == Place::nodes || place_ == Place::stages) {
      reject_mapping_file(std::string(place_ == Place::nodes ? "nodes" : "stages") + ": found " +
                          found + ", must be objects");
    }
    const char* const allowed =
        key_ == "cut"                                                   ? "an object"
        : place_ == Place::top && (key_ == "nodes" || key_ == "stages") ? "an array of objects"
        : place_ == Place::top && key_ == "tasks"                       ? "an array of task names"
                                                  : "a whole number, not negative, or a text";
    reject_mapping_file(path() + ": found " + found + ", must be " + allowed);
  }

  Place place_ = Place::outside;
  std::string key_;  // the last one of the object at hand
  std::set<std::string> seen_;
};

TaskMapping read_mapping(FileSection& top) {
  TaskMapping mapping;
  mapping.policy = top.text("policy");
  if (excerpt(mapping.policy) != mapping.policy) {
    top.refuse("policy", mapping.policy, "at most 80 printable characters");
  }
  for (const std::string& policy : policy_names()) {
    if (mapping.policy == policy) mapping.options.policy = policy;
  }
  mapping.options.dig = top.optional32("dig", 0);
  mapping.options.dgo = top.optional32("dgo", 0);
  mapping.options.m_groups = top.optional32("m_groups", 1);
  mapping.options.seed = top.optional_seed("seed");
  return mapping;
}

}  // namespace

MappingFile read_mapping_file(std::string_view text) {
  check_json(text, kLargeJson, kWhat);
  FileHandler handler;
  json::sax_parse(text.begin(), text.end(), &handler);
  MappingFile file;
  handler.top.whole("megaconv_mapping", kMappingFileVersion, kMappingFileVersion);
  file.mapping = read_mapping(handler.top);
  handler.top.expect_empty();
  for (std::size_t i = 0; i < handler.nodes.size(); ++i) {
    FileSection& node = handler.nodes[i];
    std::string name = node.text("name");
    std::string problem = node.text("problem");
    file.nodes.push_back({std::move(name), std::move(problem), std::move(handler.cuts[i])});
  }
  for (FileSection& section : handler.stages) {
    Stage stage;
    stage.node = static_cast<NodeId>(section.whole("node", 0, kMostItems - 1));
    stage.role = section.choice("role", {Role::prepare, Role::input, Role::product, Role::output});
    file.stage_kinds.push_back(section.text("kind"));
    stage.groups = section.whole32("groups", 1);
    stage.per_group = section.whole32("per_group", 1);
    file.stages.push_back(stage);
  }
  file.tasks = std::move(handler.tasks);
  return file;
}

}  // namespace megaconv
