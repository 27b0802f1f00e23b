// SPDX-License-Identifier: Apache-2.0
// What the roles of a block share in implicit GEMM whose threads load x (implicit_gemm.cuh): how
// many threads have which role, what lies in shared memory, and how a task is walked through.
#pragma once

#include <type_traits>

#include "tasks/cuda/output_run.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/implicit_gemm/cuda/implicit_gemm_filter.cuh"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv::cuda {

/// What undoes the scales of sums: the smaller factor first, so that no step overflows where the
/// result does not.
struct Unscale {
  float first, second;
};

/// kSteps: each tap of a K block has its own input, or there is one tap.
template <class NumbersType, int kNumFilters, int kNumPlaces, Layout kTensorLayout, bool kSteps>
struct LoadedShape {
  using Numbers = NumbersType;
  static constexpr Layout kLayout = kTensorLayout;
  static constexpr bool kHasSteps = kSteps;
  using Operand = ImplicitGemmFilters<Numbers, kNumFilters>;
  using Number = typename Numbers::Number;
  using Stored = typename Numbers::Stored;
  static constexpr int kFilters = kNumFilters, kDepth = Numbers::kDepth;
  static constexpr int kConsumers = 256, kLoaders = kLoadingThreads, kProducers = kLoaders + 32,
                       kThreads = kProducers + kConsumers;
  // A consumer warpgroup has 64 filters and kGroupPlaces of a tile: the other has the other
  // filters, or the other padded pixels.
  static constexpr int kGroupFilters = 64;
  static constexpr bool kFewFilters = kFilters == kGroupFilters;
  static constexpr int kTilePlaces = kNumPlaces,
                       kGroupPlaces = kFewFilters ? kTilePlaces / 2 : kTilePlaces;
  static constexpr int kPlaces = kTilePlaces + kMostReach;
  static constexpr int kMostSteps = kPlaces / kTilePlaces;  // in a pipeline stage of input
  // A loading thread takes kRun channels of a padded pixel at a time. The next kAhead runs are on
  // their way to shared memory meanwhile: the stage after the next, too, if a padded pixel has one
  // run in each. They come to registers if numbers are too small for asynchronous copies. The
  // narrowest tiles wait for filters, and leave the room to these.
  static constexpr int kRun = 16, kPlaceRuns = kDepth / kRun;
  static constexpr int kOwnPlaces = (kPlaces + kLoaders - 1) / kLoaders;
  static constexpr int kOwnRuns = kOwnPlaces * kPlaceRuns;
  static constexpr bool kToRegisters = kLayout == Layout::nchw && sizeof(Stored) < 4;
  static constexpr bool kStagesAhead = kPlaceRuns == 1;
  static constexpr int kSlots = kStagesAhead && kTilePlaces <= 64 ? 1 : 2,
                       kAhead = kStagesAhead ? kSlots * kOwnRuns : kSlots;
  static_assert(kStagesAhead ? !kToRegisters : kOwnRuns % kSlots == 0);
  // 65536 registers of a multiprocessor, shared out by what the warps do.
  static constexpr int kLaunchRegisters = 65536 / kThreads;
  static constexpr int kProducerRegisters = 80, kConsumerRegisters = 176;

  using Output = OutputRun<Stored, kLayout, kGroupPlaces>;
  // With few sums a thread has room for those of two tiles: it stores one tile's while the next is
  // multiplied.
  static constexpr bool kStoresMeanwhile = kGroupPlaces <= 128;
  static_assert(kStoresMeanwhile || !Numbers::kSplit);  // split sums are two, running and total
  // A tile's and the next one's, of those padded pixels that a warpgroup has.
  static constexpr int kMaps = 2;
  using OutputMaps = typename Output::Map[kMaps][kTilePlaces / kGroupPlaces];
  static constexpr int kStageTaps = 3;
  static_assert(kMostSteps <= kStageTaps);
  using Taps = Number[kStageTaps][kKBlockOctets][kFilters][8];
  using Input = uint4[kKBlockOctets][kPlaces];  // 8 channels each
  using Outputs = float[kConsumers / 32][Output::kSize];
  using Piece = std::conditional_t<kLayout == Layout::nchw, Stored, uint4>;  // of a copy
  static constexpr int kRunPieces = kRun * sizeof(Stored) / sizeof(Piece);
  static constexpr int kLandingPlaces = kStagesAhead ? kPlaces : kLoaders;
  // Of a run the pieces lie side by side, or of a piece the padded pixels: as in x.
  using LandedRuns = std::conditional_t<kLayout == Layout::nchw, Piece[kRunPieces][kLandingPlaces],
                                        Piece[kLandingPlaces][kRunPieces]>;
  using Landing = LandedRuns[kToRegisters ? 1 : kSlots];
  static constexpr int kInputStages = 3;
  static constexpr int kSharedBytes = 224 * 1024;  // of 227 KB
  static constexpr int kFilterStages =
      static_cast<int>((kSharedBytes - kInputStages * sizeof(Input) - sizeof(Landing) -
                        sizeof(Outputs) - sizeof(OutputMaps)) /
                       sizeof(Taps));
  // Parts of a tile that are started before the sums of the one before are stored; with all stages
  // full of them, no filters would be on their way.
  static constexpr int kMostEarlyParts = kStoresMeanwhile ? kFilterStages / 2 : 1;
  struct Shared {
    alignas(128) Input x[kInputStages];
    alignas(128) Taps u[kFilterStages];
    alignas(16) Landing landing;
    StageRing<kInputStages> input;
    StageRing<kFilterStages> filter;
    StageRing<kMaps> map;
    alignas(16) Outputs outputs;
    alignas(16) OutputMaps maps;
    float scale[kFilters], bias[kFilters];
    Unscale unscale;
    MagnitudeBits most[kLoaders / 32];
  };

  /// What a task is, and how it walks through channels and taps.
  struct Walk {
    int stripe, first_place, end_place, num_tiles;  // of kTilePlaces padded pixels
    int filter_block, first_k, end_k;
    int first_c, num_c;       // of the filters' conv groups
    int taps, parts, chunks;  // whose input is loaded at a time; these, of a tile
    int all_taps;             // of all chunks; the last one may have fewer than the others
    int parts_apart;          // whose sums run together, before they are moved to the totals
    bool keeps_filters;       // of all chunks and taps, from the first tile to the last
    __device__ Walk(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
      const int runs = (a.places + a.places_per_group - 1) / a.places_per_group;
      stripe = static_cast<int>(group) / runs;
      first_place = static_cast<int>(group) % runs * a.places_per_group;
      end_place = min(first_place + a.places_per_group, a.places);
      num_tiles = (end_place - first_place + kTilePlaces - 1) / kTilePlaces;
      filter_block = static_cast<int>(block);
      first_k = filter_block * a.filters_per_gemm_task;
      end_k = min(a.k, first_k + a.filters_per_gemm_task);
      first_c = first_k / a.filters_at_once * a.channels_at_once;
      num_c = a.channels_at_once;
      taps = kHasSteps ? kMostSteps : a.r * a.s;
      parts = (taps + kStageTaps - 1) / kStageTaps;
      all_taps = a.c_padded / kDepth * a.r * a.s;
      chunks = (all_taps + taps - 1) / taps;
      const SpaceToDepthArgs& d = a.depth;
      parts_apart = parts_of_running_sum(
          d.channels != 0 ? d.c * d.r * d.s : a.c / a.groups * a.r * a.s, min(taps, kStageTaps));
      keeps_filters = chunks * parts <= kFilterStages;
    }
  };

  // Tensor cores round sums towards zero. Those of split numbers are therefore moved every few
  // parts to the totals, by the FP32 units, which round to nearest. The relative error of a running
  // sum is 3.9e-8 for a tap of 16 channels; that of multiply-adds is 1.6e-8 sqrt(terms). So many
  // parts that it is no more than theirs, at most three. Rounded numbers have errors beside which
  // that does not matter.
  static __device__ int parts_of_running_sum(int num_terms, int taps_of_part) {
    if constexpr (!Numbers::kSplit) return 1 << 20;
    const auto allows = [&](int parts) {
      const int taps = parts * taps_of_part;
      return taps * taps * 7 <= num_terms;
    };
    return allows(3) ? 3 : allows(2) ? 2 : 1;
  }
};

}  // namespace megaconv::cuda
