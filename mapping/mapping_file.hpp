// SPDX-License-Identifier: Apache-2.0
// The mapping file as a value: its JSON, without what the sections of nodes mean.
// docs/mapping.schema.json describes the format.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "megaconv/mapping.hpp"

namespace megaconv {

inline constexpr std::uint64_t kMappingFileVersion = 2;

/// Throws Error(invalid_argument) with "mapping file: " in front of the message.
[[noreturn]] void reject_mapping_file(const std::string& message);

/// Single values of an object of the file, by key; each is taken once, checked.
class FileSection {
 public:
  using Value = std::variant<std::uint64_t, std::string>;

  /// `path`: where it stands in the file, for messages: "nodes[0].cut.", "" for the top.
  explicit FileSection(std::string path = {}) : path_(std::move(path)) {}

  void put(const std::string& key, Value value) { values_[key] = std::move(value); }
  const std::map<std::string, Value>& values() const { return values_; }
  const std::string& path() const { return path_; }

  std::string text(const std::string& key);
  std::uint64_t whole(const std::string& key, std::uint64_t least, std::uint64_t most);
  std::uint32_t whole32(const std::string& key, std::uint64_t least);
  std::optional<std::uint32_t> optional32(const std::string& key, std::uint64_t least);
  std::uint64_t optional_seed(const std::string& key);
  /// One of `choices`, by its to_string().
  template <typename Enum>
  Enum choice(const std::string& key, std::initializer_list<Enum> choices) {
    const std::string found = text(key);
    std::string allowed;
    for (Enum value : choices) {
      if (found == to_string(value)) return value;
      allowed += (allowed.empty() ? "one of " : ", ") + std::string(to_string(value));
    }
    refuse(key, found, allowed);
  }
  /// Throws for a key that nobody has taken.
  void expect_empty() const;
  /// "nodes[0].cut.m: found "x", must be ...".
  [[noreturn]] void refuse(const std::string& key, const std::string& found,
                           const std::string& allowed) const;

 private:
  Value take(const std::string& key);

  std::string path_;
  std::map<std::string, Value> values_;
};

/// An operator: what it computes as a text, and how its room has cut it.
struct FileNode {
  std::string name, problem;
  FileSection cut;
};

/// A task as the file names it, "I[3,0]"; whether it exists is known once the graph is.
struct FileTask {
  char letter = 0;
  bool has_group = false;  ///< of "F[5]" not
  std::uint32_t group = 0, block = 0;
};

struct MappingFile {
  std::vector<FileNode> nodes;
  std::vector<Stage> stages;             ///< node, role, groups and per_group
  std::vector<std::string> stage_kinds;  ///< by stage: the name of its kind
  TaskMapping mapping;                   ///< without the order
  std::vector<FileTask> tasks;           ///< by position
};

/// Reads a file that may come from anywhere: every key, type and number is checked, depth is
/// bounded, and no memory is taken that the file's own length does not justify.
MappingFile read_mapping_file(std::string_view json);

/// `nodes`: those of the graph. One task a line, so that two files can be compared with diff.
std::string write_mapping_file(const std::vector<FileNode>& nodes, const TaskGraph& graph,
                               const TaskMapping& mapping);

/// Ids of the tasks that the file names. Throws Error(invalid_argument) for one that the graph does
/// not have.
std::vector<std::uint32_t> task_ids(const TaskGraph& graph, const std::vector<FileTask>& tasks);

}  // namespace megaconv
