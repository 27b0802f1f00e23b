// SPDX-License-Identifier: Apache-2.0
#include "tasks/checks.hpp"

#include <cstdio>

#include "megaconv/error.hpp"

namespace megaconv {

void fail(const std::string& message) { throw Error(Status::invalid_argument, message); }

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most,
                 const char* reason) {
  if (value >= least && value <= most) return;
  fail(std::string(name) + " = " + std::to_string(value) + ": must be " + std::to_string(least) +
       " to " + std::to_string(most) + reason);
}

void check_elements(const char* tensor, std::initializer_list<std::int64_t> extents) {
  std::int64_t elements = 1;
  std::string shape;
  bool fits = true;
  for (const std::int64_t extent : extents) {
    shape += shape.empty() ? "" : "x";
    shape += std::to_string(extent);
    fits = fits && extent <= kMaxElements / elements;
    if (fits) elements *= extent;
  }
  if (!fits) {
    fail(std::string(tensor) + " of " + shape + " elements: must be at most 2^40 in all");
  }
}

void check_buffer(const TaskGraph& graph, const std::string& name, BufferId id,
                  const Region& wanted) {
  if (id < graph.buffers.size() && graph.buffers[id].extent == wanted) return;
  fail(name + ": reads " + to_string(wanted) + ", " +
       (id < graph.buffers.size()
            ? "buffer " + graph.buffers[id].name + " has " + to_string(graph.buffers[id].extent)
            : "there is no buffer " + std::to_string(id)));
}

std::string axes_text(std::int64_t vertical, std::int64_t horizontal) {
  std::string text = std::to_string(vertical);
  return vertical == horizontal ? text : text + 'x' + std::to_string(horizontal);
}

std::string number_text(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", double{value});
  return text;
}

}  // namespace megaconv
