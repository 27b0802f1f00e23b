// SPDX-License-Identifier: Apache-2.0
// What a JSON text may ask of its reader.
#include "mapping/json_text.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using megaconv::test::error_of;
using nlohmann::json;

namespace {

std::string repeat(const char* text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string error(const std::string& text, const JsonLimits& limits = kSmallJson) {
  return error_of([&] { parse_json<json>(text, limits, "sample"); });
}

}  // namespace

TEST_CASE("a JSON text is refused for its depth, its values or its bytes before it is parsed") {
  CHECK(error(repeat("[", 32) + repeat("]", 32)) == "");
  CHECK(error(repeat("[", 33) + repeat("]", 33)) ==
        "sample: arrays and objects nested more than 32 deep, at byte 32");
  CHECK_THAT(error(repeat("[", 200'000)), ContainsSubstring("nested more than 32 deep"));
  CHECK_THAT(error(repeat("{\"a\":", 33)), ContainsSubstring("nested more than 32 deep"));
  const JsonLimits few{100, 4};
  CHECK(error("[1,2,3]", few) == "");
  CHECK(error("[1,2,3,4]", few) == "sample: more than 4 values, at byte 6");
  CHECK_THAT(error("[[],[],[]]", few), ContainsSubstring("more than 4 values"));
  CHECK(error(repeat(" ", 101), few) == "sample: 101 bytes, must be at most 100");
}

TEST_CASE("brackets and commas in texts of JSON do not count") {
  const JsonLimits few{1000, 4};
  CHECK(error("[\"" + repeat("[,\\\",\\\\{", 50) + "\"]", few) == "");
  CHECK_THAT(error("[\"\\\"\",1,2,3]", few), ContainsSubstring("more than 4 values"));
}

TEST_CASE("what a JSON parser says is one line, without its own name") {
  CHECK_THAT(error("[1,"), ContainsSubstring("sample: parse error at line 1, column 4"));
  CHECK_THAT(error("]]]"), ContainsSubstring("sample: parse error at line 1, column 1"));
  CHECK_THAT(error("\"\x1b[31m\""), ContainsSubstring("control character"));
}

TEST_CASE("a whole number of JSON neither wraps around nor is cut off") {
  CHECK(whole_number(json(7u), 7) == 7u);
  CHECK_FALSE(whole_number(json(8u), 7));
  CHECK_FALSE(whole_number(json(-1), 7));
  CHECK_FALSE(whole_number(json(1.0), 7));
  CHECK_FALSE(whole_number(json("1"), 7));
  CHECK(whole_number(json(0xffffffffffffffffu), 0xffffffffffffffffu) == 0xffffffffffffffffu);
}
