// SPDX-License-Identifier: Apache-2.0
// Tasks of tensor cores are so fast that tickets and counters show: H200, one kernel a stage takes
// 5 to 20 % less time than the persistent kernel (docs/performance.md), because a stage starts
// while the one in front of it ends. Winograd without them gains from the persistent kernel that
// transforms, which wait for memory, run beside products: up to 13 %, where V and M are too large
// for the cache; not where U is nearly as large. Stages have no order, no window, and the whole
// device. Options about these, or a trace, ask for the persistent kernel.
#include "tasks/launch.hpp"

#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "mapping/policies/policies.hpp"
#include "megaconv/error.hpp"
#include "tasks/conv_family.hpp"
#include "tasks/lower.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// H200, FP32 multiply-adds over the suite: V and M of so many times the L2 or more gain from it
// (n64c128h28k128, 1.84 of them: 143 us, in stages 153; n64c192h28k48, 1.76: 124 and 113), but
// where U is not small beside them (n64c512h13k1024, a third: 981 us, in stages 977;
// n64c512h14k512, a quarter: 535 and 528; n64c512h28k512, a twelfth: 1,470 and 1,532).
constexpr double kManyCaches = 1.8;
constexpr std::uint64_t kManyFilters = 5;

// A stage of a network without a convolution. In one launch most of these run beside one, or the
// convolution itself stores what becomes of its outputs (H100, one image: 87 of them take
// DenseNet-161 177 us more in FP16 than its convolutions are expected to; 29 take Inception 50 in
// FP16, 160 in TF32).
constexpr double kLightStageUs = 2;

// 0 of a convolution, and of an operator without tasks.
double light_stage_us(const Cut& cut) {
  if (std::holds_alternative<Tiling>(cut) || std::holds_alternative<SmallGemmCut>(cut)) return 0;
  const bool has_tasks =
      std::visit([](const auto& of_room) { return of_room.num_groups > 0; }, cut);
  return has_tasks ? kLightStageUs : 0;
}

// What speaks for the persistent kernel, whatever the cut; empty when nothing does.
std::string asked_for_persistent(const PlanOptions& options) {
  if (options.backend == Backend::cpu) return "of no meaning";
  if (options.backend == Backend::sim) return "the default of a simulation";
  if (options.num_blocks != 0) return "for the number of blocks asked for";
  if (options.policy || asks_for_order(options.mapping)) return "for the order asked for";
  if (options.tiling.v_slots != 0 || options.tiling.m_slots != 0) return "for the window asked for";
  return "";
}

// What of a cut speaks for it.
std::string persistent_pays(const Tiling& tiling, const Target& target) {
  const std::uint64_t bytes = tiling.num_groups * (tiling.v_slot_bytes() + tiling.m_slot_bytes());
  if (tiling.arithmetic == Arithmetic::fma) {
    // H100, 56 direct layers that take 2 to 350 us: a kernel a stage takes 3 to 4 us less.
    if (tiling.algorithm() == Algorithm::direct) return "";
    if (bytes == 0) {
      return std::string("faster for ") + to_string(tiling.algorithm()) + " without tensor cores";
    }
    // A worker's share is of half of the L2 (cuda_target).
    const double l2_bytes =
        2.0 * target.workers * static_cast<double>(target.cache_bytes_per_worker);
    if (static_cast<double>(bytes) >= kManyCaches * l2_bytes &&
        bytes >= kManyFilters * tiling.u_bytes()) {
      return "faster where V and M, " + std::to_string(bytes >> 20) + " MiB, exceed the cache";
    }
  }
  if (bytes <= kMostWholeBytes) return "";
  return "V and M whole are " + std::to_string(bytes >> 20) + " MiB, more than " +
         std::to_string(kMostWholeBytes >> 20);
}

}  // namespace

const char* to_string(CudaLaunch launch) noexcept {
  switch (launch) {
    case CudaLaunch::automatic:
      return "automatic";
    case CudaLaunch::persistent:
      return "persistent";
    case CudaLaunch::one_block_per_task:
      return "one_block_per_task";
    case CudaLaunch::raw_block_index:
      return "raw_block_index";
    case CudaLaunch::staged:
      return "staged";
  }
  return "unknown";
}

void check_launch(const Tiling& tiling, CudaLaunch launch) {
  if (tiling.algorithm() != Algorithm::small_gemm || launch == CudaLaunch::staged) return;
  throw Error(Status::unsupported,
              std::string("small_gemm: launch ") + to_string(launch) + ", must be staged");
}

LaunchChoice choose_launch(const ConvProblem& problem, const PlanOptions& options,
                           const Target& target) {
  const auto launched = [&](CudaLaunch launch, std::string reason) {
    LaunchChoice choice{options, std::move(reason), {}};
    choice.options.cuda_launch = launch;
    if (launch == CudaLaunch::staged) {
      choice.options.mapping.policy = "staged";
      choice.options.tiling.whole_tensors = true;
    }
    const PlanOptions& chosen = choice.options;
    choice.tiling =
        cut_of(problem, chosen.tiling, target, chosen.policy || asks_for_order(chosen.mapping));
    if (options.backend == Backend::cuda) {
      if (launch == CudaLaunch::staged) {
        const auto small = faster_small_tiles(choice.tiling, chosen.tiling, target);
        if (small) choice.tiling = *small;
      }
      check_launch(choice.tiling, launch);
    }
    return choice;
  };
  if (options.cuda_launch != CudaLaunch::automatic && options.backend != Backend::cpu) {
    return launched(options.cuda_launch, kAskedFor);
  }
  std::string reason = asked_for_persistent(options);
  if (reason.empty()) {
    LaunchChoice staged = launched(CudaLaunch::staged, "faster where tasks are short");
    reason = persistent_pays(staged.tiling, target);
    if (reason.empty()) return staged;
  }
  return launched(CudaLaunch::persistent, std::move(reason));
}

// Of one launch all convolutions are small tiles, which are made for few images. A chain of stages
// also has the kernels of a convolution by itself.
NetworkLaunch choose_launch(const Network& network, const PlanOptions& options,
                            const Target& target) {
  const auto launched = [&](CudaLaunch launch, std::string reason) {
    NetworkLaunch choice{options, std::move(reason)};
    choice.options.cuda_launch = launch;
    const bool asked = options.policy || asks_for_order(options.mapping);
    if (launch == CudaLaunch::staged && !asked) choice.options.mapping.policy = "staged";
    return choice;
  };
  if (options.cuda_launch != CudaLaunch::automatic && options.backend != Backend::cpu) {
    return launched(options.cuda_launch, kAskedFor);
  }
  const std::string reason = asked_for_persistent(options);
  if (!reason.empty()) return launched(CudaLaunch::persistent, reason);
  if (!has_small_tasks(options.tiling, target)) {
    return launched(CudaLaunch::staged, "for the algorithm asked for");
  }
  if (!has_own_kernels(target)) return launched(CudaLaunch::persistent, "for a network");
  Target in_stages = target;
  in_stages.stages = true;
  const std::vector<OperatorCut> cuts =
      cut_operators(fuse(network, options.tiling, in_stages), options.tiling, in_stages);
  double staged_us = 0, one_us = 0;
  for (const OperatorCut& cut : cuts) {
    staged_us += cut.us + light_stage_us(cut.cut);
    one_us += cut.one_launch_us;
  }
  const bool pays = staged_us < one_us;
  char text[96];
  std::snprintf(text, sizeof text, "estimated %.3g us, %s %.3g us", pays ? staged_us : one_us,
                pays ? "in one launch" : "in stages", pays ? one_us : staged_us);
  return launched(pays ? CudaLaunch::staged : CudaLaunch::persistent, text);
}

}  // namespace megaconv
