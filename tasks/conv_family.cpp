// SPDX-License-Identifier: Apache-2.0
// What the two families take, from the estimates of their rooms. Those are of arithmetic and of
// launches by themselves. Here they are corrected by what was measured, on H100 and H200: layers of
// ResNet-50 and MobileNetV2 with 1 and 32 images (docs/results), and whole networks
// (docs/notebook/networks_gpu.md).
#include "tasks/conv_family.hpp"

#include <algorithm>
#include <cstdio>

#include "megaconv/error.hpp"
#include "tasks/cost_model.hpp"
#include "tasks/direct/depthwise_box.hpp"
#include "tasks/direct/direct_shapes.hpp"
#include "tasks/direct/few_terms.hpp"
#include "tasks/gpu_memory.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/implicit_gemm/times.hpp"
#include "tasks/small_gemm/small_gemm.hpp"

namespace megaconv {
namespace {

// Tensors come from memory and go there where they are large.
constexpr double kGpuBytesPerUs = 3e6;

// A stage of small tiles does not wait for signals, but has its filters later than a task of one
// launch has (H100, one image in FP16: 56 stages of ResNet-50 take 274 us, one launch 248; 54 of
// MobileNetV2, which have few filters, 170 and 189).
constexpr double kStageUs = -0.4;
// More tasks than are resident are new blocks there, which fetch what they are.
constexpr double kNextBlockUs = 1.5;
// Two tasks on a multiprocessor, of many images (H100, ResNet-50 with 8 images in FP16: layers that
// were estimated at 9 to 11 us took 12; by this choice it takes 566 us, without it 629). In FP32 it
// does not pay: DenseNet-161 4.3 ms without it, then 4.7.
constexpr double kTwoOfManyImages = 1.2;
// A pixel of each of several images: tasks have one, so that filters are read as often as there are
// images (H100, 8 images at the precision of TF32: ResNet-50 takes 17 us less by large tiles, which
// were estimated to be as fast; MobileNetV2 as long by either, and large tiles were estimated at
// 1.41 times as much).
constexpr double kPixelOfManyImages = 1.4;

// A kernel that runs again and again starts while it ends: 1x1 layers of one image, 3.0 us instead
// of 4.7, 3.5 instead of 4.8. Behind others its code, its filters and its tasks come from memory:
// H100, ResNet-50 with one image, 47 such kernels, 373 us where 260 were expected; 8 of
// MobileNetV2's, 199 where small tiles take 168.
constexpr double kEarlyStartUs = 1.3, kColdUs = 4;
// Residuals that TMA loads, and those that are loaded where outputs are stored (H100, 32 images:
// n32c64h56k256r1 25 us more in FP16, 84 in FP32; n32c256h14k1024r1 4 in FP16).
constexpr double kResidualBytesPerUs = 2.2e6, kLoadedResidualBytesPerUs = 1.2e6;
// Of loads by TMA (n32c256h56k64r1 26 us, its tensors 21), and by threads, which convert (51 us of
// 17, 98 of 43).
constexpr double kMemoryMore = 1.2, kLoadedMemoryMore = 2.2;
// Depthwise convolution by direct tasks that load x themselves: within a quarter of 16 layers, FP32
// and FP16.
constexpr double kDepthwiseStartUs = 1.5, kDepthwiseProductsPerUs = 6e6;
constexpr double kDepthwiseMemoryMore = 1.3;
// 1x1 filters on few channels by direct tasks (H100, 39 layers in stages).
constexpr double kPointwiseStartUs = 2, kPointwiseProductsPerUs = 1.2e7;
constexpr double kPointwiseMemoryMore = 1.3;
// Direct tasks on tensor cores, of few filters, within a third of 84 layers (H100).
constexpr double kFewFiltersStartUs = 1.7, kFewFiltersPixelUs = 25e-6, kFewFiltersStepUs = 4e-6;
constexpr double kFewFiltersMemoryMore = 1.3, kFewFiltersCachedMore = 0.8;
// The same of streams of pixels, a column of eight filters at a time, and every further step of
// their sums (H100, 120 layers).
constexpr double kStreamStartUs = 4.1, kStreamStepUs = 15e-6;
constexpr double kStreamColumnUs = 9.3e-6, kStreamFloatColumnUs = 14.5e-6;
constexpr double kStreamColumnStep = 0.28;  // of a column
// All behind others, in a network: by this their choice was right.
constexpr double kColdDirectUs = kColdUs + 2.4;

// A convolution by itself of few filters: tiles of 64 are mostly empty, and 30 random layers took
// 1.02 to 3.3 times as long as estimated. By this number 137 others take 1.5 % more in FP16, 2.7 %
// in TF32, than by the faster one (docs/results/few_filters_h100.csv). Where tensors pass through
// memory, estimates of 1x1 filters are right, and others nearly.
constexpr std::int64_t kFewFilters = 16;
constexpr double kFewFiltersOfLarge = 1.2;
// Small tiles read and write so much in a microsecond, of tensors of at least so many bytes (H100,
// FP16 and FP32: 0.7 to 2.4 MB).
constexpr double kSmallTileBytesPerUs = 1.9e6, kLeastSmallTileBytes = 30e6;
constexpr double kFewFiltersMore = 1.5;

// Three products of few channels where threads load x (H100, 12 layers: 1.1 to 1.6 times the
// estimate). In tall tiles, of which layers of 3 to 4 us decide (H200, seven).
constexpr std::int64_t kFewChannels = 32;
constexpr double kFewChannelsMore = 1.25, kSplitMore = 1.08;
// Few filters of images by direct tasks, which share what they load of x: so much of their estimate
// (H200, FP32: n32c3h416k32 873 us of 2,116, n32c3h224k32u2 65.5 of 157).
constexpr std::int64_t kImageChannels = 3, kFewFiltersOfImages = 32;
constexpr double kImageDirect = 0.42;

// A convolution by itself that runs again and again: large tiles take so much longer than their
// room estimates where the whole takes microseconds. 53 layers of ResNet-50 and MobileNetV2, one
// image, H100, the sum by this choice and by the faster one: FP16 227 and 220 us, TF32 315 and 307,
// FP32 387 and 381 (docs/results/small_tiles_alone_h100.csv). Where taps have inputs of their own
// the room is right since.
double large_tiles_more(const Tiling& own, Precision precision) {
  const ConvProblem& a = own.problem;
  const auto* const cut = std::get_if<ImplicitGemmCut>(&own.cut);
  const bool accurate = a.dtype == DataType::f32 && precision != Precision::tf32;
  if (cut == nullptr) return 1;
  if (accurate && cut->operands == Operands::split_tall) return kSplitMore;
  if (accurate) return a.c <= kFewChannels ? kFewChannelsMore : 1;
  if (run_at_once(own)) return 1;
  const bool is_few = cut->filter_blocks_per_gemm_task < kFilterBlocksInPlace;  // of a tall tile
  if (a.k <= kFewFilters || (are_tall(cut->operands) && is_few)) {
    return !pass_through_memory(a) ? kFewFiltersMore : a.r * a.s > 1 ? kFewFiltersOfLarge : 1;
  }
  const bool in_place = are_tensors(cut->operands) || are_tall(cut->operands);
  if (in_place && operands_in_wide_tiles(a)) return 1;
  if (pass_through_memory(a)) return 1;
  return a.dtype == DataType::f32 ? 1.4 : 1.1;
}

double tensor_bytes(const ConvProblem& a, std::int64_t numbers) {
  return static_cast<double>(numbers) * static_cast<double>(size_of(a.dtype));
}
double all_bytes(const ConvProblem& a) {
  return tensor_bytes(a, a.x_size() + a.w_size() + a.y_size());
}
double memory_us(const ConvProblem& a) { return all_bytes(a) / kGpuBytesPerUs; }

double depthwise_us(const ConvProblem& a, const Target& target) {
  if (loads_boxes(a)) return choose_boxes(a, target).us;
  const double products = static_cast<double>(a.y_size()) * static_cast<double>(a.r * a.s);
  return kDepthwiseStartUs +
         std::max(products / kDepthwiseProductsPerUs, kDepthwiseMemoryMore * memory_us(a));
}

// 1x1 filters on few channels by direct tasks.
double pointwise_us(const ConvProblem& a) {
  const double products = static_cast<double>(a.y_size()) * static_cast<double>(a.c);
  return kPointwiseStartUs +
         std::max(products / kPointwiseProductsPerUs, kPointwiseMemoryMore * memory_us(a));
}

// Of few filters: pixels by the steps of their sums, or x and y through memory.
double few_filters_us(const ConvProblem& a) {
  const auto pixels = static_cast<double>(a.n * a.p() * a.q());
  const auto steps = static_cast<double>(few_filter_steps(a));
  return kFewFiltersStartUs +
         std::max(pixels * (kFewFiltersPixelUs + kFewFiltersStepUs * steps),
                  (pass_through_memory(a) ? kFewFiltersMemoryMore : kFewFiltersCachedMore) *
                      memory_us(a));
}

// Streams: pixels by columns of filters and steps of sums, or x and y through memory.
double pixel_stream_us(const ConvProblem& a) {
  const auto pixels = static_cast<double>(a.n * a.p() * a.q());
  const PixelStream stream = pixel_stream(a.c, a.k, size_of(a.dtype));
  const double columns_us =
      stream.columns * (a.dtype == DataType::f32 ? kStreamFloatColumnUs : kStreamColumnUs);
  const double steps_us = (stream.steps - 1) * (kStreamStepUs + kStreamColumnStep * columns_us);
  return kStreamStartUs + std::max(pixels * (columns_us + steps_us), memory_us(a));
}

double direct_mma_us(const Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  if (streams_pixels(a)) return pixel_stream_us(a);
  if (has_few_filters(a)) return few_filters_us(a);
  return few_terms_us(a, std::get<DirectCut>(tiling.cut), target);
}

double staged_us(const Tiling& tiling, const Target& target) {
  PlanOptions staged{.backend = Backend::cuda, .cuda_launch = CudaLaunch::staged};
  staged.mapping.policy = "staged";
  staged.tiling.whole_tensors = true;
  return 1000 * estimate_ms(LaunchChoice{staged, {}, tiling}, target);
}

// Where direct tasks do not share x, their own estimate knows no memory; of images it is too long.
std::optional<double> plain_direct_us(const Tiling& own, const Target& target) {
  const ConvProblem& a = own.problem;
  if (own.algorithm() != Algorithm::direct) return {};
  if (own.arithmetic != Arithmetic::fma) return direct_mma_us(own, target);
  if (a.depthwise()) return depthwise_us(a, target);
  if (has_few_channels_of_pixels(a)) return pointwise_us(a);
  if (a.c <= kImageChannels && a.k <= kFewFiltersOfImages && a.r * a.s > 1) {
    return kImageDirect * staged_us(own, target);
  }
  return {};
}

std::uint32_t multiprocessors_of(const Target& target) {
  return std::max(1u, target.multiprocessors);
}

}  // namespace

std::string us_text(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g us", us);
  return text;
}

// Of Hopper.
bool has_own_kernels(const Target& target) {
  return target.backend == Backend::cuda && target.split_f16 && target.multiprocessors != 0;
}

double small_tiles_us(const SmallGemmCut& cut, const Target& target) {
  const std::uint32_t multiprocessors = multiprocessors_of(target);
  const double turns = small_gemm_turns(cut, multiprocessors);
  const std::uint64_t tasks = std::uint64_t{cut.num_groups} * cut.tasks_per_group;
  const bool two_of_many = cut.problem.n > 1 && tasks > multiprocessors && parts_of(cut) == 1;
  const bool has_pixels = cut.problem.n > 1 && cut.problem.p() * cut.problem.q() == 1;
  const double longer =
      (two_of_many ? kTwoOfManyImages : 1) * (has_pixels ? kPixelOfManyImages : 1);
  return longer * small_gemm_us(cut, multiprocessors) + kStageUs + (turns - 1) * kNextBlockUs +
         small_gemm_first_filters_us(cut);
}

double small_tiles_alone_us(const SmallGemmCut& cut, const Target& target) {
  const ConvProblem& a = cut.problem;
  const double us = small_gemm_us(cut, multiprocessors_of(target));
  const double bytes = all_bytes(a);
  return bytes > kLeastSmallTileBytes ? std::max(us, bytes / kSmallTileBytesPerUs) : us;
}

double own_kernels_alone_us(const Tiling& tiling, const Target& target) {
  if (const std::optional<double> us = plain_direct_us(tiling, target)) return *us;
  const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut);
  const bool starts_early = cut != nullptr && cut->operands != Operands::loaded &&
                            cut->operands != Operands::split_tall;  // which is known with it
  return staged_us(tiling, target) - (starts_early ? kEarlyStartUs : 0);
}

double own_kernels_us(const Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  if (const std::optional<double> us = plain_direct_us(tiling, target)) {
    return (tiling.arithmetic == Arithmetic::fma ? kColdDirectUs : kColdUs) + *us;
  }
  Tiling plain = tiling;  // its residual is added below
  plain.problem.epilogue.residual = false;
  const double us = staged_us(plain, target);
  const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut);
  if (cut == nullptr) return us + kColdUs;
  const bool loaded = cut->operands == Operands::loaded;
  const double copy_us = cut->operands == Operands::in_copy ? kColdUs : 0;
  const double residual_us =
      a.epilogue.residual
          ? tensor_bytes(a, a.y_size()) / (loaded ? kLoadedResidualBytesPerUs : kResidualBytesPerUs)
          : 0;
  if (!loaded) {
    // Filters for a copy of floats are prepared as FP16.
    const bool halves = a.dtype == DataType::f32 && !are_tensors(cut->operands);
    const double bytes = all_bytes(a) - (halves ? tensor_bytes(a, a.w_size()) / 2 : 0);
    return kColdUs + copy_us + residual_us +
           std::max(us - kEarlyStartUs, kMemoryMore * bytes / kGpuBytesPerUs);
  }
  return kColdUs + residual_us + std::max(us, kLoadedMemoryMore * memory_us(a));
}

FamilyChoice choose_family(const SmallGemmCut& small, const std::optional<Tiling>& own,
                           const Target& target) {
  const double small_us = small_tiles_us(small, target);
  const double one_launch_us = small_gemm_us(small, multiprocessors_of(target));
  if (!own) return {small, "estimated " + us_text(small_us), small_us, one_launch_us};
  const double own_us = own_kernels_us(*own, target);
  if (own_us < small_us) {
    return {*own, "estimated " + us_text(own_us) + ", by small tiles " + us_text(small_us), own_us,
            one_launch_us};
  }
  return {small, "estimated " + us_text(small_us) + ", by kernels of its own " + us_text(own_us),
          small_us, one_launch_us};
}

std::optional<Tiling> faster_small_tiles(const Tiling& own, const TilingOptions& options,
                                         const Target& target) {
  const TilingOptions free{
      .precision = options.precision, .filters = FilterMode::prepared, .whole_tensors = true};
  if (!has_own_kernels(target) || options != free) return {};
  TilingOptions asked = options;
  asked.algorithm = Algorithm::small_gemm;
  try {
    Tiling small = make_tiling(own.problem, asked, target);
    if (small_tiles_alone_us(std::get<SmallGemmCut>(small.cut), target) <
        large_tiles_more(own, options.precision) * own_kernels_alone_us(own, target)) {
      return small;
    }
  } catch (const Error&) {  // not for this problem
  }
  return {};
}

}  // namespace megaconv
