// SPDX-License-Identifier: Apache-2.0
// Winograd's algorithm in tasks of three stages: a task group is a run of tiles.
#include "tasks/winograd/winograd.hpp"

#include <algorithm>
#include <ostream>

#include "mapping/mapping_file.hpp"
#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/winograd/winograd_matrices.hpp"

namespace megaconv {
namespace {

using Piece = Traffic::Piece;

double as_double(std::uint64_t value) { return static_cast<double>(value); }

std::string tile_text(const WinogradTiles& tiles) {
  return "F(" + std::to_string(tiles.rows()) + "x" + std::to_string(tiles.cols()) + ", 3x3)";
}

class StageCost : ConvCost {
 public:
  StageCost(const Tiling& tiling, const NodeBuffers& buffers)
      : ConvCost(tiling, buffers),
        tiling_(tiling),
        cut_(std::get<WinogradCut>(tiling.cut)),
        problem_(tiling.problem),
        buffers_(buffers) {}

  TaskCost of(Role role) const {
    switch (role) {
      case Role::prepare:
        return filters(filter_transform_operations(tiling_));
      case Role::input:
        return input();
      case Role::product:
        return gemm();
      case Role::output:
        return output();
    }
    return {};
  }

 private:
  TaskCost input() const {
    const double tiles = cut_.group_tiles, channels = c() / tiling_.input_tasks;
    const double v_part = as_double(tiling_.v_slot_bytes()) / tiling_.input_tasks;
    const double rows = std::min(1.0, tiles / cut_.tiles_w) * static_cast<double>(problem_.w);
    const double more = cut_.alpha_h() - cut_.rows() * cut_.stride;
    TaskCost cost{.transforms = tiles * channels * input_transform_operations(cut_),
                  .bytes = tiles * cut_.num_positions() * channels * element() + v_part,
                  .traffic = {{buffers_.x, Mode::read, Piece::of_task,
                               tiles * cut_.rows() * cut_.cols() * channels * element()}}};
    add_borders(cost.traffic, Piece::of_task, more * rows * channels * element(),
                std::max(1u, cut_.tiles_w / cut_.group_tiles));
    cost.traffic.push_back({buffers_.v, Mode::write, Piece::of_group, v_part});
    return cost;
  }

  TaskCost gemm() const {
    const double chunk =
        as_double(std::uint64_t{cut_.positions_per_gemm_task}) / cut_.num_positions();
    const double v_read = as_double(tiling_.v_slot_bytes()) * std::min(1.0, chunk);
    const double m_written = as_double(tiling_.m_slot_bytes()) / tiling_.gemm_tasks;
    // Machines with tensor cores are calibrated for three products; one is expected to take half
    // as long (tasks/implicit_gemm/choose.cpp).
    const double effort = tiling_.arithmetic == Arithmetic::f16 ? 0.5 : 1;
    const double blocks = cut_.filter_blocks_per_gemm_task;
    return {
        .products = effort * 2 * cut_.group_tiles * c() * tiling_.filter_blocks() *
                    Tiling::kLaneBlock * cut_.num_positions() / tiling_.gemm_tasks,
        .bytes = v_read + u_part() + m_written,
        .traffic = {{buffers_.v, Mode::read, Piece::of_group, v_read},
                    {buffers_.u, Mode::read, Piece::of_block, u_part()},
                    {buffers_.m, Mode::write, Piece::of_group, m_written}},
        .fill = tiling_.filter_blocks() / blocks / chunk / tiling_.gemm_tasks,
        .rows = static_cast<double>(cut_.group_tiles),
        .filter_blocks = blocks,
        .kept_bytes = as_double(tiling_.v_slot_bytes()) + u_part() / cut_.positions_per_gemm_task};
  }

  TaskCost output() const {
    const double tiles = cut_.group_tiles;
    const double filters = static_cast<double>(problem_.k) / tiling_.output_tasks;
    const double m_read = as_double(tiling_.m_slot_bytes()) / tiling_.output_tasks;
    const double y_part = tiles * cut_.rows() * cut_.cols() * filters * element();
    return {.transforms = tiles * filters * output_transform_operations(cut_),
            .bytes = m_read + y_part + (problem_.epilogue.residual ? y_part : 0),
            .traffic = {{buffers_.m, Mode::read, Piece::of_group, m_read},
                        {buffers_.y, Mode::write, Piece::of_task, y_part}}};
  }

  double c() const { return static_cast<double>(problem_.c); }

  const Tiling& tiling_;
  const WinogradCut& cut_;
  const ConvProblem& problem_;
  const NodeBuffers& buffers_;
};

class WinogradAlgorithm final : public ConvAlgorithmOf<WinogradCut> {
 public:
  bool runs_on(Backend) const override { return true; }
  std::string obstacle(const ConvProblem& problem, Arithmetic) const override {
    return winograd_obstacle(id(), problem);
  }
  std::string arithmetic_need(const Tiling& tiling) const override {
    const WinogradCut& cut = own(tiling);
    const std::string need =
        winograd_arithmetic_need(cut.m, tiling.problem.dtype, tiling.arithmetic);
    // Integer points are there to keep integers exact, which 11 bits do not.
    const bool rounds = tiling.arithmetic == Arithmetic::f16;
    return need.empty() && rounds && cut.points != Points::low_error ? "low_error points" : need;
  }
  ErrorBound sum_bound(const Tiling& tiling) const override {
    return tiling.arithmetic == Arithmetic::f16 ? rounded_winograd_bound(tiling)
                                                : winograd_bound(tiling);
  }

  void choose(Tiling& tiling, const TilingOptions& options, const Target& target) const override {
    WinogradCut& cut = own(tiling);
    choose_tiles(tiling, cut, options, target);
    target.backend == Backend::cuda ? choose_winograd_for_cuda(tiling, options, target)
                                    : choose_winograd_for_cpu(tiling, options, target);
    set_if_asked(cut.filter_blocks_per_gemm_task, options.filter_blocks_per_gemm_task);
    set_if_asked(cut.channel_blocks_per_input_task, options.channel_blocks_per_input_task);
    set_if_asked(cut.positions_per_gemm_task, options.positions_per_gemm_task);
    set_if_asked(cut.filter_blocks_per_output_task, options.filter_blocks_per_output_task);
    set_if_asked(cut.tiles_per_transform_task,
                 std::min(options.tiles_per_transform_task, cut.group_tiles));
    cut.window = {options.v_slots, options.m_slots};
  }

  void derive(Tiling& tiling) const override {
    const std::uint32_t filter_blocks = tiling.filter_blocks();
    const std::uint32_t channel_blocks = tiling.channel_blocks();
    WinogradCut& cut = own(tiling);
    derive_tiles(tiling, cut);
    check_field("filter_blocks_per_gemm_task", cut.filter_blocks_per_gemm_task, filter_blocks);
    check_field("channel_blocks_per_input_task", cut.channel_blocks_per_input_task, channel_blocks);
    check_field("tiles_per_transform_task", cut.tiles_per_transform_task, cut.group_tiles);
    check_field("positions_per_gemm_task", cut.positions_per_gemm_task, cut.num_positions());
    check_field("filter_blocks_per_output_task", cut.filter_blocks_per_output_task, filter_blocks);
    tiling.input_tasks = checked_tasks(ceil_div(channel_blocks, cut.channel_blocks_per_input_task),
                                       cut.tile_chunks());
    tiling.gemm_tasks = checked_tasks(ceil_div(filter_blocks, cut.filter_blocks_per_gemm_task),
                                      ceil_div(cut.num_positions(), cut.positions_per_gemm_task));
    tiling.output_tasks = checked_tasks(ceil_div(filter_blocks, cut.filter_blocks_per_output_task),
                                        cut.tile_chunks());
    for (std::uint32_t* const slots : {&cut.window.v_slots, &cut.window.m_slots}) {
      *slots = *slots == 0 ? tiling.num_groups : std::min(*slots, tiling.num_groups);
    }
  }
  std::uint32_t count_filter_tasks(const Tiling& tiling) const override {
    return filter_tasks_by_sizes(tiling);
  }
  std::uint64_t u_bytes(const Tiling& tiling) const override {
    return packed_filter_bytes(tiling, own(tiling).num_positions());
  }
  SlotBytes slot_bytes(const Tiling& tiling) const override {
    const WinogradCut& cut = own(tiling);
    const std::uint64_t lanes =
        std::uint64_t{cut.num_positions()} * cut.group_tiles * Tiling::kLaneBlock;
    return {.v = lanes * tiling.channel_blocks() * number_bytes(tiling.arithmetic),
            .m = lanes * tiling.filter_blocks() * number_bytes(tiling.arithmetic)};
  }

  void add_buffers(TaskGraph& graph, const Tiling& tiling, NodeBuffers& buffers) const override {
    const std::uint32_t groups = tiling.num_groups;
    if (groups == 0) return;
    const WinogradCut& cut = own(tiling);
    const Interval tiles{0, cut.num_tiles}, positions{0, cut.num_positions()};
    const auto add = [&](const char* name, std::uint32_t channels, std::uint64_t slot_bytes,
                         std::uint32_t slots) {
      graph.buffers.push_back(
          {.name = name,
           .extent = {.rows = tiles, .channels = {0, channels}, .positions = positions},
           .bytes = groups * slot_bytes,
           .windowed = true,
           .slots = slots < groups ? slots : 0});
      return static_cast<BufferId>(graph.buffers.size() - 1);
    };
    buffers.v = add("V", tiling.channel_blocks(), tiling.v_slot_bytes(), cut.window.v_slots);
    buffers.m = add("M", tiling.filter_blocks(), tiling.m_slot_bytes(), cut.window.m_slots);
  }
  TaskKind product() const override { return TaskKind::gemm; }
  AccessFunction accesses(const Tiling& tiling, const NodeBuffers& buffers) const override {
    return winograd_accesses(tiling, buffers);
  }
  TaskCost cost(const Tiling& tiling, const NodeBuffers& buffers, Role role) const override {
    return StageCost(tiling, buffers).of(role);
  }

  std::optional<double> fitted_us(const Tiling& tiling, Role role, const PlanOptions& launched,
                                  const Target& target) const override {
    const bool fitted = role == Role::product && launched.mapping.policy == "staged" &&
                        target.multiprocessors != 0 && tiling.arithmetic != Arithmetic::fma;
    if (!fitted) return {};
    return gemm_stage_us(tiling, target.multiprocessors);
  }
  AlgorithmSpace space(const ConvProblem& problem, const Target& target,
                       const TilingOptions& asked) const override {
    return winograd_space(problem, target, asked);
  }
  void configure(const Tiling& tiling, CudaLaunch, Configuration& configuration) const override {
    const WinogradCut& cut = own(tiling);
    const bool whole = cut.window == Window{tiling.num_groups, tiling.num_groups};
    configuration.set(Parameter::tile, cut.m);
    configuration.set(Parameter::points, static_cast<std::int64_t>(cut.points));
    configuration.set(Parameter::arithmetic, static_cast<std::int64_t>(tiling.arithmetic));
    configuration.set(Parameter::group_tiles, cut.group_tiles);
    configuration.set(Parameter::input_channels, cut.channel_blocks_per_input_task);
    configuration.set(Parameter::gemm_filters, cut.filter_blocks_per_gemm_task);
    configuration.set(Parameter::gemm_positions, cut.positions_per_gemm_task);
    configuration.set(Parameter::output_filters, cut.filter_blocks_per_output_task);
    configuration.set(Parameter::transform_tiles, cut.tiles_per_transform_task);
    configuration.set(Parameter::window, whole ? 1 : 0);
  }

  std::vector<CutField> fields(Tiling& tiling) const override {
    WinogradCut& cut = own(tiling);
    return {{"m", cut.m},
            {"group_tiles", cut.group_tiles},
            {"channel_blocks_per_input_task", cut.channel_blocks_per_input_task},
            {"tiles_per_transform_task", cut.tiles_per_transform_task},
            {"filter_blocks_per_gemm_task", cut.filter_blocks_per_gemm_task},
            {"positions_per_gemm_task", cut.positions_per_gemm_task},
            {"filter_blocks_per_output_task", cut.filter_blocks_per_output_task},
            {"filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task},
            {"channel_blocks_per_filter_task", tiling.channel_blocks_per_filter_task},
            {"v_slots", cut.window.v_slots},
            {"m_slots", cut.window.m_slots}};
  }
  void put_words(const Tiling& tiling, FileSection& section) const override {
    section.put("points", to_string(own(tiling).points));
    section.put("arithmetic", to_string(tiling.arithmetic));
  }
  void take_words(FileSection& section, Tiling& tiling) const override {
    own(tiling).points = section.choice("points", {Points::low_error, Points::integer});
    tiling.arithmetic =
        section.choice("arithmetic", {Arithmetic::fma, Arithmetic::split_f16, Arithmetic::f16});
  }
  std::string name(const Tiling& tiling) const override { return winograd_name(tiling); }
  void describe(const Tiling& tiling, std::ostream& text) const override {
    const WinogradCut& cut = own(tiling);
    const auto window = [&](std::uint32_t slots, std::uint64_t slot_bytes) {
      return std::to_string(slots) + " of " + std::to_string(tiling.num_groups) + " groups, " +
             std::to_string(slots * slot_bytes) + " bytes" +
             (slots == tiling.num_groups ? " (whole)" : " (window)");
    };
    const std::string tiles = " x " + std::to_string(cut.tiles_per_transform_task) + " tiles\n";
    describe_tiles(tiling, text);
    text << "input task: " << blocks_text(cut.channel_blocks_per_input_task) << tiles
         << "gemm task: " << blocks_text(cut.filter_blocks_per_gemm_task) << ", "
         << cut.positions_per_gemm_task << " of " << cut.num_positions() << " positions\n"
         << "output task: " << blocks_text(cut.filter_blocks_per_output_task) << tiles
         << "V: " << window(cut.window.v_slots, tiling.v_slot_bytes()) << '\n'
         << "M: " << window(cut.window.m_slots, tiling.m_slot_bytes()) << '\n';
    describe_filter_task(tiling, text);
  }
};

}  // namespace

std::uint32_t WinogradCut::tile_chunks() const {
  return ceil_div(group_tiles, tiles_per_transform_task);
}

std::string winograd_obstacle(Algorithm algorithm, const ConvProblem& a) {
  const bool strides = algorithm == Algorithm::fused_winograd;
  std::string obstacle;
  if (a.dtype == DataType::i8) {
    obstacle = kNoExactSums;
  } else if (a.r != 3 || a.s != 3) {
    obstacle = "filter " + pair_text(a.r, a.s) + ", must be 3x3";
  } else if (a.stride_h != a.stride_w || a.stride_w > (strides ? 2 : 1)) {
    obstacle = "stride " + pair_text(a.stride_h, a.stride_w) + ", must be 1x1" +
               (strides ? " or 2x2" : "");
  } else if (a.dilation_h != 1 || a.dilation_w != 1) {
    obstacle = "dilation " + pair_text(a.dilation_h, a.dilation_w) + ", must be 1x1";
  } else if (a.groups != 1) {
    obstacle = "groups = " + std::to_string(a.groups) + ", must be 1";
  }
  return obstacle.empty() ? obstacle : to_string(algorithm) + (": " + obstacle);
}

std::string winograd_arithmetic_need(std::uint32_t m, DataType dtype, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::split_f16:
      if (dtype != DataType::f32) return "f32 tensors";
      return m == 2 || m == 4 ? "" : "m = 2 or 4";
    case Arithmetic::f16:
      return m == 4 ? "" : "m = 4";
    default:
      return multiply_add_need(dtype, arithmetic);
  }
}

void check_m(std::uint32_t m) {
  if (m == 2 || m == 4 || m == 6 || m == kWideTile) return;
  throw Error(Status::invalid_argument,
              "m = " + std::to_string(m) + ": must be 2, 4, 6 or 46 (4 x 6)");
}

void count_tiles(const ConvProblem& problem, WinogradTiles& tiles) {
  tiles.tiles_h = u32(ceil_div(u64(problem.p()), std::uint64_t{tiles.rows()}));
  tiles.tiles_w = u32(ceil_div(u64(problem.q()), std::uint64_t{tiles.cols()}));
  tiles.num_tiles = u64(problem.n) * tiles.tiles_h * tiles.tiles_w;
  tiles.stride = u32(u64(problem.stride_w));
}

std::uint32_t last_tile_outputs(const WinogradTiles& tiles, std::uint32_t m, std::int64_t outputs) {
  const bool edges = tiles.stride == 2 ? m == 2 : has_edge_tiles(tiles.points);
  const std::uint32_t rest = u32(u64(outputs) % m);
  return edges && rest != 0 ? rest : m;
}

double needed_positions(const ConvProblem& problem, const WinogradTiles& tiles) {
  // A tile has a fixed number of positions more than outputs.
  const auto of_line = [&](std::uint32_t line_tiles, std::uint32_t m, std::uint32_t alpha,
                           std::int64_t outputs) {
    const std::uint32_t missing = m - last_tile_outputs(tiles, m, outputs);
    return static_cast<double>(line_tiles * alpha - missing * tiles.stride);
  };
  return static_cast<double>(problem.n) *
         of_line(tiles.tiles_h, tiles.rows(), tiles.alpha_h(), problem.p()) *
         of_line(tiles.tiles_w, tiles.cols(), tiles.alpha_w(), problem.q());
}

void derive_tiles(Tiling& tiling, WinogradTiles& tiles) {
  const std::string obstacle = winograd_obstacle(tiling.algorithm(), tiling.problem);
  if (!obstacle.empty()) throw Error(Status::invalid_argument, obstacle);
  check_m(tiles.m);
  if (tiling.problem.stride_w == 2 && tiles.m != 2 && tiles.m != 4) {
    throw Error(Status::invalid_argument,
                "m = " + std::to_string(tiles.m) + ": must be 2 or 4 under stride 2");
  }
  count_tiles(tiling.problem, tiles);
  check_field("group_tiles", tiles.group_tiles, tiles.num_tiles);
  check_field("filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task,
              tiling.filter_blocks());
  check_field("channel_blocks_per_filter_task", tiling.channel_blocks_per_filter_task,
              tiling.channel_blocks());
  tiling.num_groups = checked_groups(ceil_div(tiles.num_tiles, std::uint64_t{tiles.group_tiles}));
}

double filter_transform_operations(const Tiling& tiling) {
  const auto r = static_cast<double>(tiling.problem.r), k = static_cast<double>(tiling.problem.k);
  const double alpha_h = tiling.tiles()->alpha_h(), alpha_w = tiling.tiles()->alpha_w();
  return k * static_cast<double>(tiling.problem.c) / tiling.num_filter_tasks * 2 *
         (alpha_h * r * r + alpha_h * alpha_w * r);
}

double input_transform_operations(const WinogradTiles& tiles) {
  const double alpha_h = tiles.alpha_h(), alpha_w = tiles.alpha_w();
  return 2 * alpha_h * alpha_w * (alpha_h + alpha_w);
}

double output_transform_operations(const WinogradTiles& tiles) {
  const double alpha_w = tiles.alpha_w();
  return 2 * tiles.rows() * alpha_w * (tiles.alpha_h() + static_cast<double>(tiles.cols()));
}

std::string winograd_name(const Tiling& tiling) {
  const WinogradTiles& tiles = *tiling.tiles();
  std::string name = "winograd " + tile_text(tiles);
  if (tiles.stride != 1) name += ", stride 2";
  if (tiles.rows() == 4 && tiles.points == Points::integer) name += ", integer points";
  if (tiling.arithmetic != Arithmetic::fma) name += ", " + product_text(tiling.arithmetic);
  return name;
}

void describe_tiles(const Tiling& tiling, std::ostream& text) {
  const WinogradTiles& tiles = *tiling.tiles();
  text << ' ' << tile_text(tiles) << ", " << to_string(tiles.points) << " points, "
       << to_string(tiling.arithmetic) << " arithmetic\n"
       << "tiles: " << tiles.num_tiles << " (" << tiling.problem.n << " x " << tiles.tiles_h
       << " x " << tiles.tiles_w << "), " << tiles.group_tiles << " a group\n";
}

const ConvAlgorithm& winograd_algorithm() {
  static const WinogradAlgorithm kWinograd;
  return kWinograd;
}

}  // namespace megaconv
