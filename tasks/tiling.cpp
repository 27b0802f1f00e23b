// SPDX-License-Identifier: Apache-2.0
// What follows from the chosen fields of a tiling, and what must hold of them, whether
// make_tiling() chose them or a mapping file.
#include "tasks/tiling.hpp"

#include <algorithm>
#include <sstream>

#include "megaconv/error.hpp"
#include "tasks/implicit_gemm/stripes.hpp"
#include "tasks/opencnn/opencnn_blocking.hpp"

namespace megaconv {
namespace {

constexpr std::uint64_t kMostGroups = std::uint64_t{1} << 31;
constexpr const char* kNoExactSums =
    "storage type i8, which has exact sums; must be f32, f16 or bf16";

[[noreturn]] void reject(const std::string& message) {
  throw Error(Status::invalid_argument, message);
}

std::string pair_text(std::int64_t vertical, std::int64_t horizontal) {
  return std::to_string(vertical) + "x" + std::to_string(horizontal);
}

void check_field(const char* name, std::uint64_t value, std::uint64_t most) {
  if (value < 1 || value > most) {
    reject(std::string(name) + " = " + std::to_string(value) + ": must be 1 to " +
           std::to_string(most));
  }
}

std::uint64_t checked_groups(std::uint64_t groups) {
  if (groups > kMostGroups) {
    throw Error(Status::unsupported,
                std::to_string(groups) + " task groups: must be at most 2^31; use larger groups");
  }
  return groups;
}

// Tasks of a group: so many parts times so many. Both are below 2^32, so the product is exact.
std::uint32_t checked_tasks(std::uint64_t parts, std::uint64_t times) {
  constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 31;
  if (parts * times > kMostTasks) {
    throw Error(Status::unsupported, std::to_string(parts * times) +
                                         " tasks of a group: must be at most 2^31; use larger "
                                         "tasks");
  }
  return u32(parts * times);
}

// What both kinds of Winograd have.
void derive_tiles(Tiling& tiling) {
  const std::string obstacle = winograd_obstacle(tiling.algorithm, tiling.problem);
  if (!obstacle.empty()) reject(obstacle);
  check_m(tiling.m);
  count_tiles(tiling);
  check_field("group_tiles", tiling.group_tiles, tiling.num_tiles());
  check_field("channel_blocks_per_filter_task", tiling.channel_blocks_per_filter_task,
              tiling.channel_blocks());
  tiling.num_groups =
      u32(checked_groups(ceil_div(tiling.num_tiles(), std::uint64_t{tiling.group_tiles})));
}

void derive_fused_winograd(Tiling& tiling) {
  derive_tiles(tiling);
  tiling.input_tasks = tiling.output_tasks = 0;
  tiling.gemm_tasks = 1;
}

void derive_winograd(Tiling& tiling) {
  derive_tiles(tiling);
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  check_field("channel_blocks_per_input_task", tiling.channel_blocks_per_input_task,
              tiling.channel_blocks());
  check_field("tiles_per_transform_task", tiling.tiles_per_transform_task, tiling.group_tiles);
  check_field("positions_per_gemm_task", tiling.positions_per_gemm_task, tiling.num_positions());
  check_field("filter_blocks_per_output_task", tiling.filter_blocks_per_output_task, filter_blocks);
  tiling.input_tasks =
      checked_tasks(ceil_div(tiling.channel_blocks(), tiling.channel_blocks_per_input_task),
                    tiling.tile_chunks());
  tiling.gemm_tasks =
      checked_tasks(ceil_div(filter_blocks, tiling.filter_blocks_per_gemm_task),
                    ceil_div(tiling.num_positions(), tiling.positions_per_gemm_task));
  tiling.output_tasks = checked_tasks(ceil_div(filter_blocks, tiling.filter_blocks_per_output_task),
                                      tiling.tile_chunks());
}

void derive_direct(Tiling& tiling) {
  const ConvProblem& a = tiling.problem;
  check_field("rows_per_group", tiling.rows_per_group, u64(a.p()));
  check_field("cols_per_group", tiling.cols_per_group, u64(a.q()));
  tiling.num_groups =
      u32(checked_groups(u64(a.n) * ceil_div(u64(a.p()), std::uint64_t{tiling.rows_per_group}) *
                         ceil_div(u64(a.q()), std::uint64_t{tiling.cols_per_group})));
  tiling.input_tasks = 0;
  tiling.gemm_tasks = ceil_div(tiling.filter_blocks(), tiling.filter_blocks_per_gemm_task);
  tiling.output_tasks = 0;
}

void check_input_tasks(const Tiling& tiling) {
  const std::uint32_t blocks = tiling.channel_blocks_per_input_task;
  const std::string given = "channel_blocks_per_input_task = " + std::to_string(blocks);
  if (!has_copies_to_choose(tiling.problem, tiling.arithmetic)) {
    reject(given + ": must be 0 for " + to_string(tiling.problem) + " with arithmetic " +
           to_string(tiling.arithmetic));
  }
  if (blocks > kMostBlocksOfInputTask) {
    reject(given + ": must be at most " + std::to_string(kMostBlocksOfInputTask));
  }
}

// Task groups of implicit GEMM: so many in each stripe.
std::uint64_t count_place_groups(const Tiling& tiling, const Stripes& stripes) {
  const std::uint64_t places = u64(places_of_stripe(tiling.problem, stripes));
  return u64(num_stripes(tiling.problem, stripes)) *
         ceil_div(places, std::uint64_t{tiling.places_per_group});
}

void derive_implicit_gemm(Tiling& tiling) {
  const std::string obstacle = implicit_gemm_obstacle(tiling.problem);
  if (!obstacle.empty()) reject(obstacle);
  const ConvProblem& a = tiling.problem;
  check_field("cols_per_group", tiling.cols_per_group, u64(a.n * a.q()));
  check_field("channel_blocks_per_filter_task", tiling.channel_blocks_per_filter_task,
              tiling.channel_blocks());
  const Operands operands = operands_of(tiling);
  check_field("filter_blocks_per_gemm_task", tiling.filter_blocks_per_gemm_task,
              operands != Operands::loaded ? kFilterBlocksInPlace : 128 / Tiling::kLaneBlock);
  check_field("filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task, 1);
  const std::string of_stripes = stripe_obstacle(a, operands, tiling.cols_per_group);
  if (!of_stripes.empty()) {
    reject("cols_per_group = " + std::to_string(tiling.cols_per_group) + of_stripes);
  }
  const Stripes stripes = make_stripes(a, static_cast<std::int32_t>(tiling.cols_per_group));
  const std::uint64_t places = u64(places_of_stripe(a, stripes));
  // The last tile of a stripe may be larger than what is left of it.
  constexpr std::uint64_t kLargestTile = 256;
  check_field("places_per_group", tiling.places_per_group,
              ceil_div(places, kLargestTile) * kLargestTile);
  if (stripes.images > 1 &&
      tile_places_in_place(tiling.places_per_group, stripes, operands, a.c) == 0) {
    reject("cols_per_group = " + std::to_string(tiling.cols_per_group) +
           ": no tile has room for rows of " + std::to_string(stripes.images) +
           " images abreast in groups of " + std::to_string(tiling.places_per_group) +
           " places, which must be whole rows of " + std::to_string(stripes.row()));
  }
  tiling.num_groups = u32(checked_groups(count_place_groups(tiling, stripes)));
  tiling.input_tasks = tiling.output_tasks = 0;
  if (has_input_tasks(tiling)) {
    check_input_tasks(tiling);
    // Dealt out to the groups in the order of pixels; the last groups may have some without any.
    const std::uint64_t chunks =
        ceil_div(u64(a.n * a.h * a.w), std::uint64_t{kPixelsOfInputTask}) *
        ceil_div(tiling.channel_blocks(), tiling.channel_blocks_per_input_task);
    tiling.input_tasks = checked_tasks(ceil_div(chunks, std::uint64_t{tiling.num_groups}), 1);
  }
  tiling.gemm_tasks = ceil_div(tiling.filter_blocks(), tiling.filter_blocks_per_gemm_task);
}

void derive_opencnn(Tiling& tiling) {
  const std::string obstacle = opencnn_obstacle(tiling.problem);
  if (!obstacle.empty()) reject(obstacle);
  const ConvProblem& a = tiling.problem;
  // The kernel loads 4 rows of an image at 32-bit offsets.
  constexpr std::int64_t kMostRowElements = std::int64_t{1} << 29;
  const bool chwn = a.layout == Layout::chwn;
  const std::int64_t row = std::max(a.w, a.q()) * (chwn ? a.n : std::max(a.c, a.k));
  if (row >= kMostRowElements) {
    throw Error(Status::unsupported,
                "opencnn: rows of " + std::to_string(row) + " elements, must be less than 2^29");
  }
  tiling.m = opencnn::kOutputTile;
  tiling.points = Points::low_error;
  count_tiles(tiling);
  tiling.group_tiles = opencnn::kTiles;
  tiling.filter_blocks_per_gemm_task = opencnn::kFilters / Tiling::kLaneBlock;
  tiling.num_groups = u32(checked_groups(u64(opencnn::num_groups(a))));
  tiling.input_tasks = tiling.output_tasks = 0;
  tiling.gemm_tasks = u32(u64(opencnn::num_blocks(a)));
}

void check_arithmetic(const Tiling& tiling) {
  const DataType dtype = tiling.problem.dtype;
  std::string must = arithmetic_need(tiling.algorithm, tiling.m, tiling.problem, tiling.arithmetic);
  // Integer points are there to keep integers exact, which 11 bits do not.
  const bool rounds =
      tiling.algorithm == Algorithm::winograd && tiling.arithmetic == Arithmetic::f16;
  if (must.empty() && rounds && tiling.points != Points::low_error) must = "low_error points";
  if (must.empty()) return;
  throw Error(Status::unsupported, std::string("arithmetic ") + to_string(tiling.arithmetic) +
                                       " in " + to_string(tiling.algorithm) +
                                       ", m = " + std::to_string(tiling.m) + ", on " +
                                       to_string(dtype) + " tensors: must be " + must);
}

// What Winograd of either kind needs.
std::string fast_3x3_obstacle(Algorithm algorithm, const ConvProblem& a) {
  std::string obstacle;
  if (a.dtype == DataType::i8) {
    obstacle = kNoExactSums;
  } else if (a.r != 3 || a.s != 3) {
    obstacle = "filter " + pair_text(a.r, a.s) + ", must be 3x3";
  } else if (a.stride_h != 1 || a.stride_w != 1) {
    obstacle = "stride " + pair_text(a.stride_h, a.stride_w) + ", must be 1x1";
  } else if (a.dilation_h != 1 || a.dilation_w != 1) {
    obstacle = "dilation " + pair_text(a.dilation_h, a.dilation_w) + ", must be 1x1";
  } else if (a.groups != 1) {
    obstacle = "groups = " + std::to_string(a.groups) + ", must be 1";
  }
  return obstacle.empty() ? obstacle : to_string(algorithm) + (": " + obstacle);
}

}  // namespace

std::uint64_t Tiling::num_tiles() const {
  return static_cast<std::uint64_t>(problem.n) * tiles_h * tiles_w;
}

std::uint32_t Tiling::tile_chunks() const {
  return ceil_div(group_tiles, tiles_per_transform_task);
}

std::uint32_t Tiling::channel_blocks() const {
  return u32(ceil_div(u64(problem.c / problem.groups), std::uint64_t{kLaneBlock}));
}

std::uint32_t Tiling::filter_blocks() const {
  const std::int64_t groups = problem.depthwise() ? 1 : problem.groups;
  return u32(ceil_div(u64(problem.k / groups), std::uint64_t{kLaneBlock}) * u64(groups));
}

std::uint64_t Tiling::v_slot_bytes() const {
  if (algorithm != Algorithm::winograd) return 0;
  return std::uint64_t{num_positions()} * channel_blocks() * group_tiles * kLaneBlock *
         number_bytes(arithmetic);
}

std::uint64_t Tiling::m_slot_bytes() const {
  if (algorithm != Algorithm::winograd) return 0;
  return std::uint64_t{num_positions()} * filter_blocks() * group_tiles * kBlockBytes;
}

std::uint64_t Tiling::u_bytes() const {
  if (algorithm == Algorithm::opencnn) return u64(opencnn::u_size(problem)) * sizeof(float);
  const std::uint64_t filter_elements =
      is_winograd(algorithm) ? std::uint64_t{num_positions()} : u64(problem.r * problem.s);
  return filter_elements * filter_blocks() * channel_words(*this) * kLaneBlock *
         number_bytes(arithmetic);
}

std::uint64_t channel_words(const Tiling& tiling) {
  const ConvProblem& problem = tiling.problem;
  const std::uint64_t channels = u64(problem.c / problem.groups);
  const bool quads = problem.dtype == DataType::i8 && !problem.depthwise();
  return quads ? ceil_div(channels, std::uint64_t{4}) : channels;
}

Stripes make_stripes(const ConvProblem& a, std::int32_t cols) {
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const bool whole = cols >= a.q();
  Stripes stripes{};
  stripes.cols = cols;
  stripes.pitch = whole ? i32(a.w + a.pad_w) : i32(cols + a.filter_extent_w() - 1);
  stripes.period = i32(a.h + a.pad_h);
  stripes.images = std::max(1, i32(cols / a.q()));
  stripes.reach = i32((a.filter_extent_h() - 1) * stripes.row() + a.filter_extent_w() - 1);
  return stripes;
}

std::int64_t num_stripes(const ConvProblem& problem, const Stripes& stripes) {
  return stripes.images > 1 ? ceil_div(problem.n, std::int64_t{stripes.images})
                            : ceil_div(problem.q(), std::int64_t{stripes.cols});
}

std::int64_t places_of_stripe(const ConvProblem& problem, const Stripes& stripes) {
  return stripes.images > 1 ? problem.p() * stripes.row()
                            : problem.n * stripes.period * stripes.pitch;
}

namespace {

// By which boxes of pixels may lie beyond the tensor, or within it, in the copy engine's maps.
constexpr std::int64_t kMostCorner = 127;

// In NHWC, so that the copy engine can walk through pixels.
bool has_tensor_maps(const ConvProblem& a) {
  return a.layout == Layout::nhwc && a.filter_extent_w() <= kMostCorner &&
         a.filter_extent_h() <= kMostCorner && a.pad_h <= kMostCorner && a.pad_w <= kMostCorner;
}

}  // namespace

bool operands_in_tensor(const ConvProblem& a) {
  constexpr std::int64_t kOctet = 8;
  const bool numbers = a.dtype == DataType::f16 || a.dtype == DataType::bf16;
  return numbers && a.c % kOctet == 0 && a.k % kOctet == 0 && !a.epilogue.residual &&
         has_tensor_maps(a);
}

bool operands_can_be_copied(const ConvProblem& a) {
  return a.dtype == DataType::f32 && !a.epilogue.residual && has_tensor_maps(a);
}

bool floats_can_be_brought(const ConvProblem& a) {
  constexpr std::int64_t kVector = 16 / sizeof(float);
  return operands_can_be_copied(a) && a.c % kVector == 0;
}

bool stripes_can_be_converted(const ConvProblem& a, std::int64_t cols) {
  if (cols <= 0 || cols > a.q()) return false;
  const std::int64_t stripes = ceil_div(a.q(), cols);
  return floats_can_be_brought(a) && stripes <= kMostConvertedStripes &&
         stripes * cols - a.q() + a.filter_extent_w() <= kMostCorner;
}

bool has_arithmetic_to_choose(const ConvProblem& problem, Arithmetic arithmetic) {
  return floats_can_be_brought(problem) &&
         (arithmetic == Arithmetic::f16 || arithmetic == Arithmetic::tf32);
}

bool has_copies_to_choose(const ConvProblem& problem, Arithmetic arithmetic) {
  return operands_can_be_copied(problem) && arithmetic == Arithmetic::f16;
}

Operands operands_of(const Tiling& tiling) {
  if (operands_in_tensor(tiling.problem)) return Operands::in_tensor;
  if (tiling.arithmetic == Arithmetic::tf32) return Operands::in_float_tensor;
  if (has_input_tasks(tiling)) return Operands::in_copy;
  const bool converts = tiling.arithmetic == Arithmetic::f16 &&
                        tiling.filter_blocks_per_gemm_task <= kFilterBlocksInPlace &&
                        stripes_can_be_converted(tiling.problem, tiling.cols_per_group);
  return converts ? Operands::converted : Operands::loaded;
}

std::uint32_t cluster_blocks(const Tiling& tiling) {
  const bool converts =
      tiling.algorithm == Algorithm::implicit_gemm && operands_of(tiling) == Operands::converted;
  const std::uint32_t tasks =
      ceil_div(tiling.filter_blocks(), std::max(1u, tiling.filter_blocks_per_gemm_task));
  return converts && tasks % 2 == 0 ? 2 : 1;
}

std::uint32_t channel_shares(const Tiling& tiling) {
  // H200: so many clusters of four, or of two, run at once.
  constexpr std::uint64_t kClustersOfFour = 30, kClustersOfTwo = 66;
  if (tiling.algorithm != Algorithm::implicit_gemm) return 1;
  const Operands operands = operands_of(tiling);
  const ConvProblem& problem = tiling.problem;
  const Stripes stripes = make_stripes(problem, static_cast<std::int32_t>(tiling.cols_per_group));
  // Sums of the others take room of input, which filters that reach far need.
  if (!are_tensors(operands) || stripes.images > 1 || stripes.reach > kMostReach ||
      tiling.places_per_group > std::uint32_t{kMostSharedPlaces}) {
    return 1;
  }
  const std::uint64_t tasks = count_place_groups(tiling, stripes) *
                              ceil_div(tiling.filter_blocks(), tiling.filter_blocks_per_gemm_task);
  if (tasks > kClustersOfTwo) return 1;
  const std::int64_t slab = slab_channels_in_place(kMostSharedPlaces, operands);
  const std::int64_t slabs = ceil_div(problem.c, slab), most = tasks <= kClustersOfFour ? 4 : 2;
  return u32(u64(ceil_div(slabs, ceil_div(slabs, most))));
}

std::uint64_t input_copy_bytes(const Tiling& tiling) {
  if (!has_input_tasks(tiling)) return 0;
  const ConvProblem& a = tiling.problem;
  constexpr std::uint64_t kSlabChannels = 32, kSlabBytes = 2 * kSlabChannels;
  return u64(a.n * a.h * a.w) * ceil_div(u64(a.c), kSlabChannels) * kSlabBytes;
}

std::string stripe_obstacle(const ConvProblem& problem, Operands operands, std::int64_t cols) {
  if (operands == Operands::converted) return "";
  const std::int64_t q = problem.q();
  if (operands != Operands::loaded) {
    // Of boxes that the copy engine brings.
    constexpr std::int64_t kMostAbreast = 256;
    if (cols == q || (cols % q == 0 && cols / q * (problem.w + problem.pad_w) <= kMostAbreast)) {
      return "";
    }
    return ": must be all " + std::to_string(q) +
           " columns of y, since x is read in place, or those of several images that have at "
           "most " +
           std::to_string(kMostAbreast) + " with their padding";
  }
  if (cols > q) return ": must be at most the " + std::to_string(q) + " columns of y";
  const std::int32_t reach = make_stripes(problem, static_cast<std::int32_t>(cols)).reach;
  return reach <= kMostReach ? ""
                             : ": a filter reaches " + std::to_string(reach) +
                                   " places, must be at most " + std::to_string(kMostReach);
}

std::string implicit_gemm_obstacle(const ConvProblem& a) {
  // The kernel counts places and elements of x in 32 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::string obstacle;
  if (a.dtype == DataType::i8) {
    obstacle = kNoExactSums;
  } else if (a.stride_h != 1 || a.stride_w != 1) {
    obstacle = "stride " + pair_text(a.stride_h, a.stride_w) + ", must be 1x1";
  } else if (a.groups != 1) {
    obstacle = "groups = " + std::to_string(a.groups) + ", must be 1";
  } else if (a.pad_h >= a.filter_extent_h() || a.pad_w >= a.filter_extent_w()) {
    obstacle = "padding " + pair_text(a.pad_h, a.pad_w) + ", must be less than the filter";
  } else if (!operands_in_tensor(a) && make_stripes(a, 1).reach > kMostReach) {
    obstacle = "a dilated filter of " + pair_text(a.filter_extent_h(), a.filter_extent_w()) +
               ", must reach over at most " + std::to_string(kMostReach) + " places";
  } else if (a.x_size() >= kMost || a.y_size() >= kMost ||
             places_of_stripe(a, make_stripes(a, static_cast<std::int32_t>(a.q()))) >= kMost / 2) {
    obstacle = "x or y of more than 2^31 elements";
  }
  return obstacle.empty() ? obstacle : "implicit_gemm: " + obstacle;
}

std::string winograd_obstacle(Algorithm algorithm, const ConvProblem& problem) {
  return fast_3x3_obstacle(algorithm, problem);
}

std::string arithmetic_need(Algorithm algorithm, std::uint32_t m, const ConvProblem& problem,
                            Arithmetic arithmetic) {
  const DataType dtype = problem.dtype;
  const bool implicit_gemm = algorithm == Algorithm::implicit_gemm;
  const bool multiplies_matrices = implicit_gemm || algorithm == Algorithm::winograd;
  switch (arithmetic) {
    case Arithmetic::split_f16:
      if (dtype != DataType::f32) return "f32 tensors";
      if (!multiplies_matrices) return "winograd or implicit_gemm";
      return implicit_gemm || m == 2 || m == 4 ? "" : "m = 2 or 4";
    case Arithmetic::tf32:
      if (!implicit_gemm) return "implicit_gemm";
      return floats_can_be_brought(problem)
                 ? ""
                 : "f32 tensors in nhwc, channels in whole fours, no residual";
    case Arithmetic::f16:
      if (!multiplies_matrices) return "winograd or implicit_gemm";
      if (implicit_gemm) return dtype == DataType::bf16 ? "f32 or f16 tensors" : "";
      return m == 4 ? "" : "m = 4";
    case Arithmetic::bf16:
      if (dtype != DataType::bf16) return "bf16 tensors";
      return implicit_gemm ? "" : "implicit_gemm";
    default:
      return implicit_gemm ? "another algorithm" : "";
  }
}

bool permits_f16(DataType dtype, Precision precision) {
  return dtype == DataType::f16 || dtype == DataType::bf16 || precision != Precision::f32;
}

bool is_winograd(Algorithm algorithm) {
  return algorithm == Algorithm::winograd || algorithm == Algorithm::fused_winograd;
}

std::string opencnn_obstacle(const ConvProblem& problem) {
  if (problem.dtype != DataType::f32) {
    return std::string("opencnn: storage type ") + to_string(problem.dtype) + ", must be f32";
  }
  return fast_3x3_obstacle(Algorithm::opencnn, problem);
}

void check_m(std::uint32_t m) {
  if (m != 2 && m != 4 && m != 6) reject("m = " + std::to_string(m) + ": must be 2, 4 or 6");
}

void count_tiles(Tiling& tiling) {
  tiling.tiles_h = u32(ceil_div(u64(tiling.problem.p()), std::uint64_t{tiling.m}));
  tiling.tiles_w = u32(ceil_div(u64(tiling.problem.q()), std::uint64_t{tiling.m}));
}

std::uint32_t count_filter_tasks(const Tiling& tiling) {
  if (tiling.algorithm == Algorithm::implicit_gemm && are_tensors(operands_of(tiling))) return 0;
  if (tiling.algorithm == Algorithm::opencnn) {
    return u32(u64(opencnn::num_filter_tasks(tiling.problem)));
  }
  const std::uint32_t chunks =
      ceil_div(tiling.filter_blocks(), tiling.filter_blocks_per_filter_task);
  return tiling.algorithm == Algorithm::direct
             ? chunks
             : checked_tasks(chunks, ceil_div(tiling.channel_blocks(),
                                              tiling.channel_blocks_per_filter_task));
}

// What follows from the fields of a tiling and its problem, with their errors.
void derive_counts(Tiling& tiling) {
  validate(tiling.problem);
  if (tiling.algorithm == Algorithm::opencnn) {
    derive_opencnn(tiling);
  } else {
    if (tiling.problem.layout == Layout::chwn) {
      throw Error(Status::unsupported,
                  "layout chwn: must be nchw or nhwc, or the algorithm opencnn");
    }
    const std::uint32_t filter_blocks = tiling.filter_blocks();
    if (tiling.algorithm != Algorithm::fused_winograd) {
      check_field("filter_blocks_per_gemm_task", tiling.filter_blocks_per_gemm_task, filter_blocks);
    }
    check_field("filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task,
                filter_blocks);
    tiling.algorithm == Algorithm::winograd         ? derive_winograd(tiling)
    : tiling.algorithm == Algorithm::fused_winograd ? derive_fused_winograd(tiling)
    : tiling.algorithm == Algorithm::implicit_gemm  ? derive_implicit_gemm(tiling)
                                                    : derive_direct(tiling);
  }
  check_arithmetic(tiling);
  tiling.num_filter_tasks = tiling.filters == FilterMode::prepared ? 0 : count_filter_tasks(tiling);
  const auto slots = [&](std::uint32_t asked) {
    return asked == 0 ? tiling.num_groups : std::min(asked, tiling.num_groups);
  };
  tiling.v_slots = slots(tiling.v_slots);
  tiling.m_slots = slots(tiling.m_slots);
}

std::uint64_t num_tasks(const Tiling& tiling) {
  const std::uint64_t group_tasks =
      std::uint64_t{tiling.input_tasks} + tiling.gemm_tasks + tiling.output_tasks;
  return tiling.num_filter_tasks + tiling.num_groups * group_tasks;
}

const char* to_string(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::automatic:
      return "automatic";
    case Algorithm::direct:
      return "direct";
    case Algorithm::winograd:
      return "winograd";
    case Algorithm::opencnn:
      return "opencnn";
    case Algorithm::fused_winograd:
      return "fused_winograd";
    case Algorithm::implicit_gemm:
      return "implicit_gemm";
  }
  return "unknown";
}

const char* to_string(Points points) noexcept {
  return points == Points::low_error ? "low_error" : "integer";
}

const char* to_string(OutputLayout layout) noexcept {
  switch (layout) {
    case OutputLayout::baseline:
      return "baseline";
    case OutputLayout::optSTS64:
      return "optSTS64";
    case OutputLayout::optSTS64_compact:
      return "optSTS64_compact";
    case OutputLayout::optLDS64:
      return "optLDS64";
  }
  return "unknown";
}

const char* to_string(Arithmetic arithmetic) noexcept {
  switch (arithmetic) {
    case Arithmetic::automatic:
      return "automatic";
    case Arithmetic::fma:
      return "fma";
    case Arithmetic::split_f16:
      return "split_f16";
    case Arithmetic::tf32:
      return "tf32";
    case Arithmetic::f16:
      return "f16";
    case Arithmetic::bf16:
      return "bf16";
  }
  return "unknown";
}

const char* to_string(Precision precision) noexcept {
  switch (precision) {
    case Precision::f32:
      return "f32";
    case Precision::tf32:
      return "tf32";
    case Precision::f16:
      return "f16";
    case Precision::bf16:
      return "bf16";
  }
  return "unknown";
}

const char* to_string(FilterMode filters) noexcept {
  return filters == FilterMode::every_run ? "every_run" : "prepared";
}

std::string to_string(const Tiling& tiling) {
  std::ostringstream text;
  const auto blocks = [](std::uint32_t num) {
    return std::to_string(num) + (num == 1 ? " lane block" : " lane blocks");
  };
  text << "problem: " << to_string(tiling.problem) << '\n'
       << "algorithm: " << to_string(tiling.algorithm);
  if (is_winograd(tiling.algorithm)) {
    text << " F(" << tiling.m << "x" << tiling.m << ", 3x3), " << to_string(tiling.points)
         << " points, " << to_string(tiling.arithmetic) << " arithmetic\n"
         << "tiles: " << tiling.num_tiles() << " (" << tiling.problem.n << " x " << tiling.tiles_h
         << " x " << tiling.tiles_w << "), " << tiling.group_tiles << " a group\n";
  }
  if (tiling.algorithm == Algorithm::winograd) {
    const auto window = [&](std::uint32_t slots, std::uint64_t slot_bytes) {
      return std::to_string(slots) + " of " + std::to_string(tiling.num_groups) + " groups, " +
             std::to_string(slots * slot_bytes) + " bytes" +
             (slots == tiling.num_groups ? " (whole)" : " (window)");
    };
    const std::string tiles = " x " + std::to_string(tiling.tiles_per_transform_task) + " tiles\n";
    text << "input task: " << blocks(tiling.channel_blocks_per_input_task) << tiles
         << "gemm task: " << blocks(tiling.filter_blocks_per_gemm_task) << ", "
         << tiling.positions_per_gemm_task << " of " << tiling.num_positions() << " positions\n"
         << "output task: " << blocks(tiling.filter_blocks_per_output_task) << tiles
         << "V: " << window(tiling.v_slots, tiling.v_slot_bytes()) << '\n'
         << "M: " << window(tiling.m_slots, tiling.m_slot_bytes()) << '\n';
  } else if (tiling.algorithm == Algorithm::opencnn) {
    text << " F(2x2, 3x3), output layout " << to_string(tiling.output_layout)
         << "\nfused task: " << opencnn::kTiles << " tiles, " << opencnn::kFilters << " filters\n";
  } else if (tiling.algorithm == Algorithm::implicit_gemm) {
    text << ", " << to_string(tiling.arithmetic) << " arithmetic\n"
         << "places of a group: " << tiling.places_per_group << ", in stripes of "
         << tiling.cols_per_group << " columns";
    const std::int32_t images =
        make_stripes(tiling.problem, static_cast<std::int32_t>(tiling.cols_per_group)).images;
    if (images > 1) text << " (" << images << " images abreast)";
    text << '\n';
    if (has_input_tasks(tiling)) {
      text << "input task: " << blocks(tiling.channel_blocks_per_input_task) << " of "
           << kPixelsOfInputTask << " pixels, copied\n"
           << "V: " << input_copy_bytes(tiling) << " bytes (whole)\n";
    }
    text << "direct task: " << blocks(tiling.filter_blocks_per_gemm_task) << '\n';
  } else if (tiling.algorithm == Algorithm::direct) {
    text << "\npixels of a group: " << tiling.rows_per_group << " x " << tiling.cols_per_group
         << '\n'
         << "direct task: " << blocks(tiling.filter_blocks_per_gemm_task) << '\n';
  }
  text << "filter task: ";
  if (tiling.algorithm == Algorithm::opencnn) {
    text << opencnn::kFilters << " filters of " << opencnn::kChannels << " channels";
  } else {
    text << blocks(tiling.filter_blocks_per_filter_task);
    if (is_winograd(tiling.algorithm) || tiling.algorithm == Algorithm::implicit_gemm) {
      text << " of filters x " << tiling.channel_blocks_per_filter_task << " of channels";
    }
  }
  text << ", " << to_string(tiling.filters) << '\n'
       << "U: " << tiling.u_bytes() << " bytes\n"
       << "task groups: " << tiling.num_groups << '\n'
       << "tasks: " << num_tasks(tiling) << " (NF " << tiling.num_filter_tasks << ", SI "
       << tiling.input_tasks << ", SG " << tiling.gemm_tasks << ", SO " << tiling.output_tasks
       << ")\n";
  return text.str();
}

}  // namespace megaconv
