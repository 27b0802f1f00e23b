// SPDX-License-Identifier: Apache-2.0
#include "tasks/implicit_gemm/implicit_gemm.hpp"

#include <algorithm>
#include <ostream>

#include "mapping/mapping_file.hpp"
#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"

namespace megaconv {
namespace {

using Piece = Traffic::Piece;

// What a run pays for tickets, counters and a filter stage of few blocks: 6 to 19 us.
constexpr double kOneKernelUs = 8;

[[noreturn]] void reject(const std::string& message) {
  throw Error(Status::invalid_argument, message);
}

void check_operands(const Tiling& tiling, const ConvProblem& multiplied,
                    const ImplicitGemmCut& cut) {
  const std::string operands = std::string("operands = ") + to_string(cut.operands);
  std::string obstacle = operands_obstacle(multiplied, tiling.arithmetic, cut);
  const bool converts = cut.operands == Operands::in_copy || are_converted(cut.operands);
  if (converts && has_space_to_depth(tiling.problem)) {
    obstacle = "must be loaded or in_float_tensor, since x is a copy from space to depth";
  }
  if (!obstacle.empty()) {
    reject(operands + ", cols_per_group = " + std::to_string(cut.cols_per_group) + ", for " +
           to_string(tiling.problem) + " with arithmetic " + to_string(tiling.arithmetic) + ": " +
           obstacle);
  }
  const std::uint32_t blocks = cut.channel_blocks_per_input_task;
  const bool copies = cut.operands == Operands::in_copy;
  if (copies ? blocks >= 1 && blocks <= kMostBlocksOfInputTask : blocks == 0) return;
  reject("channel_blocks_per_input_task = " + std::to_string(blocks) + " with " + operands +
         ": must be " + (copies ? "1 to " + std::to_string(kMostBlocksOfInputTask) : "0"));
}

// Where a pooling is stored in the place of y, which is the last of the traffic.
TaskCost stored(const Tiling& tiling, const NodeBuffers& buffers, TaskCost cost) {
  if (!std::get<ImplicitGemmCut>(tiling.cut).pools) return cost;
  Traffic& y = cost.traffic.back();
  const double bytes = y.bytes / (kPooledPixels * kPooledPixels);
  cost.bytes += bytes - y.bytes;
  y.buffer = buffers.second;
  y.bytes = bytes;
  return cost;
}

class ImplicitGemmAlgorithm final : public ConvAlgorithmOf<ImplicitGemmCut> {
 public:
  bool runs_on(Backend backend) const override { return backend != Backend::cpu; }
  std::string obstacle(const ConvProblem& problem, Arithmetic asked) const override {
    const std::string obstacle = implicit_gemm_obstacle(problem);
    if (!obstacle.empty() || asked != Arithmetic::fma) return obstacle;
    return "implicit_gemm: arithmetic fma, must be one of tensor cores";
  }
  std::int64_t groups_at_once(const ConvProblem& problem) const override {
    return megaconv::groups_at_once(problem);
  }
  std::int64_t channels_at_once(const ConvProblem& problem) const override {
    return megaconv::channels_at_once(problem);
  }
  std::string arithmetic_need(const Tiling& tiling) const override {
    return implicit_gemm_arithmetic_need(tiling.problem, tiling.arithmetic);
  }
  ErrorBound sum_bound(const Tiling& tiling) const override {
    return tiling.arithmetic == Arithmetic::split_f16 ? split_bound(tiling)
                                                      : one_product_bound(tiling);
  }

  void choose(Tiling& tiling, const TilingOptions& options, const Target& target) const override {
    choose_implicit_gemm(tiling, options, target);
  }
  void derive(Tiling& tiling) const override {
    const std::string obstacle = implicit_gemm_obstacle(tiling.problem);
    if (!obstacle.empty()) reject(obstacle);
    const ImplicitGemmCut& cut = own(tiling);
    const ConvProblem a = multiplied_problem(tiling.problem, cut.operands);
    check_field("cols_per_group", cut.cols_per_group, u64(a.n * a.q()));
    check_field("channel_blocks_per_filter_task", tiling.channel_blocks_per_filter_task,
                tiling.channel_blocks());
    check_operands(tiling, a, cut);
    check_field("filter_blocks_per_gemm_task", cut.filter_blocks_per_gemm_task,
                filter_blocks_of_tile(cut.operands));
    check_field("filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task, 1);
    const std::string of_stripes = stripe_obstacle(a, cut.operands, cut.cols_per_group);
    if (!of_stripes.empty()) {
      reject("cols_per_group = " + std::to_string(cut.cols_per_group) + of_stripes);
    }
    const Stripes stripes = make_stripes(a, static_cast<std::int32_t>(cut.cols_per_group));
    const std::uint64_t places = u64(places_of_stripe(a, stripes));
    // The last tile of a stripe may be larger than what is left of it.
    constexpr std::uint64_t kLargestTile = 256;
    check_field("places_per_group", cut.places_per_group,
                ceil_div(places, kLargestTile) * kLargestTile);
    if (stripes.images > 1 &&
        tile_places_in_place(cut.places_per_group, stripes, cut.operands, a.c) == 0) {
      reject("cols_per_group = " + std::to_string(cut.cols_per_group) +
             ": no tile has room for rows of " + std::to_string(stripes.images) +
             " images abreast in groups of " + std::to_string(cut.places_per_group) +
             " padded pixels, which must be whole rows of " + std::to_string(stripes.row()));
    }
    const std::string of_pool = cut.pools ? pool_obstacle(tiling.problem, cut) : "";
    if (!of_pool.empty()) reject("a pooling of y: " + of_pool);
    tiling.num_groups = checked_groups(count_place_groups(a, cut));
    tiling.input_tasks = tiling.output_tasks = 0;
    if (has_input_tasks(tiling)) {
      // Dealt out to the groups in the order of pixels; the last groups may have some without any.
      const InputCopy copy = input_copy(tiling);
      tiling.input_tasks =
          checked_tasks(ceil_div(copy.num_tasks(), std::uint64_t{tiling.num_groups}), 1);
    }
    const std::uint64_t filters =
        std::uint64_t{cut.filter_blocks_per_gemm_task} * Tiling::kLaneBlock;
    if (groups_at_once(a) != a.groups && u64(filters_at_once(a)) % filters != 0) {
      reject("filter_blocks_per_gemm_task = " + std::to_string(cut.filter_blocks_per_gemm_task) +
             ": must divide the " + std::to_string(filters_at_once(a)) + " filters of " +
             std::to_string(groups_at_once(a)) + " conv groups");
    }
    tiling.gemm_tasks = ceil_div(tiling.filter_blocks(), cut.filter_blocks_per_gemm_task);
  }
  std::uint32_t count_filter_tasks(const Tiling& tiling) const override {
    return filters_are_operands(tiling.problem, own(tiling).operands)
               ? 0
               : filter_tasks_by_sizes(tiling);
  }
  std::uint64_t u_bytes(const Tiling& tiling) const override {
    const ConvProblem a = multiplied_problem(tiling.problem, Operands::loaded);
    return packed_filter_bytes(tiling, u64(a.r * a.s));
  }

  void add_buffers(TaskGraph& graph, const Tiling& tiling, NodeBuffers& buffers) const override {
    if (!has_input_tasks(tiling)) return;
    buffers.v = static_cast<BufferId>(graph.buffers.size());
    graph.buffers.push_back(
        {.name = "V", .extent = input_copy(tiling).extent(), .bytes = input_copy_bytes(tiling)});
  }
  AccessFunction accesses(const Tiling& tiling, const NodeBuffers& buffers) const override {
    return implicit_gemm_accesses(tiling, buffers);
  }
  TaskCost cost(const Tiling& tiling, const NodeBuffers& buffers, Role role) const override {
    const ConvCost cost(tiling, buffers);
    if (role == Role::prepare) return cost.packing();
    // Of the rows above and below a run of pixels, at most all belong to its neighbours.
    constexpr double kWholeRows = 2;
    if (!has_input_tasks(tiling)) return stored(tiling, buffers, cost.direct(kWholeRows, 1));
    const double groups = tiling.num_groups;
    const auto copy_bytes = static_cast<double>(input_copy_bytes(tiling));
    if (role == Role::product) {
      return stored(
          tiling, buffers,
          cost.product({{buffers.v, Mode::read, Piece::of_group, copy_bytes / groups}}, 1));
    }
    const double tasks = groups * tiling.input_tasks;  // they copy x as operands
    const double x_part = static_cast<double>(tiling.problem.x_size()) * cost.element() / tasks;
    return {.transforms = x_part / cost.element(),
            .bytes = x_part + copy_bytes / tasks,
            .traffic = {{buffers.x, Mode::read, Piece::of_task, x_part},
                        {buffers.v, Mode::write, Piece::of_group, copy_bytes / tasks}}};
  }
  // One task on a multiprocessor.
  std::uint32_t resident_workers(const Target& target) const override {
    return target.multiprocessors != 0 ? std::min(target.workers, target.multiprocessors)
                                       : target.workers;
  }

  // The product stage has all of a run.
  std::optional<double> fitted_us(const Tiling& tiling, Role role, const PlanOptions& launched,
                                  const Target& target) const override {
    if (role != Role::product) return 0;
    const bool staged = launched.cuda_launch == CudaLaunch::staged;
    return implicit_gemm_us(tiling, target, staged) + (staged ? 0 : kOneKernelUs);
  }
  AlgorithmSpace space(const ConvProblem& problem, const Target& target,
                       const TilingOptions& asked) const override {
    return implicit_gemm_space(problem, target, asked);
  }
  void configure(const Tiling& tiling, CudaLaunch launch,
                 Configuration& configuration) const override {
    const ImplicitGemmCut& cut = own(tiling);
    configuration.set(Parameter::gemm_filters, cut.filter_blocks_per_gemm_task);
    configuration.set(Parameter::cols, cut.cols_per_group);
    configuration.set(Parameter::places, cut.places_per_group);
    if (has_arithmetic_to_choose(tiling.problem, tiling.arithmetic)) {
      configuration.set(Parameter::arithmetic, static_cast<std::int64_t>(tiling.arithmetic));
    }
    if (has_copies_to_choose(tiling.problem, tiling.arithmetic)) {
      const bool whole = has_input_tasks(tiling) || launch == CudaLaunch::staged;
      configuration.set(Parameter::window, whole ? 1 : 0);
    }
  }

  std::vector<CutField> fields(Tiling& tiling) const override {
    ImplicitGemmCut& cut = own(tiling);
    return {{"cols_per_group", cut.cols_per_group},
            {"places_per_group", cut.places_per_group},
            {"channel_blocks_per_input_task", cut.channel_blocks_per_input_task, 0},
            {"filter_blocks_per_gemm_task", cut.filter_blocks_per_gemm_task},
            {"filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task},
            {"channel_blocks_per_filter_task", tiling.channel_blocks_per_filter_task}};
  }
  void put_words(const Tiling& tiling, FileSection& section) const override {
    section.put("arithmetic", to_string(tiling.arithmetic));
    section.put("operands", to_string(own(tiling).operands));
  }
  void take_words(FileSection& section, Tiling& tiling) const override {
    tiling.arithmetic = section.choice(
        "arithmetic", {Arithmetic::split_f16, Arithmetic::tf32, Arithmetic::f16, Arithmetic::bf16});
    own(tiling).operands = section.choice(
        "operands",
        {Operands::loaded, Operands::in_tensor, Operands::in_float_tensor, Operands::in_copy,
         Operands::converted, Operands::in_tensor_wide, Operands::in_float_tensor_wide,
         Operands::in_tensor_tall, Operands::in_float_tensor_tall, Operands::converted_tall,
         Operands::split_tall});
  }
  std::string name(const Tiling& tiling) const override {
    return "implicit GEMM, " + product_text(tiling.arithmetic);
  }
  void describe(const Tiling& tiling, std::ostream& text) const override {
    const ImplicitGemmCut& cut = own(tiling);
    text << ", " << to_string(tiling.arithmetic) << " arithmetic\n"
         << "padded pixels of a group: " << cut.places_per_group << ", in stripes of "
         << cut.cols_per_group << " columns";
    const std::int32_t images = make_stripes(multiplied_problem(tiling.problem, cut.operands),
                                             static_cast<std::int32_t>(cut.cols_per_group))
                                    .images;
    if (images > 1) text << " (" << images << " images abreast)";
    text << '\n';
    if (has_input_tasks(tiling)) {
      const InputCopy copy = input_copy(tiling);
      text << "input task: " << blocks_text(u32(copy.blocks_of_task)) << " of "
           << copy.pixels_of_task << " pixels, "
           << (has_space_to_depth(tiling.problem) ? "space to depth" : "copied") << '\n'
           << "V: " << input_copy_bytes(tiling) << " bytes (whole)\n";
    }
    text << "direct task: " << blocks_text(cut.filter_blocks_per_gemm_task) << ", x "
         << to_string(cut.operands) << (cut.pools ? ", pools y\n" : "\n");
    describe_filter_task(tiling, text);
  }
};

}  // namespace

std::string implicit_gemm_obstacle(const ConvProblem& problem) {
  // The kernel counts padded pixels and elements of x, or of its copy, in 32 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const ConvProblem a = multiplied_problem(problem, Operands::loaded);
  std::string obstacle;
  if (a.dtype == DataType::i8) {
    obstacle = kNoExactSums;
  } else if (problem.pad_h >= problem.filter_extent_h() ||
             problem.pad_w >= problem.filter_extent_w()) {
    obstacle =
        "padding " + pair_text(problem.pad_h, problem.pad_w) + ", must be less than the filter";
  } else if (a.x_size() >= kMost || a.y_size() >= kMost ||
             places_of_stripe(a, make_stripes(a, static_cast<std::int32_t>(a.q()))) >= kMost / 2) {
    obstacle = "x or y of more than 2^31 elements";
  }
  return obstacle.empty() ? obstacle : "implicit_gemm: " + obstacle;
}

std::string implicit_gemm_arithmetic_need(const ConvProblem& problem, Arithmetic arithmetic) {
  const DataType dtype = problem.dtype;
  switch (arithmetic) {
    case Arithmetic::split_f16:
      return dtype == DataType::f32 ? "" : "f32 tensors";
    case Arithmetic::tf32:
      return floats_can_be_brought(multiplied_problem(problem, Operands::in_float_tensor))
                 ? ""
                 : "f32 tensors in nhwc, channels in whole fours or space to depth (with a "
                   "residual filters in whole fours, too), conv groups of as many filters as whole "
                   "tiles of 64 have";
    case Arithmetic::f16:
      return dtype == DataType::bf16 ? "f32 or f16 tensors" : "";
    case Arithmetic::bf16:
      return dtype == DataType::bf16 ? "" : "bf16 tensors";
    default:
      return "another algorithm";
  }
}

const ConvAlgorithm& implicit_gemm_algorithm() {
  static const ImplicitGemmAlgorithm kImplicitGemm;
  return kImplicitGemm;
}

}  // namespace megaconv
