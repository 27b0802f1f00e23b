// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_places.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

using Nodes = std::vector<std::vector<int>>;

// So few that the threads of a pool can all be bound again whenever the caller's CPU changes, about
// 1 us each.
bool few(const std::vector<int>& cpus) { return cpus.size() <= 8; }

const std::vector<int>* node_with(int cpu, const Nodes& nodes) {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [cpu](const std::vector<int>& node) {
    return std::find(node.begin(), node.end(), cpu) != node.end();
  });
  return found == nodes.end() ? nullptr : &*found;
}

Nodes read_numa_nodes() {
  const std::string folder = "/sys/devices/system/node/";
  Nodes nodes;
  std::string list;
  std::ifstream online(folder + "online");
  std::getline(online, list);
  for (const int node : parse_cpu_list(list)) {  // a list of nodes is written like one of CPUs
    std::ifstream file(folder + "node" + std::to_string(node) + "/cpulist");
    std::getline(file, list);
    std::vector<int> cpus = parse_cpu_list(list);
    if (!cpus.empty()) nodes.push_back(std::move(cpus));  // a node may have memory alone
  }
  return nodes;
}

}  // namespace

const char* to_string(Binding binding) noexcept {
  return binding == Binding::none ? "none" : binding == Binding::node ? "node" : "cpu";
}

Binding resolve_binding() {
  const char* const variable = std::getenv("MEGACONV_BIND");
  if (variable == nullptr || *variable == '\0') return Binding::node;
  for (const Binding binding : {Binding::none, Binding::node, Binding::cpu}) {
    if (std::string_view(variable) == to_string(binding)) return binding;
  }
  throw Error(Status::invalid_argument,
              "MEGACONV_BIND=" + excerpt(variable) + ", must be none, node or cpu");
}

std::vector<int> cpus_of(const cpu_set_t& set) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int& value) {
    const auto parsed = std::from_chars(at, end, value);
    at = parsed.ptr;
    return parsed.ec == std::errc() && value >= 0 && value < CPU_SETSIZE;
  };
  while (at != end && *at != '\n') {
    int first = 0;
    if (!number(first)) return {};
    int last = first;
    if (at != end && *at == '-' && (++at, !number(last))) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (at != end && *at == ',') ++at;
  }
  return cpus;
}

const Nodes& numa_nodes() {
  // Never destroyed: threads may execute while exit() destroys what is static.
  static const Nodes& nodes = *new Nodes(read_numa_nodes());
  return nodes;
}

std::vector<int> in_order_of_nodes(const std::vector<int>& allowed, int first, const Nodes& nodes) {
  const std::vector<int>* const first_node = node_with(first, nodes);
  std::vector<int> order = allowed;
  const auto distance = [&](int cpu) {
    if (cpu == first) return std::ptrdiff_t{-2};
    const std::vector<int>* const node = node_with(cpu, nodes);
    return node == first_node ? std::ptrdiff_t{-1} : node - nodes.data();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return distance(a) < distance(b); });
  return order;
}

cpu_set_t place_of(int cpu, const std::vector<int>& order, Binding binding, const Nodes& nodes) {
  cpu_set_t place;
  CPU_ZERO(&place);
  if (binding != Binding::cpu) {
    const bool keeps_off = binding == Binding::node && few(order);
    const std::vector<int>* const node = binding == Binding::node ? node_with(cpu, nodes) : nullptr;
    for (std::size_t i = keeps_off ? 1 : 0; i < order.size(); ++i) {
      if (node == nullptr || node_with(order[i], nodes) == node) CPU_SET(order[i], &place);
    }
  }
  if (CPU_COUNT(&place) == 0) CPU_SET(cpu, &place);
  return place;
}

void WorkerPlaces::keep(const std::vector<pthread_t>& threads) {
  placed_ = std::min(placed_, threads.size());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (!CPU_EQUAL(&allowed, &allowed_)) {
    order_ = in_order_of_nodes(cpus_of(allowed), sched_getcpu(), numa_nodes());
    allowed_ = allowed;
    placed_ = 0;
  } else if (binding_ == Binding::cpu || (binding_ == Binding::node && few(order_))) {
    follow_caller(threads);
  }
  for (; placed_ < threads.size(); ++placed_) place(threads[placed_], placed_ + 1);
}

// A thread that is bound to the CPU that the caller is on gets the one that the caller has left.
// Those of a node all keep off the caller's.
void WorkerPlaces::follow_caller(const std::vector<pthread_t>& threads) {
  const auto here = std::find(order_.begin(), order_.end(), sched_getcpu());
  if (here == order_.begin() || here == order_.end()) return;
  const auto at = static_cast<std::size_t>(here - order_.begin());
  std::swap(*here, order_.front());
  if (binding_ == Binding::node) {
    placed_ = 0;
    return;
  }
  for (std::size_t worker = at; worker <= placed_; worker += order_.size()) {
    place(threads[worker - 1], worker);
  }
}

void WorkerPlaces::place(pthread_t thread, std::size_t worker) const {
  const cpu_set_t set = place_of(order_[worker % order_.size()], order_, binding_, numa_nodes());
  pthread_setaffinity_np(thread, sizeof set, &set);
}

}  // namespace megaconv
