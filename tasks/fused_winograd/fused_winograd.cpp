// SPDX-License-Identifier: Apache-2.0
// Winograd's algorithm in one task a group, which takes its tiles through all stages. A CPU's: V
// and M stay in the cache of the worker.
#include <algorithm>
#include <ostream>

#include "mapping/mapping_file.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

class FusedWinogradAlgorithm final : public ConvAlgorithmOf<FusedWinogradCut> {
 public:
  bool runs_on(Backend backend) const override { return backend != Backend::cuda; }
  std::string obstacle(const ConvProblem& problem, Arithmetic) const override {
    return winograd_obstacle(id(), problem);
  }
  ErrorBound sum_bound(const Tiling& tiling) const override { return winograd_bound(tiling); }

  void choose(Tiling& tiling, const TilingOptions& options, const Target& target) const override {
    FusedWinogradCut& cut = own(tiling);
    choose_tiles(tiling, cut, options, target);
    choose_filter_tasks_for_cpu(tiling, target);
    const std::uint64_t tiles =
        options.group_tiles != 0 ? options.group_tiles : fused_group_tiles(tiling, target);
    cut.group_tiles = u32(std::min(tiles, cut.num_tiles));
  }
  void derive(Tiling& tiling) const override {
    derive_tiles(tiling, own(tiling));
    tiling.input_tasks = tiling.output_tasks = 0;
    tiling.gemm_tasks = 1;
  }
  std::uint32_t count_filter_tasks(const Tiling& tiling) const override {
    return filter_tasks_by_sizes(tiling);
  }
  std::uint64_t u_bytes(const Tiling& tiling) const override {
    return packed_filter_bytes(tiling, own(tiling).num_positions());
  }

  AccessFunction accesses(const Tiling& tiling, const NodeBuffers& buffers) const override {
    return fused_winograd_accesses(tiling, buffers);
  }
  // V and M are written and read in the worker's cache; U passes through it once a group, fetched
  // ahead of the products.
  TaskCost cost(const Tiling& tiling, const NodeBuffers& buffers, Role role) const override {
    const ConvCost common(tiling, buffers);
    if (role == Role::prepare) return common.packing();
    // F(2x2, 3x3) multiplies 16 times where the direct sum multiplies 36 times.
    const ConvProblem& a = tiling.problem;
    const FusedWinogradCut& cut = own(tiling);
    const double outputs = cut.rows() * cut.cols(), t = cut.group_tiles;
    const double taps = static_cast<double>(a.r * a.s);
    const double step = cut.rows() * cut.stride;  // between tiles
    TaskCost cost =
        common.direct((cut.alpha_h() - step) / step, cut.num_positions() / (taps * outputs));
    cost.transforms = t * (static_cast<double>(a.c) * input_transform_operations(cut) +
                           static_cast<double>(a.k) * output_transform_operations(cut));
    cost.rows = t;
    cost.kept_bytes = cut.num_positions() * t *
                      (tiling.channel_blocks() + fused_filter_blocks(tiling)) *
                      static_cast<double>(kBlockBytes);
    cost.private_bytes = 2 * cost.kept_bytes;
    cost.ahead_bytes = common.u_part();
    return cost;
  }
  // The fewer tiles, the better V and M fit the cache, and the more often U is read. 7 is half a
  // register tile.
  AlgorithmSpace space(const ConvProblem& problem, const Target& target,
                       const TilingOptions&) const override {
    AlgorithmSpace space;
    const bool possible = winograd_obstacle(id(), problem).empty();
    if (target.backend == Backend::cuda || !possible || problem.layout == Layout::chwn) {
      return space;
    }
    const std::vector<std::int64_t> tiles = problem.stride_w == 1
                                                ? std::vector<std::int64_t>{2, 4, kWideTile, 6}
                                                : std::vector<std::int64_t>{2, 4};
    add_orders_of_one_kind(space,
                           {{Parameter::algo, {static_cast<std::int64_t>(id())}},
                            {Parameter::tile, tiles},
                            {Parameter::points, {static_cast<std::int64_t>(Points::low_error)}},
                            {Parameter::group_tiles, {7, 14, 28, 42, 56, 84, 112}}},
                           workers_axis(target), target);
    space.constraints.push_back(most(id(), Parameter::group_tiles, "the tiles of the problem",
                                     [problem](const Configuration& c) {
                                       WinogradTiles tiles{
                                           .m = u32(u64(c.get(Parameter::tile).value_or(4)))};
                                       count_tiles(problem, tiles);
                                       return tiles.num_tiles;
                                     }));
    return space;
  }
  void configure(const Tiling& tiling, CudaLaunch, Configuration& configuration) const override {
    const FusedWinogradCut& cut = own(tiling);
    configuration.set(Parameter::tile, cut.m);
    configuration.set(Parameter::points, static_cast<std::int64_t>(cut.points));
    configuration.set(Parameter::group_tiles, cut.group_tiles);
  }

  std::vector<CutField> fields(Tiling& tiling) const override {
    FusedWinogradCut& cut = own(tiling);
    return {{"m", cut.m},
            {"group_tiles", cut.group_tiles},
            {"filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task},
            {"channel_blocks_per_filter_task", tiling.channel_blocks_per_filter_task}};
  }
  void put_words(const Tiling& tiling, FileSection& section) const override {
    section.put("points", to_string(own(tiling).points));
  }
  void take_words(FileSection& section, Tiling& tiling) const override {
    own(tiling).points = section.choice("points", {Points::low_error, Points::integer});
  }
  std::string name(const Tiling& tiling) const override { return "fused " + winograd_name(tiling); }
  void describe(const Tiling& tiling, std::ostream& text) const override {
    describe_tiles(tiling, text);
    describe_filter_task(tiling, text);
  }
};

}  // namespace

const ConvAlgorithm& fused_winograd_algorithm() {
  static const FusedWinogradAlgorithm kFused;
  return kFused;
}

}  // namespace megaconv
