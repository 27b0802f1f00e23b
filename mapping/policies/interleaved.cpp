// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 of MegaKernel convolution (IEEE TC 2020), section 5.5, for any DIG, DGO, M and ratio.
// The stages of one node follow each other so; nodes follow in the graph's order.
//
//   paper                                    here
//   NF filter transforms                     the same
//   DIG input transforms                     the same, or all there are
//   DGO / (M (SI + SG)) rounds, for j < SG:  one kind of round, for j < SG:
//     M SI / SG input transforms               the same share of input transforms
//     M GEMMs of filter block j                M GEMMs of block j, each once its inputs stand DIG
//   rounds with outputs, for j < SG:           positions before (more inputs first, if need be)
//     the same, and M SO / SG outputs          the same share of outputs, of those whose GEMMs
//   the rest                                   stand DGO positions before
//                                            remaining outputs
//
// The rounds that the paper keeps free of outputs need no rule of their own: until DGO positions
// have passed, no output may stand. A share that is not whole is rounded down and its remainder
// carried to the next step, so that the proportion of kinds is even along the whole mapping. An
// output that was not allowed yet stays behind its share, and follows once the GEMMs are through.
// When inputs run out, GEMMs and outputs go on interleaved in the same proportion.
//
// The policy `blended` differs in the beginning. Algorithm 1 transforms all filters and then the
// first DIG inputs: two stages, each of which ends with workers that have nothing to do when there
// are not many times as many tasks as workers, and each of which uses the machine one-sidedly. Here
// the first inputs stand among the filter transforms, in proportion, a quarter of them behind:
// GEMMs wait for all filters, but only for the inputs of their group. Inputs for which half of the
// workers are enough stand before the filters, because they are longer. Filters that are fewer than
// half of the workers stay in front: nothing is gained by having them late.
#include <algorithm>

#include "mapping/policies/policies.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

struct Distances {
  std::uint32_t dig = 0, dgo = 0, m_groups = 1;
};

// Workers that share a cache read the same part of U from it: of these there are far more than
// there should be groups in flight (docs/performance.md). Others read it at about the same time: of
// as many groups as there are workers, or of one group that has tasks for all of them.
std::uint32_t default_m_groups(const Stage& product, const WorkerGroup& workers) {
  if (workers.shared_cache) return 2;
  return product.per_group >= 2 * std::uint64_t{workers.workers} ? 1 : workers.workers;
}

// Workers take tasks in order, so about `workers` neighbours of the mapping run at the same time;
// two of those apart, a consumer finds its producers done unless they run longer than its whole
// neighbourhood.
Distances choose_distances(const MappingOptions& options, const Stage& product,
                           const WorkerGroup& workers) {
  const std::uint32_t apart = workers.workers > 1 ? 2 * std::min(workers.workers, 1u << 30) : 1;
  const std::uint32_t most_groups = std::max(1u, product.groups);
  return {.dig = options.dig.value_or(apart),
          .dgo = options.dgo.value_or(apart),
          .m_groups = options.m_groups.value_or(
              std::clamp(default_m_groups(product, workers), 1u, most_groups))};
}

// Deals out `numerator / denominator` items a step, in whole items.
class Share {
 public:
  explicit Share(std::uint64_t denominator) : denominator_(denominator) {}
  std::uint64_t next(std::uint64_t numerator) {
    carried_ += numerator;
    const std::uint64_t whole = carried_ / denominator_;
    carried_ %= denominator_;
    return whole;
  }

 private:
  std::uint64_t denominator_, carried_ = 0;
};

// The stages of one node; those that it does not have are empty.
class NodeInterleaver {
 public:
  NodeInterleaver(const TaskGraph& graph, NodeId node, bool blend, const WorkerGroup& workers,
                  TaskOrder& order)
      : graph_(graph),
        prepare_(stage(node, Role::prepare)),
        input_(stage(node, Role::input)),
        product_(stage(node, Role::product)),
        output_(stage(node, Role::output)),
        workers_(workers.workers),
        blend_(blend && 2 * prepare_.num_tasks() >= workers_),
        last_input_(input_.groups),
        last_product_(product_.groups),
        inputs_before_(groups_before(product_, input_)),
        products_before_(groups_before(output_, product_)),
        order_(order) {}

  void run(const Distances& distances) {
    distances_ = distances;
    distances_.m_groups = std::max(1u, distances.m_groups);
    const std::uint64_t first_inputs = std::min<std::uint64_t>(distances.dig, input_.num_tasks());
    if (blend_) emit_inputs(inputs_before_filters(first_inputs));
    Share among_filters(4 * std::max<std::uint64_t>(1, prepare_.num_tasks()));
    for (std::uint32_t f = 0; f < prepare_.num_tasks(); ++f) {
      if (blend_ && inputs_done_ < first_inputs) emit_inputs(among_filters.next(3 * first_inputs));
      emit(prepare_.first + f);
    }
    emit_inputs(first_inputs - inputs_done_);
    emit_rounds();
    while (outputs_done_ < output_.num_tasks()) emit_output();
  }

 private:
  Stage stage(NodeId node, Role role) const {
    const Stage* const found = graph_.find(node, role);
    return found == nullptr ? Stage{} : *found;
  }

  // Of every group of `consumer`: so many groups of `producer` stand before it.
  std::vector<std::uint64_t> groups_before(const Stage& consumer, const Stage& producer) const {
    std::vector<std::uint64_t> before(consumer.groups);
    if (consumer.groups == 0 || producer.groups == 0) return before;
    for (const Edge& edge : graph_.edges) {
      const Stage& from = graph_.stages[edge.producer.stage];
      const Stage& to = graph_.stages[edge.consumer.stage];
      if (edge.reuse || from.first != producer.first || to.first != consumer.first) continue;
      for (std::uint64_t g = edge.consumer.groups.begin; g < edge.consumer.groups.end; ++g) {
        before[g] = std::max(before[g], edge.producer.groups.end);
      }
    }
    return before;
  }

  void emit_rounds() {
    const std::uint32_t groups = product_.groups, blocks = product_.per_group;
    Share input_share(std::max(1u, blocks)), output_share(std::max(1u, blocks));
    for (std::uint32_t first = 0, size; first < groups; first += size) {
      size = std::min(distances_.m_groups, groups - first);
      for (std::uint32_t j = 0; j < blocks; ++j) {
        emit_inputs(input_share.next(std::uint64_t{size} * input_.per_group));
        for (std::uint32_t g = first; g < first + size; ++g) emit_product(g, j);
        const std::uint32_t complete = j + 1 == blocks ? first + size : first;
        emit_outputs(output_share.next(std::uint64_t{size} * output_.per_group), complete);
      }
    }
  }

  // All, if half of the workers are enough for them.
  std::uint64_t inputs_before_filters(std::uint64_t first_inputs) const {
    return 2 * first_inputs <= workers_ ? first_inputs : 0;
  }

  std::uint64_t position() const { return order_.size(); }
  void emit(std::uint64_t id) { order_.push_back(static_cast<std::uint32_t>(id)); }

  void emit_inputs(std::uint64_t count) {
    for (count = std::min(count, input_.num_tasks() - inputs_done_); count > 0; --count) {
      last_input_[inputs_done_ / input_.per_group] = position();
      emit(input_.first + inputs_done_++);
    }
  }

  void emit_product(std::uint32_t group, std::uint32_t block) {
    const std::uint64_t needed = inputs_before_[group];
    if (needed > 0) {
      const std::uint64_t tasks = needed * input_.per_group;
      if (inputs_done_ < tasks) emit_inputs(tasks - inputs_done_);
      const std::uint64_t distance = position() - last_input_[needed - 1];
      if (distance < distances_.dig) emit_inputs(distances_.dig - distance);
    }
    last_product_[group] = position();
    emit(product_.id(group, block));
  }

  // Outputs whose products are of the `complete` first groups, all of which stand, and far enough.
  void emit_outputs(std::uint64_t count, std::uint32_t complete) {
    for (; count > 0 && outputs_done_ < output_.num_tasks(); --count) {
      const std::uint64_t needed = products_before_[outputs_done_ / output_.per_group];
      const bool too_near = needed > 0 && position() - last_product_[needed - 1] < distances_.dgo;
      if (needed > complete || too_near) return;
      emit_output();
    }
  }
  void emit_output() { emit(output_.first + outputs_done_++); }

  const TaskGraph& graph_;
  const Stage prepare_, input_, product_, output_;
  Distances distances_;
  const std::uint64_t workers_;
  const bool blend_;
  std::vector<std::uint64_t> last_input_, last_product_;  // positions, by group
  const std::vector<std::uint64_t> inputs_before_, products_before_;
  std::uint64_t inputs_done_ = 0, outputs_done_ = 0;
  TaskOrder& order_;
};

TaskOrder interleave(const TaskGraph& graph, const PolicyArguments& arguments, bool blend) {
  if (arguments.options.m_groups == 0u) {
    throw Error(Status::invalid_argument, "m_groups = 0: must be at least 1");
  }
  TaskOrder order;
  order.reserve(graph.tasks.size());
  const MappingOptions asked = arguments.options;
  for (NodeId node = 0; node < graph.nodes.size(); ++node) {
    const Stage* const product = graph.find(node, Role::product);
    const Distances distances =
        choose_distances(asked, product == nullptr ? Stage{} : *product, arguments.workers);
    if (node == 0) {
      arguments.options.dig = distances.dig;
      arguments.options.dgo = distances.dgo;
      arguments.options.m_groups = distances.m_groups;
    }
    NodeInterleaver(graph, node, blend, arguments.workers, order).run(distances);
  }
  return order;
}

}  // namespace

TaskOrder order_interleaved(const TaskGraph& graph, const PolicyArguments& arguments) {
  return interleave(graph, arguments, false);
}

TaskOrder order_blended(const TaskGraph& graph, const PolicyArguments& arguments) {
  return interleave(graph, arguments, true);
}

}  // namespace megaconv
