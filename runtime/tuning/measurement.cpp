// SPDX-License-Identifier: Apache-2.0
// What does not need SQLite: verdicts, summaries, and where the files are.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "mapping/enum_names.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/plan_database.hpp"
#include "runtime/quantile.hpp"

namespace megaconv {
namespace {

constexpr std::pair<Verdict, const char*> kVerdictNames[] = {
    {Verdict::right, "right"}, {Verdict::wrong, "wrong"},     {Verdict::crashed, "crashed"},
    {Verdict::hung, "hung"},   {Verdict::refused, "refused"}, {Verdict::rejected, "rejected"},
};

// Of a folder's variable; empty when it is unset or, as the XDG specification wants, relative.
std::filesystem::path folder_of(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return {};
  const std::filesystem::path path = value;
  return path.is_absolute() ? path : std::filesystem::path();
}

std::string user_file_or_empty() {
  if (const char* own = std::getenv("MEGACONV_CACHE_DIR"); own != nullptr && *own != '\0') {
    return (std::filesystem::path(own) / "plans.db").string();
  }
  const std::filesystem::path xdg = folder_of("XDG_CACHE_HOME"), home = folder_of("HOME");
  if (!xdg.empty()) return (xdg / "megaconv" / "plans.db").string();
  if (!home.empty()) return (home / ".cache" / "megaconv" / "plans.db").string();
  return {};
}

}  // namespace

const char* to_string(Verdict verdict) noexcept { return name_of(kVerdictNames, verdict); }

Verdict parse_verdict(std::string_view name) {
  if (const auto verdict = value_of(kVerdictNames, name)) return *verdict;
  throw Error(Status::invalid_argument,
              "verdict \"" + excerpt(name) + "\", must be one of " + list_names(kVerdictNames));
}

std::string new_measurement_id() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", device());
    id += part;
  }
  return id;
}

void summarize(Measurement& measurement) {
  std::vector<double> sorted = measurement.samples_ms;
  if (sorted.empty()) return;
  std::sort(sorted.begin(), sorted.end());
  measurement.best_ms = sorted.front();
  measurement.median_ms = quantile(sorted, 0.5);
  measurement.noise = (quantile(sorted, 0.9) - quantile(sorted, 0.1)) / measurement.median_ms;
}

std::vector<Measurement> rank(const std::vector<Measurement>& measurements) {
  const auto before = [](const Measurement& a, const Measurement& b) {
    const bool a_final = a.strategy == kFinalStrategy, b_final = b.strategy == kFinalStrategy;
    return a_final != b_final ? a_final : a.best_ms < b.best_ms;
  };
  struct Entry {
    const Measurement* best = nullptr;
    bool right = false, ever_wrong = false;
  };
  std::map<std::string, Entry> entries;  // in the order of equal times
  for (const Measurement& m : measurements) {
    if (m.verdict == Verdict::rejected) continue;
    Entry& entry = entries[to_string(m.configuration)];
    // What was wrong once stays out. A crash may have been the machine's: the last word counts.
    entry.right = m.verdict == Verdict::right;
    entry.ever_wrong = entry.ever_wrong || m.verdict == Verdict::wrong;
    if (entry.right && (entry.best == nullptr || before(m, *entry.best))) entry.best = &m;
  }
  std::vector<Measurement> ranked;
  for (const auto& [text, entry] : entries) {
    if (entry.right && !entry.ever_wrong) ranked.push_back(*entry.best);
  }
  std::stable_sort(ranked.begin(), ranked.end(), before);
  return ranked;
}

std::string user_database_file() {
  const std::string file = user_file_or_empty();
  if (!file.empty()) return file;
  throw Error(
      Status::device_error,
      "no place for a plan database: none of MEGACONV_CACHE_DIR, XDG_CACHE_HOME and HOME is "
      "set to an absolute path");
}

std::vector<std::string> database_files(const PlanOptions& options) {
  if (!options.database.empty()) return {options.database};
  std::vector<std::string> files;
  for (const std::string& file : {user_file_or_empty(), std::string(MEGACONV_SYSTEM_DATABASE)}) {
    std::error_code error;
    if (!file.empty() && std::filesystem::exists(file, error)) files.push_back(file);
  }
  return files;
}

}  // namespace megaconv
