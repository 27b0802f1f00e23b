// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 of MegaKernel convolution (IEEE TC 2020), section 5.5, for any DIG, DGO, M and ratio.
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
// The rounds that the paper keeps free of outputs come by themselves: until DGO positions have
// passed, no output may stand. A share that is not whole is rounded down and its remainder carried
// to the next step, so that the proportion of kinds is even along the whole mapping. An output that
// was not allowed yet stays behind its share, and follows once the GEMMs are through. When inputs
// run out, GEMMs and outputs go on interleaved in the same proportion.
//
// The policy `blended` differs in the beginning. Algorithm 1 transforms all filters and then the
// first DIG inputs: two stages, each of which ends with workers that have nothing to do when there
// are not many times as many tasks as workers, and each of which uses the machine one-sidedly. Here
// the first inputs stand among the filter transforms, in proportion, a quarter of them behind:
// GEMMs wait for all filters, but only for the inputs of their group. Inputs for which half of the
// workers are enough stand before the filters, because they are longer. Filters that are fewer than
// half of the workers stay in front: nothing is gained by having them late.
#include <algorithm>

#include "mapping/policies.hpp"
#include "mapping/tiling.hpp"

namespace megaconv {
namespace {

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

class Interleaver {
 public:
  Interleaver(const TaskGraph& graph, const Interleaving& parameters)
      : graph_(graph),
        tiling_(graph.tiling),
        dig_(parameters.dig),
        dgo_(parameters.dgo),
        m_groups_(std::max(1u, parameters.m_groups)),
        workers_(parameters.workers),
        blend_(parameters.blend && 2 * std::uint64_t{tiling_.num_filter_tasks} >= workers_),
        num_inputs_(std::uint64_t{tiling_.num_groups} * tiling_.input_tasks),
        num_outputs_(std::uint64_t{tiling_.num_groups} * tiling_.output_tasks),
        last_input_(tiling_.num_groups),
        last_gemm_(tiling_.num_groups) {
    order_.reserve(graph.tasks.size());
  }

  TaskOrder run() {
    const std::uint64_t first_inputs = std::min(dig_, num_inputs_);
    if (blend_) emit_inputs(inputs_before_filters(first_inputs));
    Share among_filters(4 * std::max<std::uint64_t>(1, tiling_.num_filter_tasks));
    for (std::uint32_t f = 0; f < tiling_.num_filter_tasks; ++f) {
      if (blend_ && inputs_done_ < first_inputs) emit_inputs(among_filters.next(3 * first_inputs));
      emit(graph_.filter_id(f));
    }
    emit_inputs(first_inputs - inputs_done_);
    Share input_share(tiling_.gemm_tasks), output_share(tiling_.gemm_tasks);
    for (std::uint32_t first = 0, size; first < tiling_.num_groups; first += size) {
      size = std::min(m_groups_, tiling_.num_groups - first);
      for (std::uint32_t j = 0; j < tiling_.gemm_tasks; ++j) {
        emit_inputs(input_share.next(std::uint64_t{size} * tiling_.input_tasks));
        for (std::uint32_t g = first; g < first + size; ++g) emit_gemm(g, j);
        const std::uint32_t complete = j + 1 == tiling_.gemm_tasks ? first + size : first;
        emit_outputs(output_share.next(std::uint64_t{size} * tiling_.output_tasks), complete);
      }
    }
    while (outputs_done_ < num_outputs_) emit_output();
    return std::move(order_);
  }

 private:
  // All, if half of the workers are enough for them.
  std::uint64_t inputs_before_filters(std::uint64_t first_inputs) const {
    return 2 * first_inputs <= workers_ ? first_inputs : 0;
  }

  std::uint64_t position() const { return order_.size(); }
  void emit(std::uint32_t id) { order_.push_back(id); }

  void emit_inputs(std::uint64_t count) {
    for (count = std::min(count, num_inputs_ - inputs_done_); count > 0; --count) {
      last_input_[inputs_done_ / tiling_.input_tasks] = position();
      emit(graph_.input_id(0, static_cast<std::uint32_t>(inputs_done_++)));
    }
  }

  void emit_gemm(std::uint32_t group, std::uint32_t block) {
    const std::uint64_t needed = inputs_before_group(tiling_, group);
    if (inputs_done_ < needed) emit_inputs(needed - inputs_done_);
    const std::uint64_t distance = position() - last_input_[group];
    if (distance < dig_) emit_inputs(dig_ - distance);
    last_gemm_[group] = position();
    emit(graph_.gemm_id(group, block));
  }

  // Outputs whose group is among the `complete` first ones, all of whose GEMMs stand, and far
  // enough.
  void emit_outputs(std::uint64_t count, std::uint32_t complete) {
    for (; count > 0 && outputs_done_ < num_outputs_; --count) {
      const std::uint64_t group = outputs_done_ / tiling_.output_tasks;
      if (group >= complete || position() - last_gemm_[group] < dgo_) return;
      emit_output();
    }
  }
  void emit_output() { emit(graph_.output_id(0, static_cast<std::uint32_t>(outputs_done_++))); }

  const TaskGraph& graph_;
  const Tiling& tiling_;
  const std::uint64_t dig_, dgo_;
  const std::uint32_t m_groups_;
  const std::uint64_t workers_;
  const bool blend_;
  const std::uint64_t num_inputs_, num_outputs_;
  std::vector<std::uint64_t> last_input_, last_gemm_;  // positions, by group
  std::uint64_t inputs_done_ = 0, outputs_done_ = 0;
  TaskOrder order_;
};

}  // namespace

TaskOrder order_interleaved(const TaskGraph& graph, const Interleaving& parameters) {
  return Interleaver(graph, parameters).run();
}

}  // namespace megaconv
