// SPDX-License-Identifier: Apache-2.0
#include "tools/trace_json.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tools/table.hpp"

namespace megaconv::cli {
namespace {

constexpr std::uint32_t kNobody = 0xffffffffu;

// "12.345": microseconds with the nanoseconds kept.
std::string us(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

const Task& task_at(const Lowering& lowering, std::uint32_t position) {
  return lowering.graph.tasks[lowering.mapping.order[position]];
}

// Position -> track. A worker has one track; an SM that runs several blocks has as many as were
// busy at once: each task takes the first that is free.
class Tracks {
 public:
  explicit Tracks(const Trace& trace) : of_position_(trace.records.size()) {
    std::vector<std::uint32_t> by_time(trace.records.size());
    std::iota(by_time.begin(), by_time.end(), 0u);
    std::sort(by_time.begin(), by_time.end(), [&](std::uint32_t a, std::uint32_t b) {
      return trace.records[a].fetch_ns < trace.records[b].fetch_ns;
    });
    std::vector<std::vector<std::uint64_t>> free_at(trace.num_workers);
    for (const std::uint32_t position : by_time) {
      const TraceRecord& record = trace.records[position];
      std::vector<std::uint64_t>& slots = free_at[record.worker];
      auto slot = std::find_if(slots.begin(), slots.end(),
                               [&](std::uint64_t end) { return end <= record.fetch_ns; });
      if (slot == slots.end()) slot = slots.insert(slots.end(), 0);
      *slot = record.end_ns;
      of_position_[position] =
          record.worker * kMostSlots + static_cast<std::uint32_t>(slot - slots.begin());
    }
    for (std::uint32_t worker = 0; worker < free_at.size(); ++worker) {
      for (std::uint32_t slot = 0; slot < free_at[worker].size(); ++slot) {
        all_.push_back(worker * kMostSlots + slot);
      }
    }
  }
  std::uint32_t of(std::uint32_t position) const { return of_position_[position]; }
  const std::vector<std::uint32_t>& all() const { return all_; }
  static std::uint32_t worker(std::uint32_t track) { return track / kMostSlots; }

 private:
  static constexpr std::uint32_t kMostSlots = 64;  // resident blocks of an SM are fewer
  std::vector<std::uint32_t> of_position_, all_;
};

}  // namespace

std::string trace_json(const Lowering& lowering, const Trace& trace, const char* worker_name) {
  const Tracks tracks(trace);
  const std::vector<std::uint32_t> last = last_producers(lowering, trace);
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  text += fmt::format(
      R"({{"ph": "M", "pid": 0, "name": "process_name", "args": {{"name": "{}, {}"}}}})",
      to_string(lowering.graph.tiling.problem), lowering.mapping.policy);
  for (const std::uint32_t track : tracks.all()) {
    text += fmt::format(
        ",\n"
        R"({{"ph": "M", "pid": 0, "tid": {}, "name": "thread_name", "args": {{"name": "{} {}"}}}})",
        track, worker_name, Tracks::worker(track));
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
        track, us(record.ready_ns), us(record.end_ns - record.ready_ns), to_string(task.kind),
        name(task), record.position, us(wait_ns));
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
  return text + "\n]}\n";
}

std::string trace_table(const Lowering& lowering, const Trace& trace) {
  struct Sum {
    std::uint64_t num = 0, work_ns = 0, wait_ns = 0;
  };
  std::array<Sum, kNumTaskKinds> sums{};
  std::uint64_t span_ns = 1;
  const Tracks tracks(trace);
  for (const TraceRecord& record : trace.records) {
    Sum& sum = sums[static_cast<std::size_t>(task_at(lowering, record.position).kind)];
    ++sum.num;
    sum.work_ns += record.end_ns - record.ready_ns;
    sum.wait_ns += record.ready_ns - record.fetch_ns;
    span_ns = std::max(span_ns, record.end_ns);
  }
  const double all_ns = static_cast<double>(span_ns) * static_cast<double>(tracks.all().size());
  const auto share = [&](std::uint64_t ns) {
    return fmt::format("{:.1f}%", 100 * static_cast<double>(ns) / all_ns);
  };
  const auto mean_us = [](std::uint64_t ns, std::uint64_t num) {
    return fmt::format("{:.1f}", static_cast<double>(ns) / 1000 / static_cast<double>(num));
  };
  Table table;
  table.add_column("task kind");
  table.add_column("tasks");
  table.add_column("work", "mean, us");
  table.add_column("wait", "mean, us");
  table.add_column("work", "share of time");
  table.add_column("wait", "share of time");
  for (std::uint32_t kind = 0; kind < kNumTaskKinds; ++kind) {
    const Sum& sum = sums[kind];
    if (sum.num == 0) continue;
    table.add_row({to_string(static_cast<TaskKind>(kind)), std::to_string(sum.num),
                   mean_us(sum.work_ns, sum.num), mean_us(sum.wait_ns, sum.num), share(sum.work_ns),
                   share(sum.wait_ns)});
  }
  return fmt::format("{} us on {} tracks\n", us(span_ns), tracks.all().size()) + table.str();
}

}  // namespace megaconv::cli
