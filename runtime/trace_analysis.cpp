// SPDX-License-Identifier: Apache-2.0
// What a trace says, whichever executor recorded it.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "mapping/slot_users.hpp"
#include "megaconv/error.hpp"
#include "megaconv/trace.hpp"
#include "runtime/units.hpp"

namespace megaconv {
namespace {

constexpr std::uint32_t kNobody = 0xffffffffu;
// A task whose company, averaged over its run, is of its own kind to more than this share could not
// be fused with others (paper, section 5.2).
constexpr double kInfusibleShare = 0.9;

const Task& task_at(const Lowering& lowering, std::uint32_t position) {
  return lowering.graph.tasks[lowering.mapping.order[position]];
}

// Positions by a time of their records.
template <typename Time>
std::vector<std::uint32_t> sorted_by(const Trace& trace, Time time) {
  std::vector<std::uint32_t> positions(trace.records.size());
  std::iota(positions.begin(), positions.end(), 0u);
  std::sort(positions.begin(), positions.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::uint64_t ta = time(trace.records[a]), tb = time(trace.records[b]);
    return ta != tb ? ta < tb : a < b;
  });
  return positions;
}
std::uint64_t fetch_of(const TraceRecord& record) { return record.fetch_ns; }
std::uint64_t ready_of(const TraceRecord& record) { return record.ready_ns; }
std::uint64_t end_of(const TraceRecord& record) { return record.end_ns; }

// Calls visit(producer, consumer, slot, us) for every task that waited. Its counter received its
// last signal from the producer that ended last. A signal takes its time: a task also waited for
// one that was sent no longer before the fetch than the wait lasted.
template <typename Visit>
void for_each_wait(const Lowering& lowering, const Trace& trace, const Visit& visit) {
  const std::vector<std::uint32_t> last = last_producers(lowering, trace);
  for (std::uint32_t position = 0; position < trace.records.size(); ++position) {
    const TraceRecord& record = trace.records[position];
    const Task& task = task_at(lowering, position);
    if (task.wait_counter == kNoCounter) continue;
    const std::uint32_t producer = last[task.wait_counter];
    const std::uint64_t wait_ns = record.ready_ns - record.fetch_ns;
    if (producer == kNobody || trace.records[producer].end_ns + wait_ns <= record.fetch_ns) {
      continue;
    }
    visit(task_at(lowering, producer), task, frees_memory(lowering, producer, position),
          static_cast<double>(wait_ns) / kNsPerUs);
  }
}

class Analyser {
 public:
  Analyser(const Lowering& lowering, const Trace& trace)
      : lowering_(lowering),
        trace_(trace),
        by_fetch_(sorted_by(trace, fetch_of)),
        by_ready_(sorted_by(trace, ready_of)),
        by_end_(sorted_by(trace, end_of)) {}

  TraceAnalysis run() {
    sum_times();
    count_tracks();
    attribute_waits();
    count_infusible();
    find_peak();
    return std::move(result_);
  }

 private:
  void sum_times() {
    for (std::uint32_t position = 0; position < trace_.records.size(); ++position) {
      const TraceRecord& record = trace_.records[position];
      KindTimes& kind = result_.kinds[task_at(lowering_, position).kind];
      ++kind.num;
      kind.work_us += static_cast<double>(record.end_ns - record.ready_ns) / kNsPerUs;
      kind.wait_us += static_cast<double>(record.ready_ns - record.fetch_ns) / kNsPerUs;
      if (record.has_phases()) add_phases(record);
    }
    if (by_end_.empty()) return;
    result_.span_us = static_cast<double>(trace_.records[by_end_.back()].end_ns -
                                          trace_.records[by_fetch_.front()].fetch_ns) /
                      kNsPerUs;
  }

  void add_phases(const TraceRecord& record) {
    const auto us = [](std::uint64_t from_ns, std::uint64_t to_ns) {
      return static_cast<double>(to_ns - from_ns) / kNsPerUs;
    };
    PhaseTimes& phases = result_.phases;
    ++phases.num;
    phases.wait_us += us(record.fetch_ns, record.ready_ns);
    std::uint64_t begin_ns = record.ready_ns;
    for (std::size_t i = 0; i < kNumTaskPhases; ++i) {
      phases.us[i] += us(begin_ns, record.phase_ns[i]);
      begin_ns = record.phase_ns[i];
    }
    phases.signal_us += us(begin_ns, record.end_ns);
  }

  void count_tracks() {
    std::int64_t now = 0, most = 0;
    std::size_t ended = 0;
    for (const std::uint32_t position : by_fetch_) {
      const std::uint64_t fetch_ns = trace_.records[position].fetch_ns;
      for (; ended < by_end_.size() && trace_.records[by_end_[ended]].end_ns <= fetch_ns; ++ended) {
        --now;  // a task of no length leaves before it has come
      }
      most = std::max(most, ++now);
    }
    result_.tracks = static_cast<std::uint32_t>(most);
    result_.idle_us = result_.span_us * result_.tracks;
    for (const KindTimes& kind : result_.kinds) result_.idle_us -= kind.work_us + kind.wait_us;
  }

  void attribute_waits() {
    for_each_wait(lowering_, trace_,
                  [this](const Task& from, const Task& to, bool slot, double us) {
                    EdgeWait& wait = wait_of(kind_of(from), kind_of(to), slot);
                    ++wait.num;
                    wait.us += us;
                  });
    std::sort(result_.waits.begin(), result_.waits.end(),
              [](const EdgeWait& a, const EdgeWait& b) { return a.us > b.us; });
  }

  EdgeWait& wait_of(TaskKind from, TaskKind to, bool slot) {
    for (EdgeWait& wait : result_.waits) {
      if (wait.from == from && wait.to == to && wait.slot == slot) return wait;
    }
    result_.waits.push_back({.from = from, .to = to, .slot = slot});
    return result_.waits.back();
  }

  // Walks through time with the integral of the number of running tasks, of all and of each kind;
  // a task's company is the difference between its end and its begin.
  void count_infusible() {
    std::array<double, kNumTaskKinds + 1> integral{}, running{};
    std::vector<std::array<double, 2>> at_begin(trace_.records.size());
    std::uint64_t since_ns = 0;
    const auto advance = [&](std::uint64_t now_ns) {
      for (std::size_t k = 0; k < integral.size(); ++k) {
        integral[k] += running[k] * static_cast<double>(now_ns - since_ns);
      }
      since_ns = now_ns;
    };
    std::size_t begun = 0, ended = 0;
    while (ended < by_end_.size()) {
      const bool begins = begun < by_ready_.size() && trace_.records[by_ready_[begun]].ready_ns <=
                                                          trace_.records[by_end_[ended]].end_ns;
      const std::uint32_t position = begins ? by_ready_[begun++] : by_end_[ended++];
      const TraceRecord& record = trace_.records[position];
      const std::size_t kind = task_at(lowering_, position).kind;
      advance(begins ? record.ready_ns : record.end_ns);
      running[kind] += begins ? 1 : -1;
      running[kNumTaskKinds] += begins ? 1 : -1;
      if (begins) {
        at_begin[position] = {integral[kind], integral[kNumTaskKinds]};
        continue;
      }
      const double own = integral[kind] - at_begin[position][0];
      const double all = integral[kNumTaskKinds] - at_begin[position][1];
      if (own >= kInfusibleShare * all) ++result_.kinds[kind].infusible;
    }
  }

  void find_peak() {
    for (const LiveBytes& live : live_bytes(lowering_, trace_)) {
      result_.peak_live_bytes = std::max(result_.peak_live_bytes, live.bytes);
    }
  }

  const Lowering& lowering_;
  const Trace& trace_;
  const std::vector<std::uint32_t> by_fetch_, by_ready_, by_end_;
  TraceAnalysis result_;
};

[[noreturn]] void reject_trace(const std::string& message) {
  throw Error(Status::invalid_argument, "trace: " + message);
}

}  // namespace

const char* to_string(TaskPhase phase) noexcept {
  constexpr const char* kNames[kNumTaskPhases] = {"first loads", "products", "outputs"};
  return kNames[static_cast<std::size_t>(phase)];
}

bool frees_memory(const Lowering& lowering, std::uint32_t producer, std::uint32_t consumer) {
  const auto stage_of = [&](std::uint32_t position) {
    return lowering.graph.stage_of(lowering.mapping.order[position]);
  };
  return stage_of(producer) > stage_of(consumer);
}

void check_trace(const Lowering& lowering, const Trace& trace) {
  const std::size_t num_tasks = lowering.mapping.order.size();
  if (trace.records.size() != num_tasks) {
    reject_trace(std::to_string(trace.records.size()) + " tasks, the mapping has " +
                 std::to_string(num_tasks));
  }
  for (std::uint32_t position = 0; position < num_tasks; ++position) {
    const TraceRecord& record = trace.records[position];
    if (record.position != position) {
      reject_trace("record " + std::to_string(position) + " is of position " +
                   std::to_string(record.position));
    }
    if (record.fetch_ns > record.ready_ns || record.ready_ns > record.end_ns) {
      reject_trace("position " + std::to_string(position) + ": fetched at " +
                   std::to_string(record.fetch_ns) + " ns, ready at " +
                   std::to_string(record.ready_ns) + ", ended at " + std::to_string(record.end_ns) +
                   "; must be in this order");
    }
    if (record.worker >= trace.num_workers) {
      reject_trace("position " + std::to_string(position) + ": worker " +
                   std::to_string(record.worker) + ", must be below " +
                   std::to_string(trace.num_workers));
    }
  }
}

TraceAnalysis analyse(const Lowering& lowering, const Trace& trace) {
  check_trace(lowering, trace);
  return Analyser(lowering, trace).run();
}

std::vector<NodeWait> waits_between_nodes(const Lowering& lowering, const Trace& trace) {
  check_trace(lowering, trace);
  std::map<std::tuple<NodeId, NodeId, bool>, NodeWait> found;
  for_each_wait(lowering, trace, [&](const Task& from, const Task& to, bool slot, double us) {
    NodeWait& wait = found[{from.node, to.node, slot}];
    wait = {from.node, to.node, slot, wait.num + 1, wait.us + us};
  });
  std::vector<NodeWait> waits;
  for (const auto& [edge, wait] : found) waits.push_back(wait);
  std::stable_sort(waits.begin(), waits.end(),
                   [](const NodeWait& a, const NodeWait& b) { return a.us > b.us; });
  return waits;
}

std::vector<std::uint32_t> longest_chain(const Lowering& lowering, const Trace& trace) {
  check_trace(lowering, trace);
  struct Link {
    std::uint64_t ns = 0;              // of the longest chain up to here
    std::uint32_t position = kNobody;  // its last task
  };
  std::vector<Link> counters(lowering.graph.counter_totals.size());
  std::vector<std::uint32_t> before(trace.records.size(), kNobody);
  Link longest;
  for (std::uint32_t position = 0; position < trace.records.size(); ++position) {
    const TraceRecord& record = trace.records[position];
    const Task& task = task_at(lowering, position);
    const Link start = task.wait_counter == kNoCounter ? Link{} : counters[task.wait_counter];
    before[position] = start.position;
    const Link link{start.ns + (record.end_ns - record.ready_ns), position};
    if (longest.position == kNobody || link.ns > longest.ns) longest = link;
    lowering.graph.for_each_signal(task, [&](std::uint32_t counter) {
      Link& known = counters[counter];
      if (known.position == kNobody || known.ns < link.ns) known = link;
    });
  }
  std::vector<std::uint32_t> chain;
  for (std::uint32_t at = longest.position; at != kNobody; at = before[at]) chain.push_back(at);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::vector<std::uint32_t> last_producers(const Lowering& lowering, const Trace& trace) {
  std::vector<std::uint32_t> last(lowering.graph.counter_totals.size(), kNobody);
  const auto signal = [&](std::uint32_t counter, std::uint32_t position) {
    std::uint32_t& known = last[counter];
    if (known == kNobody || trace.records[known].end_ns < trace.records[position].end_ns) {
      known = position;
    }
  };
  for (std::uint32_t position = 0; position < trace.records.size(); ++position) {
    lowering.graph.for_each_signal(task_at(lowering, position),
                                   [&](std::uint32_t counter) { signal(counter, position); });
  }
  return last;
}

std::vector<LiveBytes> live_bytes(const Lowering& lowering, const Trace& trace) {
  const TaskGraph& graph = lowering.graph;
  std::vector<std::uint32_t> position_of(graph.tasks.size());
  for (std::uint32_t p = 0; p < trace.records.size(); ++p) {
    position_of[lowering.mapping.order[p]] = p;
  }
  const auto for_each_record = [&](const Stage& stage, std::uint64_t group, auto visit) {
    for (std::uint32_t block = 0; block < stage.per_group; ++block) {
      visit(trace.records[position_of[stage.id(static_cast<std::uint32_t>(group), block)]]);
    }
  };
  struct Change {
    std::uint64_t ns;
    std::int64_t bytes;
  };
  std::vector<Change> changes;
  for (const SlotUsers& users : find_slot_users(graph)) {
    const auto bytes =
        static_cast<std::int64_t>(graph.buffers[users.buffer].bytes / users.readers.size());
    for (std::uint64_t group = 0; group < users.readers.size(); ++group) {
      std::uint64_t begin = ~std::uint64_t{0}, end = 0;  // first write, last read
      for_each_record(graph.stages[users.writer], group,
                      [&](const TraceRecord& record) { begin = std::min(begin, record.ready_ns); });
      for (const GroupRange& readers : users.readers[group]) {
        for (std::uint64_t g = readers.groups.begin; g < readers.groups.end; ++g) {
          for_each_record(graph.stages[readers.stage], g,
                          [&](const TraceRecord& record) { end = std::max(end, record.end_ns); });
        }
      }
      changes.push_back({begin, bytes});
      changes.push_back({end, -bytes});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.ns != b.ns ? a.ns < b.ns : a.bytes < b.bytes;
  });
  std::vector<LiveBytes> result;
  std::int64_t now = 0;
  for (const Change& change : changes) {
    now += change.bytes;
    result.push_back({change.ns, static_cast<std::uint64_t>(now)});
  }
  return result;
}

TaskMapping replay(const Lowering& lowering, const Trace& trace) {
  check_trace(lowering, trace);
  TaskMapping mapping{.policy = "replay", .options = {}, .order = {}};
  mapping.order.reserve(trace.records.size());
  for (const std::uint32_t position : sorted_by(trace, ready_of)) {
    mapping.order.push_back(lowering.mapping.order[position]);
  }
  return mapping;
}

}  // namespace megaconv
