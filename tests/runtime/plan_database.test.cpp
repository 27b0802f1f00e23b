// SPDX-License-Identifier: Apache-2.0
// The plan database: what goes in comes out, and files that are not right are refused by name.
#include "megaconv/plan_database.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "megaconv/error.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/plan_key.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv {
namespace {

using cli::ScratchFolder;
using test::kKey;
using Access = PlanDatabase::Access;

Measurement measured(const char* configuration, std::vector<double> samples,
                     Verdict verdict = Verdict::right) {
  Measurement m;
  m.configuration = parse_configuration(configuration);
  m.verdict = verdict;
  m.reason = verdict == Verdict::right ? "" : "seeded";
  m.samples_ms = std::move(samples);
  summarize(m);
  return m;
}

std::string refusal(const std::string& file, Access access = Access::read) {
  try {
    PlanDatabase database(file, access);
    return "opened";
  } catch (const Error& error) {
    CHECK(error.status() == Status::device_error);
    return error.what();
  }
}

void run_sql(const std::string& file, const std::string& sql) {
  const std::string command = "sqlite3 '" + file + "' \"" + sql + "\"";
  REQUIRE(std::system(command.c_str()) == 0);
}

bool have_sqlite_shell() { return std::system("command -v sqlite3 >/dev/null") == 0; }

TEST_CASE("A measurement comes back as it went in", "[database]") {
  const ScratchFolder folder;
  Measurement m = measured("algo=winograd,tile=4,policy=staged", {1.5, 1.25, 2.0});
  m.clock_mhz = 3100;
  m.relative_l2 = 1e-7;
  m.workspace_bytes = std::uint64_t{5} << 32;
  m.strategy = "random";
  m.seed = 7;
  PlanDatabase(folder.path("sub/plans.db"), Access::write).add(kKey, m);

  const PlanDatabase database(folder.path("sub/plans.db"), Access::read);
  CHECK(database.keys() == std::vector{kKey});
  const std::vector<Measurement> found = database.measurements(kKey);
  REQUIRE(found.size() == 1);
  CHECK(found[0].configuration == m.configuration);
  CHECK(found[0].samples_ms == m.samples_ms);
  CHECK(found[0].best_ms == 1.25);
  CHECK(found[0].median_ms == 1.5);
  CHECK(found[0].clock_mhz == 3100);
  CHECK(found[0].relative_l2 == 1e-7);
  CHECK(found[0].workspace_bytes == std::uint64_t{5} << 32);
  CHECK(found[0].strategy == "random");
  CHECK(found[0].seed == 7);
  CHECK(found[0].id.size() == 32);
  CHECK(found[0].measured_at.size() == 20);
  PlanKey other = kKey;
  other.device = "another core";
  CHECK(database.measurements(other).empty());
  CHECK(database.num_foreign(other) == 1);
}

TEST_CASE("Ranking takes the fastest of each configuration whose last word is right",
          "[database]") {
  const std::vector<Measurement> all = {
      measured("algo=direct", {3.0}),
      measured("tile=2", {1.0}),
      measured("tile=2", {}, Verdict::wrong),
      measured("tile=2", {1.0}),  // wrong once stays out
      measured("tile=4", {}, Verdict::crashed),
      measured("tile=4", {2.0}),
      measured("tile=4", {2.5}),
      measured("tile=6", {0.5}),
      measured("tile=6", {}, Verdict::hung),
      measured("cols=7", {}, Verdict::rejected),
  };
  const std::vector<Measurement> ranked = rank(all);
  REQUIRE(ranked.size() == 2);
  CHECK(to_string(ranked[0].configuration) == "tile=4");
  CHECK(ranked[0].best_ms == 2.0);
  CHECK(to_string(ranked[1].configuration) == "algo=direct");
}

TEST_CASE("Ranking believes the measurements in turns at the end of a search", "[database]") {
  const auto final_of = [](const char* configuration, double ms) {
    Measurement m = measured(configuration, {ms});
    m.strategy = kFinalStrategy;
    return m;
  };
  const std::vector<Measurement> ranked =
      rank({measured("tile=2", {1.0}),  // lucky
            measured("tile=4", {1.5}), measured("algo=direct", {1.2}), final_of("tile=2", 2.0),
            final_of("tile=4", 1.8), final_of("tile=2", 1.9)});
  REQUIRE(ranked.size() == 3);
  CHECK(to_string(ranked[0].configuration) == "tile=4");
  CHECK(ranked[0].best_ms == 1.8);
  CHECK(to_string(ranked[1].configuration) == "tile=2");
  CHECK(ranked[1].best_ms == 1.9);
  CHECK(to_string(ranked[2].configuration) == "algo=direct");
}

TEST_CASE("Files are merged once, whatever the number of merges", "[database]") {
  const ScratchFolder folder;
  PlanDatabase a(folder.path("a.db"), Access::write), b(folder.path("b.db"), Access::write);
  a.add(kKey, measured("tile=2", {1.0}));
  PlanKey other = kKey;
  other.problem = "n2c16h8w8k16r3s3p1u1d1g1";
  b.add(other, measured("tile=4", {2.0}));
  b.add(kKey, measured("tile=4", {3.0}));
  CHECK(a.merge(folder.path("b.db")) == 2);
  CHECK(a.merge(folder.path("b.db")) == 0);
  CHECK(a.measurements(kKey).size() == 2);
  CHECK(a.measurements(other).size() == 1);
  CHECK_THROWS_AS(a.merge(folder.path("a.db")), Error);
  a.copy_to(folder.path("c.db"));
  CHECK(PlanDatabase(folder.path("c.db"), Access::read).measurements(kKey).size() == 2);
}

TEST_CASE("Several threads with a connection each lose nothing", "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db");
  constexpr int kWriters = 3, kRows = 20;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&file] {
      PlanDatabase database(file, Access::write);
      for (int row = 0; row < kRows; ++row) database.add(kKey, measured("tile=4", {1.0 + row}));
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(PlanDatabase(file, Access::read).measurements(kKey).size() == kWriters * kRows);
}

TEST_CASE("A file that is no plan database is refused, and not touched", "[database]") {
  const ScratchFolder folder;
  CHECK_THAT(refusal(folder.path("absent.db")), ContainsSubstring("absent.db: it does not exist"));
  const std::string text(5000, 'x');
  const std::string file = folder.write("text.db", text);
  CHECK_THAT(refusal(file), ContainsSubstring("not a plan database"));
  CHECK_THAT(refusal(file, Access::write), ContainsSubstring("not a plan database"));
  CHECK(folder.read("text.db") == text);
  CHECK_THAT(refusal(folder.path("text.db/plans.db"), Access::write),
             ContainsSubstring("cannot be opened or created"));
}

TEST_CASE("Foreign, newer, damaged and read-only files are refused by name", "[database]") {
  if (!have_sqlite_shell()) SKIP("no sqlite3 command");
  const ScratchFolder folder;
  run_sql(folder.path("foreign.db"), "CREATE TABLE t(x);");
  CHECK_THAT(refusal(folder.path("foreign.db")), ContainsSubstring("another program"));

  const std::string file = folder.path("plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
  run_sql(file, "UPDATE measurement SET configuration = 'tile=5';");
  CHECK_THROWS_WITH(PlanDatabase(file, Access::read).measurements(kKey),
                    ContainsSubstring("is damaged"));
  run_sql(file, "PRAGMA user_version = 2;");
  CHECK_THAT(refusal(file), ContainsSubstring("format 2, must be at most 1"));
  CHECK_THAT(refusal(file, Access::write), ContainsSubstring("newer megaconv"));
}

TEST_CASE("A file whose schema does something of its own is refused", "[database]") {
  if (!have_sqlite_shell()) SKIP("no sqlite3 command");
  const ScratchFolder folder;
  const auto refusal_after = [&](const char* name, const std::string& sql) {
    const std::string file = folder.path(name);
    PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
    run_sql(file, sql);
    CHECK(refusal(file, Access::write) == refusal(file));
    return refusal(file);
  };
  const std::string message = "its schema is not that of a plan database";
  // Rows without end, each like the first.
  CHECK_THAT(refusal_after("view.db",
                           "ALTER TABLE measurement RENAME TO m; CREATE VIEW measurement AS WITH "
                           "RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS "
                           "row, m.* FROM c, m;"),
             ContainsSubstring(message));
  CHECK_THAT(refusal_after("trigger.db",
                           "CREATE TRIGGER t AFTER INSERT ON plan_key BEGIN DELETE FROM "
                           "measurement; END;"),
             ContainsSubstring(message));
  CHECK_THAT(refusal_after("missing.db", "DROP TABLE measurement;"), ContainsSubstring(message));
  CHECK_THAT(refusal_after("virtual.db",
                           "DROP TABLE measurement; CREATE VIRTUAL TABLE measurement USING "
                           "fts5(id);"),
             ContainsSubstring(message));
}

TEST_CASE("A value of any size is refused before it is read", "[database]") {
  if (!have_sqlite_shell()) SKIP("no sqlite3 command");
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
  for (const char* column : {"samples_ms", "reason", "configuration"}) {
    run_sql(file, std::string("UPDATE measurement SET ") + column + " = zeroblob(30000000);");
    CHECK_THROWS_WITH(PlanDatabase(file, Access::read).measurements(kKey),
                      ContainsSubstring("a value in it has more than 1048576 bytes"));
  }
  run_sql(file,
          "UPDATE measurement SET samples_ms = replace(hex(zeroblob(200000)), '00', '[') || "
          "replace(hex(zeroblob(200000)), '00', ']'), reason = '', configuration = 'tile=4';");
  CHECK_THROWS_WITH(PlanDatabase(file, Access::read).measurements(kKey),
                    ContainsSubstring("samples: arrays and objects nested more than 32 deep"));
}

TEST_CASE("Texts of a file cannot command a terminal", "[database]") {
  if (!have_sqlite_shell()) SKIP("no sqlite3 command");
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
  run_sql(file, "UPDATE measurement SET strategy = char(27) || '[31m', measured_at = char(155);");
  const std::vector<Measurement> found = PlanDatabase(file, Access::read).measurements(kKey);
  CHECK(found.at(0).strategy == "?[31m");
  CHECK(found.at(0).measured_at == "??");
}

TEST_CASE("What a search rejected costs a plan nothing", "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db");
  PlanDatabase database(file, Access::write);
  const std::vector<Measurement> rejected(50, measured("cols=7", {}, Verdict::rejected));
  database.add(kKey, rejected);
  database.add(kKey, measured("tile=4", {1.0}));
  database.add(kKey, measured("tile=2", {}, Verdict::wrong));
  database.add(kKey, rejected);
  CHECK(database.measurements(kKey).size() == 102);
  const std::vector<Measurement> tried = database.tried(kKey);
  REQUIRE(tried.size() == 2);
  CHECK(to_string(tried[0].configuration) == "tile=4");
  CHECK(tried[1].verdict == Verdict::wrong);
  if (!have_sqlite_shell()) SKIP("no sqlite3 command");
  // The other rows are not even looked at; nor in a file of before, once it is written again.
  const auto uses_index = [&] {
    const std::string command = "sqlite3 '" + file +
                                "' \"EXPLAIN QUERY PLAN SELECT id FROM measurement WHERE plan_key "
                                "= 1 AND verdict <> 'rejected' ORDER BY row\" | grep -q "
                                "measured_of_key";
    return std::system(command.c_str()) == 0;
  };
  CHECK(uses_index());
  run_sql(file, "DROP INDEX measured_of_key;");
  CHECK(PlanDatabase(file, Access::read).tried(kKey).size() == 2);
  CHECK_FALSE(uses_index());
  PlanDatabase(file, Access::write);
  CHECK(uses_index());
}

TEST_CASE("A pipe in the place of a file is refused, and nobody waits for its other end",
          "[database]") {
  const ScratchFolder folder;
  const std::string pipe = folder.path("pipe.db"), file = folder.path("plans.db");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(refusal(pipe), ContainsSubstring("pipe.db: it cannot be opened: not a regular file"));
  CHECK_THAT(refusal(pipe, Access::write), ContainsSubstring("not a regular file"));
  PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
  for (const char* part : {"-wal", "-journal"}) {
    REQUIRE(mkfifo((file + part).c_str(), 0600) == 0);
    CHECK_THAT(refusal(file), ContainsSubstring(std::string(part) + " cannot be opened"));
    std::filesystem::remove(file + part);
  }
}

TEST_CASE("A database in a folder that may only be read is read", "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("sub/plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
  chmod(file.c_str(), 0444);
  chmod(folder.path("sub").c_str(), 0555);
  CHECK(PlanDatabase(file, Access::read).measurements(kKey).size() == 1);
  if (geteuid() != 0)
    CHECK_THAT(refusal(file, Access::write), ContainsSubstring("may only be read"));
  chmod(folder.path("sub").c_str(), 0755);
}

TEST_CASE("The user's file is where the environment says", "[database]") {
  setenv("MEGACONV_CACHE_DIR", "/some/where", 1);
  CHECK(user_database_file() == "/some/where/plans.db");
  unsetenv("MEGACONV_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK(user_database_file() == "/xdg/megaconv/plans.db");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/home/someone", 1);
  CHECK(user_database_file() == "/home/someone/.cache/megaconv/plans.db");
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace megaconv
