// SPDX-License-Identifier: Apache-2.0
// Policies that fail, each in the way that its object is compiled for.
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#include "megaconv/megaconv.h"

#if !defined(POLICY_empty)
extern "C" int megaconv_policy(const megaconv_graph* graph, std::uint32_t* order) {
  std::iota(order, order + graph->num_tasks, 0u);  // staged order, which is right
#if defined(POLICY_drops)
  order[graph->num_tasks - 1] = order[0];
#elif defined(POLICY_refuses)
  return 7;
#elif defined(POLICY_throws)
  throw std::runtime_error("no idea");
#elif defined(POLICY_crashes)
  std::abort();
#elif defined(POLICY_exits)
  std::_Exit(3);
#elif defined(POLICY_loops)
  for (volatile bool forever = true; forever;) {
  }
#endif
  return 0;
}
#endif
