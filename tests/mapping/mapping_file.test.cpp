// SPDX-License-Identifier: Apache-2.0
// Mapping files: what is written is read back the same, an edit shows as its own line, and nothing
// that a file can say does harm.
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/mapping/targets.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

Lowering lowering_of(const Tiling& tiling, const MappingOptions& options = {}) {
  Lowering lowering = cut(tiling);
  lowering.mapping = make_mapping(lowering.graph, options, {.workers = 2});
  return lowering;
}

const Counts kSample{.ng = 3, .nf = 1, .si = 1, .sg = 2, .so = 1, .v_slots = 2, .m_slots = 2};

Lowering sample() {
  return lowering_of(winograd_tiling(kSample),
                     {.policy = "interleaved", .dig = 1, .dgo = 1, .m_groups = 1});
}

// The sample's file with one piece of text replaced, which must be there.
std::string with(const std::string& from, const std::string& to) {
  std::string text = export_mapping(sample());
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string import_error(const std::string& text) {
  return error_of([&] { import_mapping(text); });
}

bool same(const Lowering& a, const Lowering& b) {
  return a.tiling() == b.tiling() && a.graph.tasks == b.graph.tasks &&
         a.graph.edges == b.graph.edges && a.graph.signals == b.graph.signals &&
         a.graph.counter_totals == b.graph.counter_totals && a.mapping == b.mapping;
}

}  // namespace

TEST_CASE("a mapping file looks like this") {
  CHECK(export_mapping(sample()) == R"({
  "megaconv_mapping": 2,
  "nodes": [
    {
      "name": "conv",
      "problem": "n1c16h4w12k32r3s3p1u1d1g1",
      "cut": {
        "algorithm": "winograd",
        "arithmetic": "fma",
        "channel_blocks_per_filter_task": 1,
        "channel_blocks_per_input_task": 1,
        "filter_blocks_per_filter_task": 2,
        "filter_blocks_per_gemm_task": 1,
        "filter_blocks_per_output_task": 2,
        "filters": "every_run",
        "group_tiles": 1,
        "m": 4,
        "m_slots": 2,
        "points": "low_error",
        "positions_per_gemm_task": 36,
        "tiles_per_transform_task": 1,
        "v_slots": 2
      }
    }
  ],
  "stages": [
    {"node": 0, "role": "prepare", "kind": "filter_transform", "groups": 1, "per_group": 1},
    {"node": 0, "role": "input", "kind": "input_transform", "groups": 3, "per_group": 1},
    {"node": 0, "role": "product", "kind": "gemm", "groups": 3, "per_group": 2},
    {"node": 0, "role": "output", "kind": "output_transform", "groups": 3, "per_group": 1}
  ],
  "policy": "interleaved",
  "dig": 1,
  "dgo": 1,
  "m_groups": 1,
  "tasks": [
    "F[0]",
    "I[0,0]",
    "G[0,0]",
    "I[1,0]",
    "G[0,1]",
    "O[0,0]",
    "G[1,0]",
    "I[2,0]",
    "G[1,1]",
    "O[1,0]",
    "G[2,0]",
    "G[2,1]",
    "O[2,0]"
  ]
}
)");
}

TEST_CASE("an exported mapping is imported the same") {
  for (Counts counts : kOddCounts) {
    for (const std::string& policy : kPolicies) {
      const MappingOptions options{.policy = policy, .seed = 0xffffffffffffffffu};
      const Lowering winograd = lowering_of(winograd_tiling(counts), options);
      INFO(to_string(winograd.tiling()) << policy);
      CHECK(same(import_mapping(export_mapping(winograd)), winograd));
      const Lowering direct = lowering_of(direct_tiling(counts), options);
      CHECK(same(import_mapping(export_mapping(direct)), direct));
    }
  }
  for (const char* problem : {"n4c64h56k64+nhwc+relu", "c3h9w8k5r5s2u2+bias", "n2c32h14k32g32"}) {
    const Lowering lowering = lower(parse_problem(problem), {.points = Points::integer}, {}, {});
    CHECK(same(import_mapping(export_mapping(lowering), &lowering.tiling().problem), lowering));
  }
  const Lowering on_tensor_cores = lower(parse_problem("n2c3h20k64+nhwc+f16"),
                                         {.algorithm = Algorithm::direct}, {}, test::kHopper);
  CHECK(on_tensor_cores.tiling().arithmetic == Arithmetic::f16);
  CHECK(same(import_mapping(export_mapping(on_tensor_cores)), on_tensor_cores));
}

TEST_CASE("a custom mapping keeps its name") {
  Lowering lowering = sample();
  lowering.mapping.policy = "my \"own\"";
  lowering.mapping.options = {};
  CHECK(same(import_mapping(export_mapping(lowering)), lowering));
}

TEST_CASE("exchanging two tasks changes two lines") {
  Lowering edited = sample();
  std::swap(edited.mapping.order[5], edited.mapping.order[6]);
  std::istringstream a(export_mapping(sample())), b(export_mapping(edited));
  std::string line_a, line_b;
  int different = 0;
  while (std::getline(a, line_a) && std::getline(b, line_b)) different += line_a != line_b;
  CHECK(different == 2);
  CHECK(same(import_mapping(export_mapping(edited)), edited));
}

TEST_CASE("a file for another problem is refused when the problem is known") {
  const ConvProblem expected = parse_problem("c16h5k16");
  CHECK(error_of([&] { import_mapping(export_mapping(sample()), &expected); }) ==
        "mapping file: it is for n1c16h4w12k32r3s3p1u1d1g1, must be for "
        "n1c16h5w5k16r3s3p1u1d1g1");
}

TEST_CASE("an edited order that breaks a property is refused with the violation") {
  CHECK(import_error(with("\"I[1,0]\"", "\"I[0,0]\"")) ==
        "mapping file: position 3: I[0,0] stands also earlier, at 1");
  CHECK(import_error(with("    \"I[1,0]\",\n", "")) ==
        "mapping file: position 12: I[1,0] is missing");
  CHECK(import_error(with("\"I[0,0]\",\n    \"G[0,0]\"", "\"G[0,0]\",\n    \"I[0,0]\"")) ==
        "mapping file: position 1: G[0,0] waits for I[0,0], which stands later, at 2");
  CHECK(import_error(with("\"v_slots\": 2", "\"v_slots\": 1")) ==
        "mapping file: position 3: I[1,0] waits for G[0,1], which stands later, at 4");
}

TEST_CASE("keys are known, there, and given once") {
  CHECK(import_error(with("\"policy\"", "\"polizy\"")) == "mapping file: unknown key \"polizy\"");
  CHECK(import_error(with("\"m_slots\"", "\"slots\"")) ==
        "mapping file: key \"nodes[0].cut.m_slots\" is missing");
  CHECK(import_error(with("\"m_slots\"", "\"slots\": 1, \"m_slots\"")) ==
        "mapping file: key \"nodes[0].cut.slots\" has no place here");
  CHECK(import_error(with("\"name\"", "\"nome\"")) ==
        "mapping file: unknown key \"nodes[0].nome\"");
  CHECK(import_error(with("\"groups\": 3", "\"group\": 3")) ==
        "mapping file: unknown key \"stages[1].group\"");
  CHECK(import_error(with("\"policy\"", "\"nodes[0].cut.m\"")) ==
        "mapping file: unknown key \"nodes[0].cut.m\"");
  for (const char* old : {"\"problem\": \"c1h1k1\", ", "\"tiling\": 3, "}) {
    CHECK_THAT(import_error(with("\"policy\"", std::string(old) + "\"policy\"")),
               ContainsSubstring("has no place here"));
  }
  CHECK(import_error(with("\"dgo\"", "\"dig\"")) == "mapping file: key \"dig\" is given twice");
  CHECK(import_error(with("\"m_slots\"", "\"v_slots\"")) ==
        "mapping file: key \"nodes[0].cut.v_slots\" is given twice");
  CHECK(import_error(with("\"role\"", "\"node\"")) ==
        "mapping file: key \"stages[0].node\" is given twice");
  CHECK(import_error(with("\"policy\"", "\"nodes\": [], \"policy\"")) ==
        "mapping file: key \"nodes\" is given twice");
  CHECK(import_error(with("  \"policy\": \"interleaved\",\n", "")) ==
        "mapping file: key \"policy\" is missing");
  CHECK(import_error(with("        \"group_tiles\": 1,\n", "")) ==
        "mapping file: key \"nodes[0].cut.group_tiles\" is missing");
  CHECK(import_error(with("      \"name\": \"conv\",\n", "")) ==
        "mapping file: key \"nodes[0].name\" is missing");
  CHECK(import_error(with(", \"per_group\": 1", "")) ==
        "mapping file: key \"stages[0].per_group\" is missing");
  CHECK(import_error(R"({"megaconv_mapping": 2, "nodes": [{"name": "a", "problem": "c1h1k1"}]})") ==
        "mapping file: key \"nodes[0].cut\" is missing");
  CHECK(import_error(with("\"group_tiles\": 1", "\"group_tiles\": 1, \"rows_per_group\": 1")) ==
        "mapping file: key \"nodes[0].cut.rows_per_group\" has no place here");
}

TEST_CASE("values have the right type and range") {
  CHECK(import_error(with("\"megaconv_mapping\": 2", "\"megaconv_mapping\": 3")) ==
        "mapping file: megaconv_mapping: found 3, must be 2 to 2");
  CHECK(import_error(with("\"megaconv_mapping\": 2", "\"megaconv_mapping\": 0")) ==
        "mapping file: megaconv_mapping: found 0, must be 2 to 2");
  CHECK(import_error(with("\"dig\": 1", "\"dig\": \"1\"")) ==
        "mapping file: dig: found \"1\", must be 0 to 4294967295");
  CHECK(import_error(with("\"dig\": 1", "\"dig\": 4294967296")) ==
        "mapping file: dig: found 4294967296, must be 0 to 4294967295");
  CHECK(import_error(with("\"m_groups\": 1", "\"m_groups\": 0")) ==
        "mapping file: m_groups: found 0, must be 1 to 4294967295");
  CHECK(import_error(with("\"dig\": 1", "\"dig\": -1")) ==
        "mapping file: dig: found -1, must be a whole number, not negative, or a text");
  CHECK_THAT(import_error(with("\"dig\": 1", "\"dig\": 1.5")), ContainsSubstring("dig: found 1.5"));
  CHECK_THAT(import_error(with("\"dig\": 1", "\"dig\": 99999999999999999999999")),
             ContainsSubstring("dig: found 99999999999999999999999"));
  CHECK_THAT(import_error(with("\"dig\": 1", "\"dig\": null")), ContainsSubstring("found null"));
  CHECK_THAT(import_error(with("\"dig\": 1", "\"dig\": true")),
             ContainsSubstring("dig: found a boolean"));
  CHECK_THAT(import_error(with("\"dig\": 1", "\"dig\": {}")),
             ContainsSubstring("dig: found an object"));
  CHECK_THAT(import_error(with("\"dig\": 1", "\"dig\": [1]")),
             ContainsSubstring("dig: found an array"));
  CHECK(import_error(with("\"policy\": \"interleaved\"", "\"policy\": 3")) ==
        "mapping file: policy: found 3, must be a text");
  CHECK_THAT(import_error(with("\"interleaved\"", "\"" + std::string(81, 'p') + "\"")),
             ContainsSubstring("must be at most 80 printable characters"));
  CHECK(import_error(with("\"winograd\"", "\"fft\"")) ==
        "mapping file: nodes[0].cut.algorithm: found \"fft\", must be one of direct, winograd, "
        "opencnn, "
        "fused_winograd, implicit_gemm, small_gemm");
  CHECK_THAT(import_error(with("n1c16", "n0c16")), ContainsSubstring("n = 0: must be 1 to"));
}

TEST_CASE("a file of version 1 is refused with what to do") {
  CHECK(import_error(with("\"megaconv_mapping\": 2", "\"megaconv_mapping\": 1")) ==
        "mapping file: megaconv_mapping: found 1, must be 2; export the mapping again with this "
        "version of megaconv");
  CHECK_THAT(
      import_error(R"({"megaconv_mapping": 1, "problem": "c16h4w12k32", "tiling": {"m": 4}})"),
      ContainsSubstring("export the mapping again"));
}

TEST_CASE("stages are those that the cut makes") {
  const std::string gemm = "\"product\", \"kind\": \"gemm\", \"groups\": 3, \"per_group\": 2";
  const auto instead = [&](const char* text) { return import_error(with(gemm, text)); };
  const std::string makes = ", the cut makes product gemm of node 0, 3 groups of 2";
  CHECK(instead("\"product\", \"kind\": \"gemm\", \"groups\": 4, \"per_group\": 2") ==
        "mapping file: stages[2]: found product gemm of node 0, 4 groups of 2" + makes);
  CHECK(instead("\"product\", \"kind\": \"gemm\", \"groups\": 3, \"per_group\": 1") ==
        "mapping file: stages[2]: found product gemm of node 0, 3 groups of 1" + makes);
  CHECK(instead("\"product\", \"kind\": \"direct\", \"groups\": 3, \"per_group\": 2") ==
        "mapping file: stages[2]: found product direct of node 0, 3 groups of 2" + makes);
  CHECK(instead("\"output\", \"kind\": \"gemm\", \"groups\": 3, \"per_group\": 2") ==
        "mapping file: stages[2]: found output gemm of node 0, 3 groups of 2" + makes);
  CHECK(import_error(with("\"node\": 0", "\"node\": 1")) ==
        "mapping file: stages[0]: found prepare filter_transform of node 1, 1 groups of 1, the cut "
        "makes prepare filter_transform of node 0, 1 groups of 1");
  CHECK(instead("\"middle\", \"kind\": \"gemm\", \"groups\": 3, \"per_group\": 2") ==
        "mapping file: stages[2].role: found \"middle\", must be one of prepare, input, product, "
        "output");
  CHECK_THAT(instead("\"product\", \"kind\": \"gemm\", \"groups\": 0, \"per_group\": 2"),
             ContainsSubstring("stages[2].groups: found 0, must be 1 to"));
  CHECK(import_error(with("  \"stages\": [\n", "  \"stages\": [],\n  \"tasks\": [\n")) ==
        "mapping file: tasks[0]: found an object, must be a name like \"F[5]\" or \"I[3,0]\"");
}

TEST_CASE("a file has one operator") {
  const std::string text = export_mapping(sample());
  const std::size_t begin = text.find("    {\n      \"name\""), end = text.find("\n  ],");
  REQUIRE(end != std::string::npos);
  const std::string node = text.substr(begin, end - begin);
  CHECK(import_error(with(node, node + ",\n" + node)) == "mapping file: nodes: found 2, must be 1");
  CHECK(import_error(with(node, "")) == "mapping file: nodes: found 0, must be 1");
  CHECK(import_error(with(node, "7")) ==
        "mapping file: nodes: found a single value, must be objects");
  CHECK_THAT(import_error(with("\"cut\": {", "\"cut\": {\"m\": {}, ")),
             ContainsSubstring("nodes[0].cut.m: found an object"));
  CHECK_THAT(import_error(with("\"name\": \"conv\"", "\"name\": 1")),
             ContainsSubstring("nodes[0].name: found 1, must be a text"));
  CHECK_THAT(import_error(with("\"cut\": {", "\"cut\": 3, \"cut\": {")),
             ContainsSubstring("nodes[0].cut: found a single value, must be an object"));
}

TEST_CASE("a tiling that does not fit its problem is refused") {
  CHECK(import_error(with("\"m\": 4", "\"m\": 5")) == "m = 5: must be 2, 4, 6 or 46 (4 x 6)");
  CHECK(import_error(with("\"group_tiles\": 1", "\"group_tiles\": 4")) ==
        "group_tiles = 4: must be 1 to 3");
  CHECK(import_error(with("\"positions_per_gemm_task\": 36", "\"positions_per_gemm_task\": 37")) ==
        "positions_per_gemm_task = 37: must be 1 to 36");
  CHECK(
      import_error(with("\"v_slots\": 2", "\"v_slots\": 4")) ==
      "mapping file: nodes[0].cut.v_slots: found 4, nodes[0].cut.m_slots: found 2, must be 1 to 3");
  CHECK_THAT(import_error(with("\"v_slots\": 2", "\"v_slots\": 0")),
             ContainsSubstring("nodes[0].cut.v_slots: found 0, must be 1 to"));
  CHECK(import_error(with("p1u1", "p1u2")) == "winograd: stride 2x2, must be 1x1");
}

TEST_CASE("a short file cannot ask for a huge graph") {
  CHECK(import_error(with("n1c16h4w12", "n1000000c16h4w12")) ==
        "mapping file: tasks: found 13, the cut makes 12000001");
}

TEST_CASE("tasks have names, and exist") {
  for (const char* name : {"I[0", "I[00,0]", "I[0,0]]", "", "I", "I[,0]", "I[0,]", "I[-1,0]",
                           "F[0,0]", "I[0]", "I[99999999999,0]", "I[0, 0]", "\\u0000", "I[0,0] "}) {
    INFO(name);
    CHECK_THAT(import_error(with("I[0,0]", name)),
               ContainsSubstring("tasks[1]: found \"") && ContainsSubstring("must be a name like"));
  }
  CHECK(import_error(with("\"I[0,0]\"", "\"I[3,0]\"")) ==
        "mapping file: tasks[1]: found I[3,0], the graph has 3 groups of 1 such tasks");
  CHECK(import_error(with("\"I[0,0]\"", "\"D[0,0]\"")) ==
        "mapping file: tasks[1]: found D[0,0], the graph has 0 groups of 0 such tasks");
  CHECK(import_error(with("\"I[0,0]\"", "\"X[0,0]\"")) ==
        "mapping file: tasks[1]: found X[0,0], the graph has 0 groups of 0 such tasks");
  CHECK_THAT(import_error(with("\"I[0,0]\"", "7")), ContainsSubstring("tasks[1]: found 7"));
  CHECK_THAT(import_error(with("\"I[0,0]\"", "[]")), ContainsSubstring("tasks[1]: found an array"));
}

TEST_CASE("text that is no mapping file is refused in one line") {
  CHECK_THAT(import_error(""), ContainsSubstring("mapping file: parse error at line 1"));
  CHECK(import_error("[]") == "mapping file: found an array, must be an object");
  CHECK_THAT(import_error("7"), ContainsSubstring("must be an object"));
  CHECK(import_error("{}") == "mapping file: key \"megaconv_mapping\" is missing");
  CHECK_THAT(import_error(std::string(1000000, '[')),
             ContainsSubstring("nested more than 32 deep"));
  for (const char* deep : {"{\"nodes\": [", "{\"nodes\": [{\"cut\": ", "{\"stages\": [", "{"}) {
    CHECK_THAT(import_error(deep + std::string(1000000, '{')), ContainsSubstring("mapping file: "));
    CHECK_THAT(import_error(deep + std::string(1000000, '[')), ContainsSubstring("mapping file: "));
  }
  CHECK_THAT(import_error("{\"\xff\": 1}"), ContainsSubstring("parse error at line 1"));
  CHECK(import_error("{\"" + std::string(1000000, 'k') + "\": 1}").size() < 300);
  CHECK(import_error("{\"policy\": " + std::string(1000000, 'k')).size() < 300);
  CHECK_THAT(import_error(export_mapping(sample()) + "x"), ContainsSubstring("parse error"));
}

TEST_CASE("a file cut short anywhere is refused") {
  const std::string text = export_mapping(sample());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    INFO("cut to " << length);
    CHECK_THAT(import_error(text.substr(0, length)),
               ContainsSubstring("mapping file: parse error"));
  }
}

TEST_CASE("a damaged file is refused or means something valid, never more") {
  const std::string text = export_mapping(sample());
  std::mt19937 random(20260102);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    for (int change = 0; change < 1 + i % 3; ++change) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 12));
      }
    }
    try {
      const Lowering lowering = import_mapping(damaged);
      REQUIRE_FALSE(validate(lowering.graph, lowering.mapping).has_value());
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 15000);
}

TEST_CASE("a file of a million tasks is written and read") {
  const Lowering lowering =
      lowering_of(winograd_tiling({.ng = 90000, .nf = 64, .si = 4, .sg = 4, .so = 4}));
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = export_mapping(lowering);
  const auto written = std::chrono::steady_clock::now();
  const bool round_trip = same(import_mapping(text), lowering);
  const auto read = std::chrono::steady_clock::now();
  CHECK(round_trip);
  using Milliseconds = std::chrono::duration<double, std::milli>;
  WARN(lowering.graph.tasks.size()
       << " tasks written in " << Milliseconds(written - begin).count()
       << " ms, read and validated in " << Milliseconds(read - written).count() << " ms");
}

TEST_CASE("counts of more than 32 bits are refused as what they are, however short the file") {
  // Each of these numbers of tasks is that of `tasks` in 32 bits.
  struct Huge {
    const char *problem, *cut, *stages, *error;
    std::vector<std::string> tasks;
  };
  std::vector<std::string> few = {"I[0,0]"};
  for (int i = 0; i < 32; ++i) few.push_back("G[0," + std::to_string(i) + "]");
  few.push_back("O[0,0]");
  const char* const kOneInOneOut =
      R"([{"node": 0, "role": "input", "kind": "input_transform", "groups": 1, "per_group": 1},
          {"node": 0, "role": "output", "kind": "output_transform", "groups": 1, "per_group": 1}])";
  const Huge all[] = {
      {"n1c1h1w1k1908874368+f16",
       R"({"algorithm": "winograd", "arithmetic": "fma", "filters": "prepared",
           "points": "low_error", "m": 4, "group_tiles": 1, "channel_blocks_per_input_task": 1,
           "tiles_per_transform_task": 1, "filter_blocks_per_gemm_task": 1,
           "positions_per_gemm_task": 1, "filter_blocks_per_output_task": 119304648,
           "filter_blocks_per_filter_task": 1, "channel_blocks_per_filter_task": 1, "v_slots": 1,
           "m_slots": 1})",
       R"([{"node": 0, "role": "input", "kind": "input_transform", "groups": 1, "per_group": 1},
           {"node": 0, "role": "product", "kind": "gemm", "groups": 1, "per_group": 32},
           {"node": 0, "role": "output", "kind": "output_transform", "groups": 1,
            "per_group": 1}])",
       "4294967328 tasks of a group: must be at most 2^31; use larger tasks", few},
      {"n1c1h1w1k1073741824+f16",
       R"({"algorithm": "winograd", "arithmetic": "fma", "filters": "prepared",
           "points": "low_error", "m": 6, "group_tiles": 1, "channel_blocks_per_input_task": 1,
           "tiles_per_transform_task": 1, "filter_blocks_per_gemm_task": 1,
           "positions_per_gemm_task": 1, "filter_blocks_per_output_task": 67108864,
           "filter_blocks_per_filter_task": 1, "channel_blocks_per_filter_task": 1, "v_slots": 1,
           "m_slots": 1})",
       kOneInOneOut,
       "4294967296 tasks of a group: must be at most 2^31; use larger tasks",
       {"I[0,0]", "O[0,0]"}},
      {"n67108864c4096h2w2k1024+f16",
       R"({"algorithm": "winograd", "arithmetic": "fma", "filters": "every_run",
           "points": "low_error", "m": 2, "group_tiles": 67108864,
           "channel_blocks_per_input_task": 1, "tiles_per_transform_task": 1,
           "filter_blocks_per_gemm_task": 64, "positions_per_gemm_task": 16,
           "filter_blocks_per_output_task": 1, "filter_blocks_per_filter_task": 64,
           "channel_blocks_per_filter_task": 256, "v_slots": 1, "m_slots": 1})",
       R"([{"node": 0, "role": "prepare", "kind": "filter_transform", "groups": 1, "per_group": 1},
           {"node": 0, "role": "product", "kind": "gemm", "groups": 1, "per_group": 1}])",
       "17179869184 tasks of a group: must be at most 2^31; use larger tasks",
       {"F[0]", "G[0,0]"}},
  };
  for (const Huge& huge : all) {
    CAPTURE(huge.problem);
    const nlohmann::json file = {
        {"megaconv_mapping", 2},
        {"nodes",
         {{{"name", "conv"}, {"problem", huge.problem}, {"cut", nlohmann::json::parse(huge.cut)}}}},
        {"stages", nlohmann::json::parse(huge.stages)},
        {"policy", "custom"},
        {"tasks", huge.tasks},
    };
    CHECK_THROWS_WITH(import_mapping(file.dump()), huge.error);
  }
  // What the planner would make of the first.
  const TilingOptions options{.algorithm = Algorithm::winograd,
                              .m = 4,
                              .filters = FilterMode::prepared,
                              .filter_blocks_per_gemm_task = 1,
                              .positions_per_gemm_task = 1};
  CHECK_THROWS_WITH(lower(parse_problem(all[0].problem), options, {}, {}), all[0].error);
}
