// SPDX-License-Identifier: Apache-2.0
// Reading the mapping file.
//
// A file may come from anywhere. Whatever follows from other values is computed, never read; every
// key, type and number is checked; and no memory is taken that the file's own length does not
// justify.
#include <charconv>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "mapping/mapping_file.hpp"
#include "mapping/text.hpp"
#include "mapping/tiling.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();

[[noreturn]] void reject(const std::string& message) {
  throw Error(Status::invalid_argument, "mapping file: " + message);
}

// A task as the file names it; whether it exists is known once the tiling is.
struct TaskName {
  char letter = 0;
  std::uint32_t group = 0, block = 0;
};

std::optional<TaskName> parse_task_name(std::string_view text) {
  TaskName task;
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
  if (text.empty()) return std::nullopt;
  task.letter = text.front();
  text.remove_prefix(1);
  if (!take('[')) return std::nullopt;
  if (task.letter != letter(TaskKind::filter_transform)) {
    if (!take_number(task.group) || !take(',')) return std::nullopt;
  }
  if (!take_number(task.block) || !take(']') || !text.empty()) return std::nullopt;
  return task;
}

// Receives the parser's events and keeps the values of known keys ("policy", "tiling.m", ...) and
// the tasks. Nesting other than the format's own is refused where it opens, so depth is bounded.
class FileHandler : public nlohmann::json_sax<json> {
 public:
  using Value = std::variant<std::uint64_t, std::string>;

  std::map<std::string, Value> values;
  std::vector<TaskName> tasks;

  bool null() override { refuse_value("null"); }
  bool boolean(bool) override { refuse_value("a boolean"); }
  bool number_integer(number_integer_t value) override { refuse_value(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { refuse_value(excerpt(text)); }
  bool binary(binary_t&) override { refuse_value("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::tasks) refuse_value(std::to_string(value));
    keep(Value(value));
    return true;
  }

  bool string(string_t& text) override {
    if (place_ != Place::tasks) {
      keep(Value(std::move(text)));
      return true;
    }
    const auto task = parse_task_name(text);
    if (!task) refuse_value("\"" + excerpt(text) + "\"");
    tasks.push_back(*task);
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == "tiling") {
      place_ = Place::tiling;
    } else {
      refuse_value("an object");
    }
    return true;
  }

  bool end_object() override {
    place_ = place_ == Place::tiling ? Place::top : Place::outside;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::top || key_ != "tasks") refuse_value("an array");
    place_ = Place::tasks;
    return true;
  }

  bool end_array() override {
    place_ = Place::top;
    return true;
  }

  bool key(string_t& text) override {
    key_ = (place_ == Place::tiling ? "tiling." : "") + excerpt(text, 40);
    const bool dotted =
        text.find('.') != std::string::npos;  // "tiling.m" is our own way to write it
    if (dotted || !known(key_)) reject("unknown key \"" + key_ + "\"");
    if (!seen_.insert(key_).second) reject("key \"" + key_ + "\" is given twice");
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    std::string_view what = error.what();  // "[json.exception...] parse error at line 3, column 5"
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    reject(excerpt(what, 160));
  }

 private:
  enum class Place { outside, top, tiling, tasks };

  static bool known(const std::string& key) {
    for (const char* name : {"megaconv_mapping", "problem", "tiling", "policy", "dig", "dgo",
                             "m_groups", "seed", "tasks", "tiling.algorithm", "tiling.filters",
                             "tiling.points", "tiling.arithmetic", "tiling.output_layout"}) {
      if (key == name) return true;
    }
    for (const TilingField& field : kTilingFields) {
      if (key == std::string("tiling.") + field.name) return true;
    }
    return false;
  }

  void keep(Value value) {
    const bool scalar =
        (place_ == Place::top && key_ != "tiling" && key_ != "tasks") || place_ == Place::tiling;
    if (!scalar) refuse_value("a single value");
    values.emplace(key_, std::move(value));
  }

  [[noreturn]] void refuse_value(const std::string& found) const {
    if (place_ == Place::outside) reject("found " + found + ", must be an object");
    if (place_ == Place::tasks) {
      reject("tasks[" + std::to_string(tasks.size()) + "]: found " + found +
             ", must be a name like \"F[5]\" or \"I[3,0]\"");
    }
    const char* const allowed = key_ == "tiling"  ? "an object"
                                : key_ == "tasks" ? "an array of task names"
                                                  : "a whole number, not negative, or a text";
    reject(key_ + ": found " + found + ", must be " + allowed);
  }

  Place place_ = Place::outside;
  std::string key_;  // the last one, with "tiling." in front where it is inside
  std::set<std::string> seen_;
};

// Hands out the values that the handler kept, each once, checked.
class Values {
 public:
  explicit Values(std::map<std::string, FileHandler::Value> values) : values_(std::move(values)) {}

  std::string text(const std::string& key) {
    const FileHandler::Value value = take(key);
    if (const auto* found = std::get_if<std::string>(&value)) return *found;
    reject(key + ": found " + std::to_string(std::get<std::uint64_t>(value)) + ", must be a text");
  }

  std::uint64_t whole(const std::string& key, std::uint64_t least, std::uint64_t most) {
    const FileHandler::Value value = take(key);
    const auto* number = std::get_if<std::uint64_t>(&value);
    const std::string found =
        number ? std::to_string(*number) : "\"" + excerpt(std::get<std::string>(value)) + "\"";
    if (number && *number >= least && *number <= most) return *number;
    reject(key + ": found " + found + ", must be " + std::to_string(least) + " to " +
           std::to_string(most));
  }

  std::uint32_t whole32(const std::string& key, std::uint64_t least) {
    return static_cast<std::uint32_t>(whole(key, least, kMaxU32));
  }

  std::optional<std::uint32_t> optional32(const std::string& key, std::uint64_t least) {
    if (!values_.contains(key)) return std::nullopt;
    return whole32(key, least);
  }

  std::uint64_t seed() {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    return values_.contains("seed") ? whole("seed", 0, kMax) : 0;
  }

  // One of `choices`, by its to_string().
  template <typename Enum>
  Enum choice(const std::string& key, std::initializer_list<Enum> choices) {
    const std::string found = text(key);
    std::string allowed;
    for (Enum value : choices) {
      if (found == to_string(value)) return value;
      allowed += (allowed.empty() ? "one of " : ", ") + std::string(to_string(value));
    }
    reject(key + ": found \"" + excerpt(found) + "\", must be " + allowed);
  }

  void expect_empty() const {
    if (!values_.empty()) reject("key \"" + values_.begin()->first + "\" has no place here");
  }

 private:
  FileHandler::Value take(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end()) reject("key \"" + key + "\" is missing");
    FileHandler::Value value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  std::map<std::string, FileHandler::Value> values_;
};

Tiling read_tiling(Values& values, const ConvProblem& problem) {
  Tiling tiling;
  tiling.problem = problem;
  tiling.algorithm =
      values.choice("tiling.algorithm", {Algorithm::direct, Algorithm::winograd, Algorithm::opencnn,
                                         Algorithm::fused_winograd, Algorithm::implicit_gemm});
  tiling.filters = values.choice("tiling.filters", {FilterMode::every_run, FilterMode::prepared});
  if (is_winograd(tiling.algorithm)) {
    tiling.points = values.choice("tiling.points", {Points::low_error, Points::integer});
  }
  if (tiling.algorithm == Algorithm::winograd) {
    tiling.arithmetic = values.choice("tiling.arithmetic",
                                      {Arithmetic::fma, Arithmetic::split_f16, Arithmetic::f16});
  }
  if (tiling.algorithm == Algorithm::implicit_gemm) {
    tiling.arithmetic = values.choice("tiling.arithmetic", {Arithmetic::split_f16, Arithmetic::tf32,
                                                            Arithmetic::f16, Arithmetic::bf16});
  }
  if (tiling.algorithm == Algorithm::opencnn) {
    tiling.output_layout = values.choice("tiling.output_layout",
                                         {OutputLayout::baseline, OutputLayout::optSTS64,
                                          OutputLayout::optSTS64_compact, OutputLayout::optLDS64});
  }
  for (const TilingField& field : kTilingFields) {
    if (!has_field(tiling, field)) continue;
    const bool may_be_none = tiling.algorithm == Algorithm::implicit_gemm &&
                             field.value == &Tiling::channel_blocks_per_input_task;
    tiling.*field.value = values.whole32(std::string("tiling.") + field.name, may_be_none ? 0 : 1);
  }
  const Tiling given = tiling;
  derive_counts(tiling);
  if (given.algorithm == Algorithm::winograd &&
      (given.v_slots != tiling.v_slots || given.m_slots != tiling.m_slots)) {
    reject("tiling.v_slots: found " + std::to_string(given.v_slots) + ", tiling.m_slots: found " +
           std::to_string(given.m_slots) + ", must be 1 to " + std::to_string(tiling.num_groups));
  }
  return tiling;
}

TaskMapping read_mapping(Values& values) {
  TaskMapping mapping;
  mapping.policy = values.text("policy");
  if (excerpt(mapping.policy) != mapping.policy) {
    reject("policy: found \"" + excerpt(mapping.policy) +
           "\", must be at most 80 printable characters");
  }
  for (Policy policy : {Policy::interleaved, Policy::blended, Policy::staged, Policy::depth_first,
                        Policy::critical_path, Policy::random_topological}) {
    if (mapping.policy == to_string(policy)) mapping.options.policy = policy;
  }
  mapping.options.dig = values.optional32("dig", 0);
  mapping.options.dgo = values.optional32("dgo", 0);
  mapping.options.m_groups = values.optional32("m_groups", 1);
  mapping.options.seed = values.seed();
  return mapping;
}

// Ids of the tasks named.
std::vector<std::uint32_t> task_ids(const TaskGraph& graph, const std::vector<TaskName>& names) {
  const Tiling& tiling = graph.tiling;
  const bool direct = tiling.algorithm != Algorithm::winograd;
  std::vector<std::uint32_t> ids;
  ids.reserve(names.size());
  for (const TaskName& task : names) {
    std::uint32_t groups = tiling.num_groups, blocks = 0, first = 0;
    switch (task.letter) {
      case 'F':
        groups = 1;
        blocks = tiling.num_filter_tasks;
        first = graph.filter_id(0);
        break;
      case 'I':
        blocks = tiling.input_tasks;
        first = graph.input_id(0, 0);
        break;
      case 'G':
      case 'D':
        blocks = (task.letter == 'D') == direct ? tiling.gemm_tasks : 0;
        first = graph.gemm_id(0, 0);
        break;
      case 'O':
        blocks = tiling.output_tasks;
        first = graph.output_id(0, 0);
        break;
      default:
        break;
    }
    if (task.group >= groups || task.block >= blocks) {
      const std::string group = task.letter == 'F' ? "" : std::to_string(task.group) + ",";
      reject("tasks[" + std::to_string(ids.size()) + "]: found " +
             excerpt(std::string(1, task.letter)) + "[" + group + std::to_string(task.block) +
             "], this tiling has " + std::to_string(groups) + " groups of " +
             std::to_string(blocks) + " such tasks");
    }
    ids.push_back(first + task.group * blocks + task.block);
  }
  return ids;
}

}  // namespace

Lowering import_mapping(std::string_view text, const ConvProblem* expected) {
  FileHandler file;
  json::sax_parse(text.begin(), text.end(), &file);
  Values values(std::move(file.values));
  values.whole("megaconv_mapping", kMappingFileVersion, kMappingFileVersion);
  const ConvProblem problem = parse_problem(values.text("problem"));
  if (expected != nullptr && problem != *expected) {
    reject("it is for " + to_string(problem) + ", must be for " + to_string(*expected));
  }
  const Tiling tiling = read_tiling(values, problem);
  Lowering lowering;
  lowering.mapping = read_mapping(values);
  values.expect_empty();
  // A few lines must not make us build a huge graph; what is nearly complete is worth a closer
  // look.
  if (num_tasks(tiling) > 65536 + 2 * file.tasks.size()) {
    reject("tasks: found " + std::to_string(file.tasks.size()) + ", this tiling has " +
           std::to_string(num_tasks(tiling)));
  }
  lowering.graph = build_graph(tiling);
  lowering.mapping.order = task_ids(lowering.graph, file.tasks);
  if (const auto violation = validate(lowering.graph, lowering.mapping)) {
    reject(violation->message);
  }
  return lowering;
}

}  // namespace megaconv
