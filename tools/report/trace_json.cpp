// SPDX-License-Identifier: Apache-2.0
#include "tools/report/trace_json.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/report/trace_tracks.hpp"

namespace megaconv::cli {
namespace {

constexpr std::uint32_t kNobody = 0xffffffffu;

// "12.345": microseconds with the nanoseconds kept.
std::string us(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

const Task& task_at(const Lowering& lowering, std::uint32_t position) {
  return lowering.graph.tasks[lowering.mapping.order[position]];
}

bool is_network(const Lowering& lowering) { return !lowering.inputs.empty(); }

std::string title_of(const Lowering& lowering) {
  return is_network(lowering) ? fmt::format("network of {} nodes", lowering.nodes.size())
                              : to_string(lowering.tiling().problem);
}

std::string phase_table(const PhaseTimes& phases) {
  const auto mean = [&](double us) {
    return fmt::format("{:.2f}", us / static_cast<double>(phases.num));
  };
  Table table;
  table.add_column("phase");
  table.add_column(fmt::format("mean of {} tasks, us", phases.num));
  table.add_row({"wait", mean(phases.wait_us)});
  for (std::size_t i = 0; i < kNumTaskPhases; ++i) {
    table.add_row({to_string(static_cast<TaskPhase>(i)), mean(phases.us[i])});
  }
  table.add_row({"signal", mean(phases.signal_us)});
  return table.str();
}

}  // namespace

std::string trace_json(const RecordedRun& run) {
  const Lowering& lowering = run.lowering;
  const Trace& trace = run.trace;
  const Tracks tracks(trace);
  const std::vector<std::uint32_t> last = last_producers(lowering, trace);
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  text += fmt::format(
      R"({{"ph": "M", "pid": 0, "name": "process_name", "args": {{"name": "{}, {}"}}}})",
      title_of(lowering), lowering.mapping.policy);
  for (const std::uint32_t track : tracks.all()) {
    text += fmt::format(
        ",\n"
        R"({{"ph": "M", "pid": 0, "tid": {}, "name": "thread_name", "args": {{"name": "{} {}"}}}})",
        track, run.worker_name, Tracks::worker(track));
  }
  for (const TraceRecord& record : trace.records) {
    const Task& task = task_at(lowering, record.position);
    const std::uint32_t track = tracks.of(record.position);
    const std::uint64_t wait_ns = record.ready_ns - record.fetch_ns;
    if (wait_ns > 0 && task.wait_counter != kNoCounter) {
      text += fmt::format(
          ",\n"
          R"({{"ph": "X", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "cat": "wait", "name": "wait"}})",
          track, us(record.fetch_ns), us(wait_ns));
    }
    text += fmt::format(
        ",\n"
        R"({{"ph": "X", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "cat": "{}", "name": "{}", )"
        R"("args": {{"position": {}, "wait_us": {}}}}})",
        track, us(record.ready_ns), us(record.end_ns - record.ready_ns), to_string(kind_of(task)),
        name(lowering.graph, task), record.position, us(wait_ns));
    std::uint64_t begin_ns = record.ready_ns;
    for (std::size_t i = 0; i < kNumTaskPhases && record.has_phases(); ++i) {
      text += fmt::format(
          ",\n"
          R"({{"ph": "X", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "cat": "phase", "name": "{}"}})",
          track, us(begin_ns), us(record.phase_ns[i] - begin_ns),
          to_string(static_cast<TaskPhase>(i)));
      begin_ns = record.phase_ns[i];
    }
    // Arrows only to those that the dependency held up.
    if (task.wait_counter == kNoCounter) continue;
    const std::uint32_t producer = last[task.wait_counter];
    if (producer == kNobody || trace.records[producer].end_ns <= record.fetch_ns) continue;
    const TraceRecord& from = trace.records[producer];
    text += fmt::format(
        ",\n"
        R"({{"ph": "s", "pid": 0, "tid": {}, "ts": {}, "id": {}, "cat": "dependency", "name": "dependency"}})"
        ",\n"
        R"({{"ph": "f", "bp": "e", "pid": 0, "tid": {}, "ts": {}, "id": {}, "cat": "dependency", "name": "dependency"}})",
        tracks.of(producer), us(std::max(from.ready_ns, from.end_ns - 1)), record.position, track,
        us(record.ready_ns), record.position);
  }
  return text +
         fmt::format(
             "\n],\n"
             R"("otherData": {{"megaconv_trace": {}, "workers": {}, "worker_name": "{}", )"
             R"("time_us": {:.3f})",
             kTraceFileVersion, trace.num_workers, run.worker_name, run.time_us) +
         (is_network(lowering) ? "" : ", \"mapping\": " + export_mapping(lowering)) + "}}\n";
}

std::string trace_table(const TraceAnalysis& analysis) {
  const double all_us = std::max(analysis.span_us * analysis.tracks, 1e-3);
  const auto share = [&](double us) { return fmt::format("{:.1f}%", 100 * us / all_us); };
  const auto mean = [](double us, std::uint64_t num) {
    return fmt::format("{:.1f}", us / static_cast<double>(num));
  };
  Table table;
  table.add_column("task kind");
  table.add_column("tasks");
  table.add_column("work", "mean, us");
  table.add_column("wait", "mean, us");
  table.add_column("work", "share of time");
  table.add_column("wait", "share of time");
  table.add_column("infusible");
  for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
    const KindTimes& kind = analysis.kinds[k];
    if (kind.num == 0) continue;
    table.add_row({to_string(static_cast<TaskKind>(k)), std::to_string(kind.num),
                   mean(kind.work_us, kind.num), mean(kind.wait_us, kind.num), share(kind.work_us),
                   share(kind.wait_us), std::to_string(kind.infusible)});
  }
  std::string text = fmt::format("{:.3f} us on {} tracks, {} of their time idle; live at most {}\n",
                                 analysis.span_us, analysis.tracks, share(analysis.idle_us),
                                 format_bytes(analysis.peak_live_bytes)) +
                     table.str();
  if (analysis.phases.num != 0) text += phase_table(analysis.phases);
  if (analysis.waits.empty()) return text;
  Table waits;
  waits.add_column("waits");
  waits.add_column("tasks");
  waits.add_column("mean, us");
  waits.add_column("share of time");
  for (const EdgeWait& wait : analysis.waits) {
    waits.add_row(
        {edge_name(wait), std::to_string(wait.num), mean(wait.us, wait.num), share(wait.us)});
  }
  return text + waits.str();
}

std::string order_bound_line(const RecordedRun& run, const TraceAnalysis& analysis) {
  const OrderBound bound =
      order_bound(run.lowering.graph, task_times(run.lowering, run.trace), analysis.tracks);
  std::set<std::uint32_t> came;
  for (const TraceRecord& record : run.trace.records) came.insert(record.worker);
  const std::uint32_t all = run.trace.num_workers;
  std::string text;
  if (came.size() < all) {
    text = fmt::format("{} of {} {}s took no task\n", all - came.size(), all, run.worker_name);
  }
  return text +
         fmt::format(
             "any order of tasks like these on {} workers: at least {:.3f} us (work {:.3f}, rounds "
             "{:.3f}); "
             "this one {:.1f}% above\n",
             analysis.tracks, bound.least_us(), bound.work_us, bound.rounds_us,
             100 * (analysis.span_us / std::max(bound.least_us(), 1e-3) - 1));
}

std::string edge_name(const EdgeWait& wait) {
  return fmt::format("{} for {}{}", to_string(wait.to), to_string(wait.from),
                     wait.slot ? " (slot)" : "");
}

}  // namespace megaconv::cli
