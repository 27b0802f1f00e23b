// SPDX-License-Identifier: Apache-2.0
// Small-tile implicit GEMM as an algorithm of one convolution.
#include <ostream>
#include <string>

#include "mapping/mapping_file.hpp"
#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/conv_family.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

Precision precision_of(const ConvProblem& problem, Arithmetic arithmetic) {
  return small_gemm_precision(problem.dtype,
                              arithmetic == Arithmetic::f16 ? Precision::tf32 : Precision::f32);
}

Arithmetic arithmetic_of(const ConvProblem& problem, const TilingOptions& options) {
  if (problem.dtype == DataType::f16) return Arithmetic::f16;
  if (problem.dtype == DataType::bf16) return Arithmetic::bf16;
  if (options.arithmetic != Arithmetic::automatic) return options.arithmetic;
  return options.precision == Precision::f32 ? Arithmetic::split_f16 : Arithmetic::f16;
}

// A launch has one convolution.
SmallGemmMachine machine_of(const Target& target) {
  SmallGemmMachine machine = small_gemm_machine(target);
  machine.clusters_of_any_size = true;
  return machine;
}

class SmallGemmAlgorithm final : public ConvAlgorithmOf<SmallGemmCut> {
 public:
  bool runs_on(Backend backend) const override { return backend != Backend::cpu; }
  std::string obstacle(const ConvProblem& problem, Arithmetic asked) const override {
    const std::string obstacle = small_gemm_obstacle(problem, precision_of(problem, asked));
    if (!obstacle.empty() || asked != Arithmetic::fma) return obstacle;
    return "small_gemm: arithmetic fma, must be one of tensor cores";
  }
  std::string arithmetic_need(const Tiling& tiling) const override {
    const bool floats = tiling.problem.dtype == DataType::f32;
    const Arithmetic one =
        tiling.problem.dtype == DataType::bf16 ? Arithmetic::bf16 : Arithmetic::f16;
    if (tiling.arithmetic == one || (floats && tiling.arithmetic == Arithmetic::split_f16)) {
      return "";
    }
    return std::string(floats ? "split_f16 or " : "") + to_string(one);
  }
  ErrorBound sum_bound(const Tiling& tiling) const override {
    return small_gemm_bound(own(tiling));
  }

  void choose(Tiling& tiling, const TilingOptions& options, const Target& target) const override {
    tiling.arithmetic = arithmetic_of(tiling.problem, options);
    tiling.cut = cut_small_gemm(tiling.problem, precision_of(tiling.problem, tiling.arithmetic),
                                machine_of(target),
                                {.rows_per_group = options.rows_per_group,
                                 .cols_per_group = options.cols_per_group,
                                 .filter_warps = options.filter_blocks_per_gemm_task});
  }
  void derive(Tiling& tiling) const override {
    if (tiling.filters != FilterMode::prepared) {
      throw Error(Status::unsupported, "small_gemm: filters every_run, must be prepared");
    }
    SmallGemmCut& cut = own(tiling);
    cut.problem = tiling.problem;
    cut.precision = precision_of(tiling.problem, tiling.arithmetic);
    derive_counts(cut);
    tiling.num_groups = cut.num_groups;
    tiling.gemm_tasks = cut.tasks_per_group;
    tiling.input_tasks = tiling.output_tasks = 0;
  }
  std::uint32_t count_filter_tasks(const Tiling&) const override { return 0; }
  std::uint64_t u_bytes(const Tiling& tiling) const override { return packed_bytes(own(tiling)); }
  Region u_extent(const Tiling& tiling) const override { return small_gemm_u_extent(own(tiling)); }

  AccessFunction accesses(const Tiling& tiling, const NodeBuffers& buffers) const override {
    return small_gemm_accesses(own(tiling), buffers);
  }
  TaskCost cost(const Tiling& tiling, const NodeBuffers& buffers, Role) const override {
    return small_gemm_cost(own(tiling), buffers);
  }

  std::optional<double> fitted_us(const Tiling& tiling, Role role, const PlanOptions&,
                                  const Target& target) const override {
    return role == Role::product ? small_tiles_alone_us(own(tiling), target) : 0;
  }

  // Tiles of whole rows, or of parts of one; the heuristic's are added by make_space().
  AlgorithmSpace space(const ConvProblem& problem, const Target& target,
                       const TilingOptions& asked) const override {
    AlgorithmSpace space;
    const Arithmetic arithmetic = arithmetic_of(problem, asked);
    const Precision precision = precision_of(problem, arithmetic);
    if (!has_own_kernels(target) || asked.filters != FilterMode::prepared ||
        !small_gemm_obstacle(problem, precision).empty()) {
      return space;
    }
    Axis cols{Parameter::cols, at_most({4, 7, 8, 14, 16, 28, 32, 56}, u64(problem.q()))};
    insert(cols, problem.q());
    const std::uint64_t most_warps = ceil_div(u64(problem.k), u64(SmallGemmCut::kWarpFilters));
    const auto one = [](Parameter parameter, auto value) {
      return Axis{parameter, {static_cast<std::int64_t>(value)}};
    };
    space.grids.push_back({one(Parameter::algo, id()),
                           {Parameter::gemm_filters, at_most({1, 2, 4, 8}, most_warps)},
                           {Parameter::rows, at_most({1, 2, 4, 7, 8, 14, 16}, u64(problem.p()))},
                           cols,
                           one(Parameter::policy, policy_value("staged")),
                           one(Parameter::workers, resident_workers(target)),
                           one(Parameter::launch, CudaLaunch::staged)});
    space.constraints.push_back(
        {to_string(Parameter::rows), [=](const Configuration& c) -> std::string {
           if (c.get(Parameter::algo) != static_cast<std::int64_t>(Algorithm::small_gemm)) {
             return "";
           }
           const auto size = [&](Parameter parameter) {
             return u32(u64(c.get(parameter).value_or(0)));
           };
           try {
             cut_small_gemm(
                 problem, precision, machine_of(target),
                 {size(Parameter::rows), size(Parameter::cols), size(Parameter::gemm_filters)});
             return "";
           } catch (const Error& error) {
             return error.what();
           }
         }});
    return space;
  }
  void configure(const Tiling& tiling, CudaLaunch, Configuration& configuration) const override {
    const SmallGemmCut& cut = own(tiling);
    configuration.set(Parameter::gemm_filters, cut.filter_warps);
    configuration.set(Parameter::rows, cut.rows_per_group);
    configuration.set(Parameter::cols, cut.cols_per_group);
  }

  std::vector<CutField> fields(Tiling& tiling) const override {
    SmallGemmCut& cut = own(tiling);
    return {{"rows_per_group", cut.rows_per_group}, {"cols_per_group", cut.cols_per_group},
            {"filter_warps", cut.filter_warps},     {"pixel_warps", cut.pixel_warps},
            {"sum_warps", cut.sum_warps},           {"shares", cut.shares},
            {"shared_bytes", cut.shared_bytes}};
  }
  void put_words(const Tiling& tiling, FileSection& section) const override {
    section.put("arithmetic", to_string(tiling.arithmetic));
  }
  void take_words(FileSection& section, Tiling& tiling) const override {
    tiling.arithmetic =
        section.choice("arithmetic", {Arithmetic::split_f16, Arithmetic::f16, Arithmetic::bf16});
  }
  std::string name(const Tiling& tiling) const override {
    return "small-tile implicit GEMM, " + product_text(tiling.arithmetic);
  }
  void describe(const Tiling& tiling, std::ostream& text) const override {
    const SmallGemmCut& cut = own(tiling);
    text << ", " << to_string(tiling.arithmetic) << " arithmetic\n"
         << "pixels of a group: " << cut.rows_per_group << " x " << cut.cols_per_group << '\n'
         << "direct task: " << cut.filters_per_task() << " filters; warps over filters "
         << cut.filter_warps << ", pixels " << cut.pixel_warps << ", sums " << cut.sum_warps << '\n'
         << "shares of a sum: " << cut.shares << "\nfilters: packed";
  }
};

}  // namespace

const ConvAlgorithm& small_gemm_algorithm() {
  static const SmallGemmAlgorithm kSmallGemm;
  return kSmallGemm;
}

}  // namespace megaconv
