// SPDX-License-Identifier: Apache-2.0
#include "tasks/operator_order.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace megaconv {
namespace {

using Order = std::vector<std::size_t>;

FusedNetwork in_order(FusedNetwork network, const Order& order) {
  const std::size_t inputs = network.inputs.size();
  std::vector<ValueId> ids(inputs + order.size());  // of values, by what they were
  std::iota(ids.begin(), ids.end(), ValueId{0});
  std::vector<FusedOperator> operators;
  for (std::size_t i = 0; i < order.size(); ++i) {
    operators.push_back(std::move(network.operators[order[i]]));
    ids[inputs + order[i]] = static_cast<ValueId>(inputs + i);
  }
  for (FusedOperator& op : operators) {
    for (ValueId& read : op.reads) read = ids[read];
  }
  for (ValueId& output : network.outputs) output = ids[output];
  network.operators = std::move(operators);
  return network;
}

// Calls visit(index) for the operators that one reads.
template <class Visit>
void for_each_read(const FusedNetwork& network, std::size_t op, Visit visit) {
  const std::size_t inputs = network.inputs.size();
  for (const ValueId read : network.operators[op].reads) {
    if (read >= inputs) visit(read - inputs);
  }
}

// Each behind those that it reads; otherwise as they are.
Order reads_first(const FusedNetwork& network) {
  const std::size_t count = network.operators.size();
  std::vector<bool> taken(count);
  Order order, waiting;  // what has to be taken, the first one last
  for (std::size_t next = 0; next < count; ++next) {
    waiting.push_back(next);
    while (!waiting.empty()) {
      const std::size_t op = waiting.back(), before = waiting.size();
      for_each_read(network, op, [&](std::size_t read) {
        if (!taken[read]) waiting.push_back(read);
      });
      if (waiting.size() != before) continue;
      waiting.pop_back();
      if (!taken[op]) order.push_back(op);
      taken[op] = true;
    }
  }
  return order;
}

// Places in chains: so many operators stand before each at least, and at most where none of its
// readers is to wait for it.
struct Places {
  std::vector<std::size_t> early, late;
};

Places find_places(const FusedNetwork& network) {
  const std::size_t count = network.operators.size();
  const Order order = reads_first(network);
  Places places{std::vector<std::size_t>(count), {}};
  std::size_t last = 0;
  for (const std::size_t op : order) {
    std::size_t& own = places.early[op];
    for_each_read(network, op,
                  [&](std::size_t read) { own = std::max(own, places.early[read] + 1); });
    last = std::max(last, own);
  }
  places.late.assign(count, last);
  std::for_each(order.rbegin(), order.rend(), [&](std::size_t op) {
    for_each_read(network, op, [&](std::size_t read) {
      places.late[read] = std::min(places.late[read], places.late[op] - 1);
    });
  });
  return places;
}

}  // namespace

FusedNetwork longest_chain_first(FusedNetwork network) {
  const Places places = find_places(network);
  const auto key = [&](std::size_t op) {
    return std::pair(places.early[op], places.late[op] - places.early[op]);
  };
  Order order(network.operators.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return in_order(std::move(network), order);
}

}  // namespace megaconv
