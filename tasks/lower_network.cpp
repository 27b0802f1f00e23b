// SPDX-License-Identifier: Apache-2.0
// From a network to one graph of tasks in a proven order.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mapping/places.hpp"
#include "megaconv/error.hpp"
#include "tasks/cold_filters.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/conv_family.hpp"
#include "tasks/elementwise/elementwise.hpp"
#include "tasks/error_budget.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/launch.hpp"
#include "tasks/lower.hpp"
#include "tasks/nhwc_values.hpp"
#include "tasks/operators.hpp"
#include "tasks/pooling/pooling.hpp"
#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/pair_tensors.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Cuts operators; those of equal convolutions are made once.
class Cutter {
 public:
  Cutter(const TilingOptions& options, const Target& target) : options_(options), target_(target) {
    options_.filters = FilterMode::prepared;
    // Which is of values between operators here; stages need whole V and M.
    options_.whole_tensors = target.stages;
    small_tasks_ = has_small_tasks(options, target);
    // Of other operators, workers get up to four tasks each. So a multiprocessor has two, which run
    // at the same time.
    if (small_tasks_ || target.stages) workers_ = std::max(1u, machine_.multiprocessors / 2);
    machine_.clusters_of_any_size = target.stages;
  }

  OperatorCut cut(const ConvProblem& problem, const PairTensors& pairs) {
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const KnownCut& one) {
      return one.problem == problem && one.pairs == pairs;
    });
    if (known != known_.end()) return known->cut;
    known_.push_back({problem, pairs, cut_anew(problem, pairs)});
    return known_.back().cut;
  }
  SmallGemmCut cut_small(const ConvProblem& problem, const PairTensors& pairs = {},
                         const std::optional<PoolProblem>& pool = {}) const {
    return cut_small_gemm(problem, precision_of(problem.dtype), machine_, {}, pool, pairs);
  }
  /// Of stages: the convolution and those that make its x as one.
  OperatorCut cut_with(const ConvProblem& problem, const InputMakers& makers) const {
    const SmallGemmCut cut =
        cut_small_gemm(problem, precision_of(problem.dtype), machine_, {}, {}, {}, makers);
    return {.cut = cut, .us = small_tiles_us(cut, target_)};
  }
  /// How much longer the convolution takes if its tasks pool, too.
  double longer_us(const SmallGemmCut& pooled, const SmallGemmCut& plain) const {
    const auto us = [this](const SmallGemmCut& cut) {
      return small_gemm_us(cut, machine_.multiprocessors);
    };
    return us(pooled) - us(plain);
  }
  /// The same cut, of which tasks store the pooling of y alone; none if they cannot.
  std::optional<Tiling> pooled(const Tiling& plain, const PoolProblem& pool) const {
    return pooled_tiling(plain, pool, target_);
  }
  double longer_us(const Tiling& pooled, const Tiling& plain) const {
    return own_kernels_us(pooled, target_) - own_kernels_us(plain, target_);
  }
  OperatorCut cut(const PoolProblem& problem, const PairTensors&) {
    if (target_.stages) return {cut_pooling_at_once(problem, target_.workers)};
    return {cut_operator(problem, workers_)};
  }
  template <class Problem>
  OperatorCut cut(const Problem& problem, const PairTensors&) {
    return {cut_operator(problem, workers_)};
  }
  /// Whether small tiles of this storage type multiply in TF32.
  bool rounds(DataType dtype) const {
    return small_tasks_ && precision_of(dtype) == Precision::tf32;
  }

  /// Of small tiles.
  void set_precision(Precision precision) { small_precision_ = precision; }

  /// Takes the clusters of one launch for which its convolutions are the fastest, and keeps their
  /// cuts.
  void choose_clusters(const FusedNetwork& network, const std::vector<PairTensors>& pairs) {
    if (!small_tasks_ || target_.stages) return;
    const std::uint32_t most = machine_.cluster_blocks;
    if (options_.cluster_blocks > most) {
      throw Error(Status::unsupported, "cluster of " + std::to_string(options_.cluster_blocks) +
                                           " blocks, must be at most " + std::to_string(most));
    }
    double least = std::numeric_limits<double>::infinity();
    std::uint32_t chosen = 1;
    KnownCuts cuts;
    for (const std::uint32_t blocks : {1u, 2u, 4u}) {
      if (blocks > most) break;
      if (options_.cluster_blocks != 0 && options_.cluster_blocks != blocks) continue;
      machine_.cluster_blocks = blocks;
      known_.clear();
      const double us = (blocks == 4 ? kLargeClusters : 1) * convolutions_us(network, pairs);
      if (us < least) least = us, chosen = blocks, cuts = known_;
    }
    machine_.cluster_blocks = chosen;
    known_ = std::move(cuts);
  }

 private:
  struct KnownCut {
    ConvProblem problem;
    PairTensors pairs;
    OperatorCut cut;
  };
  using KnownCuts = std::vector<KnownCut>;

  // Of four blocks: neighbours may share multiprocessors (H100, by estimates and by measurements:
  // ResNet-50 in TF32 1.06).
  static constexpr double kLargeClusters = 1.06;

  // Without those that no tile fits: who cuts them says what is wrong.
  double convolutions_us(const FusedNetwork& network, const std::vector<PairTensors>& pairs) {
    double all_us = 0;
    for (std::size_t i = 0; i < network.operators.size(); ++i) {
      const auto* const problem = std::get_if<ConvProblem>(&network.operators[i].problem);
      if (problem == nullptr) continue;
      try {
        all_us += cut(*problem, pairs[i]).one_launch_us;
      } catch (const Error&) {
      }
    }
    return all_us;
  }

  OperatorCut cut_anew(const ConvProblem& problem, const PairTensors& pairs) const {
    if (!small_tasks_) return {make_tiling_in_network(problem, options_, target_)};
    const FamilyChoice choice =
        choose_family(cut_small(problem, pairs), own_tiling(problem), target_);
    return {choice.cut, target_.stages ? choice.reason : "", choice.us, choice.one_launch_us};
  }

  // Of kernels of its own, if it may have any.
  std::optional<Tiling> own_tiling(const ConvProblem& problem) const {
    if (!target_.stages || !has_own_kernels(target_) ||
        options_.algorithm == Algorithm::small_gemm) {
      return {};
    }
    try {
      const Tiling tiling = without_cold_copy(make_tiling(problem, options_, target_));
      const std::uint64_t bytes =
          tiling.num_groups * (tiling.v_slot_bytes() + tiling.m_slot_bytes());
      if (bytes <= kMostWholeBytes) return tiling;
    } catch (const Error&) {  // small tiles remain
    }
    return {};
  }

  // The same, or without the kernel that copies x: by itself that is soon over, but here it is one
  // more that starts cold.
  Tiling without_cold_copy(const Tiling& tiling) const {
    const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut);
    const bool copies = cut != nullptr && cut->operands == Operands::in_copy;
    if (!copies || options_.arithmetic != Arithmetic::automatic) return tiling;
    TilingOptions options = options_;
    options.arithmetic = Arithmetic::tf32;
    try {
      const Tiling floats = make_tiling(tiling.problem, options, target_);
      return own_kernels_us(floats, target_) < own_kernels_us(tiling, target_) ? floats : tiling;
    } catch (const Error&) {  // not for this problem
      return tiling;
    }
  }

  Precision precision_of(DataType dtype) const {
    return small_gemm_precision(dtype, small_precision_.value_or(options_.precision));
  }

  TilingOptions options_;
  const Target& target_;
  bool small_tasks_ = false;
  std::optional<Precision> small_precision_{};
  SmallGemmMachine machine_ = small_gemm_machine(target_);
  std::uint32_t workers_ = target_.workers;
  KnownCuts known_;
};

// The precision with which every convolution of a network of small tasks is within the error
// budget: all have the same kernel.
Precision precision_within(const FusedNetwork& network, const TilingOptions& options,
                           const Target& target) {
  std::string refusal;
  for (const Precision precision : {Precision::tf32, Precision::f32}) {
    Cutter cutter(options, target);
    cutter.set_precision(precision);
    double largest = 0;
    std::string name;
    for (const FusedOperator& op : network.operators) {
      const auto* const problem = std::get_if<ConvProblem>(&op.problem);
      if (problem == nullptr) continue;
      const double error = error_bound(tiling_of_error(cutter.cut_small(*problem))).relative_l2;
      if (error > largest) largest = error, name = op.name();
    }
    if (largest <= *options.max_error) return precision;
    refusal = name + ": " +
              over_budget_text(*options.max_error, largest, "small-tile implicit GEMM") +
              ", the least error that is possible";
  }
  throw Error(Status::unsupported, refusal);
}

// How often a value is read, by operators or as an output.
std::ptrdiff_t times_read(const FusedNetwork& network, ValueId value) {
  const auto count = [value](const std::vector<ValueId>& reads) {
    return std::count(reads.begin(), reads.end(), value);
  };
  std::ptrdiff_t times = count(network.outputs);
  for (const FusedOperator& op : network.operators) times += count(op.reads);
  return times;
}

// How a maker is cut that pools, and how much longer that takes, if no longer than the pooling by
// itself. Small tiles do not store what the pooling alone reads, unless all values are asked for.
std::optional<std::pair<Cut, double>> pooling_maker(const SmallGemmCut& plain,
                                                    const PoolProblem& pool, const Cutter& cutter,
                                                    bool stores_y) {
  // H100, one launch: 4 to 5 us of ResNet-50's poolings, 3 of DenseNet-161's.
  constexpr double kLevelUs = 3.3;
  if (plain.pool || plain.depthwise || !can_pool(plain.problem, pool)) return {};
  try {
    SmallGemmCut pooled = cutter.cut_small(plain.problem, plain.pairs, pool);
    pooled.stores_y = stores_y;
    const double longer_us = cutter.longer_us(pooled, plain);
    if (longer_us > kLevelUs) return {};
    return std::pair(Cut(pooled), longer_us);
  } catch (const Error&) {  // no tile fits that its windows reach beyond
    return {};
  }
}
// Large tiles never store both.
std::optional<std::pair<Cut, double>> pooling_maker(const Tiling& plain, const PoolProblem& pool,
                                                    const Cutter& cutter, bool stores_y) {
  // H100, stages: 6 us of each of VGG-16's poolings behind large tiles.
  constexpr double kStageUs = 6;
  if (stores_y) return {};
  const std::optional<Tiling> pooled = cutter.pooled(plain, pool);
  if (!pooled) return {};
  const double longer_us = cutter.longer_us(*pooled, plain);
  if (longer_us > kStageUs) return {};
  return std::pair(Cut(*pooled), longer_us);
}
template <class Other>
std::optional<std::pair<Cut, double>> pooling_maker(const Other&, const PoolProblem&, const Cutter&,
                                                    bool) {
  return {};
}

// Poolings of outputs of convolutions: the tasks that make these pool them, where that pays. The
// pooling has no tasks then.
void pool_in_makers(const FusedNetwork& network, const Cutter& cutter, bool stores_all,
                    std::vector<OperatorCut>& cuts) {
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    auto* const pooling = std::get_if<PoolCut>(&cuts[i].cut);
    const ValueId read = network.operators[i].reads.front();
    if (pooling == nullptr || read < network.inputs.size()) continue;
    auto& maker = cuts[read - network.inputs.size()];
    const bool stores_y = stores_all || times_read(network, read) > 1;
    const auto pooled = std::visit(
        [&](const auto& cut) { return pooling_maker(cut, pooling->problem, cutter, stores_y); },
        maker.cut);
    if (!pooled) continue;
    const auto& [cut, longer_us] = *pooled;
    maker.cut = cut;
    maker.us += longer_us;
    maker.one_launch_us += longer_us;
    pooling->written_by_maker = true;
    derive_counts(*pooling);
  }
}

// A part of an elementwise operation's y: the operator, and the first channel.
struct PartOfY {
  std::size_t op;
  std::uint64_t channel;
};

// What elementwise tasks beside a convolution are cut for: with up to four tasks each, the blocks
// that the convolution leaves.
std::uint32_t workers_beside(const SmallGemmCut& cut, const Target& target) {
  const std::uint64_t tasks = std::uint64_t{cut.num_groups} * cut.tasks_per_group;
  const std::uint64_t left = tasks < target.workers ? target.workers - tasks : target.workers;
  return u32(std::max<std::uint64_t>(1, left / kTasksPerWorker));
}

// The operator that makes x of another, if no one else reads that and both are convolutions.
std::optional<std::size_t> only_maker(const FusedNetwork& network, std::size_t op) {
  const ValueId read = network.operators[op].reads.front();
  if (read < network.inputs.size() || times_read(network, read) > 1) return {};
  const std::size_t maker = read - network.inputs.size();
  const auto is_conv = [&](std::size_t i) {
    return std::holds_alternative<ConvProblem>(network.operators[i].problem);
  };
  return is_conv(op) && is_conv(maker) ? std::optional(maker) : std::nullopt;
}

// 1x1 convolutions of depthwise ones, and these of 1x1 ones: the last one's tasks compute the
// others where that takes less than a stage of each.
void compute_in_readers(const FusedNetwork& network, const Cutter& cutter,
                        std::vector<OperatorCut>& cuts) {
  const auto problem_of = [&](std::size_t op) -> const ConvProblem& {
    return std::get<ConvProblem>(network.operators[op].problem);
  };
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const auto depthwise = only_maker(network, i);
    if (!depthwise || !can_compute_input(problem_of(*depthwise), problem_of(i))) continue;
    // The depthwise one, and what makes its x, if that is taken, too.
    const auto take = [&](const std::vector<std::size_t>& ops) {
      InputMakers makers{.depthwise = problem_of(ops.front())};
      if (ops.size() > 1) makers.expand = problem_of(ops.back());
      double apart_us = cuts[i].us;
      for (const std::size_t op : ops) apart_us += cuts[op].us;
      try {
        OperatorCut all = cutter.cut_with(problem_of(i), makers);
        if (all.us >= apart_us) return;
        all.reason = "estimated " + us_text(all.us) + ", apart " + us_text(apart_us);
        all.one_launch_us = cuts[i].one_launch_us;
        cuts[i] = std::move(all);
        for (const std::size_t op : ops) {
          cuts[op].cut = InReaderCut{problem_of(op)};
          cuts[op].us = 0;
        }
      } catch (const Error&) {  // no tile fits
      }
    };
    take({*depthwise});
    const auto expand = only_maker(network, *depthwise);
    if (!expand || !can_expand(problem_of(*expand), problem_of(*depthwise))) continue;
    take({*depthwise, *expand});
  }
}

std::vector<OperatorCut> cuts_with(const FusedNetwork& network,
                                   const std::vector<PairTensors>& pairs, Cutter& cutter,
                                   const TilingOptions& options, const Target& target) {
  cutter.choose_clusters(network, pairs);
  std::vector<OperatorCut> cuts;
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const FusedOperator& op = network.operators[i];
    try {
      cuts.push_back(std::visit([&](const auto& problem) { return cutter.cut(problem, pairs[i]); },
                                op.problem));
    } catch (const Error& error) {
      throw Error(error.status(), op.name() + ": " + error.what());
    }
  }
  if (target.stages && has_small_tasks(options, target) && !options.whole_tensors) {
    compute_in_readers(network, cutter, cuts);
  }
  pool_in_makers(network, cutter, options.whole_tensors, cuts);
  return cuts;
}

// Where all tensors between tasks can be in pairs: nothing but small tiles in one launch.
std::optional<std::vector<OperatorCut>> cuts_in_pairs(const FusedNetwork& network, Cutter& cutter,
                                                      const TilingOptions& options,
                                                      const Target& target) {
  const bool rounds = std::visit([&](const auto& a) { return cutter.rounds(a.dtype); },
                                 network.operators.front().problem);
  if (!rounds || target.stages || options.whole_tensors) return {};
  const auto pairs = choose_pair_tensors(network);
  if (!pairs) return {};
  try {
    std::vector<OperatorCut> cuts = cuts_with(network, *pairs, cutter, options, target);
    const auto has_none_of_its_own = [](const OperatorCut& one) {
      const auto* const pooling = std::get_if<PoolCut>(&one.cut);
      return pooling == nullptr || pooling->written_by_maker;
    };
    if (std::all_of(cuts.begin(), cuts.end(), has_none_of_its_own)) return cuts;
  } catch (const Error&) {  // who cuts it without pairs says what is wrong
  }
  return {};
}

// What reads outputs of convolutions, and these store, too: poolings, and elementwise operations,
// as concatenations. A convolution does so for the first operation that reads it, and of an
// operation the last tensors are stored so. In one launch its tasks have the older ones then,
// beside the convolution. Stages gain only if none is left (H100, DenseNet-161 in FP16: one launch
// 868 us before, 784 then; stages 873 and 938). Returns by convolution what part it stores, and
// cuts the operations anew.
std::vector<std::optional<PartOfY>> hand_to_makers(const FusedNetwork& network,
                                                   std::vector<OperatorCut>& cuts,
                                                   const Target& target) {
  std::vector<std::optional<PartOfY>> parts(cuts.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const auto* const pooling = std::get_if<PoolCut>(&cuts[i].cut);
    if (pooling == nullptr || !pooling->written_by_maker) continue;
    parts[network.operators[i].reads.front() - network.inputs.size()] = PartOfY{i, 0};
  }
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    auto* const cut = std::get_if<ElementwiseCut>(&cuts[i].cut);
    if (cut == nullptr || cut->problem.residual) continue;
    const std::vector<std::int64_t>& channels = cut->problem.channels;
    std::vector<std::pair<std::size_t, PartOfY>> found;  // by convolution, the last tensor first
    std::int64_t first = cut->problem.c();
    while (found.size() < channels.size()) {
      const std::size_t tensor = channels.size() - found.size() - 1;
      first -= channels[tensor];
      const ValueId read = network.operators[i].reads[tensor];
      if (read < network.inputs.size()) break;
      const std::size_t maker = read - network.inputs.size();
      const auto* const of = std::get_if<SmallGemmCut>(&cuts[maker].cut);
      const auto is_maker = [&](const auto& one) { return one.first == maker; };
      if (of == nullptr || parts[maker] || !can_store_second(*of, cut->problem.c(), first) ||
          std::any_of(found.begin(), found.end(), is_maker)) {
        break;
      }
      found.push_back({maker, {i, u64(first)}});
    }
    const bool has_tasks = found.size() < channels.size();
    if (found.empty() || (target.stages && has_tasks)) continue;
    for (const auto& [maker, part] : found) parts[maker] = part;
    if (has_tasks) {
      const auto& maker = std::get<SmallGemmCut>(cuts[found.front().first].cut);
      *cut = cut_elementwise(cut->problem, workers_beside(maker, target));
    }
    *cut = with_makers_writing(*cut, u32(found.size()));
  }
  return parts;
}

// y of an operator, as a buffer, where others write it.
Buffer y_written_by_makers(const FusedOperator& op) {
  return std::visit(
      [&](const auto& problem) -> Buffer {
        if constexpr (requires { y_buffer(problem, op.name()); }) {
          return y_buffer(problem, op.name());
        } else {
          return {};
        }
      },
      op.problem);
}

// Appends an operator that reads those values; its own buffers have its name: "conv1.U".
NodeBuffers add_cut(TaskGraph& graph, const FusedOperator& op, const Cut& cut,
                    const std::vector<BufferId>& values, const NodeBuffers& given) {
  const std::size_t first = graph.buffers.size();
  std::vector<BufferId> reads;
  for (const ValueId value : op.reads) reads.push_back(values[value]);
  NodeBuffers buffers = std::visit(
      [&](const auto& of_room) {
        if constexpr (requires { add_operator(graph, op.name(), of_room, reads, given); }) {
          return add_operator(graph, op.name(), of_room, reads, given);
        } else {
          return add_operator(graph, op.name(), of_room, reads);
        }
      },
      cut);
  for (std::size_t i = first; i < graph.buffers.size(); ++i) {
    std::string& of_buffer = graph.buffers[i].name;
    if (of_buffer.find('.') == std::string::npos) of_buffer = op.name() + "." + of_buffer;
  }
  return buffers;
}

BufferId add_input(TaskGraph& graph, const NetworkInput& input, DataType dtype) {
  const Shape& s = input.shape;
  graph.buffers.push_back(
      {.name = input.name,
       .extent = {.rows = {0, u64(s.n * s.h)}, .cols = {0, u64(s.w)}, .channels = {0, u64(s.c)}},
       .bytes = u64(s.size()) * size_of(dtype),
       .given = true});
  return static_cast<BufferId>(graph.buffers.size() - 1);
}

// Tasks that share sums behind each other in the order, where the first of them stands: they read
// the same, so they need the same. A worker of each runs them at the same time.
void bring_together(const Lowering& lowering, TaskMapping& mapping) {
  std::vector<std::uint32_t> order;
  order.reserve(mapping.order.size());
  std::vector<bool> taken(mapping.order.size());
  for (const std::uint32_t id : mapping.order) {
    if (taken[id]) continue;
    const Task& task = lowering.graph.tasks[id];
    const auto* const cut = std::get_if<SmallGemmCut>(&lowering.nodes[task.node].cut);
    const std::uint32_t shares = cut == nullptr ? 1 : cut->shares;
    const std::uint32_t first = id - task.block % shares;
    for (std::uint32_t share = first; share < first + shares; ++share) {
      order.push_back(share);
      taken[share] = true;
    }
  }
  mapping.order = std::move(order);
}

// Stages wait for whole layers. So tasks may say that they read all of a buffer, which makes a
// graph of a counter for every stage, in place of one for every row.
void read_whole_buffers(TaskGraph& graph) {
  std::vector<Region> extents;
  for (const Buffer& buffer : graph.buffers) extents.push_back(buffer.extent);
  const auto shared = std::make_shared<const std::vector<Region>>(std::move(extents));
  for (AccessFunction& exact : graph.accesses) {
    exact = [shared, list = std::move(exact)](Role role, std::uint32_t group, std::uint32_t block,
                                              std::vector<Access>& accesses) {
      const std::size_t first = accesses.size();
      list(role, group, block, accesses);
      for (std::size_t i = first; i < accesses.size(); ++i) {
        if (accesses[i].mode == Mode::read) accesses[i].region = (*shared)[accesses[i].buffer];
      }
    };
  }
}

// Values that only tasks see share memory: an order says how long each is in use. Tasks that run at
// the same time stand within about two positions a worker.
void share_memory(Lowering& lowering, const Target& target) {
  constexpr std::uint64_t kAlignment = 64;
  std::vector<BufferId> shared;
  for (const Node& node : lowering.nodes) {
    const auto& outputs = lowering.outputs;
    if (std::find(outputs.begin(), outputs.end(), node.buffers.y) == outputs.end()) {
      shared.push_back(node.buffers.y);
    }
  }
  choose_places(lowering.graph, lowering.mapping, shared, 2 * std::uint64_t{target.workers},
                kAlignment);
  add_reuse(lowering.graph);
  count_signals(lowering.graph);
}

}  // namespace

std::string summary(const Cut& cut) {
  return std::visit([](const auto& of_room) { return summary_of(of_room); }, cut);
}

bool has_small_tasks(const TilingOptions& tiling, const Target& target) {
  return target.backend == Backend::cuda &&
         (tiling.algorithm == Algorithm::automatic || tiling.algorithm == Algorithm::small_gemm);
}

FusedNetwork fuse(const Network& network, const TilingOptions& tiling, const Target& target) {
  FusedNetwork fused = fuse(network);
  const bool in_nhwc = has_small_tasks(tiling, target) || target.stages;
  return in_nhwc ? with_nhwc_values(std::move(fused)) : fused;
}

std::vector<OperatorCut> cut_operators(const FusedNetwork& network, const TilingOptions& options,
                                       const Target& target) {
  check_error_budget(options);
  Cutter cutter(options, target);
  if (options.max_error && has_small_tasks(options, target)) {
    cutter.set_precision(precision_within(network, options, target));
  }
  if (const auto cuts = cuts_in_pairs(network, cutter, options, target)) return *cuts;
  return cuts_with(network, std::vector<PairTensors>(network.operators.size()), cutter, options,
                   target);
}

Lowering lower(const FusedNetwork& network, const TilingOptions& tiling_options,
               const MappingOptions& mapping_options, const Target& target,
               const PolicyFunction& custom) {
  Lowering lowering;
  lowering.graph.kinds = task_kinds();
  std::vector<BufferId> values;
  const auto [dtype, batch] = std::visit([](const auto& a) { return std::pair(a.dtype, u64(a.n)); },
                                         network.operators.front().problem);
  for (const NetworkInput& input : network.inputs) {
    values.push_back(add_input(lowering.graph, input, dtype));
  }
  lowering.inputs = values;
  std::vector<OperatorCut> cuts = cut_operators(network, tiling_options, target);
  const std::vector<std::optional<PartOfY>> parts = hand_to_makers(network, cuts, target);
  std::vector<NodeBuffers> given(cuts.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const FusedOperator& op = network.operators[i];
    const auto& [cut, reason, us, one_launch_us] = cuts[i];
    if (parts[i]) {
      BufferId& y = given[parts[i]->op].y;
      if (y == kNoBuffer) {
        y = static_cast<BufferId>(lowering.graph.buffers.size());
        lowering.graph.buffers.push_back(y_written_by_makers(network.operators[parts[i]->op]));
      }
      given[i].second = y;
      given[i].second_channel = parts[i]->channel;
    }
    lowering.nodes.push_back({cut, add_cut(lowering.graph, op, cut, values, given[i]), reason});
    const NodeBuffers& buffers = lowering.nodes.back().buffers;
    // A reader that computes it reads x in its place.
    values.push_back(std::holds_alternative<InReaderCut>(cut) ? buffers.x : buffers.y);
    Buffer& y = lowering.graph.buffers[buffers.y];
    y.block_rows = target.stages                          ? 0
                   : y_layout(op.problem) == Layout::nhwc ? 1
                                                          : y.extent.rows.size() / batch;
  }
  if (target.stages) read_whole_buffers(lowering.graph);
  for (const ValueId output : network.outputs) lowering.outputs.push_back(values[output]);
  link(lowering.graph);
  count_signals(lowering.graph);
  lowering.mapping = order_tasks(lowering.graph, mapping_options, target, custom);
  if (custom) check_order(lowering.graph, lowering.mapping);  // what follows takes right orders
  bring_together(lowering, lowering.mapping);
  if (!tiling_options.whole_tensors) share_memory(lowering, target);
  check_order(lowering.graph, lowering.mapping);
  return lowering;
}

Lowering lower(const Network& network, const TilingOptions& tiling, const MappingOptions& mapping,
               const Target& target, const PolicyFunction& custom) {
  return lower(fuse(network, tiling, target), tiling, mapping, target, custom);
}

}  // namespace megaconv
