// SPDX-License-Identifier: Apache-2.0
// Tables, CSV, JSON and times: what results look like.
#include <cmath>
#include <numeric>
#include <sstream>
#include <utility>

#include "tests/catch.hpp"
#include "tools/report/bench_report.hpp"
#include "tools/report/records.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/timing.hpp"

namespace megaconv::cli {
namespace {

TEST_CASE("A table aligns its columns under their groups") {
  Table table;
  table.add_column("layer");
  table.add_column("a", "time");
  table.add_column("b", "time");
  table.add_column("error", "wide title");
  table.add_row({"conv2", "1.0", "22.00", "1e-6"});
  table.add_row({"größer", "10.0", "2.0", "-"});
  CHECK(table.str() ==
        "               time  wide title\n"
        "layer      a      b       error\n"
        "conv2    1.0  22.00        1e-6\n"
        "größer  10.0    2.0           -\n");
}

TEST_CASE("CSV quotes what must be quoted and leaves out what is not there") {
  const std::vector<Record> records = {
      {{"name", "plain"}, {"value", 1.5}, {"right", true}},
      {{"name", "F(4x4, 3x3) \"x\""}, {"value", nullptr}, {"right", false}}};
  CHECK(to_csv(records) ==
        "name,value,right\n"
        "plain,1.5,true\n"
        "\"F(4x4, 3x3) \"\"x\"\"\",,false\n");
}

TEST_CASE("JSON has one record a line and survives bytes that are not UTF-8") {
  const std::string text = to_json({{{"name", "a"}}, {{"name", "\xff"}}});
  CHECK(text.substr(0, 20) == "[\n  {\"name\":\"a\"},\n  ");
  CHECK(nlohmann::json::parse(text).size() == 2);
  CHECK(nlohmann::json::parse(to_json({})).empty());
}

TEST_CASE("summarize gives the median and the deciles") {
  const TimeSummary summary = summarize({5, 1, 4, 2, 3, 9, 8, 7, 6, 10, 11});
  CHECK(summary.median_ms == 6);
  CHECK(summary.p10_ms == 2);
  CHECK(summary.p90_ms == 10);
  CHECK(summary.samples == 11);
  CHECK(summary.spread() == Approx(8.0 / 6));
  CHECK(summarize({1, 2}).median_ms == Approx(1.5));
  CHECK(summarize({3}).p90_ms == 3);
}

TEST_CASE("The interval of a median is two samples by their ranks") {
  using Interval = std::pair<double, double>;
  const auto from_1_to = [](int n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 1.0);
    return values;
  };
  // Tables of the sign test: 1 for n = 6, 2 for n = 10, 6 for n = 20.
  CHECK(median_interval(from_1_to(1)) == Interval(1, 1));
  CHECK(median_interval(from_1_to(5)) == Interval(1, 5));
  CHECK(median_interval(from_1_to(6)) == Interval(1, 6));
  CHECK(median_interval({10, 1, 9, 2, 8, 3, 7, 4, 6, 5}) == Interval(2, 9));
  CHECK(median_interval(from_1_to(20)) == Interval(6, 15));
  const Interval exact = median_interval(from_1_to(1000)),
                 normal = median_interval(from_1_to(1002));
  CHECK(std::abs(exact.first - normal.first) <= 3);
  CHECK(normal.first + normal.second == 1003);
}

TEST_CASE("A table that grows has the widths that it began with") {
  Table table;
  table.add_column("layer", "", 5);
  table.add_column("ms", "time", 6);
  CHECK(table.head() + table.line({"a", "1.0"}) + table.line({"b", "1234567"}) ==
        "         time\n"
        "layer      ms\n"
        "a         1.0\n"
        "b      1234567\n");
}

TEST_CASE("measure_interleaved gives every variant its turns, one after the other") {
  std::string order;
  const TimedVariant variants[] = {{"a", turns_of([&] { return wall_ms([&] { order += 'a'; }); })},
                                   {"b", turns_of([&] { return wall_ms([&] { order += 'b'; }); })}};
  const auto times = measure_interleaved(variants, {.min_ms = 0, .repeats = 3}, [](auto&&) {});
  CHECK(order == "aabbaabbaabb");  // in each turn once untimed, once timed
  REQUIRE(times.size() == 2);
  CHECK(times[0].samples == 3);
  CHECK(times[0].low_ms <= times[0].median_ms);
  CHECK(times[0].median_ms <= times[0].high_ms);
}

TEST_CASE("Numbers are shown in a form that people read") {
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(std::uint64_t{5} << 40) == "5.0 TiB");
  CHECK(format_ms(0.01234) == "0.0123");
  CHECK(format_ms(1.2345) == "1.234");
  CHECK(format_ms(123.45) == "123.5");
  CHECK(one_line("two\nlines\t\x1b[0m and \xc3\xa4\n") == "two lines  [0m and ??");
}

LayerResult layer(const char* name, double direct, double staged, double mega, double peer) {
  LayerResult result{.name = name, .problem = {}, .variants = {}};
  const auto add = [&](const char* variant, const char* algorithm, double ms, bool ours) {
    VariantResult v{.name = variant, .peer = !ours, .algorithm = algorithm};
    if (ours) {
      v.policy = "p";
      v.bound = ErrorBound{1e-6, 64};
      v.workers = 2;
    }
    v.workspace_bytes = 1 << 20;
    v.time = {ms, ms, ms, 10};
    v.error = ErrorReport{ours ? 1e-7 : 3e-7, 32, 0};
    result.variants.push_back(v);
  };
  add("direct", "direct", direct, true);
  add(kStaged, "winograd", staged, true);
  add(kMega, "winograd", mega, true);
  add("onednn", "direct", peer * 2, false);
  add("onednn", "winograd", peer, false);
  return result;
}

std::string bench_table(const std::vector<LayerResult>& results,
                        const std::vector<std::string>& variants = {"direct", kStaged, kMega}) {
  std::vector<std::string> layers;
  for (const LayerResult& result : results) layers.push_back(result.name);
  const BenchTable table(variants, layers, true);
  std::string text = table.head();
  for (const LayerResult& result : results) text += table.line(result);
  return text;
}

const BenchSetting kSetting{.site = {Backend::cpu, "a CPU", "avx512"}, .seed = 7, .timing = {}};

TEST_CASE("bench's tables compare our variants, and our best with a peer's, in 120 columns") {
  const std::vector<LayerResult> results = {
      layer("resnet_conv2_n128", 1234.5, 1234.5, 617.25, 308.625), layer("b", 4, 2, 1, 4)};
  const std::string own = bench_table(results), both = peer_table(results, "onednn");
  CHECK_THAT(own, ContainsSubstring("2.00x     2.00x"));
  CHECK_THAT(own, ContainsSubstring("50%"));  // the element's 32 of 64, not the norm's 10%
  CHECK_THAT(both,
             ContainsSubstring("617.2      mega  308.6   winograd     0.50x   1.0e-07  3.0e-07"));
  std::istringstream lines(own + both);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
  const std::string summary = bench_summary(results, "onednn");
  CHECK_THAT(summary, ContainsSubstring("1.41x as fast as onednn's fastest"));
  CHECK_THAT(summary,
             ContainsSubstring("2.83x as fast as direct (2 layers, least 2.00x, most 4.00x)"));
}

TEST_CASE("bench leaves out what did not run, and says why") {
  LayerResult result = layer("a", 1, 2, 4, 3);
  result.variants[0].obstacle = "no direct tasks";
  result.variants[4].obstacle = "not implemented";
  CHECK(result.find("direct") == nullptr);
  CHECK(result.best(false)->name == kStaged);
  CHECK(result.best(true)->algorithm == "direct");
  CHECK_THAT(bench_table({result}, {kStaged, kMega}), !ContainsSubstring("direct"));
  CHECK_THAT(peer_table({result}, "onednn"),
             ContainsSubstring("not run by onednn:\n  winograd: not implemented (1 layer)"));
  CHECK_THAT(bench_table({result, layer("b", 1, 1, 1, 1)}),
             ContainsSubstring("a           -   2.000"));
  const std::vector<Record> records = bench_records(kSetting, {result});
  CHECK(records[0].at("obstacle") == "no direct tasks");
  CHECK(records[0].at("median_ms").is_null());
  CHECK(records[1].at("obstacle").is_null());
}

TEST_CASE("bench shows a wrong result as wrong, and never as the best") {
  LayerResult result = layer("a", 3, 2, 1, 1);
  CHECK(result.right());
  CHECK_THAT(bench_table({result}), !ContainsSubstring("WRONG"));
  result.variants[2].error->relative_l2 = 2e-6;
  CHECK_FALSE(result.right());
  CHECK(result.best(false)->name == kStaged);
  CHECK_THAT(bench_table({result}), ContainsSubstring("WRONG"));
  CHECK_THAT(bench_summary({result}, ""), ContainsSubstring("WRONG: a, megakernel"));
}

TEST_CASE("bench merges equal plans, leaves them out of means, and warns of a busy machine") {
  LayerResult result = layer("a", 3, 2, 1, 1);
  result.variants[0].same_as = kMega;
  CHECK_THAT(bench_table({result}), ContainsSubstring("a           =   2.000"));
  CHECK_THAT(bench_summary({result}, ""), !ContainsSubstring("as fast as direct"));
  CHECK_THAT(bench_summary({result}, ""), ContainsSubstring("2.00x as fast as staged"));
  CHECK(bench_records(kSetting, {result})[0].at("same_as") == kMega);
  CHECK(busy_warning({result}).empty());
  result.variants[1].time.p90_ms = 3.5;  // 2.0 in the middle: 75 %
  CHECK_THAT(busy_warning({result, layer("b", 1, 1, 1, 1)}),
             ContainsSubstring("1 of 2 layers with a spread over 50%, up to 75%"));
}

TEST_CASE("bench's records say for every variant what it was measured with") {
  const std::vector<Record> records = bench_records(kSetting, {layer("a", 1, 1, 2, 4)});
  REQUIRE(records.size() == 5);
  for (const char* key : {"schema_version", "backend", "device", "git", "seed", "problem"}) {
    CHECK(records[4].contains(key));
  }
  CHECK(records[2].at("variant") == kMega);
  CHECK(records[2].at("median_ms") == 2.0);
  CHECK(records[2].at("workers") == 2);
  CHECK(records[4].at("workers").is_null());
}

}  // namespace
}  // namespace megaconv::cli
