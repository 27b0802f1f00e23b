// SPDX-License-Identifier: Apache-2.0
// The lowering of openCNN's fused kernel: fixed blocks of 32 tiles and 64 filters.
#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "tasks/opencnn/opencnn_blocking.hpp"
#include "tests/catch.hpp"

using namespace megaconv;

namespace {
Lowering lower_opencnn(const char* problem, const char* policy = "interleaved",
                       FilterMode filters = FilterMode::every_run) {
  TilingOptions tiling;
  tiling.algorithm = Algorithm::opencnn;
  tiling.output_layout = OutputLayout::optLDS64;
  tiling.filters = filters;
  MappingOptions mapping;
  mapping.policy = policy;
  return lower(parse_problem(problem), tiling, mapping, Target{.workers = 4});
}
}  // namespace

TEST_CASE("openCNN: groups are 32 tiles, tasks 64 filters, filter tasks 64 filters of 8 channels") {
  // 7x9 outputs are 4 x 5 tiles of 2x2; 3 images make 60 tiles, 2 groups.
  const Tiling rows = lower_opencnn("n3c20h7w9k130").tiling();
  CHECK(rows.tiles()->num_tiles == 60);
  CHECK(rows.num_groups == 2);
  CHECK(rows.gemm_tasks == 3);
  CHECK(rows.num_filter_tasks == 3 * 3);
  CHECK(rows.u_bytes() == 9 * 16 * 8 * 64 * sizeof(float));
  // In chwn a group is the same tile of up to 32 images.
  const Tiling images = lower_opencnn("n33c20h7w9k130+chwn").tiling();
  CHECK(images.num_groups == 20 * 2);
}

TEST_CASE("openCNN: every policy gives a valid mapping, with filters in the run or prepared") {
  for (const char* policy :
       {"interleaved", "staged", "depth_first", "critical_path", "random_topological"}) {
    for (const FilterMode filters : {FilterMode::every_run, FilterMode::prepared}) {
      const Lowering lowering = lower_opencnn("n2c9h11k70+nhwc", policy, filters);
      CHECK_FALSE(validate(lowering.graph, lowering.mapping));
      CHECK((lowering.tiling().num_filter_tasks == 0) == (filters == FilterMode::prepared));
    }
  }
}

TEST_CASE("openCNN: a mapping file keeps the output layout and the memory order") {
  const Lowering lowering = lower_opencnn("n40c8h6k64+chwn");
  const Lowering again = import_mapping(export_mapping(lowering));
  CHECK(again.tiling() == lowering.tiling());
  CHECK(again.graph.tasks == lowering.graph.tasks);
  CHECK(again.mapping == lowering.mapping);
}

TEST_CASE("openCNN: what it cannot compute is refused by name") {
  CHECK_THROWS_WITH(lower_opencnn("c8h9k8u2"),
                    ContainsSubstring("opencnn: stride 2x2, must be 1x1"));
  CHECK_THROWS_WITH(lower_opencnn("c8h9k8r5"),
                    ContainsSubstring("opencnn: filter 5x5, must be 3x3"));
}
