/* SPDX-License-Identifier: Apache-2.0 */
/* A policy of one's own: all input transforms two groups ahead of the GEMMs that need them.
 *
 *   cc -shared -fPIC -I include tools/examples/policy_pairs.c -o pairs.so
 *   megaconv lab compare n4c64h56k64 --policies interleaved,./pairs.so --backends sim
 */
#include "megaconv/megaconv.h"

static uint32_t* put(uint32_t* end, uint32_t first_id, uint32_t count) {
  while (count-- > 0) *end++ = first_id++;
  return end;
}

int megaconv_policy(const megaconv_graph* graph, uint32_t* order) {
  const uint32_t groups = graph->num_groups, ahead = 2;
  const uint32_t inputs = graph->num_filter_tasks, gemms = inputs + groups * graph->input_tasks,
                 outputs = gemms + groups * graph->gemm_tasks;
  order = put(order, 0, graph->num_filter_tasks);
  for (uint32_t step = 0; step < groups + ahead; ++step) {
    const uint32_t g = step - ahead; /* the group that is multiplied */
    if (step < groups) order = put(order, inputs + step * graph->input_tasks, graph->input_tasks);
    if (step < ahead) continue;
    order = put(order, gemms + g * graph->gemm_tasks, graph->gemm_tasks);
    order = put(order, outputs + g * graph->output_tasks, graph->output_tasks);
  }
  return 0;
}
