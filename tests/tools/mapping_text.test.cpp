// SPDX-License-Identifier: Apache-2.0
// Mappings as pictures and as differences.
#include "tests/catch.hpp"
#include "tools/report/map_picture.hpp"
#include "tools/report/mapping_diff.hpp"

namespace megaconv::cli {
namespace {

Lowering make(const char* policy, std::uint32_t group_tiles = 4) {
  return lower(
      parse_problem("c16h16k16"),
      {.algorithm = Algorithm::winograd, .m = 4, .group_tiles = group_tiles, .whole_tensors = true},
      {.policy = policy}, Target{});
}

TEST_CASE("The picture of a staged mapping is a staircase") {
  // 1 filter task, then 4 groups with 1 input, GEMM and output task each.
  CHECK(mapping_picture(make("staged"), 80, false) ==
        "  F @\n"
        "  I  @@@@\n"
        "  G      @@@@\n"
        "  O          @@@@\n"
        "    0          12\n");
}

TEST_CASE("A picture keeps to its width and shows a single task among many") {
  const Lowering lowering = make("interleaved", 1);
  const std::string picture = mapping_picture(lowering, 20, false);
  std::istringstream lines(picture);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 20);
  CHECK(picture.substr(0, 5) != "  F  ");
  CHECK_THAT(mapping_picture(lowering, 20, true), ContainsSubstring("\033["));
}

TEST_CASE("A mapping does not differ from itself") {
  CHECK(mapping_diff(make("staged"), make("staged")).empty());
}

TEST_CASE("A diff shows properties, the first position that differs, and how many do") {
  const Lowering staged = make("staged");
  Lowering swapped = staged;
  std::swap(swapped.mapping.order[2], swapped.mapping.order[3]);
  CHECK(mapping_diff(staged, swapped) ==
        "order: position 2 holds I[1,0] against I[2,0]; 2 of 13 positions differ\n");
  CHECK_THAT(mapping_diff(staged, make("depth_first")),
             ContainsSubstring("- policy: staged\n+ policy: depth_first\n"));
  CHECK_THAT(mapping_diff(staged, make("staged", 2)),
             ContainsSubstring("order: 13 tasks against 25"));
}

}  // namespace
}  // namespace megaconv::cli
