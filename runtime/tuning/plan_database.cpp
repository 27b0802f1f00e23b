// SPDX-License-Identifier: Apache-2.0
// The plan database in SQLite. A row is added in one transaction with synchronous = FULL and a
// write-ahead log, so that add() returns when it is on stable storage, and a process that is killed
// leaves either the whole row or none.
//
// Rows are never changed. A second measurement of a configuration is a row of its own, and the
// latest counts; ids are random, so that merging files twice adds nothing twice.
#include "megaconv/plan_database.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "mapping/json_text.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "runtime/tuning/sqlite.hpp"

namespace megaconv {
namespace {

namespace fs = std::filesystem;
using sqlite::Statement;

constexpr std::int64_t kApplicationId = 0x6d636e76;  // "mcnv"
// Grows when a table changes, or a parameter is added that older readers do not know.
constexpr std::int64_t kFormat = 1;

constexpr const char* kSchema = R"(
CREATE TABLE plan_key(
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL, build TEXT NOT NULL,
  problem TEXT NOT NULL, precision TEXT NOT NULL, filters TEXT NOT NULL,
  UNIQUE(backend, device, driver, build, problem, precision, filters));
CREATE TABLE measurement(
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  plan_key INTEGER NOT NULL REFERENCES plan_key(id),
  configuration TEXT NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL,
  samples_ms TEXT NOT NULL, best_ms REAL NOT NULL, median_ms REAL NOT NULL, noise REAL NOT NULL,
  clock_mhz REAL NOT NULL,
  relative_l2 REAL NOT NULL, worst_element REAL NOT NULL,
  bound_l2 REAL NOT NULL, bound_element REAL NOT NULL,
  workspace_bytes INTEGER NOT NULL,
  strategy TEXT NOT NULL, seed INTEGER NOT NULL, measured_at TEXT NOT NULL);
CREATE INDEX measurement_of_key ON measurement(plan_key, row);
)";

// For planning: a search rejects a thousand times what it measures. Files of before have it from
// the next time that they are written.
constexpr const char* kIndex =
    "CREATE INDEX IF NOT EXISTS measured_of_key ON measurement(plan_key, row) "
    "WHERE verdict <> 'rejected'";

constexpr const char* kColumns =
    "id, configuration, verdict, reason, samples_ms, best_ms, median_ms, noise, clock_mhz, "
    "relative_l2, worst_element, bound_l2, bound_element, workspace_bytes, strategy, seed, "
    "measured_at";

constexpr const char* kSameKey =
    " backend = ? AND device = ? AND driver = ? AND build = ? AND problem = ? AND precision = ? "
    "AND "
    "filters = ?";

[[noreturn]] void fail(const std::string& file, const std::string& reason) {
  throw Error(Status::device_error, "plan database " + file + ": " + reason);
}

std::string uri(const std::string& file, bool immutable) {
  std::string text = "file:";
  for (const char ch : fs::absolute(file).string()) {
    if (ch == '?' || ch == '#' || ch == '%') {
      constexpr const char* kHex = "0123456789abcdef";
      text += {'%', kHex[ch >> 4], kHex[ch & 15]};
    } else {
      text += ch;
    }
  }
  return text + (immutable ? "?immutable=1" : "");
}

// In a folder that may not be written, the shared memory beside a write-ahead log cannot be made.
// Without a log the file is complete in itself.
bool must_be_immutable(const std::string& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  std::error_code ignored;
  return access(folder.c_str(), W_OK) != 0 && !fs::exists(file + "-wal", ignored);
}

void bind_key(Statement& statement, const PlanKey& key) {
  statement.bind(key.backend).bind(key.device).bind(key.driver).bind(key.build);
  statement.bind(key.problem).bind(key.precision).bind(key.filters);
}

std::string now() {
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Measurement read_row(const Statement& row) {
  Measurement m;
  m.id = row.text(0);
  m.configuration = parse_configuration(row.text(1));
  m.verdict = parse_verdict(row.text(2));
  m.reason = row.text(3);
  m.samples_ms =
      parse_json<nlohmann::json>(row.text(4), kSmallJson, "samples").get<std::vector<double>>();
  m.best_ms = row.real(5);
  m.median_ms = row.real(6);
  m.noise = row.real(7);
  m.clock_mhz = row.real(8);
  m.relative_l2 = row.real(9);
  m.worst_element = row.real(10);
  m.bound_l2 = row.real(11);
  m.bound_element = row.real(12);
  m.workspace_bytes = static_cast<std::uint64_t>(row.number(13));
  m.strategy = row.text(14);
  m.seed = static_cast<std::uint64_t>(row.number(15));
  m.measured_at = row.text(16);
  return m;
}

}  // namespace

struct PlanDatabase::State {
  sqlite::Connection connection;
  bool empty = false;  // opened for reading before its writer made the tables

  State(const std::string& file, Access access)
      : connection(uri(file, access == Access::read && must_be_immutable(file)), file,
                   access == Access::write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                           : SQLITE_OPEN_READONLY) {
    empty = is_blank();
    if (!empty) check_format();
    if (access == Access::write) prepare_to_write();
  }

  std::vector<Measurement> select(const PlanKey& key, const char* condition);

  bool is_blank() {
    return connection.number("PRAGMA application_id") == 0 &&
           connection.number("SELECT count(*) FROM sqlite_master") == 0;
  }

  void check_format() {
    if (connection.number("PRAGMA application_id") != kApplicationId) {
      fail(connection.file(), "it is a database of another program");
    }
    const std::int64_t format = connection.number("PRAGMA user_version");
    if (format > kFormat) {
      fail(connection.file(), "it has format " + std::to_string(format) + ", must be at most " +
                                  std::to_string(kFormat) + ": a newer megaconv made it");
    }
    check_schema();
  }

  // What we make are tables and indices; anything else in their place is not ours.
  void check_schema() {
    const std::int64_t tables = connection.number(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND "
        "name IN ('plan_key', 'measurement')");
    const std::int64_t others = connection.number(
        "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')");
    if (tables != 2 || others != 0) {
      fail(connection.file(), "its schema is not that of a plan database");
    }
  }

  void prepare_to_write() {
    connection.run("PRAGMA journal_mode = WAL");
    connection.run("PRAGMA synchronous = FULL");
    connection.run("PRAGMA foreign_keys = ON");
    if (!empty) {
      connection.run(kIndex);
      return;
    }
    sqlite::Transaction transaction(connection);
    if (is_blank()) {  // still, now that no other process can make them
      connection.run(kSchema);
      connection.run(kIndex);
      connection.run("PRAGMA application_id = " + std::to_string(kApplicationId));
      connection.run("PRAGMA user_version = " + std::to_string(kFormat));
    }
    transaction.commit();
    empty = false;
  }

  std::int64_t key_id(const PlanKey& key) {
    Statement insert(connection,
                     "INSERT OR IGNORE INTO plan_key(backend, device, driver, build, problem, "
                     "precision, filters) VALUES(?, ?, ?, ?, ?, ?, ?)");
    bind_key(insert, key);
    insert.step();
    Statement find(connection, std::string("SELECT id FROM plan_key WHERE") + kSameKey);
    bind_key(find, key);
    find.step();
    return find.number(0);
  }
};

PlanDatabase::PlanDatabase(const std::string& file, Access access) {
  std::error_code error;
  if (access == Access::write) {
    const fs::path folder = fs::absolute(file).parent_path();
    if (!fs::exists(folder, error)) {
      fs::create_directories(folder, error);
      if (error) fail(file, "cannot make its folder: " + error.message());
      fs::permissions(folder, fs::perms::owner_all, error);
    }
  } else if (!fs::exists(file, error)) {
    fail(file, "it does not exist");
  }
  // SQLite would wait for ever for the other end of a pipe.
  for (const char* part : {"", "-wal", "-shm", "-journal"}) {
    const fs::file_status status = fs::status(file + part, error);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      fail(file,
           (*part == '\0' ? "it" : part) + std::string(" cannot be opened: not a regular file"));
    }
  }
  state_ = std::make_unique<State>(file, access);
}

bool PlanDatabase::available() noexcept { return true; }

PlanDatabase::~PlanDatabase() = default;
PlanDatabase::PlanDatabase(PlanDatabase&&) noexcept = default;
PlanDatabase& PlanDatabase::operator=(PlanDatabase&&) noexcept = default;

const std::string& PlanDatabase::file() const { return state_->connection.file(); }

void PlanDatabase::add(const PlanKey& key, std::span<const Measurement> measurements) {
  sqlite::Transaction transaction(state_->connection);
  const std::int64_t key_id = state_->key_id(key);
  Statement insert(state_->connection, std::string("INSERT INTO measurement(") + kColumns +
                                           ", plan_key) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                                           "?, ?, ?, ?, ?, ?)");
  for (const Measurement& m : measurements) {
    insert.bind(m.id.empty() ? new_measurement_id() : m.id).bind(to_string(m.configuration));
    insert.bind(to_string(m.verdict)).bind(m.reason);
    insert.bind(nlohmann::json(m.samples_ms).dump()).bind(m.best_ms).bind(m.median_ms);
    insert.bind(m.noise).bind(m.clock_mhz).bind(m.relative_l2).bind(m.worst_element);
    insert.bind(m.bound_l2).bind(m.bound_element);
    insert.bind(static_cast<std::int64_t>(m.workspace_bytes)).bind(m.strategy);
    insert.bind(static_cast<std::int64_t>(m.seed));
    insert.bind(m.measured_at.empty() ? now() : m.measured_at).bind(key_id);
    insert.step();
    insert.reset();
  }
  transaction.commit();
}

std::vector<Measurement> PlanDatabase::measurements(const PlanKey& key) const {
  return state_->select(key, "");
}

std::vector<Measurement> PlanDatabase::tried(const PlanKey& key) const {
  return state_->select(key, " AND verdict <> 'rejected'");
}

std::vector<Measurement> PlanDatabase::State::select(const PlanKey& key, const char* condition) {
  std::vector<Measurement> found;
  if (empty) return found;
  Statement select(connection,
                   std::string("SELECT ") + kColumns +
                       " FROM measurement WHERE plan_key = (SELECT id FROM plan_key WHERE" +
                       kSameKey + ")" + condition + " ORDER BY row");
  bind_key(select, key);
  while (select.step()) {
    try {
      found.push_back(read_row(select));
    } catch (const std::exception& error) {
      fail(connection.file(),
           "row \"" + excerpt(select.text(0)) + "\" is damaged: " + error.what());
    }
  }
  return found;
}

std::vector<PlanKey> PlanDatabase::keys() const {
  std::vector<PlanKey> keys;
  if (state_->empty) return keys;
  Statement select(state_->connection,
                   "SELECT backend, device, driver, build, problem, precision, filters FROM "
                   "plan_key ORDER BY id");
  while (select.step()) {
    keys.push_back({select.text(0), select.text(1), select.text(2), select.text(3), select.text(4),
                    select.text(5), select.text(6)});
  }
  return keys;
}

std::uint64_t PlanDatabase::num_foreign(const PlanKey& key) const {
  const std::vector<PlanKey> all = keys();
  return static_cast<std::uint64_t>(
      std::count_if(all.begin(), all.end(), [&](const PlanKey& other) {
        return other != key && other.problem == key.problem && other.precision == key.precision &&
               other.filters == key.filters && other.backend == key.backend;
      }));
}

std::uint64_t PlanDatabase::merge(const std::string& other) {
  if (std::error_code error; fs::equivalent(other, file(), error)) {
    fail(other, "it cannot be merged into itself");
  }
  // A log that its writer left behind is read, and checked, only by a connection of its own.
  const PlanDatabase source(other, Access::read);
  if (source.state_->empty) return 0;
  Statement attach(state_->connection, "ATTACH ? AS source");
  attach.bind(uri(other, must_be_immutable(other)));
  attach.step();
  std::int64_t added = 0;
  {
    sqlite::Transaction transaction(state_->connection);
    state_->connection.run(
        "INSERT OR IGNORE INTO plan_key(backend, device, driver, build, problem, precision, "
        "filters) SELECT backend, device, driver, build, problem, precision, filters FROM "
        "source.plan_key ORDER BY id");
    state_->connection.run(std::string("INSERT OR IGNORE INTO main.measurement(") + kColumns +
                           ", plan_key) SELECT m.id, configuration, verdict, reason, samples_ms, "
                           "best_ms, median_ms, noise, clock_mhz, relative_l2, worst_element, "
                           "bound_l2, bound_element, workspace_bytes, strategy, seed, measured_at, "
                           "ours.id FROM source.measurement m "
                           "JOIN source.plan_key k ON k.id = m.plan_key "
                           "JOIN main.plan_key ours USING(backend, device, driver, build, problem, "
                           "precision, filters) ORDER BY m.row");
    added = state_->connection.changes();
    transaction.commit();
  }
  state_->connection.run("DETACH source");
  return static_cast<std::uint64_t>(added);
}

void PlanDatabase::copy_to(const std::string& target) const {
  Statement vacuum(state_->connection, "VACUUM INTO ?");
  vacuum.bind(target);
  vacuum.step();
}

}  // namespace megaconv
