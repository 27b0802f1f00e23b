// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device_workspace.hpp"

#include <atomic>
#include <random>

#include "runtime/cuda/device_run.hpp"
#include "runtime/executor.hpp"

namespace megaconv::cuda {

DeviceWorkspace lay_out_workspace(const TaskMemory& memory, std::uint32_t num_counters,
                                  std::uint32_t num_workers, bool keeps_u) {
  std::size_t end = sizeof(DeviceHeader);
  const auto append = [&end](std::size_t bytes) {
    constexpr std::size_t kLine = 256;
    const std::size_t begin = (end + kLine - 1) / kLine * kLine;
    end = begin + bytes;
    return begin;
  };
  DeviceWorkspace layout;
  layout.num_counters = num_counters;
  layout.counters = append(num_counters * sizeof(std::uint32_t));
  layout.waiting = append(num_workers * sizeof(std::uint32_t));
  layout.footer = append(memory.footer_bytes);
  layout.v = append(memory.v_bytes);
  layout.m = append(memory.m_bytes);
  layout.u = append(keeps_u ? memory.u_bytes : 0);
  layout.total = aligned(end);
  return layout;
}

std::uint64_t new_plan_word() {
  static const std::uint64_t key = [] {
    std::random_device device;
    return static_cast<std::uint64_t>(device()) << 32;
  }();
  static std::atomic<std::uint32_t> next{1};
  return key | static_cast<std::uint64_t>(next.fetch_add(1) & 0x7fffffffu) << 1;
}

}  // namespace megaconv::cuda
