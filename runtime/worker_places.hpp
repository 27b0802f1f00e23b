// SPDX-License-Identifier: Apache-2.0
// Which CPUs the threads of a pool run on.
//
// A run stays on the CPUs that its caller may run on (taskset, numactl, cpusets, an OpenMP runtime
// that has bound the caller), also when the pool's threads were started by another caller. Inside
// of these a worker keeps to one NUMA node, so that it finds its share of x and y, and the scratch
// memory that it was the first to write, on its own node in every run; which of the node's CPUs is
// up to the system. A worker that may use one CPU only has to wait if another thread uses it, so
// that is done on request. The caller itself is never bound.
//
// Where CPUs are few, workers keep off the one that the caller is on. Linux wakes a worker there,
// and leaves it for 10 ms and more beside an idle CPU; beside a busy one for ever (Zen 3, two
// CPUs).
#pragma once

#include <pthread.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megaconv {

enum class Binding : std::uint8_t {
  none,  ///< all CPUs of the caller
  node,  ///< those of them that belong to one NUMA node; of few, all but the caller's
  cpu,   ///< one of them
};

const char* to_string(Binding binding) noexcept;  ///< "none", "node", "cpu"

/// MEGACONV_BIND, else Binding::node. Throws Error(invalid_argument) listing what is allowed.
Binding resolve_binding();

/// The numbers of "0-3,8,10-11\n"; empty when the text is no such list.
std::vector<int> parse_cpu_list(std::string_view text);

/// CPUs by NUMA node; empty when the system does not say.
const std::vector<std::vector<int>>& numa_nodes();

/// `allowed`, with `first` in front, then the others of its node, then node after node. Worker i
/// belongs to the CPU at i modulo their number: few workers share a node with the caller.
std::vector<int> in_order_of_nodes(const std::vector<int>& allowed, int first,
                                   const std::vector<std::vector<int>>& nodes);

/// The CPUs in a set, in their order.
std::vector<int> cpus_of(const cpu_set_t& set);

/// The CPUs of `order` that a worker that belongs to `cpu` may run on, if the caller is on the
/// first. Allocates nothing.
cpu_set_t place_of(int cpu, const std::vector<int>& order, Binding binding,
                   const std::vector<std::vector<int>>& nodes);

class WorkerPlaces {
 public:
  explicit WorkerPlaces(Binding binding) : binding_(binding) { CPU_ZERO(&allowed_); }

  /// To be called by the caller of a run, before it. Thread i is worker i + 1 and sleeps. Costs
  /// about 0.2 us when neither the caller's CPUs nor the threads have changed. Where the system
  /// refuses, threads stay where they were.
  void keep(const std::vector<pthread_t>& threads);

 private:
  void place(pthread_t thread, std::size_t worker) const;
  void follow_caller(const std::vector<pthread_t>& threads);

  Binding binding_;
  cpu_set_t allowed_;       // of the last caller
  std::vector<int> order_;  // the caller's CPU in front
  std::size_t placed_ = 0;  // threads at their places
};

}  // namespace megaconv
