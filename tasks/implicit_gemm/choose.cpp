// SPDX-License-Identifier: Apache-2.0
// Tilings for implicit GEMM: stripes narrow enough for the input that a task keeps, groups that
// keep all multiprocessors busy to the end, by the times of times.hpp; and when it is faster than
// Winograd.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "tasks/conv_algorithm.hpp"
#include "tasks/gpu_memory.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/implicit_gemm/times.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// Tiles of a group: more amortise a task's start, fewer even out between the multiprocessors.
constexpr std::uint64_t kMostTiles = 16, kMostTilesInPlace = 64;
// What loading operands takes beside what is estimated, where they could be converted.
constexpr double kLoadedBeside = 1.15;
// So much faster tiles whose consumers convert must be by their estimate than those of TF32, which
// are estimated too high unless they are tall, and most where all of a tile's filters exist. So
// little must pass through memory there by all products, and so long it must take. (H200, 30
// layers: they take 0.4 % more than by the better of both, by TF32 alone 9 %.)
constexpr double kGainOfConverted = 1.25, kGainOverFullTiles = 1.6, kGainOverTall = 1.05;
constexpr double kMostMemoryOfConverted = 1.4, kLeastConvertedTallUs = 20;
// Below this, some of a step of 16 channels is zero.
constexpr std::int64_t kLeastChannels = 16;

// The widest stripes, all about as wide, that a filter does not reach too far in. Where rows of y
// are whole sectors of memory, those of stripes are, too.
std::uint32_t stripe_cols(const ConvProblem& problem) {
  constexpr std::uint64_t kSector = 32 / sizeof(float);
  const std::uint64_t q = u64(problem.q());
  const auto fits = [&](std::uint64_t cols) {
    return make_stripes(problem, static_cast<std::int32_t>(cols)).reach <= kMostReach;
  };
  if (fits(q)) return u32(q);
  std::uint64_t cols = q;
  for (std::uint64_t stripes = 2; cols > 1 && !fits(cols); ++stripes) cols = ceil_div(q, stripes);
  if (q % kSector != 0 || cols < kSector) return u32(cols);
  const std::uint64_t wider = ceil_div(cols, kSector) * kSector;
  return u32(fits(wider) ? wider : wider - kSector);
}

// Cuts a problem for tasks with this load path; returns how long they take.
double choose_sizes(Tiling& tiling, Operands operands, const TilingOptions& options,
                    const Target& target) {
  const ConvProblem& problem = tiling.problem;
  const bool in_place = operands != Operands::loaded;
  auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  cut.operands = operands;
  cut.channel_blocks_per_input_task = operands == Operands::in_copy ? kMostBlocksOfInputTask : 0;
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  const std::uint32_t rest = filter_blocks % kWideTileBlocks;
  const bool few_at_once = groups_at_once(problem) != problem.groups &&
                           filters_at_once(problem) % (kWideTileBlocks * Tiling::kLaneBlock) != 0;
  const bool narrow = few_at_once || (rest != 0 && rest <= kFilterBlocksInPlace);
  cut.filter_blocks_per_gemm_task = std::min(
      !in_place && narrow ? kFilterBlocksInPlace : filter_blocks_of_tile(operands), filter_blocks);
  if (are_tensors(operands) && operands_in_wide_tiles(problem)) {  // fewer are tall tiles
    cut.filter_blocks_per_gemm_task = filter_blocks_of_tile(operands);
  }
  if (options.filter_blocks_per_gemm_task != 0) {
    cut.filter_blocks_per_gemm_task = options.filter_blocks_per_gemm_task;
  }
  cut.cols_per_group = options.cols_per_group != 0 ? options.cols_per_group
                       : in_place                  ? u32(u64(problem.q()))
                                                   : stripe_cols(problem);
  check_field("cols_per_group", cut.cols_per_group, u64(problem.n * problem.q()));

  const auto cols = static_cast<std::int32_t>(cut.cols_per_group);
  const Stripes stripes = make_stripes(problem, cols);
  const std::uint64_t places = u64(places_of_stripe(problem, stripes));
  const std::uint64_t step = stripes.images > 1   ? u64(stripes.row())
                             : are_tall(operands) ? u64(kTallPlaces)
                                                  : place_step(in_place);
  const std::uint64_t steps = ceil_div(places, step);  // of a stripe
  std::uint64_t most =
      kMostTiles * loaded_tile_places(cut.filter_blocks_per_gemm_task, tiling.arithmetic);
  if (in_place) {
    // Rows that are taken one by one are loaded for every row of the filters: from the L2, if
    // neighbouring tiles run at the same time.
    most = kMostTilesInPlace * u64(most_places_in_place(operands));
    if (stripes.images == 1 && stripes.reach > kMostReachInPlace) {
      most =
          u64(tile_places_in_place(static_cast<std::int64_t>(most), stripes, operands, problem.c));
    }
  }
  const std::uint64_t columns =
      u64(num_stripes(problem, stripes)) * ceil_div(filter_blocks, cut.filter_blocks_per_gemm_task);
  const std::uint64_t multiprocessors = std::max<std::uint64_t>(1, target.multiprocessors);
  double least_us = 0;
  std::uint32_t best = 0;
  for (std::uint64_t size = 1; size <= std::min(steps, most / step); ++size) {
    const std::uint64_t waves = ceil_div(columns * ceil_div(steps, size), multiprocessors);
    cut.places_per_group = u32(size * step);
    const double us =
        implicit_gemm_run_us(tiling, static_cast<double>(waves), options.whole_tensors);
    // Tiles in place are often as wide for several sizes: the largest one has fewer tasks.
    if (size == 1 || us < least_us || (in_place && us == least_us)) {
      least_us = us;
      best = cut.places_per_group;
    }
  }
  cut.places_per_group = options.places_per_group != 0 ? options.places_per_group : best;
  return least_us;
}

// Cuts a problem for tasks that read x in place, with as many images abreast as is fastest.
double choose_abreast(Tiling& tiling, Operands operands, const TilingOptions& options,
                      const Target& target) {
  const ConvProblem& problem = tiling.problem;
  Tiling best = tiling;
  double best_us = choose_sizes(best, operands, options, target);
  const bool has_gaps =
      !make_stripes(problem, static_cast<std::int32_t>(problem.q())).taps_have_own_inputs();
  const std::int64_t most = has_gaps && options.cols_per_group == 0 ? problem.n : 1;
  for (std::int64_t images = 2; images <= most; ++images) {
    const std::int64_t cols = images * problem.q();
    if (!stripe_obstacle(problem, operands, cols).empty()) break;
    Tiling other = tiling;
    TilingOptions with_cols = options;
    with_cols.cols_per_group = u32(u64(cols));
    const double us = choose_sizes(other, operands, with_cols, target);
    if (us < best_us) best = other, best_us = us;
  }
  tiling = best;
  return best_us;
}

// Columns of the stripes in which x may be converted: all, or fewer that filters reach less far in,
// in whole boxes of outputs.
std::vector<std::uint64_t> converted_stripes(const ConvProblem& problem, std::uint64_t asked) {
  constexpr std::uint64_t kBox = 4;
  const std::uint64_t q = u64(problem.q());
  std::vector<std::uint64_t> all{q};
  for (std::uint64_t stripes = 2; stripes <= kMostConvertedStripes; ++stripes) {
    const std::uint64_t cols = ceil_div(ceil_div(q, stripes), kBox) * kBox;
    if (cols < all.back()) all.push_back(cols);
  }
  if (asked != 0) all = {asked};
  std::erase_if(all, [&](std::uint64_t cols) {
    return !stripes_can_be_converted(problem, static_cast<std::int64_t>(cols));
  });
  return all;
}

// Whether sums of pixels have six K blocks and more.
bool has_long_pixels(const ConvProblem& a) {
  constexpr std::uint64_t kKBlockBytes = 128, kLong = 6;
  return a.r * a.s == 1 && u64(a.c) * size_of(a.dtype) >= kLong * kKBlockBytes;
}

// Tall tiles, with as many filters as are asked for, or as divide them evenly; infinity, where
// there are none. Of tasks whose number is share(tasks, lane blocks), the time must be less than so
// much of the best one before; 0: that is no number for them; nothing: nor is any further one.
template <class Share>
double choose_tall_filters(Tiling& tiling, Operands operands, const TilingOptions& options,
                           const Target& target, Share share) {
  if (options.filter_blocks_per_gemm_task != 0) {
    return choose_sizes(tiling, operands, options, target);
  }
  const std::uint32_t all = tiling.filter_blocks();
  double best_us = std::numeric_limits<double>::infinity();
  Tiling best = tiling;
  TilingOptions with_filters = options;
  for (std::uint32_t tasks = ceil_div(all, filter_blocks_of_tile(operands)); tasks <= all;
       ++tasks) {
    const std::uint32_t blocks = ceil_div(all, tasks);
    const std::optional<double> of_best = share(tasks, blocks);
    if (!of_best) break;
    if (*of_best == 0 || blocks == with_filters.filter_blocks_per_gemm_task) continue;
    with_filters.filter_blocks_per_gemm_task = blocks;
    Tiling other = tiling;
    const double us = choose_sizes(other, operands, with_filters, target);
    if (us < *of_best * best_us) best = other, best_us = us;
  }
  tiling = best;
  return best_us;
}

// Those of tensors.
double choose_tall_tiles(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const ConvProblem& problem = tiling.problem;
  const Operands operands = tiling.arithmetic == Arithmetic::tf32 ? Operands::in_float_tensor_tall
                                                                  : Operands::in_tensor_tall;
  const std::uint64_t tiles =
      ceil_div(u64(problem.n * problem.p() * problem.q()), u64(kTallPlaces));
  const auto share = [&](std::uint32_t tasks, std::uint32_t blocks) -> std::optional<double> {
    // Several tasks load the same x. They have few filters only where multiprocessors are idle
    // otherwise, and pixels are long (H200: n32c576h14k96r1p0 in FP16 6.1 us, with 48 filters 5.3).
    // Of many, estimates of those with most filters are 4 % shorter than of others.
    constexpr double kMoreTasks = 0.93, kFewerFilters = 1.04;
    const bool are_parts = tasks > 1 && blocks < kFilterBlocksInPlace;
    const bool at_once = tasks * tiles <= target.multiprocessors;
    const bool is_known = options.whole_tensors && problem.r * problem.s == 1;
    if (are_parts && at_once && is_known && !pass_through_memory(problem)) return 1;
    if (are_parts && (blocks == 1 || !at_once || !has_long_pixels(problem))) return {};
    // Not the names of tall ones.
    if (blocks == kFilterBlocksInPlace || blocks == kWideTileBlocks) return 0;
    return are_parts ? kMoreTasks : tasks > 1 ? kFewerFilters : 1;
  };
  return choose_tall_filters(tiling, operands, options, target, share);
}

// How much faster than the others tall tiles must be by their estimate. (H100, 90 layers for which
// it says that they are faster, in FP16 and TF32; of few filters H200, 53 layers.)
double least_gain_of_tall(const Tiling& others, const Tiling& tall) {
  // Wide tiles store numbers one by one where pixels of y are no whole vectors, and wait for rows
  // that come in pieces longer than their estimate says.
  constexpr double kNearlyFull = 0.85, kGainOf16Bits = 1.07, kGainOfFloats = 1.2, kLoss = 0.93;
  constexpr double kGainOfFew = 1.05, kGainOfFewAndShort = 1.2, kGainOfParts = 1.25;
  constexpr std::uint64_t kKBlock = 128;
  const ConvProblem& a = others.problem;
  const std::uint32_t all = others.filter_blocks();
  const std::uint64_t sum_bytes = u64(a.c * a.r * a.s) * size_of(a.dtype);
  const bool has_floats = a.dtype == DataType::f32;
  if (all < kFilterBlocksInPlace) {
    const bool is_short = sum_bytes <= (has_floats ? 1 : 2) * kKBlock;
    const bool skips_pixels = a.r * a.s == 1 && has_strides(a);
    return is_short || skips_pixels ? kGainOfFewAndShort : kGainOfFew;
  }
  if (std::get<ImplicitGemmCut>(tall.cut).filter_blocks_per_gemm_task < kFilterBlocksInPlace) {
    return kGainOfParts;
  }
  const bool in_pieces = rows_come_in_pieces(a);
  const double full = static_cast<double>(all) / (ceil_div(all, kWideTileBlocks) * kWideTileBlocks);
  if (full == 1 && !in_pieces) return std::numeric_limits<double>::infinity();
  const bool is_doubtful = sum_bytes <= kKBlock ||
                           (full > kNearlyFull && stores_vectors(a) && !in_pieces) ||
                           have_narrow_tiles(std::get<ImplicitGemmCut>(others.cut).operands);
  if (!is_doubtful) return kLoss;
  return has_floats ? kGainOfFloats : kGainOf16Bits;
}

// Tiles of 64 filters, or wide or tall ones where these are possible and faster, or asked for.
double choose_tensor_tiles(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const bool floats = tiling.arithmetic == Arithmetic::tf32;
  const std::uint32_t all = tiling.filter_blocks(), asked = options.filter_blocks_per_gemm_task;
  const bool has_wide_tiles = operands_in_wide_tiles(tiling.problem);
  // What is not possible is refused.
  if (asked > kFilterBlocksInPlace || (asked != 0 && has_wide_tiles)) {
    return choose_sizes(tiling, operands_of_tensors(floats, true, asked), options, target);
  }
  const bool may_be_wide = asked == 0 && has_wide_tiles && options.cols_per_group == 0;
  Tiling wide = tiling, tall = tiling;
  double us = choose_abreast(tiling, operands_of_tensors(floats, false, kFilterBlocksInPlace),
                             options, target);
  if (!may_be_wide) return us;
  if (all >= kWideTileBlocks) {
    const double wide_us =
        choose_sizes(wide, operands_of_tensors(floats, true, kWideTileBlocks), options, target);
    if (wide_us < us) tiling = wide, us = wide_us;
  }
  const double tall_us = choose_tall_tiles(tall, options, target);
  const bool at_once = options.whole_tensors && run_at_once(tiling) && run_at_once(tall);
  const double least_gain = at_once ? 1 : least_gain_of_tall(tiling, tall);
  if (least_gain * tall_us < us) tiling = tall, us = tall_us;
  return us;
}

// Tall tiles whose consumers convert floats: of as many filters as can be, which share what is
// converted, unless fewer divide them much more evenly. Few would not pay for it.
double choose_converted_tiles(Tiling& tiling, const TilingOptions& options, const Target& target) {
  constexpr Operands kConverted = Operands::converted_tall;
  constexpr double kFewer = 0.93;
  if (tiling.filter_blocks() < kFilterBlocksInPlace) {
    return choose_sizes(tiling, kConverted, options, target);
  }
  const ConvProblem& problem = tiling.problem;
  const auto share = [&](std::uint32_t, std::uint32_t blocks) -> std::optional<double> {
    if (blocks < kFilterBlocksInPlace || !converts_in_tall_tiles(problem, blocks)) return {};
    return kFewer;
  };
  return choose_tall_filters(tiling, kConverted, options, target, share);
}

// Tall tiles whose consumers split floats. (By the measurements behind their times, few filters are
// worth their estimate as many are.)
double choose_split_tiles(Tiling& tiling, const TilingOptions& options, const Target& target) {
  constexpr std::uint32_t kLeastBlocks = 2;
  const auto share = [&](std::uint32_t tasks, std::uint32_t blocks) -> std::optional<double> {
    if (tasks > 1 && blocks < kLeastBlocks) return {};
    return 1;
  };
  return choose_tall_filters(tiling, Operands::split_tall, options, target, share);
}

// The tiling of TF32 that takes `us`, or one whose consumers convert floats to FP16.
double convert_if_faster(Tiling& tiling, double us, const TilingOptions& options,
                         const Target& target) {
  const bool possible = options.whole_tensors && options.arithmetic == Arithmetic::automatic &&
                        options.filter_blocks_per_gemm_task == 0 &&
                        tiling.filter_blocks() > kFilterBlocksInPlace &&
                        converts_in_tall_tiles(tiling.problem);
  if (!possible || memory_by_products(tiling) > kMostMemoryOfConverted) return us;
  Tiling converted = tiling;
  converted.arithmetic = Arithmetic::f16;
  const double converted_us = choose_converted_tiles(converted, options, target);
  const Operands rounded = std::get<ImplicitGemmCut>(tiling.cut).operands;
  const bool is_full = are_wide(rounded) && tiling.filter_blocks() % kWideTileBlocks == 0;
  const double gain = is_full             ? kGainOverFullTiles
                      : are_tall(rounded) ? kGainOverTall
                                          : kGainOfConverted;
  if (converted_us < kLeastConvertedTallUs || gain * converted_us >= us) return us;
  tiling = converted;
  return converted_us;
}

// Of a copy from space to depth.
double choose_in_depth(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const bool rounds = tiling.problem.dtype == DataType::f32 &&
                      tiling.arithmetic == Arithmetic::f16 &&
                      options.arithmetic == Arithmetic::automatic;
  const std::string need =
      rounds ? implicit_gemm_arithmetic_need(tiling.problem, Arithmetic::tf32) : "";
  if (rounds && need.empty()) tiling.arithmetic = Arithmetic::tf32;
  const Operands operands = operands_in_depth(tiling.problem, tiling.arithmetic);
  Tiling copied = tiling;
  copied.problem = multiplied_problem(tiling.problem, operands);
  const double us = operands == Operands::loaded ? choose_sizes(copied, operands, options, target)
                                                 : choose_tensor_tiles(copied, options, target);
  tiling.cut = copied.cut;
  return input_copy_us(tiling) + us;
}

// The fastest load path; what is possible with none is cut as if x were loaded.
double choose_operands(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const ConvProblem& problem = tiling.problem;
  if (has_space_to_depth(problem)) return choose_in_depth(tiling, options, target);
  if (operands_in_tensor(problem) || tiling.arithmetic == Arithmetic::tf32) {
    return choose_tensor_tiles(tiling, options, target);
  }
  if (options.whole_tensors && options.arithmetic == Arithmetic::f16 &&
      converts_in_tall_tiles(problem, options.filter_blocks_per_gemm_task)) {
    return choose_converted_tiles(tiling, options, target);
  }
  if (options.whole_tensors && tiling.arithmetic == Arithmetic::split_f16 &&
      converts_in_tall_tiles(problem)) {
    return choose_split_tiles(tiling, options, target);
  }
  Tiling best = tiling;
  double best_us = choose_sizes(best, Operands::loaded, options, target);
  const auto& loaded = std::get<ImplicitGemmCut>(best.cut);
  // Narrow tasks load nothing that they can convert.
  const bool converts = tiling.arithmetic == Arithmetic::f16 &&
                        loaded.filter_blocks_per_gemm_task <= kFilterBlocksInPlace &&
                        stripes_can_be_converted(problem, loaded.cols_per_group);
  bool possible =
      !converts && stripe_obstacle(problem, Operands::loaded, loaded.cols_per_group).empty();
  const auto consider = [&](Operands operands, std::uint64_t cols) {
    Tiling other = tiling;
    if (operands == Operands::in_float_tensor) other.arithmetic = Arithmetic::tf32;
    TilingOptions with_cols = options;
    with_cols.cols_per_group = u32(cols);
    const double us =
        operands == Operands::converted ? choose_sizes(other, operands, with_cols, target)
        : operands == Operands::in_copy ? choose_abreast(other, operands, with_cols, target)
                                        : choose_tensor_tiles(other, with_cols, target);
    const bool loads = std::get<ImplicitGemmCut>(best.cut).operands == Operands::loaded;
    const double to_beat = loads ? kLoadedBeside * best_us : best_us;
    if (possible && us >= to_beat) return;
    best = other, best_us = us, possible = true;
  };
  // What one tap reads once is not worth a copy.
  if (problem.r * problem.s == 1 && options.arithmetic == Arithmetic::automatic &&
      floats_can_be_brought(problem) && has_copies_to_choose(problem, tiling.arithmetic)) {
    tiling.arithmetic = Arithmetic::tf32;
    const double us = choose_tensor_tiles(tiling, options, target);
    return convert_if_faster(tiling, us, options, target);
  }
  if (has_copies_to_choose(problem, tiling.arithmetic)) {
    const std::uint64_t asked = options.cols_per_group;
    const bool narrow = options.filter_blocks_per_gemm_task <= kFilterBlocksInPlace;
    if (asked % u64(problem.q()) == 0) {
      if (options.whole_tensors && narrow) consider(Operands::in_copy, asked);
      const bool either = options.arithmetic == Arithmetic::automatic &&
                          (narrow || operands_in_wide_tiles(problem));
      if (either && floats_can_be_brought(problem)) consider(Operands::in_float_tensor, asked);
    }
    if (narrow) {
      for (const std::uint64_t cols : converted_stripes(problem, asked)) {
        consider(Operands::converted, cols);
      }
    }
  }
  if (problem.groups != 1 && tiling.arithmetic == Arithmetic::f16 &&
      options.arithmetic == Arithmetic::automatic && floats_can_be_brought(problem)) {
    consider(Operands::in_float_tensor, options.cols_per_group);
  }
  tiling = best;
  if (tiling.arithmetic != Arithmetic::tf32) return best_us;
  return convert_if_faster(tiling, best_us, options, target);
}

// Winograd F(4x4) on tensor cores in stages, H200. GEMM tasks as they fill the multiprocessors, and
// the rest: of three products x, y, w, V, U and M once through memory, within 11 % of what was
// measured on the suite (docs/performance.md). Of one numbers of x, y, V and M; of 36 layers in
// NHWC, of 16 bits and of floats, 0.87 to 1.19 times what was measured, in the root mean square 7 %
// off (docs/notebook/gpu_layers.md). NCHW has not been measured since M has FP16 numbers:
// n64c512h28k512 of 16 bits took 414 us before, of which this is 89 %.
constexpr double kSplitBytesPerUs = 3.2e6, kSplitLaunchUs = 9;
constexpr double kOneProductNumbersPerUs = 1.03e6, kNumbersPerUsInNchw = 0.71e6;
constexpr double kOneProductLaunchUs = 19;
// So much faster it must be: its error is larger than that of implicit GEMM.
constexpr double kMoreError = 1.05;

double winograd_us(const ConvProblem& problem, Arithmetic arithmetic, const Target& target) {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.arithmetic = arithmetic;
  options.m = 4;
  options.whole_tensors = true;
  const Tiling tiling = make_tiling(problem, options, target);
  const WinogradTiles& cut = *tiling.tiles();
  const double tiles = static_cast<double>(cut.num_tiles);
  const double positions = static_cast<double>(cut.num_positions());
  const double c = static_cast<double>(problem.c), k = static_cast<double>(problem.k);
  const double stored =
      static_cast<double>(problem.x_size()) + static_cast<double>(problem.y_size());
  const double products = positions * tiles * k;
  const double gemm_us = gemm_stage_us(tiling, target.multiprocessors);
  if (arithmetic != Arithmetic::split_f16) {
    return kOneProductLaunchUs + gemm_us +
           (stored + positions * tiles * c + products) /
               (problem.layout == Layout::nhwc ? kOneProductNumbersPerUs : kNumbersPerUsInNchw);
  }
  const double transformed = positions * (tiles * c + c * k);
  const double bytes = static_cast<double>(number_bytes(arithmetic)) * transformed +
                       sizeof(float) * products +
                       static_cast<double>(size_of(problem.dtype)) *
                           (stored + static_cast<double>(problem.w_size()));
  return kSplitLaunchUs + gemm_us + bytes / kSplitBytesPerUs;
}

// H100, 46 layers of 3 to 8 channels in NHWC, by direct tasks and by implicit GEMM: with FP16
// products these are 2.6 times as fast in the mean, with three products 1.5 times. Fewer than 8
// filters are up to 2.4 times slower, and with three products 32 filters of images are 1.2 times
// slower: from space to depth, too (n32c3h224k32u2 112 us instead of 75). Not measured in NCHW.
bool few_channels_pay(const ConvProblem& problem, const TilingOptions& options) {
  constexpr std::int64_t kLeastFilters = 8, kImageChannels = 3, kFewFilters = 32;
  const bool split = implicit_gemm_arithmetic(problem, options) == Arithmetic::split_f16;
  const bool few = problem.c <= kImageChannels && problem.k <= kFewFilters && problem.r > 1;
  if (problem.k < kLeastFilters || (split && few)) return false;
  if (has_space_to_depth(problem)) return true;
  return !has_strides(problem) && problem.layout == Layout::nhwc;
}

}  // namespace

Arithmetic implicit_gemm_arithmetic(const ConvProblem& problem, const TilingOptions& options) {
  if (options.arithmetic != Arithmetic::automatic) return options.arithmetic;
  if (problem.dtype == DataType::bf16) return Arithmetic::bf16;
  return permits_f16(problem.dtype, options.precision) ? Arithmetic::f16 : Arithmetic::split_f16;
}

bool grouping_pays(const ConvProblem& problem, Arithmetic arithmetic) {
  if (problem.groups == 1) return true;
  if (problem.depthwise()) return false;
  if (channels_at_once(problem) < kLeastChannels) return false;
  const bool rounds = arithmetic == Arithmetic::f16 || arithmetic == Arithmetic::tf32;
  if (operands_in_tensor(problem) || (rounds && floats_can_be_brought(problem))) return true;
  // Products for each that is none of zeros, where threads load x. Direct tasks have 16 filters of
  // a conv group or zeros side by side.
  const std::int64_t most = arithmetic == Arithmetic::split_f16 ? 8 : 16;
  return groups_at_once(problem) <= most;
}

bool implicit_gemm_pays(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                        const Target& target) {
  if (target.multiprocessors == 0) return false;
  if (problem.groups != 1) return true;
  if (problem.c < kLeastChannels && !few_channels_pay(problem, options)) return false;
  if (!winograd) return true;
  Tiling tiling{.problem = problem,
                .arithmetic = implicit_gemm_arithmetic(problem, options),
                .cut = ImplicitGemmCut{}};
  TilingOptions launched;
  launched.whole_tensors = options.whole_tensors;
  const bool split = tiling.arithmetic == Arithmetic::split_f16;
  return choose_operands(tiling, launched, target) <
         kMoreError * winograd_us(problem, split ? Arithmetic::split_f16 : Arithmetic::f16, target);
}

void choose_implicit_gemm(Tiling& tiling, const TilingOptions& options, const Target& target) {
  tiling.arithmetic = implicit_gemm_arithmetic(tiling.problem, options);
  choose_operands(tiling, options, target);
  choose_filter_tasks_for_cuda(tiling, target.multiprocessors);
}

}  // namespace megaconv
