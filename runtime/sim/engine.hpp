// SPDX-License-Identifier: Apache-2.0
// The discrete-event simulation: the executors' protocol, with time instead of work.
//
//   worker   take position -> prepare -> wait for the counter -> work -> signal -> take the next
//   work     all at once: its time alone, known or by its operations and bytes at one worker's
//            speed; its share of the unit's time; bytes over the shared cache; misses over memory.
//            The slowest of these is the task's time; then comes the overhead of its kind.
//
// One launch of a network has no tickets: worker w takes positions w, w + workers, ... Tasks that
// share a sum end together.
#pragma once

#include <map>

#include "megaconv/simulation.hpp"
#include "runtime/sim/cache.hpp"
#include "runtime/sim/demands.hpp"
#include "runtime/sim/shared_rate.hpp"

namespace megaconv::sim {

class Engine {
 public:
  Engine(const Lowering& lowering, const MachineModel& machine, const SimulationOptions& options);

  Simulation run();

 private:
  enum class EventType : std::uint8_t { fetch, ready, rate, worked, end };
  struct Event {
    double time_ns;
    std::uint64_t number;  // of equal times, the earlier made comes first
    EventType type;
    std::uint32_t index;    // of a worker; of a rate for EventType::rate
    std::uint32_t version;  // of a rate: only the newest event of a rate counts
    bool operator<(const Event& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : number > other.number;
    }
  };
  struct Worker {
    std::uint32_t next = 0;        // of its list
    std::uint32_t position = 0;    // of its task, in the order
    std::uint32_t parts_left = 0;  // of its task's work
    double fetch_ns = 0, prepared_ns = 0, ready_ns = 0, after_ns = 0;
  };
  struct Rate {
    SharedRate shared;
    std::uint32_t version = 0;
  };

  const Task& task_at(std::uint32_t position) const {
    return lowering_.graph.tasks[lowering_.mapping.order[position]];
  }
  std::uint32_t unit_of(std::uint32_t worker) const { return worker % machine_.units; }
  std::uint32_t l2() const { return machine_.units; }
  std::uint32_t hbm() const { return machine_.units + 1; }

  void warm_up();
  void push(double time_ns, EventType type, std::uint32_t index, std::uint32_t version = 0);
  void reschedule(std::uint32_t rate);
  void join(std::uint32_t rate, std::uint32_t worker, double amount);
  bool take_position(std::uint32_t worker);
  void on_fetch(std::uint32_t worker);
  void on_ready(std::uint32_t worker);
  void on_rate(std::uint32_t rate);
  void on_worked(std::uint32_t worker);
  void end_after(std::uint32_t worker);
  void on_end(std::uint32_t worker);
  void signal(std::uint32_t counter);
  bool ends_stage();
  bool stage_is_open(std::uint32_t position);
  double misses(std::uint32_t id);
  void finish();
  double noise(std::uint32_t id) const;
  [[noreturn]] void report_deadlock() const;

  const Lowering& lowering_;
  const MachineModel& machine_;
  const SimulationOptions& options_;
  const std::uint32_t num_tasks_;
  const std::vector<std::uint32_t> lists_;  // places in the order; empty where there are tickets
  const std::uint32_t num_workers_;
  const double begin_ns_;  // after the launch: a trace begins here
  Demands demands_;
  Cache cache_;
  std::vector<Worker> workers_;
  std::vector<Rate> rates_;              // one a unit, then the cache's and the memory's
  std::vector<std::uint32_t> received_;  // by counter
  std::vector<std::vector<std::uint32_t>> waiting_;  // workers, by counter
  std::vector<double> last_signal_ns_;               // by counter
  // Workers that have worked, by the first of the tasks that share a sum.
  std::map<std::uint32_t, std::vector<std::uint32_t>> sharing_;
  std::priority_queue<Event> events_;
  std::vector<Touch> touches_;
  std::vector<std::uint32_t> at_barrier_;  // workers of a staged launch, until the stage has ended
  double stage_begin_ns_ = 0;  // staged launch: of the kernel that runs or is being started
  std::vector<std::uint8_t> taken_, done_;  // by position
  double now_ns_ = 0;
  std::uint64_t num_events_ = 0;
  std::uint32_t next_position_ = 0, num_done_ = 0;
  double busy_ns_ = 0, compute_ns_ = 0;
  std::array<Reuse, kNumReuseTypes> reuse_{};
  Simulation result_;
};

}  // namespace megaconv::sim
