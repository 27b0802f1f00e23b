/* SPDX-License-Identifier: Apache-2.0 */
/* A policy of one's own: input transforms two groups ahead of the GEMMs that need them.
 *
 *   cc -shared -fPIC -I include tools/examples/policy_pairs.c -o pairs.so
 *   megaconv lab compare n4c64h56k64 --policies interleaved,./pairs.so --backends sim
 */
#include <stdlib.h>

#include "megaconv/megaconv.h"

typedef struct progress {
  const megaconv_graph* graph;
  uint32_t *groups, *edges; /* by stage: groups in the order, edges looked at */
  uint32_t* end;            /* of the order so far */
} progress;

/* Puts the first `count` groups of a stage, each behind all groups that it needs. */
static void put(progress* at, const megaconv_stage* stage, uint32_t count) {
  if (stage == NULL) return;
  const uint32_t s = (uint32_t)(stage - at->graph->stages);
  while (at->groups[s] < count && at->groups[s] < stage->groups) {
    const megaconv_edge* edge = at->graph->edges + stage->first_edge + at->edges[s];
    if (at->edges[s] < stage->num_edges && edge->consumer.first <= at->groups[s]) {
      ++at->edges[s];
      put(at, &at->graph->stages[edge->producer.stage],
          edge->producer.first + edge->producer.count);
    } else {
      const uint32_t first = stage->first + at->groups[s]++ * stage->per_group;
      for (uint32_t block = 0; block < stage->per_group; ++block) *at->end++ = first + block;
    }
  }
}

int megaconv_policy(const megaconv_graph* graph, uint32_t* order) {
  uint32_t* counts = calloc(2 * (size_t)graph->num_stages, sizeof(uint32_t));
  progress at = {graph, counts, counts + graph->num_stages, order};
  if (counts == NULL) return 1;
  for (uint32_t node = 0; node < graph->num_nodes; ++node) {
    const megaconv_stage* product = megaconv_find_stage(graph, node, MEGACONV_ROLE_PRODUCT);
    put(&at, megaconv_find_stage(graph, node, MEGACONV_ROLE_PREPARE), UINT32_MAX);
    for (uint32_t group = 0; product != NULL && group < product->groups; ++group) {
      put(&at, megaconv_find_stage(graph, node, MEGACONV_ROLE_INPUT), group + 3);
      put(&at, product, group + 1);
      put(&at, megaconv_find_stage(graph, node, MEGACONV_ROLE_OUTPUT), group + 1);
    }
  }
  for (uint32_t s = 0; s < graph->num_stages; ++s) put(&at, &graph->stages[s], UINT32_MAX);
  free(counts);
  return 0;
}
