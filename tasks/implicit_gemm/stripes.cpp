// SPDX-License-Identifier: Apache-2.0
// Stripes of a problem, and which load paths they can have.
#include "tasks/implicit_gemm/stripes.hpp"

#include <algorithm>

#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv {

bool loads_by_taps(const ConvProblem& a) {
  constexpr std::int64_t kFarRow = 128;
  if (has_strides(a)) return true;
  if (!operands_in_tensor(a)) {
    const std::int64_t pitch = a.q() == 1 ? a.w + a.pad_w : a.filter_extent_w();  // of one column
    const std::int64_t down = a.filter_extent_h() - 1, across = a.filter_extent_w() - 1;
    // (Of what is dilated that far a product need not be a number.)
    return std::max(down, across) > kMostReach || down * pitch + across > kMostReach;
  }
  // Taps of one column share what they read with those of other rows alone. Where rows are long,
  // wide and tall tiles load less (H100, FP16: n2c120h199k1176r3s1p1x0 264 us, then 172;
  // n8c160h50k224r7s1p3x0 21.5 and 28.6).
  return a.s == 1 && a.r > 1 && a.w + a.pad_w >= kFarRow;
}

std::int64_t groups_at_once(const ConvProblem& a) {
  constexpr std::int64_t kTile = 64;
  for (std::int64_t groups = 1; groups < a.groups; ++groups) {
    if (a.groups % groups == 0 && a.k / a.groups * groups % kTile == 0) return groups;
  }
  return a.groups;
}

std::int64_t channels_at_once(const ConvProblem& a) {
  return has_space_to_depth(a) ? space_to_depth(a).channels : a.c / a.groups * groups_at_once(a);
}

Stripes make_stripes(const ConvProblem& a, std::int32_t cols) {
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const bool whole = cols >= a.q();
  Stripes stripes{};
  stripes.cols = cols;
  stripes.by_taps = loads_by_taps(a);
  if (stripes.by_taps) {
    stripes.pitch = cols;
    stripes.period = i32(a.p());
    return stripes;
  }
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

bool outputs_in_order(const ConvProblem& problem, const Stripes& stripes) {
  return stripes.images == 1 && stripes.cols == problem.q() && stripes.pitch == problem.q() &&
         stripes.period == problem.p();
}

namespace {

// By which boxes of pixels may lie beyond the tensor, or within it, in TMA's maps; and the longest
// step of a walk through pixels.
constexpr std::int64_t kMostCorner = 127, kMostStep = 8;

// In NHWC, so that TMA can walk through pixels. A tile of 64 filters multiplies whole conv groups.
bool has_tensor_maps(const ConvProblem& a) {
  return a.layout == Layout::nhwc &&
         (a.groups == 1 || filters_at_once(a) % (kFilterBlocksInPlace * Tiling::kLaneBlock) == 0) &&
         a.filter_extent_w() + a.stride_w <= kMostCorner + 1 &&
         a.filter_extent_h() + a.stride_h <= kMostCorner + 1 && a.pad_h <= kMostCorner &&
         a.pad_w <= kMostCorner && a.stride_h <= kMostStep && a.stride_w <= kMostStep;
}

bool are_floats_with_maps(const ConvProblem& a) {
  constexpr std::int64_t kVector = 4;  // of a residual
  return a.dtype == DataType::f32 && (!a.epilogue.residual || a.k % kVector == 0) &&
         has_tensor_maps(a);
}

}  // namespace

bool operands_in_tensor(const ConvProblem& a) {
  constexpr std::int64_t kOctet = 8;
  const bool numbers = a.dtype == DataType::f16 || a.dtype == DataType::bf16;
  return numbers && a.c % kOctet == 0 && (!a.epilogue.residual || a.k % kOctet == 0) &&
         has_tensor_maps(a);
}

bool operands_in_wide_tiles(const ConvProblem& a) {
  return a.groups == 1 && (operands_in_tensor(a) || floats_can_be_brought(a)) &&
         make_stripes(a, static_cast<std::int32_t>(a.q())).taps_have_own_inputs();
}

bool converts_in_tall_tiles(const ConvProblem& a) {
  return a.dtype == DataType::f32 && !has_space_to_depth(a) && operands_in_wide_tiles(a);
}

bool converts_in_tall_tiles(const ConvProblem& a, std::uint32_t filter_blocks) {
  return converts_in_tall_tiles(a) && (a.r * a.s == 1 || filter_blocks > kFilterBlocksInPlace);
}

bool operands_can_be_copied(const ConvProblem& a) {
  return a.groups == 1 && are_floats_with_maps(a);
}

bool floats_can_be_brought(const ConvProblem& a) {
  constexpr std::int64_t kVector = 16 / sizeof(float);
  return are_floats_with_maps(a) && a.c % kVector == 0;
}

bool stripes_can_be_converted(const ConvProblem& a, std::int64_t cols) {
  if (cols <= 0 || cols > a.q() || (loads_by_taps(a) && cols != a.q())) return false;
  const std::int64_t stripes = ceil_div(a.q(), cols);
  return a.groups == 1 && floats_can_be_brought(a) && stripes <= kMostConvertedStripes &&
         stripes * cols - a.q() + a.filter_extent_w() <= kMostCorner;
}

bool has_arithmetic_to_choose(const ConvProblem& problem, Arithmetic arithmetic) {
  return floats_can_be_brought(multiplied_problem(problem, Operands::in_float_tensor)) &&
         (arithmetic == Arithmetic::f16 || arithmetic == Arithmetic::tf32);
}

bool has_copies_to_choose(const ConvProblem& problem, Arithmetic arithmetic) {
  return !has_space_to_depth(problem) && operands_can_be_copied(problem) &&
         arithmetic == Arithmetic::f16;
}

std::string operands_obstacle(const ConvProblem& problem, Arithmetic arithmetic,
                              const ImplicitGemmCut& cut) {
  const bool rounds_to_tf32 = arithmetic == Arithmetic::tf32;
  const bool copies = has_copies_to_choose(problem, arithmetic);
  switch (cut.operands) {
    case Operands::loaded:
      return rounds_to_tf32 ? "arithmetic must not be tf32" : "";
    case Operands::in_tensor:
      return operands_in_tensor(problem) ? ""
                                         : "tensors must be f16 or bf16 in nhwc, channels in "
                                           "whole eights, with a residual filters, too";
    case Operands::in_tensor_wide:
    case Operands::in_tensor_tall:
      return operands_in_tensor(problem) && operands_in_wide_tiles(problem)
                 ? ""
                 : "tensors must be f16 or bf16 in nhwc, channels in whole eights, with "
                   "a residual filters, too; filters 1x1 or strided";
    case Operands::in_float_tensor:
      return rounds_to_tf32 ? "" : "arithmetic must be tf32";
    case Operands::in_float_tensor_wide:
    case Operands::in_float_tensor_tall:
      return rounds_to_tf32 && operands_in_wide_tiles(problem)
                 ? ""
                 : "arithmetic must be tf32; filters 1x1 or strided";
    case Operands::in_copy:
      return copies ? ""
                    : "arithmetic must be f16, tensors f32 in nhwc, with a residual filters in "
                      "whole fours";
    case Operands::converted_tall:
      return copies && converts_in_tall_tiles(problem)
                 ? ""
                 : "arithmetic must be f16, tensors f32 in nhwc, channels in whole fours, and "
                   "filters with a residual; filters 1x1 or strided";
    case Operands::split_tall:
      return arithmetic == Arithmetic::split_f16 && converts_in_tall_tiles(problem)
                 ? ""
                 : "arithmetic must be split_f16, tensors f32 in nhwc, channels in whole fours, "
                   "and filters with a residual; filters 1x1 or strided";
    case Operands::converted:
      break;
  }
  if (!copies || !floats_can_be_brought(problem)) {
    return "arithmetic must be f16, tensors f32 in nhwc, channels in whole fours, and filters with "
           "a residual";
  }
  if (stripes_can_be_converted(problem, cut.cols_per_group)) return "";
  return "cols_per_group must cut y into " + std::to_string(kMostConvertedStripes) +
         " stripes at most, the last one nearly full";
}

bool filters_are_operands(const ConvProblem& problem, Operands operands) {
  return are_tensors(operands) && problem.groups == 1 && !has_space_to_depth(problem);
}

bool has_input_tasks(const Tiling& tiling) {
  const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut);
  return cut != nullptr &&
         (cut->operands == Operands::in_copy || has_space_to_depth(tiling.problem));
}

bool rows_come_in_pieces(const ConvProblem& a) {
  constexpr std::uint64_t kSector = 32;
  return u64(a.c) * size_of(a.dtype) % kSector != 0;
}

bool stores_vectors(const ConvProblem& a) {
  constexpr std::uint64_t kVector = 16;
  return u64(a.k) * size_of(a.dtype) % kVector == 0;
}

std::uint64_t count_place_groups(const ConvProblem& problem, const ImplicitGemmCut& cut) {
  const Stripes stripes = make_stripes(problem, static_cast<std::int32_t>(cut.cols_per_group));
  return u64(num_stripes(problem, stripes)) *
         ceil_div(u64(places_of_stripe(problem, stripes)), std::uint64_t{cut.places_per_group});
}

std::uint64_t count_tasks(const Tiling& tiling) {
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  return count_place_groups(multiplied_problem(tiling.problem, cut.operands), cut) *
         ceil_div(tiling.filter_blocks(), cut.filter_blocks_per_gemm_task);
}

namespace {

// Whether blocks of a cluster load x for each other: where its rows come from the L2 in pieces, and
// there are enough of them. That blocks wait for each other takes about 1 us of a run. (H100, FP16:
// n7c472h77k936r1p0 118 us by each alone, 93 together; n32c512h28k1024r1p0u2 14.6 and 15.3. Not yet
// of floats that are split.) Of 1x1 filters on tensors also where rows are of two lines, and in
// tall tiles of whole lines where there are more of them: there it takes 0.94 of the time, in the
// mean. (H200, 97 layers in FP16 and TF32, up to 13 numbers of filters each; of fewer products it
// takes 1.02 to 1.1.)
bool loads_together(const Tiling& tiling, const ImplicitGemmCut& cut) {
  constexpr std::uint64_t kLeastProducts = 1'500'000'000;
  constexpr std::uint64_t kLeastBytesOfTwoLines = 6'000'000'000, kLeastBytes = 12'000'000'000;
  constexpr std::uint64_t kLine = 128;
  if (!may_load_together(cut.operands) || cut.operands == Operands::split_tall) return false;
  const ConvProblem a = multiplied_problem(tiling.problem, cut.operands);
  const std::uint64_t products = u64(a.y_size()) * u64(a.c * a.r * a.s);
  if (rows_come_in_pieces(a)) return products >= kLeastProducts;
  if (!are_tensors(cut.operands) || a.r * a.s != 1) return false;
  const std::uint64_t bytes = products * size_of(a.dtype);
  const bool of_two_lines = u64(a.c) * size_of(a.dtype) % kLine != 0;
  if (of_two_lines) return bytes >= kLeastBytesOfTwoLines;
  const bool is_few = cut.filter_blocks_per_gemm_task < kFilterBlocksInPlace;
  return are_tall(cut.operands) && !is_few && bytes >= kLeastBytes;
}

}  // namespace

std::uint32_t cluster_blocks(const Tiling& tiling) {
  const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut);
  if (cut == nullptr) return 1;
  const std::uint32_t tasks = ceil_div(tiling.filter_blocks(), cut->filter_blocks_per_gemm_task);
  const bool same_input = cut->operands == Operands::converted || loads_together(tiling, *cut);
  return same_input && tasks % 2 == 0 ? 2 : 1;
}

std::uint32_t channel_shares(const Tiling& tiling) {
  // H200: so many clusters of four, three and two run at once.
  constexpr std::uint64_t kClustersOfFour = 30, kClustersOfThree = 35, kClustersOfTwo = 66;
  const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut);
  if (cut == nullptr) return 1;
  const ConvProblem problem = multiplied_problem(tiling.problem, cut->operands);
  const Stripes stripes = make_stripes(problem, static_cast<std::int32_t>(cut->cols_per_group));
  // Sums of the others take room of input, which filters that reach far need.
  if (!may_share_channels(cut->operands) || stripes.images > 1 || stripes.reach > kMostReach ||
      cut->places_per_group > std::uint32_t{kMostSharedPlaces}) {
    return 1;
  }
  const std::uint64_t tasks = count_tasks(tiling);
  if (tasks > kClustersOfTwo) return 1;
  const std::int64_t k_block = k_block_channels_in_place(kMostSharedPlaces, cut->operands);
  const std::int64_t k_blocks = ceil_div(channels_at_once(problem), k_block);
  const std::int64_t tile_places =
      tile_places_in_place(cut->places_per_group, stripes, cut->operands, problem.c);
  const std::int64_t largest = tasks <= kClustersOfFour ? 4 : tasks <= kClustersOfThree ? 3 : 2;
  const std::int64_t most = std::min(largest, most_channel_shares(tile_places, cut->operands));
  return u32(u64(ceil_div(k_blocks, ceil_div(k_blocks, most))));
}

InputCopy input_copy(const Tiling& tiling) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t blocks = tiling.channel_blocks();
  if (has_space_to_depth(a)) {
    const SpaceToDepth depth = space_to_depth(a);
    return {u64(a.n * depth.rows * depth.cols), blocks, u64(kPixelsOfDepthTask), blocks};
  }
  return {u64(a.n * a.h * a.w), blocks, u64(kPixelsOfInputTask),
          std::get<ImplicitGemmCut>(tiling.cut).channel_blocks_per_input_task};
}

std::uint64_t input_copy_bytes(const Tiling& tiling) {
  if (!has_input_tasks(tiling)) return 0;
  const ConvProblem& a = tiling.problem;
  if (has_space_to_depth(a)) {
    const SpaceToDepth depth = space_to_depth(a);
    return u64(a.n * depth.rows * depth.cols * depth.channels) * size_of(a.dtype);
  }
  constexpr std::uint64_t kKBlockChannels = 32, kKBlockBytes = 2 * kKBlockChannels;
  return u64(a.n * a.h * a.w) * ceil_div(u64(a.c), kKBlockChannels) * kKBlockBytes;
}

std::string stripe_obstacle(const ConvProblem& problem, Operands operands, std::int64_t cols) {
  if (operands == Operands::converted) return "";
  const std::int64_t q = problem.q();
  if (operands != Operands::loaded) {
    // Of boxes that TMA loads.
    constexpr std::int64_t kMostAbreast = 256;
    if (cols == q) return "";
    if (loads_by_taps(problem) || !have_narrow_tiles(operands)) {
      return ": must be all " + std::to_string(q) +
             " columns of y, since each tap reads x in place by itself";
    }
    if (cols % q == 0 && cols / q * (problem.w + problem.pad_w) <= kMostAbreast) return "";
    return ": must be all " + std::to_string(q) +
           " columns of y, since x is read in place, or those of several images that have at "
           "most " +
           std::to_string(kMostAbreast) + " with their padding";
  }
  if (cols > q) return ": must be at most the " + std::to_string(q) + " columns of y";
  const std::int32_t reach = make_stripes(problem, static_cast<std::int32_t>(cols)).reach;
  return reach <= kMostReach ? ""
                             : ": a filter reaches " + std::to_string(reach) +
                                   " padded pixels, must be at most " + std::to_string(kMostReach);
}

}  // namespace megaconv
