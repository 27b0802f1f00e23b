// SPDX-License-Identifier: Apache-2.0
// Policies that fail, each in the way that its object is compiled for.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "megaconv/megaconv.h"

#if defined(POLICY_throws)
namespace {

// Whether every counter receives the signals that its tasks wait for.
bool signals_agree(const megaconv_graph& graph) {
  std::vector<std::uint32_t> received(graph.num_counters);
  for (std::uint32_t id = 0; id < graph.num_tasks; ++id) {
    const megaconv_task& task = graph.tasks[id];
    for (std::uint32_t s = 0; s < task.num_signals; ++s) {
      const megaconv_signal_range& range = graph.signals[task.first_signal + s];
      for (std::uint32_t c = 0; c < range.count; ++c) ++received.at(range.first + c);
    }
  }
  for (std::uint32_t id = 0; id < graph.num_tasks; ++id) {
    const megaconv_task& task = graph.tasks[id];
    if (task.wait_counter == MEGACONV_NO_COUNTER) continue;
    if (received.at(task.wait_counter) != task.wait_count) return false;
  }
  return graph.num_counters > 0;
}

// Stages as "node/role first+groups x per_group <edges", as far as found by their role.
std::string describe(const megaconv_graph& graph) {
  std::string text = std::to_string(graph.struct_size) + " bytes; ";
  for (std::uint32_t node = 0; node < graph.num_nodes; ++node) {
    for (std::int32_t role = MEGACONV_ROLE_PREPARE; role <= MEGACONV_ROLE_OUTPUT; ++role) {
      const megaconv_stage* const stage = megaconv_find_stage(&graph, node, role);
      if (stage == nullptr) continue;
      text += std::to_string(node) + '/' + std::to_string(role) + ' ' +
              std::to_string(stage->first) + '+' + std::to_string(stage->groups) + 'x' +
              std::to_string(stage->per_group);
      for (std::uint32_t e = 0; e < stage->num_edges; ++e) {
        const megaconv_edge& edge = graph.edges[stage->first_edge + e];
        text += (edge.reuse ? '~' : '<') + std::to_string(edge.producer.stage);
      }
      text += "; ";
    }
  }
  return text + (signals_agree(graph) ? "signals agree" : "signals differ");
}

}  // namespace
#endif

#if !defined(POLICY_empty)
extern "C" int megaconv_policy(const megaconv_graph* graph, std::uint32_t* order) {
  std::iota(order, order + graph->num_tasks, 0u);  // staged order, which is right
#if defined(POLICY_drops)
  order[graph->num_tasks - 1] = order[0];
#elif defined(POLICY_refuses)
  return 7;
#elif defined(POLICY_throws)
  throw std::runtime_error(describe(*graph));  // a test looks at it
#elif defined(POLICY_crashes)
  std::abort();
#elif defined(POLICY_exits)
  std::_Exit(3);
#elif defined(POLICY_closes)
  for (int descriptor = 3; descriptor < 1024; ++descriptor) close(descriptor);
  for (;;) pause();
#elif defined(POLICY_loops)
  for (volatile bool forever = true; forever;) {
  }
#endif
  return 0;
}
#endif
