// SPDX-License-Identifier: Apache-2.0
#include "runtime/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "megaconv/error.hpp"

namespace megaconv {

std::uint32_t available_cpus() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&set)));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

std::uint32_t resolve_workers(std::uint32_t requested) {
  const std::string range = ", must be 1 to " + std::to_string(kMaxWorkers);
  if (requested > kMaxWorkers) {
    throw Error(Status::invalid_argument, "threads " + std::to_string(requested) + range);
  }
  if (requested != 0) return requested;
  const char* variable = std::getenv("MEGACONV_NUM_THREADS");
  if (variable == nullptr || *variable == '\0') return std::min(available_cpus(), kMaxWorkers);
  const std::string_view text = variable;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 ||
      value > kMaxWorkers) {
    throw Error(Status::invalid_argument, "MEGACONV_NUM_THREADS=" + std::string(text) + range);
  }
  return value;
}

std::size_t level2_cache_bytes() noexcept {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{1} << 20;
}

}  // namespace megaconv
