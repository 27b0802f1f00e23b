// SPDX-License-Identifier: Apache-2.0
// A small trace made by hand: two workers, an input transform that a GEMM waits for.
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "megaconv/error.hpp"
#include "tests/catch.hpp"
#include "tools/report/trace_json.hpp"
#include "tools/report/trace_tracks.hpp"

using namespace megaconv;
using namespace megaconv::cli;

namespace {

// One tile, 16 channels, 16 filters, filters prepared: I[0,0] G[0,0] O[0,0].
Lowering three_tasks() {
  TilingOptions tiling;
  tiling.algorithm = Algorithm::winograd;
  tiling.m = 4;
  tiling.filters = FilterMode::prepared;
  return lower(parse_problem("n1c16h4k16"), tiling, {}, Target{});
}

// Worker 1 takes the GEMM at 1 us and waits for worker 0 until 5.5 us; worker 0 comes to the output
// transform after both are done.
Trace three_records() {
  Trace trace;
  trace.num_workers = 2;
  trace.records = {{0, 0, 0, 0, 5500}, {1, 1, 1000, 5500, 9000}, {2, 0, 9500, 9500, 10250}};
  return trace;
}

}  // namespace

TEST_CASE("a trace file has slices for work and waiting, and an arrow to the task that waited") {
  const Lowering lowering = three_tasks();
  REQUIRE(lowering.mapping.order.size() == 3);
  const auto json = nlohmann::json::parse(trace_json({lowering, three_records(), "worker", 0}));
  std::map<std::string, nlohmann::json> slices;
  std::map<std::string, int> phases;
  for (const auto& event : json.at("traceEvents")) {
    ++phases[event.at("ph").get<std::string>()];
    if (event.at("ph") == "X") slices[event.at("name").get<std::string>()] = event;
  }
  CHECK(phases == std::map<std::string, int>{{"M", 3}, {"X", 4}, {"s", 1}, {"f", 1}});
  CHECK(slices.at("I[0,0]").at("dur") == 5.5);
  CHECK(slices.at("wait").at("ts") == 1.0);
  CHECK(slices.at("wait").at("dur") == 4.5);
  CHECK(slices.at("wait").at("tid") == slices.at("G[0,0]").at("tid"));
  CHECK(slices.at("G[0,0]").at("ts") == 5.5);
  CHECK(slices.at("G[0,0]").at("cat") == "gemm");
  CHECK(slices.at("O[0,0]").at("dur") == 0.75);
  CHECK(slices.at("I[0,0]").at("tid") != slices.at("G[0,0]").at("tid"));
}

TEST_CASE("tasks that overlap on one SM get tracks of their own") {
  Trace trace = three_records();
  for (TraceRecord& record : trace.records) record.worker = 0;
  const auto json = nlohmann::json::parse(trace_json({three_tasks(), trace, "SM", 0}));
  std::map<std::string, int> tracks;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") tracks[event.at("name").get<std::string>()] = event.at("tid");
  }
  CHECK(tracks.at("I[0,0]") != tracks.at("G[0,0]"));
  CHECK(tracks.at("I[0,0]") == tracks.at("O[0,0]"));
}

TEST_CASE("more tasks at once than an SM has tracks stay on its own tracks") {
  Trace trace;
  trace.num_workers = 2;
  for (std::uint32_t i = 0; i < 100; ++i) trace.records.push_back({i, 0, 0, 0, 1000});
  trace.records.push_back({100, 1, 0, 0, 1000});
  const Tracks tracks(trace);
  CHECK(tracks.all().size() == 65);
  for (std::uint32_t i = 0; i < 100; ++i) REQUIRE(Tracks::worker(tracks.of(i)) == 0);
  CHECK(Tracks::worker(tracks.of(100)) == 1);
}

TEST_CASE("a trace table gives means and shares of all workers' time") {
  const std::string table = trace_table(analyse(three_tasks(), three_records()));
  CHECK_THAT(table, ContainsSubstring("10.250 us on 2 tracks"));
  CHECK_THAT(table, ContainsSubstring("gemm"));
  CHECK_THAT(table, ContainsSubstring("26.8%"));  // 5.5 of 20.5 us: the input transform
  CHECK_THAT(table, ContainsSubstring("22.0%"));  // 4.5 of 20.5 us: the GEMM's waiting
}

TEST_CASE("a trace says which workers never came") {
  RecordedRun run{three_tasks(), three_records(), "worker", 10.25};
  CHECK_THAT(order_bound_line(run, analyse(run.lowering, run.trace)),
             ContainsSubstring("any order of tasks") && !ContainsSubstring("took no task"));
  run.trace.num_workers = 4;
  CHECK_THAT(order_bound_line(run, analyse(run.lowering, run.trace)),
             ContainsSubstring("2 of 4 workers took no task\n"));
}

TEST_CASE("a trace file is read back as it was written") {
  const RecordedRun written{three_tasks(), three_records(), "worker", 12.5};
  const RecordedRun read = parse_trace(trace_json(written));
  CHECK(read.time_us == 12.5);
  CHECK(read.worker_name == "worker");
  CHECK(read.lowering.mapping == written.lowering.mapping);
  CHECK(read.lowering.graph.tasks == written.lowering.graph.tasks);
  REQUIRE(read.trace.records.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(read.trace.records[i].worker == written.trace.records[i].worker);
    CHECK(read.trace.records[i].fetch_ns == written.trace.records[i].fetch_ns);
    CHECK(read.trace.records[i].ready_ns == written.trace.records[i].ready_ns);
    CHECK(read.trace.records[i].end_ns == written.trace.records[i].end_ns);
  }
}

TEST_CASE("a trace file whose numbers cannot be right is refused, whatever they would cost") {
  const auto error_with = [](const char* place, const nlohmann::json& value) -> std::string {
    auto json = nlohmann::json::parse(trace_json({three_tasks(), three_records(), "worker", 0}));
    json.at(nlohmann::json::json_pointer(place)) = value;
    try {
      parse_trace(json.dump());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const char* const workers = "/otherData/workers";
  CHECK(error_with(workers, 2) == "no error");
  CHECK(error_with(workers, 300'000'000) ==
        "trace: workers: found 300000000, must be a whole number, at most 65536");
  CHECK_THAT(error_with(workers, -1), ContainsSubstring("workers: found -1, must be"));
  CHECK_THAT(error_with(workers, 2.5), ContainsSubstring("workers: found 2.5, must be"));
  CHECK_THAT(error_with(workers, 1), ContainsSubstring("worker 1, must be below 1"));
  CHECK_THAT(error_with("/otherData/worker_name", "\x1b[31m"),
             ContainsSubstring("worker_name: found \"?[31m\", must be worker or SM"));
  CHECK_THAT(error_with("/otherData/mapping/policy", "\x1b[31m"), ContainsSubstring("printable"));
  auto json = nlohmann::json::parse(trace_json({three_tasks(), three_records(), "worker", 0}));
  std::string slice;  // the first task's
  for (std::size_t i = 0; i < json.at("traceEvents").size() && slice.empty(); ++i) {
    if (json["traceEvents"][i]["ph"] == "X") slice = "/traceEvents/" + std::to_string(i);
  }
  CHECK_THAT(error_with((slice + "/tid").c_str(), -1), ContainsSubstring("tid: found -1"));
  CHECK_THAT(error_with((slice + "/tid").c_str(), 1e300), ContainsSubstring("tid: found 1e+300"));
  CHECK_THAT(error_with((slice + "/args/position").c_str(), 3),
             ContainsSubstring("position 3, its mapping has 3"));
  CHECK_THAT(error_with((slice + "/ts").c_str(), -1), ContainsSubstring("a time of"));
}

TEST_CASE("an analysis attributes waits to the edge that caused them") {
  const TraceAnalysis analysis = analyse(three_tasks(), three_records());
  REQUIRE(analysis.waits.size() == 1);
  CHECK(edge_name(analysis.waits[0]) == "gemm for input_transform");
  CHECK(analysis.waits[0].us == Approx(4.5));
  CHECK(analysis.tracks == 2);
  CHECK(analysis.idle_us == Approx(2 * 10.25 - 5.5 - 8.0 - 0.75));
}
