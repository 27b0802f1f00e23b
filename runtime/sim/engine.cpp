// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/engine.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "mapping/split_mix.hpp"
#include "megaconv/error.hpp"
#include "runtime/executor.hpp"
#include "runtime/network_positions.hpp"
#include "runtime/report.hpp"
#include "runtime/units.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::sim {
namespace {

double unit_interval(std::uint64_t hash) {  // (0, 1]
  return (static_cast<double>(hash >> 11) + 1) * 0x1p-53;
}

std::uint64_t to_ns(double time_ns) { return static_cast<std::uint64_t>(std::llround(time_ns)); }

// Of one launch of a network on a GPU.
std::vector<std::uint32_t> lists_of(const Lowering& lowering, const MachineModel& machine,
                                    const SimulationOptions& options) {
  const bool has_lists = !lowering.inputs.empty() && machine.tilings == Backend::cuda &&
                         options.launch == CudaLaunch::persistent;
  return has_lists ? network_positions(lowering) : std::vector<std::uint32_t>{};
}

std::uint32_t workers_of(const MachineModel& machine, const SimulationOptions& options,
                         std::uint32_t cluster) {
  const auto resident =
      static_cast<std::uint32_t>(machine.workers() * resident_in_clusters(cluster));
  const std::uint32_t workers =
      options.num_workers == 0 ? resident : std::min(options.num_workers, resident);
  return std::max(1u, workers / cluster) * cluster;
}

}  // namespace

Engine::Engine(const Lowering& lowering, const MachineModel& machine,
               const SimulationOptions& options)
    : lowering_(lowering),
      machine_(machine),
      options_(options),
      num_tasks_(static_cast<std::uint32_t>(lowering.mapping.order.size())),
      lists_(lists_of(lowering, machine, options)),
      num_workers_(workers_of(machine, options, lists_.empty() ? 1 : cluster_blocks_of(lowering))),
      begin_ns_(machine.launch_us * kNsPerUs),
      demands_(lowering.graph),
      cache_(static_cast<double>(machine.l2_bytes), demands_.piece_bytes()),
      workers_(num_workers_),
      received_(lowering.graph.counter_totals.size()),
      waiting_(received_.size()),
      last_signal_ns_(received_.size()),
      taken_(num_tasks_),
      done_(num_tasks_) {
  for (std::uint32_t worker = 0; worker < num_workers_; ++worker) workers_[worker].next = worker;
  // A unit's workers share its time: the amount of a task is the nanoseconds it needs it alone.
  rates_.reserve(machine.units + 2);
  for (std::uint32_t unit = 0; unit < machine.units; ++unit) rates_.push_back({SharedRate(1)});
  rates_.push_back({SharedRate(machine.l2_gbps)});
  rates_.push_back({SharedRate(machine.hbm_gbps)});
  result_.trace.num_workers = machine.units;
  result_.trace.records.resize(num_tasks_);
}

Simulation Engine::run() {
  if (options_.warm_cache) warm_up();
  for (std::uint32_t worker = 0; worker < num_workers_; ++worker) {
    push(begin_ns_, EventType::fetch, worker);
  }
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    if (event.type == EventType::rate && event.version != rates_[event.index].version) continue;
    now_ns_ = event.time_ns;
    switch (event.type) {
      case EventType::fetch:
        on_fetch(event.index);
        break;
      case EventType::ready:
        on_ready(event.index);
        break;
      case EventType::rate:
        on_rate(event.index);
        break;
      case EventType::worked:
        on_worked(event.index);
        break;
      case EventType::end:
        on_end(event.index);
        break;
    }
  }
  if (num_done_ != num_tasks_) report_deadlock();
  finish();
  return std::move(result_);
}

void Engine::finish() {
  const double span_ns = now_ns_ - begin_ns_;
  const auto share = [&](double amount, double most) {
    return span_ns > 0 ? amount / most / span_ns : 0;
  };
  result_.time_us = now_ns_ / kNsPerUs;
  result_.input_rows = reuse_[static_cast<std::size_t>(ReuseType::input_rows)];
  result_.filters = reuse_[static_cast<std::size_t>(ReuseType::filters)];
  result_.products = reuse_[static_cast<std::size_t>(ReuseType::products)];
  result_.analysis = analyse(lowering_, result_.trace);
  result_.utilisation = {.workers = share(busy_ns_, num_workers_),
                         .compute = share(compute_ns_, machine_.units),
                         .l2 = share(result_.l2_bytes, machine_.l2_gbps),
                         .hbm = share(result_.hbm_bytes, machine_.hbm_gbps)};
}

// The cache as a run before this one leaves it: its regions by the order of their last touches.
void Engine::warm_up() {
  for (std::uint32_t position = 0; position < num_tasks_; ++position) {
    demands_.list_touches(lowering_.mapping.order[position], touches_);
    for (const Touch& touch : touches_) cache_.touch(touch.piece, touch.bytes, touch.write);
  }
}

void Engine::push(double time_ns, EventType type, std::uint32_t index, std::uint32_t version) {
  events_.push({time_ns, num_events_++, type, index, version});
}

void Engine::reschedule(std::uint32_t rate) {
  const double next_ns = rates_[rate].shared.next_departure_ns();
  ++rates_[rate].version;
  if (next_ns < SharedRate::kNever) {
    push(std::max(next_ns, now_ns_), EventType::rate, rate, rates_[rate].version);
  }
}

void Engine::join(std::uint32_t rate, std::uint32_t worker, double amount) {
  if (amount <= 0) return;
  ++workers_[worker].parts_left;
  rates_[rate].shared.arrive(now_ns_, amount, worker);
  reschedule(rate);
}

// In a staged launch a kernel begins when the one before has ended.
bool Engine::stage_is_open(std::uint32_t position) {
  if (options_.launch != CudaLaunch::staged || position == 0) return true;
  return task_at(position).kind == task_at(position - 1).kind || num_done_ == position;
}

// Whether the task that has just ended was the last of its kernel, and there is another kernel.
bool Engine::ends_stage() {
  return options_.launch == CudaLaunch::staged && num_done_ == next_position_ &&
         num_done_ < num_tasks_ && task_at(num_done_).kind != task_at(num_done_ - 1).kind;
}

// The worker's next task, by its list or by a ticket; false if there is none.
bool Engine::take_position(std::uint32_t worker) {
  Worker& self = workers_[worker];
  if (lists_.empty()) {
    self.position = next_position_;
  } else {
    while (self.next < lists_.size() && lists_[self.next] == kNoTask) self.next += num_workers_;
    if (self.next >= lists_.size()) return false;
    self.position = lists_[self.next];
    self.next += num_workers_;
  }
  ++next_position_;
  taken_[self.position] = 1;
  return true;
}

void Engine::on_fetch(std::uint32_t worker) {
  if (next_position_ == num_tasks_) return;
  if (!stage_is_open(next_position_)) {
    at_barrier_.push_back(worker);
    return;
  }
  if (now_ns_ < stage_begin_ns_) return push(stage_begin_ns_, EventType::fetch, worker);
  if (!take_position(worker)) return;
  Worker& self = workers_[worker];
  self.fetch_ns = self.prepared_ns = now_ns_;
  const Task& task = task_at(self.position);
  if (options_.launch != CudaLaunch::persistent) self.prepared_ns += machine_.block_us * kNsPerUs;
  if (options_.launch != CudaLaunch::staged) {
    self.prepared_ns += demands_.work(lowering_.mapping.order[self.position], machine_).prepare_ns;
  }
  if (task.wait_counter == kNoCounter) return push(self.prepared_ns, EventType::ready, worker);
  if (received_[task.wait_counter] < task.wait_count) {
    waiting_[task.wait_counter].push_back(worker);
    return;
  }
  const double seen_ns = last_signal_ns_[task.wait_counter] + machine_.hop_us * kNsPerUs;
  push(options_.launch == CudaLaunch::staged ? self.prepared_ns
                                             : std::max(self.prepared_ns, seen_ns),
       EventType::ready, worker);
}

void Engine::on_ready(std::uint32_t worker) {
  Worker& self = workers_[worker];
  const std::uint32_t id = lowering_.mapping.order[self.position];
  self.ready_ns = now_ns_;
  const double scale = noise(id);
  const Work work = demands_.work(id, machine_);
  const double l2_bytes = demands_.l2_bytes(id) * scale;
  const double hbm_bytes = misses(id);
  self.after_ns = work.after_ns;
  compute_ns_ += work.unit_ns * scale;
  result_.l2_bytes += l2_bytes;
  result_.hbm_bytes += hbm_bytes;
  self.parts_left = 1;
  push(now_ns_ + work.alone_ns * scale, EventType::worked, worker);
  join(unit_of(worker), worker, work.unit_ns * scale);
  join(l2(), worker, l2_bytes);
  join(hbm(), worker, hbm_bytes);
}

void Engine::on_rate(std::uint32_t rate) {
  const std::uint32_t worker = rates_[rate].shared.depart(now_ns_);
  reschedule(rate);
  on_worked(worker);
}

void Engine::on_worked(std::uint32_t worker) {
  if (--workers_[worker].parts_left > 0) return;
  const std::uint32_t id = lowering_.mapping.order[workers_[worker].position];
  const Task& task = lowering_.graph.tasks[id];
  const std::uint32_t shares = lists_.empty() ? 1 : shares_of(lowering_.nodes[task.node]);
  if (shares == 1) return end_after(worker);
  std::vector<std::uint32_t>& sharing = sharing_[id - task.block % shares];
  sharing.push_back(worker);
  if (sharing.size() < shares) return;
  for (const std::uint32_t one : sharing) end_after(one);
  sharing_.erase(id - task.block % shares);
}

void Engine::end_after(std::uint32_t worker) {
  push(now_ns_ + workers_[worker].after_ns, EventType::end, worker);
}

void Engine::on_end(std::uint32_t worker) {
  const Worker& self = workers_[worker];
  const Task& task = task_at(self.position);
  result_.trace.records[self.position] = {
      self.position, unit_of(worker), to_ns(self.fetch_ns - begin_ns_),
      to_ns(self.ready_ns - begin_ns_), to_ns(now_ns_ - begin_ns_)};
  busy_ns_ += now_ns_ - self.ready_ns;
  done_[self.position] = 1;
  ++num_done_;
  lowering_.graph.for_each_signal(task, [&](std::uint32_t counter) { signal(counter); });
  push(now_ns_, EventType::fetch, worker);
  if (!ends_stage()) return;
  stage_begin_ns_ = now_ns_ + machine_.launch_us * kNsPerUs;
  for (const std::uint32_t waiting : at_barrier_) push(stage_begin_ns_, EventType::fetch, waiting);
  at_barrier_.clear();
}

void Engine::signal(std::uint32_t counter) {
  last_signal_ns_[counter] = now_ns_;
  if (++received_[counter] != lowering_.graph.counter_totals[counter]) return;
  for (const std::uint32_t worker : waiting_[counter]) {
    const double seen_ns = now_ns_ + machine_.hop_us * kNsPerUs;
    push(std::max(workers_[worker].prepared_ns, seen_ns), EventType::ready, worker);
  }
  waiting_[counter].clear();
}

double Engine::misses(std::uint32_t id) {
  double hbm_bytes = 0;
  demands_.list_touches(id, touches_);
  for (const Touch& touch : touches_) {
    const Cache::Traffic traffic = cache_.touch(touch.piece, touch.bytes, touch.write);
    hbm_bytes += traffic.hbm_bytes;
    reuse_[static_cast<std::size_t>(touch.reuse)].bytes += touch.write ? 0 : touch.bytes;
    reuse_[static_cast<std::size_t>(touch.reuse)].hit_bytes += traffic.hit_bytes;
  }
  return hbm_bytes;
}

// Log-normal with median 1, from the seed and the task alone: the same task is as slow in every
// order, so that orders compare by their merits.
double Engine::noise(std::uint32_t id) const {
  if (machine_.noise <= 0) return 1;
  const std::uint64_t hash = split_mix(options_.seed * kSplitMixStep + id);
  const double radius = std::sqrt(-2 * std::log(unit_interval(hash)));
  const double angle = 2 * std::numbers::pi * unit_interval(split_mix(hash + kSplitMixStep));
  return std::exp(machine_.noise * radius * std::cos(angle));
}

void Engine::report_deadlock() const {
  // The position in front that waits; all before it are done.
  std::uint32_t position = 0;
  while (position < num_tasks_ && done_[position]) ++position;
  const std::uint32_t counter = task_at(position).wait_counter;
  const std::uint32_t seen = counter == kNoCounter ? 0 : received_[counter];
  throw Error(Status::timeout,
              "simulated deadlock after " + std::to_string(to_ns(now_ns_)) + " ns: " +
                  timeout_report(lowering_.graph, tasks_in_order(lowering_), position, seen,
                                 std::chrono::milliseconds(0), [&](std::uint32_t p) -> const char* {
                                   if (done_[p]) return nullptr;
                                   return taken_[p] ? "waiting" : "not started";
                                 }));
}

}  // namespace megaconv::sim

namespace megaconv {

Simulation simulate(const Lowering& lowering, const MachineModel& machine,
                    const SimulationOptions& options) {
  validate(machine);
  for (const Node& node : lowering.nodes) {
    const auto* const tiling = std::get_if<Tiling>(&node.cut);
    if (tiling == nullptr) continue;
    const Algorithm algorithm = tiling->algorithm();
    if (algorithm == Algorithm::implicit_gemm || algorithm == Algorithm::small_gemm) {
      throw Error(Status::unsupported,
                  std::string(to_string(algorithm)) +
                      ": machine models have no rates for it, must be another algorithm");
    }
  }
  if (!lowering.inputs.empty() && options.launch == CudaLaunch::staged) {
    throw Error(Status::unsupported, "network: launch staged, must be persistent");
  }
  const std::size_t num_tasks = lowering.graph.tasks.size();
  std::vector<std::uint8_t> seen(num_tasks);
  for (const std::uint32_t id : lowering.mapping.order) {
    if (id < num_tasks && !seen[id]++) continue;
    throw Error(
        Status::invalid_argument,
        "order: task id " + std::to_string(id) +
            (id < num_tasks ? " stands twice" : ", must be below " + std::to_string(num_tasks)));
  }
  if (lowering.mapping.order.size() != num_tasks) {
    throw Error(Status::invalid_argument,
                "order: " + std::to_string(lowering.mapping.order.size()) + " tasks, must be all " +
                    std::to_string(num_tasks));
  }
  const auto is_of_stage_before = [&](std::uint32_t id, std::uint32_t other) {
    return lowering.graph.stage_of(id) < lowering.graph.stage_of(other);
  };
  if (options.launch == CudaLaunch::staged &&
      !std::is_sorted(lowering.mapping.order.begin(), lowering.mapping.order.end(),
                      is_of_stage_before)) {
    throw Error(Status::invalid_argument, "a staged launch runs the policy staged, found \"" +
                                              lowering.mapping.policy + "\"");
  }
  SimulationOptions launched = options;
  if (launched.launch == CudaLaunch::automatic) launched.launch = CudaLaunch::persistent;
  const MachineModel made = sim::machine_for(lowering.graph, machine);
  return sim::Engine(lowering, made, launched).run();
}

}  // namespace megaconv
