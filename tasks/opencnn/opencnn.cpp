// SPDX-License-Identifier: Apache-2.0
// openCNN's fused F(2x2, 3x3) kernel as a task (Castro et al., Mathematics 2021, 9, 2033). CUDA's;
// its blocking is fixed.
#include <algorithm>
#include <ostream>

#include "mapping/mapping_file.hpp"
#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/opencnn/opencnn_blocking.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

class OpencnnAlgorithm final : public ConvAlgorithmOf<OpencnnCut> {
 public:
  bool runs_on(Backend backend) const override { return backend != Backend::cpu; }
  bool takes_chwn() const override { return true; }
  std::string obstacle(const ConvProblem& problem, Arithmetic) const override {
    if (problem.dtype != DataType::f32) {
      return std::string("opencnn: storage type ") + to_string(problem.dtype) + ", must be f32";
    }
    return winograd_obstacle(id(), problem);
  }
  ErrorBound sum_bound(const Tiling& tiling) const override { return winograd_bound(tiling); }

  void choose(Tiling& tiling, const TilingOptions& options, const Target&) const override {
    own(tiling).output_layout = options.output_layout;
  }
  void derive(Tiling& tiling) const override {
    const ConvProblem& a = tiling.problem;
    const std::string obstacle = this->obstacle(a, tiling.arithmetic);
    if (!obstacle.empty()) throw Error(Status::invalid_argument, obstacle);
    // The kernel loads 4 rows of an image at 32-bit offsets.
    constexpr std::int64_t kMostRowElements = std::int64_t{1} << 29;
    const bool chwn = a.layout == Layout::chwn;
    const std::int64_t row = std::max(a.w, a.q()) * (chwn ? a.n : std::max(a.c, a.k));
    if (row >= kMostRowElements) {
      throw Error(Status::unsupported,
                  "opencnn: rows of " + std::to_string(row) + " elements, must be less than 2^29");
    }
    OpencnnCut& cut = own(tiling);
    cut.m = opencnn::kOutputTile;
    cut.points = Points::low_error;
    count_tiles(a, cut);
    cut.group_tiles = opencnn::kTiles;
    tiling.num_groups = checked_groups(u64(opencnn::num_groups(a)));
    tiling.input_tasks = tiling.output_tasks = 0;
    tiling.gemm_tasks = u32(u64(opencnn::num_blocks(a)));
  }
  std::uint32_t count_filter_tasks(const Tiling& tiling) const override {
    return u32(u64(opencnn::num_filter_tasks(tiling.problem)));
  }
  std::uint64_t u_bytes(const Tiling& tiling) const override {
    return u64(opencnn::u_size(tiling.problem)) * sizeof(float);
  }
  Region u_extent(const Tiling& tiling) const override {  // which counts in blocks of its own
    return {.channels = {0, u64(ceil_div<std::int64_t>(tiling.problem.c, opencnn::kChannels))},
            .positions = {0, u64(opencnn::num_blocks(tiling.problem))}};
  }

  AccessFunction accesses(const Tiling& tiling, const NodeBuffers& buffers) const override {
    return opencnn_accesses(tiling, buffers);
  }
  TaskCost cost(const Tiling& tiling, const NodeBuffers& buffers, Role role) const override {
    const ConvCost cost(tiling, buffers);
    if (role == Role::prepare) return cost.packing();
    // 16 products where the direct sum has 36.
    constexpr double kM = opencnn::kOutputTile, kTaps = 9, kOverlap = 2;
    return cost.direct(kOverlap / kM, opencnn::kPositions / (kTaps * kM * kM));
  }

  AlgorithmSpace space(const ConvProblem& problem, const Target& target,
                       const TilingOptions&) const override {
    AlgorithmSpace space;
    if (target.backend != Backend::cuda || !obstacle(problem, Arithmetic::fma).empty()) {
      return space;
    }
    Space::Grid tasks;
    tasks.push_back({Parameter::algo, {static_cast<std::int64_t>(id())}});
    tasks.push_back({Parameter::output_layout,
                     {static_cast<std::int64_t>(OutputLayout::baseline),
                      static_cast<std::int64_t>(OutputLayout::optSTS64),
                      static_cast<std::int64_t>(OutputLayout::optSTS64_compact),
                      static_cast<std::int64_t>(OutputLayout::optLDS64)}});
    add_orders_of_one_kind(space, tasks, workers_axis(target), target);
    return space;
  }
  void configure(const Tiling& tiling, CudaLaunch, Configuration& configuration) const override {
    configuration.set(Parameter::output_layout,
                      static_cast<std::int64_t>(own(tiling).output_layout));
  }

  std::vector<CutField> fields(Tiling&) const override { return {}; }
  void put_words(const Tiling& tiling, FileSection& section) const override {
    section.put("output_layout", to_string(own(tiling).output_layout));
  }
  void take_words(FileSection& section, Tiling& tiling) const override {
    own(tiling).output_layout =
        section.choice("output_layout", {OutputLayout::baseline, OutputLayout::optSTS64,
                                         OutputLayout::optSTS64_compact, OutputLayout::optLDS64});
  }
  std::string name(const Tiling& tiling) const override {
    return std::string("opencnn, ") + to_string(own(tiling).output_layout);
  }
  void describe(const Tiling& tiling, std::ostream& text) const override {
    text << " F(2x2, 3x3), output layout " << to_string(own(tiling).output_layout)
         << "\nfused task: " << opencnn::kTiles << " tiles, " << opencnn::kFilters << " filters\n"
         << "filter task: " << opencnn::kFilters << " filters of " << opencnn::kChannels
         << " channels";
  }
};

}  // namespace

const ConvAlgorithm& opencnn_algorithm() {
  static const OpencnnAlgorithm kOpencnn;
  return kOpencnn;
}

}  // namespace megaconv
