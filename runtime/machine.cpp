// SPDX-License-Identifier: Apache-2.0
#include "runtime/machine.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "megaconv/error.hpp"

namespace megaconv {

std::uint32_t quota_cpus(std::string_view cpu_max) noexcept {
  std::uint64_t quota_us = 0, period_us = 0;
  const char* const end = cpu_max.data() + cpu_max.size();
  const auto [space, error] = std::from_chars(cpu_max.data(), end, quota_us);
  if (error != std::errc() || space == end) return kMaxWorkers;
  const auto parsed = std::from_chars(space + 1, end, period_us);
  if (parsed.ec != std::errc() || period_us == 0) return kMaxWorkers;
  const std::uint64_t cpus = quota_us / period_us + (quota_us % period_us != 0 ? 1 : 0);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(cpus, 1, kMaxWorkers));
}

std::uint32_t available_cpus() noexcept {
  // Where a container sees its own control group; version 2.
  char text[64] = {};
  if (std::FILE* const file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    if (std::fgets(text, sizeof text, file) == nullptr) text[0] = '\0';
    std::fclose(file);
  }
  const std::uint32_t quota = quota_cpus(text);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::min(quota, static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&set))));
  }
  return std::min(quota, std::max(1u, std::thread::hardware_concurrency()));
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

std::string cpu_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

std::size_t level2_cache_bytes() noexcept {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{1} << 20;
}

namespace {

std::size_t find_mesh_cache_bytes() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kFp16 = 1u << 23;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__builtin_cpu_is("intel") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
      (d & kFp16) != 0) {
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{64} << 20;
  }
#endif
  return 0;
}

}  // namespace

std::size_t mesh_cache_bytes() noexcept {
  // A virtual machine takes 17 us to answer, and every plan asks.
  static const std::size_t bytes = find_mesh_cache_bytes();
  return bytes;
}

}  // namespace megaconv
