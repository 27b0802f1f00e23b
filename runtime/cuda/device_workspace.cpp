// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device_workspace.hpp"

#include "megaconv/plan.hpp"
#include "runtime/cuda/device_run.hpp"

namespace megaconv::cuda {

static_assert(sizeof(DeviceHeader) <= Plan::kHeaderBytes);

void place_parts(DeviceWorkspace& layout, const TaskMemory& memory, bool keeps_u, Arena& arena) {
  layout.footer = arena.place(memory.footer_bytes);
  layout.v = arena.place(memory.v_bytes);
  layout.m = arena.place(memory.m_bytes);
  layout.u = arena.place(keeps_u ? memory.u_bytes : 0);
}

DeviceWorkspace lay_out_workspace(const TaskMemory& memory, std::uint32_t num_counters,
                                  std::uint32_t num_workers, bool keeps_u) {
  constexpr std::size_t kLine = 256;
  Arena arena(sizeof(DeviceHeader), kLine);
  DeviceWorkspace layout;
  layout.num_counters = num_counters;
  layout.counters = arena.place(num_counters * sizeof(std::uint32_t));
  layout.waiting = arena.place(num_workers * sizeof(std::uint32_t));
  place_parts(layout, memory, keeps_u, arena);
  layout.total = arena.end();
  return layout;
}

}  // namespace megaconv::cuda
