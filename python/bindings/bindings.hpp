// SPDX-License-Identifier: Apache-2.0
// What the files of the extension module megaconv._core share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/plan.hpp"

namespace megaconv::python {

namespace nb = nanobind;

void bind_problem(nb::module_& module);
void bind_arrays(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_tuning(nb::module_& module);   // in front of what returns a TunedPlan
void bind_network(nb::module_& module);  // behind bind_plan
void bind_simulation(nb::module_& module);

/// A NumPy array of this shape that owns its numbers.
template <class Array, class T>
Array owning_array(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = owned->data();
  const nb::capsule owner(owned.get(),
                          [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  static_cast<void>(owned.release());
  return Array(data, shape, owner);
}

template <class T>
using Column = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <class T>
Column<T> column(std::vector<T> values) {
  const std::size_t size = values.size();
  return owning_array<Column<T>>(std::move(values), {size});
}

/// Columns by name, of one length.
using Columns = nb::typed<nb::dict, nb::str, nb::ndarray<nb::numpy>>;

/// One number of each of `items`, as a column.
template <class T, class Items, class Read>
Column<T> column_of(const Items& items, Read read) {
  std::vector<T> values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(static_cast<T>(read(item)));
  return column(std::move(values));
}

/// A graph that lives as long as whoever looks at it.
struct Graph {
  std::shared_ptr<const TaskGraph> graph;
  const TaskGraph* operator->() const { return graph.get(); }
};

/// The graph of a plan, without a copy.
inline Graph graph_of(const Plan& plan) {
  const auto owner = std::make_shared<const Plan>(plan);
  return {{owner, &owner->lowering().graph}};
}

/// A Python function `policy(graph) -> order` as a policy of the library, which may copy it and
/// call it from any thread, without the GIL.
class PythonPolicy {
 public:
  explicit PythonPolicy(nb::callable function);
  std::vector<std::uint32_t> operator()(const TaskGraph& graph) const;
  /// Throws what the function raised, if it did: the library makes a text of it only.
  void rethrow() const;
  /// Keeps the last order in place of the function, which may keep whoever has this alive: a cycle
  /// that Python does not see.
  void forget() const;

 private:
  struct State {
    nb::callable function;
    std::exception_ptr raised;
    std::vector<std::uint32_t> order;
  };
  std::shared_ptr<State> state_;  // given back with the GIL held
};

/// Task ids from whatever NumPy makes an array of. Throws Error(invalid_argument) naming the first
/// that is no id.
std::vector<std::uint32_t> order_of(nb::handle order);

/// A run that was recorded, with the plan that it is of.
struct RecordedRun {
  Plan plan;
  Trace trace;
};

/// A number of an option that is an unsigned integer.
template <class Unsigned>
Unsigned unsigned_of(const char* name, std::int64_t value) {
  const std::uint64_t most = std::numeric_limits<Unsigned>::max();
  if (value < 0 || static_cast<std::uint64_t>(value) > most) {
    throw Error(Status::invalid_argument, std::string(name) + " " + std::to_string(value) +
                                              ", must be 0 to " + std::to_string(most));
  }
  return static_cast<Unsigned>(value);
}

/// A preset's name, or the text of a machine model (JSON).
MachineModel machine_of(const std::string& name_or_json);

/// The enumerator of this name.
template <class Enum, std::size_t kCount, class Name>
Enum enumerator(const char* option, const std::string& word, const Enum (&values)[kCount],
                Name name) {
  std::string allowed;
  for (const Enum value : values) {
    if (word == name(value)) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(name(value));
  }
  throw Error(Status::invalid_argument,
              std::string(option) + " \"" + word + "\", must be one of " + allowed);
}

inline constexpr CudaLaunch kLaunches[] = {CudaLaunch::automatic, CudaLaunch::persistent,
                                           CudaLaunch::one_block_per_task,
                                           CudaLaunch::raw_block_index, CudaLaunch::staged};
inline CudaLaunch launch_of(const std::string& word) {
  return enumerator("launch", word, kLaunches, [](CudaLaunch value) { return to_string(value); });
}

}  // namespace megaconv::python
