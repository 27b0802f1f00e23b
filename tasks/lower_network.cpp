// SPDX-License-Identifier: Apache-2.0
// From a network to one graph of tasks in a proven order.
#include <algorithm>
#include <string>
#include <utility>

#include "mapping/places.hpp"
#include "megaconv/error.hpp"
#include "tasks/cold_filters.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/elementwise/elementwise.hpp"
#include "tasks/error_budget.hpp"
#include "tasks/join_inputs.hpp"
#include "tasks/lower.hpp"
#include "tasks/nhwc_values.hpp"
#include "tasks/pixelwise/pixelwise.hpp"
#include "tasks/pooling/pooling.hpp"
#include "tasks/rearrangement/rearrangement.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Cuts operators; those of equal convolutions are made once.
class Cutter {
 public:
  Cutter(const TilingOptions& options, const Target& target) : options_(options), target_(target) {
    options_.filters = FilterMode::prepared;
    options_.whole_tensors = false;  // which is of values between operators here
    small_tasks_ = has_small_tasks(options, target);
    // A multiprocessor has about four tasks of other operators; here all of one run at once.
    if (small_tasks_) workers_ = std::max(1u, machine_.multiprocessors / 4);
  }

  Cut cut(const ConvProblem& problem) {
    if (small_tasks_) return cut_small(problem);
    const auto known = std::find_if(tilings_.begin(), tilings_.end(), [&](const Tiling& tiling) {
      return tiling.problem == problem;
    });
    if (known != tilings_.end()) return *known;
    tilings_.push_back(make_tiling_in_network(problem, options_, target_));
    return tilings_.back();
  }
  bool small_tasks() const { return small_tasks_; }
  SmallGemmCut cut_small(const ConvProblem& problem,
                         const std::optional<ElementwiseProblem>& input = {},
                         bool reads_halves = false) const {
    return cut_small_gemm(problem, precision_of(problem.dtype), machine_, input, reads_halves);
  }
  Cut cut(const PoolProblem& problem) { return cut_pooling(problem, workers_); }
  Cut cut(const ElementwiseProblem& problem) { return cut_elementwise(problem, workers_); }
  Cut cut(const PixelwiseProblem& problem) { return cut_pixelwise(problem, workers_); }
  Cut cut(const RearrangementProblem& problem) { return cut_rearrangement(problem, workers_); }

 private:
  // Tensors of 16 bits are multiplied as they are.
  Precision precision_of(DataType dtype) const {
    if (dtype == DataType::f16) return Precision::f16;
    if (dtype == DataType::bf16) return Precision::bf16;
    return options_.precision;
  }

  TilingOptions options_;
  const Target& target_;
  bool small_tasks_ = false;
  const SmallGemmMachine machine_ = small_gemm_machine(target_);
  std::uint32_t workers_ = target_.workers;
  std::vector<Tiling> tilings_;
};

// The precision with which every convolution of a network of small tasks is within the error
// budget: all have the same kernel.
Precision precision_within(const FusedNetwork& network, const TilingOptions& options,
                           const Target& target) {
  std::string refusal;
  for (const Precision precision : {Precision::tf32, Precision::f32}) {
    TilingOptions attempt = options;
    attempt.precision = precision;
    const Cutter cutter(attempt, target);
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

NodeBuffers add(TaskGraph& graph, const std::string& name, const Tiling& tiling,
                const NodeBuffers& read) {
  return add_convolution(graph, name, tiling, read);
}
NodeBuffers add(TaskGraph& graph, const std::string& name, const PoolCut& cut,
                const NodeBuffers& read) {
  NodeBuffers buffers = read;
  buffers.y = add_pooling(graph, name, cut, read.x);
  return buffers;
}
NodeBuffers add(TaskGraph& graph, const std::string& name, const ElementwiseCut& cut,
                const NodeBuffers& read) {
  return add_elementwise(graph, name, cut, read);
}
NodeBuffers add(TaskGraph& graph, const std::string& name, const PixelwiseCut& cut,
                const NodeBuffers& read) {
  NodeBuffers buffers = read;
  buffers.y = add_pixelwise(graph, name, cut, read.x, read.residual);
  return buffers;
}
NodeBuffers add(TaskGraph& graph, const std::string& name, const RearrangementCut& cut,
                const NodeBuffers& read) {
  NodeBuffers buffers = read;
  buffers.y = add_rearrangement(graph, name, cut, read.x);
  return buffers;
}

NodeBuffers add(TaskGraph& graph, const std::string& name, const SmallGemmCut& cut,
                const NodeBuffers& read) {
  return add_small_gemm(graph, name, cut, read);
}

// Appends an operator that reads those buffers; its own have its name: "conv1.U".
NodeBuffers add_cut(TaskGraph& graph, const std::string& name, const Cut& cut,
                    const NodeBuffers& read) {
  const std::size_t first = graph.buffers.size();
  NodeBuffers buffers =
      std::visit([&](const auto& of_room) { return add(graph, name, of_room, read); }, cut);
  for (std::size_t i = first; i < graph.buffers.size(); ++i) {
    std::string& of_buffer = graph.buffers[i].name;
    if (of_buffer.find('.') == std::string::npos) of_buffer = name + "." + of_buffer;
  }
  return buffers;
}

// The buffers that an operator reads: of values that stand before it.
NodeBuffers reads_of(const FusedOperator& op, const std::vector<BufferId>& values,
                     const std::vector<BufferId>& halves) {
  NodeBuffers read;
  std::vector<BufferId> buffers;
  for (const ValueId value : op.reads) buffers.push_back(values[value]);
  if (const auto* elementwise = std::get_if<ElementwiseProblem>(&op.problem)) {
    if (elementwise->residual) {
      read.residual = buffers.back();
      buffers.pop_back();
    }
    read.inputs = std::move(buffers);
    return read;
  }
  if (op.input) {
    const auto end =
        buffers.begin() + static_cast<std::ptrdiff_t>(op.input->problem.channels.size());
    read.inputs.assign(buffers.begin(), end);
    if (end != buffers.end()) read.residual = *end;
    return read;
  }
  read.x = buffers.front();
  read.x_halves = halves[op.reads.front()];
  if (buffers.size() == 2) read.residual = buffers.back();
  return read;
}

// Which values small tasks write as FP16 numbers too: floats that a convolution makes for another.
std::vector<bool> values_in_halves(const FusedNetwork& network) {
  const std::size_t inputs = network.inputs.size();
  std::vector<bool> halves(inputs + network.operators.size());
  for (const FusedOperator& op : network.operators) {
    const auto* const conv = std::get_if<ConvProblem>(&op.problem);
    const ValueId x = op.reads.front();
    if (conv == nullptr || conv->dtype != DataType::f32 || conv->c % 8 != 0 || x < inputs) continue;
    if (std::holds_alternative<ConvProblem>(network.operators[x - inputs].problem))
      halves[x] = true;
  }
  return halves;
}

Layout y_layout(const FusedOperator& op) {
  if (const auto* moved = std::get_if<RearrangementProblem>(&op.problem)) return moved->y_layout();
  return std::visit([](const auto& a) { return a.layout; }, op.problem);
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
    if (node.buffers.y_halves != kNoBuffer) shared.push_back(node.buffers.y_halves);
  }
  choose_places(lowering.graph, lowering.mapping, shared, 2 * std::uint64_t{target.workers},
                kAlignment);
  add_reuse(lowering.graph);
  count_signals(lowering.graph);
}

}  // namespace

std::string summary(const Cut& cut) {
  if (const auto* tiling = std::get_if<Tiling>(&cut)) {
    return to_string(tiling->problem) + ", " + algorithm_of(*tiling).name(*tiling) + ", " +
           std::to_string(num_tasks(*tiling)) + " tasks";
  }
  if (const auto* pool = std::get_if<PoolCut>(&cut)) {
    return to_string(pool->problem) + ", " +
           std::to_string(std::uint64_t{pool->num_groups} * pool->tasks_per_group) + " tasks";
  }
  if (const auto* small = std::get_if<SmallGemmCut>(&cut)) {
    return (small->input ? to_string(*small->input) + ", into " : "") + to_string(small->problem) +
           ", small-tile implicit GEMM, " + to_string(small->precision) + ", tiles of " +
           pair_text(small->rows_per_group, small->cols_per_group) + " pixels x " +
           std::to_string(small->filters_per_task()) + " filters, warps " +
           std::to_string(small->filter_warps) + "x" + std::to_string(small->pixel_warps) + "x" +
           std::to_string(small->sum_warps) + ", " +
           (small->shares == 1 ? "" : std::to_string(small->shares) + " tasks a sum, ") +
           std::to_string(std::uint64_t{small->num_groups} * small->tasks_per_group) + " tasks";
  }
  const auto text = [](const auto& bands) {
    return to_string(bands.problem) + ", " + std::to_string(bands.num_groups) + " tasks";
  };
  if (const auto* pixelwise = std::get_if<PixelwiseCut>(&cut)) return text(*pixelwise);
  if (const auto* moved = std::get_if<RearrangementCut>(&cut)) return text(*moved);
  return text(std::get<ElementwiseCut>(cut));
}

bool has_small_tasks(const TilingOptions& tiling, const Target& target) {
  return target.backend == Backend::cuda && tiling.algorithm == Algorithm::automatic;
}

FusedNetwork fuse(const Network& network, const TilingOptions& tiling, const Target& target) {
  FusedNetwork fused = fuse(network);
  if (!has_small_tasks(tiling, target)) return fused;
  return with_joined_inputs(with_nhwc_values(std::move(fused)));
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
  check_error_budget(tiling_options);
  TilingOptions options = tiling_options;
  if (options.max_error && has_small_tasks(options, target)) {
    options.precision = precision_within(network, options, target);
  }
  Cutter cutter(options, target);
  const std::vector<bool> in_halves = values_in_halves(network);
  std::vector<BufferId> halves(values.size(), kNoBuffer);  // by value
  const auto cut_of = [&](const FusedOperator& op) {
    try {
      const auto* const conv = std::get_if<ConvProblem>(&op.problem);
      if (conv != nullptr && cutter.small_tasks()) {
        std::optional<ElementwiseProblem> input;
        if (op.input) input = op.input->problem;
        SmallGemmCut cut = cutter.cut_small(*conv, input, in_halves[op.reads.front()]);
        cut.writes_halves = in_halves[values.size()];
        return Cut(cut);
      }
      return std::visit([&](const auto& problem) { return cutter.cut(problem); }, op.problem);
    } catch (const Error& error) {
      throw Error(error.status(), op.name() + ": " + error.what());
    }
  };
  for (const FusedOperator& op : network.operators) {
    const Cut cut = cut_of(op);
    lowering.nodes.push_back(
        {cut, add_cut(lowering.graph, op.name(), cut, reads_of(op, values, halves))});
    halves.push_back(lowering.nodes.back().buffers.y_halves);
    values.push_back(lowering.nodes.back().buffers.y);
    Buffer& y = lowering.graph.buffers[values.back()];
    y.block_rows = y_layout(op) == Layout::nhwc ? 1 : y.extent.rows.size() / batch;
  }
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
