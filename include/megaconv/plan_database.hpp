// SPDX-License-Identifier: Apache-2.0
// What was measured, kept for later plans: one SQLite file, safe with several processes and after a
// process was killed. docs/tuning.md describes the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megaconv/tuning.hpp"

namespace megaconv {

/// What a measurement holds for, and for nothing else.
struct PlanKey {
  std::string backend;    ///< "cpu", "cuda", "sim"
  std::string device;     ///< "AMD EPYC 9B45, avx512, 2 threads"; "NVIDIA H200, 132 SMs"
  std::string driver;     ///< "580.95.05, CUDA 13.0"; "none" on a CPU
  std::string build;      ///< library_build()
  std::string problem;    ///< canonical problem string; "network 3f2a9c51d07e0b42, 55 nodes"
  std::string precision;  ///< "f32": what was asked for, or the tensors' type; "max_error 1e-05"
  std::string filters;    ///< "every_run" or "prepared"
  bool operator==(const PlanKey&) const = default;
};

/// The key of a problem on this machine with this library. Throws like Plan::create when the back
/// end is not there.
PlanKey plan_key(const ConvProblem& problem, const PlanOptions& options);
/// Of a network count its operators, shapes and storage type, not its weights.
PlanKey plan_key(const Network& network, const PlanOptions& options);
/// Whether a key is of a network.
bool is_of_network(const PlanKey& key);

/// Version and a digest of the sources that decide how fast a plan is: "0.1.0-3f2a9c51d07e".
const char* library_build() noexcept;

/// What became of a candidate.
enum class Verdict : std::uint8_t {
  right,     ///< measured, and the output within its error bound
  wrong,     ///< the output is outside of its bound
  crashed,   ///< the process that measured it ended
  hung,      ///< no answer in time, or a task's wait exceeded its budget
  refused,   ///< planning threw
  rejected,  ///< a constraint of the space
};
const char* to_string(Verdict verdict) noexcept;
/// Throws Error(invalid_argument).
Verdict parse_verdict(std::string_view text);

struct Measurement {
  std::string id;  ///< unique among all files; made by add() when empty
  Configuration configuration;
  Verdict verdict = Verdict::right;
  std::string reason;              ///< of every verdict but right
  std::vector<double> samples_ms;  ///< all that were taken
  double best_ms = 0;              ///< the least: what candidates are compared by
  double median_ms = 0;
  double noise = 0;        ///< (p90 - p10) / median
  double clock_mhz = 0;    ///< while measuring; 0 when unknown
  double relative_l2 = 0;  ///< error found, of bound_l2 allowed
  double worst_element = 0;
  double bound_l2 = 0, bound_element = 0;
  std::uint64_t workspace_bytes = 0;
  std::string strategy;     ///< that proposed it
  std::uint64_t seed = 0;   ///< of the data
  std::string measured_at;  ///< UTC, "2026-11-21T09:30:00Z"; made by add() when empty
};

/// Strategy of the measurements that were taken in turns at the end of a search.
inline constexpr const char* kFinalStrategy = "final";

/// 128 random bits in hexadecimal.
std::string new_measurement_id();

/// Fills best_ms, median_ms and noise from the samples.
void summarize(Measurement& measurement);

/// Configurations whose last measurement is right and none wrong, fastest first: of each the
/// fastest measurement. Where there are measurements of kFinalStrategy only these count, and stand
/// before others: the least of many times that were taken one after the other is the luckiest.
/// Equal times stand in the order of their configurations' texts.
std::vector<Measurement> rank(const std::vector<Measurement>& measurements);

/// One file. Movable; one thread at a time. All members throw Error(device_error) that names the
/// file when it cannot be read or written, is locked for longer than 10 s, damaged, of a newer
/// format or of another schema, or the disk is full; Error(unsupported) in a build without SQLite.
/// A file may come from anywhere: a value of more than 1 MiB, or a statement of 10^9 steps of
/// SQLite's machine, is an error, and texts come out as printable ASCII.
class PlanDatabase {
 public:
  enum class Access { read, write };
  /// False in a build without SQLite.
  static bool available() noexcept;

  /// Write access creates the file and its folder.
  PlanDatabase(const std::string& file, Access access);
  ~PlanDatabase();
  PlanDatabase(PlanDatabase&&) noexcept;
  PlanDatabase& operator=(PlanDatabase&&) noexcept;

  const std::string& file() const;
  /// On stable storage when it returns.
  void add(const PlanKey& key, std::span<const Measurement> measurements);
  void add(const PlanKey& key, const Measurement& measurement) { add(key, {&measurement, 1}); }
  /// All of a key, oldest first.
  std::vector<Measurement> measurements(const PlanKey& key) const;
  /// The same without those that were rejected, which are many: all that rank() looks at.
  std::vector<Measurement> tried(const PlanKey& key) const;
  std::vector<PlanKey> keys() const;
  /// Keys of this problem, precision and filter mode for other devices, drivers or builds.
  std::uint64_t num_foreign(const PlanKey& key) const;
  /// Adds what `other` has and this file has not. Returns how many rows that were.
  std::uint64_t merge(const std::string& other);
  /// A copy in one file without a write-ahead log, as is fit for shipping.
  void copy_to(const std::string& file) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Files that PlanSource::database reads, the user's first. Files that do not exist are left out.
std::vector<std::string> database_files(const PlanOptions& options);
/// Where `megaconv tune` writes: $MEGACONV_CACHE_DIR, $XDG_CACHE_HOME/megaconv or
/// ~/.cache/megaconv, and "plans.db". Throws Error(device_error) when none of them is set.
std::string user_database_file();

}  // namespace megaconv
