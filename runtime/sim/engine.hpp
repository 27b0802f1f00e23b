// SPDX-License-Identifier: Apache-2.0
// The discrete-event simulation: the executors' protocol, with time instead of work.
//
//   worker   take position -> wait for the counter -> work -> signal -> take the next position
//   work     all at once: its operations and bytes at one worker's speed, operations at the unit's
//            speed shared with its other workers, bytes over the shared cache, misses over
//            memory; then the overhead of its kind. The slowest of these is the task's time.
#pragma once

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
    std::uint32_t position = 0;
    std::uint32_t parts_left = 0;  // of its task's work
    double fetch_ns = 0, ready_ns = 0;
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
  void on_fetch(std::uint32_t worker);
  void on_ready(std::uint32_t worker);
  void on_rate(std::uint32_t rate);
  void on_worked(std::uint32_t worker);
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
  const std::uint32_t num_tasks_, num_workers_;
  const double begin_ns_;  // after the launch: a trace begins here
  Demands demands_;
  Cache cache_;
  std::vector<Worker> workers_;
  std::vector<Rate> rates_;              // one a unit, then the cache's and the memory's
  std::vector<std::uint32_t> received_;  // by counter
  std::vector<std::vector<std::uint32_t>> waiting_;  // workers, by counter
  std::vector<double> last_signal_ns_;               // by counter
  std::priority_queue<Event> events_;
  std::vector<Touch> touches_;
  std::vector<std::uint32_t> at_barrier_;  // workers of a staged launch, until the stage has ended
  double stage_begin_ns_ = 0;       // staged launch: of the kernel that runs or is being started
  std::vector<std::uint8_t> done_;  // by position
  double now_ns_ = 0;
  std::uint64_t num_events_ = 0;
  std::uint32_t next_position_ = 0, num_done_ = 0;
  double busy_ns_ = 0, compute_ns_ = 0;
  std::array<Reuse, kNumReuseTypes> reuse_{};
  Simulation result_;
};

}  // namespace megaconv::sim
