// SPDX-License-Identifier: Apache-2.0
// The real command: exit status, what it says and where, and that a failure writes nothing.
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "megaconv/plan_database.hpp"
#include "tests/catch.hpp"
#include "tests/tools/command.hpp"
#include "tests/tools/npy_bytes.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv::cli {
namespace {

/// The long options of every verb, "map show" say, and of the command itself, "": as the completion
/// of bash has them, in lines  options['megaconv map show']='--help --algo'.
std::map<std::string, std::vector<std::string>> options_of_verbs() {
  const std::string script = megaconv("completion bash").out, begin = "options['megaconv";
  std::map<std::string, std::vector<std::string>> all;
  for (std::size_t at = 0; (at = script.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    const std::size_t end = script.find("']='", at), stop = script.find('\'', end + 4);
    REQUIRE(stop != std::string::npos);
    std::istringstream words(script.substr(end + 4, stop - end - 4));
    std::vector<std::string>& options = all[script.substr(at + (end > at), end - at - (end > at))];
    for (std::string word; words >> word;) options.push_back(word);
  }
  return all;
}

TEST_CASE("Every verb has a help with examples, and --version says the version") {
  CHECK(megaconv("--version").out == "megaconv " MEGACONV_VERSION "\n");
  const auto verbs = options_of_verbs();
  REQUIRE(verbs.count("net compare") == 1);
  REQUIRE(verbs.size() >= 40);
  for (const auto& [verb, options] : verbs) {
    const Outcome outcome = megaconv(verb + " --help");
    CAPTURE(verb);
    CHECK(outcome.status == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, ContainsSubstring("Example"));
  }
}

TEST_CASE("docs/cli.md names every option of every verb") {
  std::ostringstream document;
  document << std::ifstream(MEGACONV_SOURCE_DIR "/docs/cli.md").rdbuf();
  // Options of the document, whole words.
  const std::string text = document.str(), letters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::set<std::string> named;
  for (std::size_t at = 0; (at = text.find("--", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.size(), text.find_first_not_of(letters, at));
    named.insert(text.substr(at, end - at));
    at = end;
  }
  int count = 0;
  for (const auto& [verb, options] : options_of_verbs()) {
    for (const std::string& option : options) {
      CAPTURE(verb, option);
      CHECK(named.count(option) == 1);
      ++count;
    }
  }
  CHECK(count > 300);
}

TEST_CASE("Usage errors are one line and status 2") {
  const ScratchFolder folder;
  check_refused(
      folder, "", 2,
      "must be info, run, bench, verify, map, trace, simulate, lab, net, tune, completion or "
      "manual");
  check_refused(folder, "frobnicate", 2, "frobnicate");
  check_refused(folder, "map", 2, "map needs one of show, export, graph, validate or diff");
  check_refused(folder, "run", 2, "run needs a PROBLEM");
  check_refused(folder, "trace", 2, "trace needs a PROBLEM");
  check_refused(folder, "trace c1h1k1 -o nowhere/t.json", 4, "cannot write nowhere/t.json");
  check_refused(folder, "bench", 2, "bench needs a PROBLEM");
  check_refused(folder, "run c1h1k1 --no-such-option", 2, "--no-such-option");
  check_refused(folder, "run c1h1k1 --threads x", 2, "--threads");
  check_refused(folder, "run c1h1k1 --threads -1", 2, "--threads");
  check_refused(folder, "run c1h1k1 --threads 9999", 2, "threads 9999, must be 1 to");
  check_refused(folder, "run c1h1k1", 2, "MEGACONV_NUM_THREADS=many", "MEGACONV_NUM_THREADS=many");
  check_refused(folder, "run c1h1k1", 2, "MEGACONV_LOG_LEVEL=loud", "MEGACONV_LOG_LEVEL=loud");
  check_refused(folder, "run c1h1k1 --repeats 0", 2, "--repeats");
  check_refused(folder, "run c1h1k1 --pad 1", 2, "need --input");
  check_refused(folder, "run c1h1k1 --wait-budget-ms 0", 2, "wait budget 0 ms");
  check_refused(folder, "run c1h1k1 --mapping m.json --policy staged", 2, "excludes");
  check_refused(folder, "run c1h1k1 --max-error small", 2, "--max-error");
  for (const char* wrong : {"0", "-1e-6", "nan", "inf"}) {
    const std::string option = std::string(" --max-error ") + wrong;
    check_refused(folder, "run c1h1k1" + option, 2, ": must be a number greater than 0");
    check_refused(folder, "net show resnet18" + option, 2, ": must be a number greater than 0");
  }
  check_refused(folder, "run c1h1k1 --max-error 1e-9", 3, "the bound of direct, the least error");
  check_refused(folder, "net show resnet18 --max-error 1e-9", 3, "must be at least");
  check_refused(folder, "bench c1h1k1 -o r.json", 2, "needs --json or --csv");
  check_refused(folder, "bench c1h1k1 --peer mkl", 2, "--peer mkl, must be onednn");
  check_refused(folder, "bench c1h1k1 --peer onednn --backend cuda", 2, "needs --backend cpu");
}

TEST_CASE("Problems that are wrong name the value and what is allowed") {
  const ScratchFolder folder;
  check_refused(folder, "run n0c1h1k1", 2, "n = 0: must be 1 to");
  check_refused(folder, "run n1c-1h1k1", 2, "'c' must be followed by a number");
  check_refused(folder, "run c8h8k0", 2, "k = 0");
  check_refused(folder, "run c1h3k1r9p0", 2, "filter of 9x9");
  check_refused(folder, "run n999999c999999h999999k1", 2, "must be at most 2^40");
  check_refused(folder, "run n99999999999999999999c1h1k1", 2, "must be at most");
  check_refused(folder, "run c3h4k4g2", 2, "groups = 2");
  check_refused(folder, "run c1h1k1x", 2, "problem \"c1h1k1x\"");
  check_refused(folder, "run c1h1k1+tanh", 2, "unknown suffix");
  check_refused(folder, "run c1h1k1 --batch 0", 2, "--batch: 0, must be a number from 1");
  check_refused(folder, "bench --network alexnet", 2, "must be one of resnet50");
  check_refused(folder, "run c1h1k1 --policy best", 2, "interleaved");
  check_refused(folder, "run c16h8k16 --algo winograd --tile 3", 2,
                "--tile 3, must be 2, 4, 4x6 or 6");
  check_refused(folder, "bench --layers bad.csv", 4, "cannot read bad.csv");
  folder.write("bad.csv", "good,1,16,8,8,16\nbad,1,2\n");
  check_refused(folder, "bench --layers bad.csv", 2, "bad.csv:2: 3 fields");
}

TEST_CASE("What this build or an algorithm cannot do is status 3") {
  const ScratchFolder folder;
  check_refused(folder, "run c1h1k1 --backend sim", 3, "backend sim cannot compute");
  check_refused(folder, "bench c1h1k1 --backend sim", 3, "backend sim cannot compute");
  check_refused(folder, "verify --backend sim", 3, "backend sim cannot compute");
  check_refused(folder, "run c8h8k8 --algo opencnn", 3, "opencnn: backend cpu, must be cuda");
  check_refused(folder, "run c16h8k16u2 --algo winograd", 3, "stride 2x2, must be 1x1");
  check_refused(folder, "run c8h8k8 --dtype f16 --algo opencnn", 3,
                "opencnn: storage type f16, must be f32");
  check_refused(folder, "run c16h8k16 --dtype i8 --algo winograd", 3,
                "winograd: storage type i8, which has exact sums");
  check_refused(folder, "run c1h1k1", 3, "instruction set \"mmx\"", "MEGACONV_ISA=mmx");
}

TEST_CASE("What the machine refuses is status 4") {
  const ScratchFolder folder;
  check_refused(folder, "run n1c1024h32768k32", 4, "are available");
  check_refused(folder, "run c1h1k1 --mapping absent.json", 4, "cannot read absent.json");
  check_refused(folder, "run c1h1k1 --output absent/y.npy", 4, "cannot write absent/y.npy");
  check_refused(folder, "run c1h1k1 --output .", 4, "not a regular file");
  check_refused(folder, "bench c1h1k1 --json -o absent/r.json", 4, "cannot write absent/r.json");
  check_refused(folder, "map export c1h1k1 -o absent/m.json", 4, "cannot write absent/m.json");
  check_refused(folder, "map validate absent.json", 4, "cannot read absent.json");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need more
  for (const char* verb : {"run", "verify"}) {
    check_refused(folder, verb + std::string(" c16h9k16 --threads 300"), 4,
                  "cannot start worker thread", "ulimit -v 1000000;");
  }
#endif
}

TEST_CASE("run computes what is in .npy files and writes a whole .npy file") {
  const ScratchFolder folder;
  folder.write("x.npy", npy_ones({2, 4, 5, 6}));
  folder.write("w.npy", npy_ones({3, 4, 3, 3}));
  folder.write("b.npy", npy_ones({3}));
  const Outcome outcome = megaconv_in(
      folder,
      "run --input x.npy --weights w.npy --bias b.npy --output y.npy --min-ms 0 --repeats 1");
  CHECK(outcome.err.empty());
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("n2c4h5w6k3r3s3p1u1d1g1+bias"));
  CHECK_THAT(outcome.out, ContainsSubstring("shape 2x3x5x6"));
  CHECK(folder.num_files() == 4);
  const std::string y = folder.read("y.npy");
  const auto* values = reinterpret_cast<const float*>(y.data() + y.size() - 2 * 3 * 5 * 6 * 4);
  CHECK(values[0] == 17);      // a corner sees 2x2 pixels of 4 channels
  CHECK(values[6 + 1] == 37);  // 3x3 pixels
}

TEST_CASE("run computes in the storage type of its files, and they must agree") {
  const ScratchFolder folder;
  const auto ones = [](const char* descr, const std::string& shape, std::size_t bytes) {
    std::string file = npy_bytes(
        std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': " + shape + ", }",
        0);
    const std::string one = descr == std::string("<f2") ? std::string("\x00\x3c", 2) : "\x80\x3f";
    for (std::size_t i = 0; i < bytes; i += 2) file += one;
    return file;
  };
  for (const auto& [descr, suffix, middle] : {std::tuple{"<f2", "+f16", 0x5080},  // 36
                                              std::tuple{"|V2", "+bf16", 0x4210}}) {
    folder.write("x.npy", ones(descr, "(2, 4, 5, 6)", 480));
    folder.write("w.npy", ones(descr, "(3, 4, 3, 3)", 216));
    const Outcome outcome = megaconv_in(
        folder, "run --input x.npy --weights w.npy --output y.npy --min-ms 0 --repeats 1");
    CHECK(outcome.err.empty());
    REQUIRE(outcome.status == 0);
    CHECK_THAT(outcome.out, ContainsSubstring(std::string("n2c4h5w6k3r3s3p1u1d1g1") + suffix));
    const std::string y = folder.read("y.npy");
    CHECK_THAT(y, ContainsSubstring(descr));
    const auto* values = reinterpret_cast<const std::uint16_t*>(y.data() + y.size() - 360);
    CHECK(values[6 + 1] == middle);
  }
  folder.write("w.npy", npy_ones({3, 4, 3, 3}));
  check_refused(folder, "run --input x.npy --weights w.npy", 2,
                "w.npy: numbers of f32, must be bf16 as --input has");
  check_refused(folder, "run --input x.npy --weights w.npy --dtype f16", 2,
                "--dtype and --input exclude each other");
}

TEST_CASE("run computes with 8-bit integers and scales of float") {
  const ScratchFolder folder;
  const auto numbers = [](const std::string& shape, std::size_t count, char value) {
    return npy_bytes("{'descr': '|i1', 'fortran_order': False, 'shape': " + shape + ", }", 0) +
           std::string(count, value);
  };
  folder.write("x.npy", numbers("(1, 4, 5, 6)", 120, 3));
  folder.write("w.npy", numbers("(3, 4, 3, 3)", 108, -1));
  folder.write("s.npy", npy_ones({3}));
  folder.write("r.npy", numbers("(1, 3, 5, 6)", 90, 9));
  const std::string command =
      "run --input x.npy --weights w.npy --residual r.npy --output y.npy --min-ms 0 --repeats 1 ";
  const Outcome outcome = megaconv_in(folder, command + "--scale s.npy --bias s.npy");
  CHECK(outcome.err.empty());
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("n1c4h5w6k3r3s3p1u1d1g1+i8+scale+bias+residual"));
  const std::string y = folder.read("y.npy");
  CHECK_THAT(y, ContainsSubstring("'|i1'"));
  CHECK(static_cast<signed char>(y[y.size() - 90]) == -38);      // -3 * 4 * 4 + 1 + 9
  CHECK(static_cast<signed char>(y[y.size() - 90 + 7]) == -98);  // nine taps
  check_refused(folder, command + "--scale r.npy", 2, "rank 4, must be 1");
  folder.write("s.npy", numbers("(3,)", 3, 1));
  check_refused(folder, command + "--scale s.npy", 2,
                "s.npy: numbers of i8, must be f32 as scales and biases of i8");
}

TEST_CASE("run takes shapes in NHWC and options of the convolution from the command line") {
  const ScratchFolder folder;
  folder.write("x.npy", npy_ones({1, 9, 8, 4}));
  folder.write("w.npy", npy_ones({6, 3, 5, 2}));
  folder.write("r.npy", npy_ones({1, 5, 7, 6}));
  const Outcome outcome = megaconv_in(
      folder,
      "run --input x.npy --weights w.npy --residual r.npy --layout nhwc --groups 2 --stride 2x1 "
      "--pad 1x3 --dilation 1x2 --epilogue relu --output y.npy --min-ms 0 --repeats 1");
  CHECK_THAT(outcome.err + outcome.out, ContainsSubstring("must be 1x5x6x6"));
  folder.write("r.npy", npy_ones({1, 5, 6, 6}));
  CHECK(megaconv_in(folder,
                    "run --input x.npy --weights w.npy --residual r.npy --layout nhwc --groups 2 "
                    "--stride 2x1 --pad 1x3 --dilation 1x2 --epilogue relu --output y.npy "
                    "--min-ms 0 --repeats 1")
            .status == 0);
}

TEST_CASE("Wrong .npy files are refused, and nothing is written") {
  const ScratchFolder folder;
  folder.write("x.npy", npy_ones({1, 4, 8, 8}));
  folder.write("w.npy", npy_ones({4, 4, 3, 3}));
  const auto refused = [&](const std::string& options, int status, const std::string& message) {
    check_refused(folder, "run --output y.npy " + options, status, message);
  };
  const auto with_input = [&](const std::string& bytes, int status, const std::string& message) {
    folder.write("bad.npy", bytes);
    refused("--input bad.npy --weights w.npy", status, message);
  };
  with_input(npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 4, 8, 8), }", 2048),
             2, "dtype '<f8', must be '<f4'");
  with_input(npy_bytes("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 4, 8, 8), }", 1024), 2,
             "Fortran order");
  with_input(npy_ones({4, 8, 8}), 2, "rank 3, must be 4");
  with_input(npy_ones({1, 4, 8, 8}) + "more", 2, "1028 bytes of data");
  with_input(npy_bytes(npy_dictionary("(1, 4, 8, 8000000)"), 1024), 2, "1024 bytes of data");
  with_input(npy_ones({1, 4, 8, 8}).substr(0, 40), 2, "truncated");
  with_input("no numbers at all", 2, "not a .npy file");
  with_input(npy_ones({1, 5, 8, 8}), 2, "w.npy: 4 channels a group, must be 5 / 1");
  refused("--input absent.npy --weights w.npy", 4, "cannot read absent.npy");
  refused("--input . --weights w.npy", 4, "not a regular file");
  refused("--input x.npy", 2, "--weights");
  refused("--input x.npy --weights w.npy --bias w.npy", 2, "rank 4, must be 1");
  refused("--input x.npy --weights w.npy --residual x.npy --pad 0", 2,
          "shape 1x4x8x8, must be 1x4x6x6");
  refused("--input x.npy --weights w.npy --groups 3", 2, "must be 4 / 3");
  refused("--input x.npy --weights w.npy --stride 0", 2, "stride = 0");
  refused("--input x.npy --weights w.npy --pad 1y2", 2, "--pad 1y2, must be");
  refused("--input x.npy --weights w.npy --epilogue bias", 2, "may only be an activation: relu, ");
  refused("--input x.npy --weights w.npy c1h1k1", 2, "exclude each other");
}

TEST_CASE("Inf and NaN in .npy files are named, and computed with only where nothing is compared") {
  const ScratchFolder folder;
  const auto with = [](std::string bytes, float number) {
    std::memcpy(bytes.data() + bytes.size() - 2 * sizeof number, &number, sizeof number);
    return bytes;
  };
  folder.write("x.npy", npy_ones({1, 4, 8, 8}));
  folder.write("w.npy", npy_ones({4, 4, 3, 3}));
  folder.write("inf.npy", with(npy_ones({1, 4, 8, 8}), std::numeric_limits<float>::infinity()));
  folder.write("nan.npy", with(npy_ones({4}), std::numeric_limits<float>::quiet_NaN()));
  check_refused(folder, "run --input inf.npy --weights w.npy --output y.npy", 2,
                "inf.npy: element 254 of 1x4x8x8 is inf, must be finite");
  check_refused(folder, "run --input x.npy --weights w.npy --bias nan.npy --output y.npy", 2,
                "nan.npy: element 2 of 4 is nan, must be finite");
  const Outcome outcome = megaconv_in(
      folder, "run --input inf.npy --weights w.npy --output y.npy --no-check --min-ms 0");
  CHECK(outcome.status == 0);
}

TEST_CASE("Paddings, strides and dilations of any size are refused, none overflows") {
  const ScratchFolder folder;
  folder.write("x.npy", npy_ones({1, 4, 8, 8}));
  folder.write("w.npy", npy_ones({4, 4, 3, 3}));
  const std::string command = "run --input x.npy --weights w.npy ";
  const std::string largest = "9223372036854775807", least = "-9223372036854775808";
  for (const char* option : {"--pad ", "--stride ", "--dilation "}) {
    check_refused(folder, command + option + largest, 2, "= " + largest + ": must be");
    check_refused(folder, command + option + "1x" + least, 2, "= " + least + ": must be");
  }
}

TEST_CASE("Files of JSON that nest too deep are refused by every verb that reads one") {
  const ScratchFolder folder;
  const std::string opens(200'000, '['), closes(200'000, ']');
  folder.write("deep.json", opens + closes);
  folder.write("key.json", "{\"megaconv_machine\":" + opens + closes + "}");
  folder.write("trace.json", "{\"otherData\":{\"megaconv_trace\":" + opens + closes + "}}");
  folder.write("records.jsonl", "{\"backend\":" + opens + closes + "}\n");
  const std::string depth = "nested more than 32 deep";
  for (const char* verb :
       {"simulate c8h8k8 --machine ./deep.json", "simulate c8h8k8 --machine ./key.json",
        "lab compare c8h8k8 --policies staged --machine ./deep.json", "trace stats trace.json",
        "trace replay trace.json", "trace report trace.json --html t.html",
        "simulate --replay trace.json", "simulate --calibrate trace.json", "map validate deep.json",
        "map diff deep.json deep.json", "run --mapping deep.json"}) {
    check_refused(folder, verb, 2, depth);
  }
  if (PlanDatabase::available()) {
    check_refused(folder, "tune import records.jsonl --database new.db", 2, depth);
  }
}

TEST_CASE("Names of layers that a terminal would obey are refused") {
  const ScratchFolder folder;
  folder.write("layers.csv", "\x1b]0;title\a\x1b[31mred,1,16,8,8,16\n");
  check_refused(folder, "bench --layers layers.csv", 2,
                "layers.csv:1: name \"?]0;title??[31mred\", must be at most 80 printable");
}

TEST_CASE("A mapping goes out to a file, is edited, and comes back") {
  const ScratchFolder folder;
  REQUIRE(megaconv_in(folder, "map export n1c16h16k16 --algo winograd --policy staged -o a.json")
              .status == 0);
  REQUIRE(megaconv_in(folder,
                      "map export n1c16h16k16 --algo winograd --policy depth_first "
                      "--window whole -o b.json")
              .status == 0);
  CHECK(megaconv_in(folder, "map validate a.json").status == 0);
  CHECK(megaconv_in(folder, "map validate a.json n1c16h16k16").status == 0);
  CHECK(megaconv_in(folder, "run --mapping b.json --min-ms 0").status == 0);
  CHECK(megaconv_in(folder, "run n1c16h16k16 --mapping b.json --min-ms 0").status == 0);
  CHECK_THAT(megaconv_in(folder, "map show --mapping a.json").out, ContainsSubstring("staged"));
  CHECK(megaconv_in(folder, "map diff a.json a.json").status == 0);
  const Outcome diff = megaconv_in(folder, "map diff a.json b.json");
  CHECK(diff.status == 1);
  CHECK_THAT(diff.out, ContainsSubstring("+ policy: depth_first"));
  check_refused(folder, "map validate a.json n2c16h16k16", 2, "a.json: ");
  check_refused(folder, "run n2c16h16k16 --mapping a.json", 2, "a.json: ");
}

TEST_CASE("A mapping that deadlocks or is damaged is refused") {
  const ScratchFolder folder;
  const std::string right =
      megaconv_in(folder, "map export c16h16k16 --algo winograd --policy staged").out;
  REQUIRE(nlohmann::json::accept(right));
  nlohmann::ordered_json deadlock = nlohmann::ordered_json::parse(right);
  // The order is the array at the end of the file: an output transform cannot be the first task.
  nlohmann::ordered_json& order = deadlock.back();
  REQUIRE(order.is_array());
  std::rotate(order.begin(), order.end() - 1, order.end());
  folder.write("deadlock.json", deadlock.dump());
  check_refused(folder, "map validate deadlock.json", 2, "position 0");
  check_refused(folder, "run --mapping deadlock.json", 2, "position 0");
  nlohmann::ordered_json twice = nlohmann::ordered_json::parse(right);
  twice.back().push_back(twice.back().front());
  folder.write("twice.json", twice.dump());
  check_refused(folder, "map validate twice.json", 2, "twice.json: ");
  folder.write("half.json", right.substr(0, right.size() / 2));
  check_refused(folder, "map validate half.json", 2, "half.json: ");
  folder.write("empty.json", "");
  check_refused(folder, "map diff empty.json empty.json", 2, "empty.json: ");
}

TEST_CASE("bench prints a table, CSV and JSON, and nothing else with them") {
  const std::string quick = " n1c16h12k16 --min-ms 0 --repeats 1 ";
  const Outcome table = megaconv("bench" + quick);
  CHECK(table.status == 0);
  CHECK(table.err.empty());
  CHECK_THAT(table.out, ContainsSubstring("(1 layer, least"));
  const auto records = nlohmann::json::parse(megaconv("bench --json" + quick).out);
  REQUIRE(records.size() == 3);
  CHECK(records[2].at("variant") == "megakernel");
  CHECK(records[2].at("within_bound") == true);
  CHECK_THAT(megaconv("bench --csv" + quick).out, ContainsSubstring("schema_version,kind,"));
  const ScratchFolder folder;
  CHECK(megaconv_in(folder, "bench --json -o r.json" + quick).status == 0);
  CHECK(nlohmann::json::parse(folder.read("r.json")).size() == 3);
}

TEST_CASE("verify passes on random and on given problems, the same for the same seed") {
  const Outcome random = megaconv("verify --count 40 --seed 5");
  CHECK(random.status == 0);
  CHECK(random.err.empty());
  CHECK_THAT(random.out, ContainsSubstring("seed 5: 40 cases right"));
  CHECK_THAT(megaconv("verify --count 100 --seed 2 --integer").out,
             ContainsSubstring("every element exact"));
  CHECK_THAT(megaconv("verify n1c20h9k17 c3h5k4r1 --algo auto").out,
             ContainsSubstring("2 cases right"));
}

TEST_CASE("info says what there is, also as JSON") {
  CHECK_THAT(megaconv("info").out, ContainsSubstring("backend cpu   yes"));
  CHECK(nlohmann::json::parse(megaconv("info --json").out).at("version") == MEGACONV_VERSION);
}

TEST_CASE("net shows, runs, checks and simulates a network") {
  const std::string small = " --image 32 --classes 10 --threads 2";
  CHECK_THAT(megaconv("net list").out, ContainsSubstring("densenet161"));
  const Outcome shown = megaconv("net show resnet18" + small);
  CHECK(shown.status == 0);
  CHECK_THAT(shown.out, ContainsSubstring("conv1 + conv1.bn + relu: n1c3h32w32k64r7"));
  const Outcome one = megaconv("net run mobilenet_v2" + small);
  CHECK(one.status == 0);
  const std::size_t sum = one.out.find("checksum");
  CHECK_THAT(megaconv("net run mobilenet_v2 --policy depth_first" + small).out,
             ContainsSubstring(one.out.substr(sum, one.out.find('\n', sum) - sum)));
  const Outcome verified = megaconv("net verify densenet121" + small);
  CHECK(verified.status == 0);
  CHECK_THAT(verified.out, ContainsSubstring("densenet121 right: "));
  CHECK_THAT(megaconv("net simulate densenet121 --machine cpu" + small).out,
             ContainsSubstring("elementwise"));
  const std::string on_h100 = "net simulate resnet18 --machine h100 --turns 2" + small;
  CHECK_THAT(megaconv(on_h100 + " --set units=4 --launch persistent").out,
             ContainsSubstring("h100, 4 units of 2 workers"));
  CHECK_THAT(megaconv(on_h100 + " --vary network.hop_us=0.5,5").out,
             ContainsSubstring("network.hop_us=5"));
  CHECK(megaconv(on_h100 + " --launch staged").status == 3);
  CHECK(megaconv(on_h100 + " --set network.hop=1").status == 2);
  const auto records = nlohmann::json::parse(
      megaconv("net bench resnet18 --json --min-ms 1 --repeats 1" + small).out);
  CHECK(records.at(0).at("kind") == "net_bench");
  CHECK(records.at(0).at("median_ms") > 0);

  const ScratchFolder folder;
  CHECK(megaconv_in(folder, "net trace resnet18 -o t.json" + small).status == 0);
  CHECK(nlohmann::json::parse(folder.read("t.json")).at("traceEvents").size() > 100);
  const Outcome traced = megaconv_in(
      folder, "net trace resnet18 --policy depth_first --dig 4 --picture t.svg" + small);
  CHECK_THAT(traced.out, ContainsSubstring("longest chain: "));
  CHECK_THAT(folder.read("t.svg"), ContainsSubstring("resnet18, depth_first: "));
  CHECK_THAT(folder.read("t.svg"), ContainsSubstring("layer4.1.conv2"));
  CHECK(megaconv_in(folder, "net show resnet18 -o t.dot" + small).status == 0);
  CHECK_THAT(folder.read("t.dot"), ContainsSubstring("digraph"));
  check_refused(folder, "net", 2, "net needs one of list, import, export, show, run");
  check_refused(folder, "net run", 2, "name");
  check_refused(folder, "net run lenet", 2, "network \"lenet\", must be one of resnet18");
  check_refused(folder, "net run vgg16 --batch 0", 2, "--batch 0, must be 1 or more");
  check_refused(folder, "net run inception_v3 --image 20", 2, "operator \"");
  check_refused(folder, "net run resnet18 --dtype i8", 2, "must be f32, f16 or bf16");
  check_refused(folder, "net run resnet18 --policy best", 2, "policy");
  check_refused(folder, "net trace resnet18 -o nowhere/t.json", 4, "cannot write nowhere/t.json");
}

TEST_CASE("net compare puts policies and a run for every operator side by side") {
  const std::string small = " --image 32 --classes 10 --turns 2";
  const auto records = nlohmann::json::parse(
      megaconv("net compare resnet18 --json --policies staged,depth_first:dig=8:m=2,apart" + small)
          .out);
  REQUIRE(records.size() == 3);
  CHECK(records.at(0).at("against_first") == 1);
  CHECK(records.at(1).at("policy") == "depth_first:dig=8:m=2");
  CHECK(records.at(1).at("chain_us") > 0);
  CHECK(records.at(2).at("chain_us").is_null());
  for (const auto& record : records) CHECK(record.at("time_us") > 0);
  const Outcome simulated = megaconv(
      "net compare resnet18 --machine toy --policies interleaved,depth_first,apart" + small);
  CHECK(simulated.status == 0);
  CHECK_THAT(simulated.out, ContainsSubstring("resnet18 on toy"));
  const ScratchFolder folder;
  check_refused(folder, "net compare resnet18 --policies staged,best" + small, 2,
                "policy \"best\"");
  check_refused(folder, "net compare resnet18 --policies a.json" + small, 3, "of one convolution");
  check_refused(folder, "net compare resnet18 --turns 0", 2, "--turns");
}

TEST_CASE("A full disk is an error, not a short result") {
  if (!std::filesystem::exists("/dev/full")) SKIP("no /dev/full");
  for (const char* verb : {"info", "--help", "--version", "run --help"}) {
    CAPTURE(verb);
    const std::string command =
        std::string("'" MEGACONV_COMMAND "' ") + verb + " >/dev/full 2>/dev/null";
    CHECK(WEXITSTATUS(std::system(command.c_str())) == 4);
  }
}

}  // namespace
}  // namespace megaconv::cli
