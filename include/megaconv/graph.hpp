// SPDX-License-Identifier: Apache-2.0
// The task graph: tasks in stages, the regions of buffers that they read and write, and the
// dependences that follow from these.
//
//   stages, buffers, accesses --link--> edges --count_signals--> counters, waits, signals
//
// Every type is a plain value, every arrow a free function, and nothing here knows what a task
// computes or where it runs. Words: docs/glossary.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace megaconv {

/// What a stage is for its node. It is all that policies need to know of a stage.
enum class Role : std::uint8_t {
  prepare,  ///< NF tasks that all other stages of the node may need: filter transforms, packing
  input,    ///< SI tasks a group: input transforms, copies
  product,  ///< SG tasks a group: GEMM tiles, direct and pooling tasks
  output,   ///< SO tasks a group: output transforms
};
inline constexpr std::uint32_t kNumRoles = 4;
const char* to_string(Role role) noexcept;  ///< "prepare", "input", "product", "output"

using NodeId = std::uint16_t;    ///< index into TaskGraph::nodes
using KindId = std::uint32_t;    ///< index into TaskGraph::kinds
using StageId = std::uint32_t;   ///< index into TaskGraph::stages
using BufferId = std::uint32_t;  ///< index into TaskGraph::buffers
inline constexpr BufferId kNoBuffer = 0xffffffffu;

/// [begin, end).
struct Interval {
  std::uint64_t begin = 0, end = 0;
  constexpr std::uint64_t size() const { return end - begin; }
  constexpr bool overlaps(const Interval& other) const {
    return begin < other.end && other.begin < end;
  }
  constexpr bool contains(const Interval& other) const {
    return begin <= other.begin && other.end <= end;
  }
  bool operator==(const Interval&) const = default;
};

/// A box within a buffer. What the axes count is the buffer's business: rows of all images, one
/// image below the other, and columns; or tiles (rows) with a single column.
struct Region {
  Interval rows{0, 1}, cols{0, 1}, channels{0, 1}, positions{0, 1};
  constexpr bool overlaps(const Region& other) const {
    return rows.overlaps(other.rows) && cols.overlaps(other.cols) &&
           channels.overlaps(other.channels) && positions.overlaps(other.positions);
  }
  constexpr bool contains(const Region& other) const {
    return rows.contains(other.rows) && cols.contains(other.cols) &&
           channels.contains(other.channels) && positions.contains(other.positions);
  }
  constexpr std::uint64_t size() const {
    return rows.size() * cols.size() * channels.size() * positions.size();
  }
  bool operator==(const Region&) const = default;
};

/// "rows 0-14, channels 0-64" without the axes that have one index only.
std::string to_string(const Region& region);

inline constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};

/// A tensor that tasks read or write.
struct Buffer {
  std::string name;         ///< "x", "U", "conv2.V"
  Region extent;            ///< all of it; every interval begins at 0
  std::uint64_t bytes = 0;  ///< of all of it, whatever its window
  bool given = false;       ///< filled before the run: tensors that no task writes
  bool windowed = false;    ///< may be kept in slots: group g of its writers uses g % slots
  std::uint32_t slots = 0;  ///< 0: whole, a slot for every group
  /// First byte in the memory that buffers share; kNoPlace: memory of its own. A task that
  /// writes bytes needs all tasks that used a buffer which had these bytes before, in the order of
  /// stages.
  std::uint64_t place = kNoPlace;
  /// Rows with bytes of their own, one such block of rows behind the other: 1 in nhwc, those of an
  /// image in nchw. 0: all rows.
  std::uint64_t block_rows = 0;
};

enum class Mode : std::uint8_t { read, write };

/// A region that a task touches.
///
/// All tasks of a group read the same regions, which may be larger than what they really read.
/// Writes are exact: what two tasks write never overlaps.
struct Access {
  BufferId buffer = 0;
  Mode mode = Mode::read;
  Region region;
};

/// Appends what a task of a node reads and writes: of its stage with this role, any group and
/// block. Called from any number of threads.
using AccessFunction = std::function<void(Role role, std::uint32_t group, std::uint32_t block,
                                          std::vector<Access>& accesses)>;

/// A kind of task: what computes it. Names come from the rooms of tasks/.
struct Kind {
  std::string name;  ///< "input_transform"
  char letter = 0;   ///< 'I', in names of tasks
};

/// What tasks of a stage move between a worker and the shared cache, and which pieces of a buffer
/// they share with whom. Estimates, for orders that look ahead and for the simulator: what must be
/// exact is in the accesses.
struct Traffic {
  enum class Piece : std::uint8_t {
    of_task,   ///< every task has a piece of its own
    of_group,  ///< the tasks of a group share one; of a windowed buffer, its slot
    of_block,  ///< tasks of the same block share one, in all groups
    evenly,    ///< the stage's tasks share out the pieces that other stages make of the buffer
  };
  BufferId buffer = 0;
  Mode mode = Mode::read;
  Piece piece = Piece::of_task;
  double bytes = 0;            ///< of one task
  std::int64_t neighbour = 0;  ///< it is the piece of the group so many behind; if there is one
};

/// How long a task takes on the GPU that it was measured on, in microseconds.
struct TaskTime {
  double prepare_us = 0;   ///< before its wait, from the end of the task in front of it on
  double alone_us = 0;     ///< behind its wait, alone on its unit
  double together_us = 0;  ///< the same beside another task like it
  bool known() const { return alone_us > 0; }
};

/// All tasks of one kind of one node: `groups` task groups of `per_group` tasks, group by group.
struct Stage {
  NodeId node = 0;
  Role role = Role::product;
  KindId kind = 0;
  std::uint32_t first = 0;  ///< id of its first task
  std::uint32_t groups = 0, per_group = 0;
  double operations = 0;           ///< floating-point operations of one task
  double bytes = 0;                ///< that one task moves between worker and shared cache
  std::vector<Traffic> traffic{};  ///< reads first
  TaskTime time{};                 ///< if it is known

  std::uint64_t num_tasks() const { return std::uint64_t{groups} * per_group; }
  std::uint32_t id(std::uint32_t group, std::uint32_t block) const {
    return first + group * per_group + block;
  }
};

inline constexpr std::uint32_t kNoCounter = 0xffffffffu;

/// What a worker reads before it runs a task: 32 bytes, the same on every executor.
///
/// A counter belongs to the tasks that wait on it and counts all that they need and that no other
/// wait implies. It receives exactly `wait_count` signals in a run.
struct Task {
  KindId kind = 0;
  std::uint32_t group = 0;  ///< task group
  std::uint32_t block = 0;  ///< index within the group's tasks of this stage
  std::uint32_t wait_counter = kNoCounter;
  std::uint32_t wait_count = 0;
  std::uint32_t first_signal = 0;  ///< it signals all counters of these ranges:
  std::uint32_t num_signals = 0;   ///<   TaskGraph::signals[first_signal, + num_signals)
  NodeId node = 0;                 // last: kernels of one operator do not read it
  std::uint16_t reserved = 0;
  bool operator==(const Task&) const = default;
};
static_assert(sizeof(Task) == 32);

/// Counters [first, first + count).
struct SignalRange {
  std::uint32_t first = 0, count = 0;
  bool operator==(const SignalRange&) const = default;
};

/// Groups of a stage.
struct GroupRange {
  StageId stage = 0;
  Interval groups;
  bool operator==(const GroupRange&) const = default;
};

/// Every task of the consumer groups needs every task of the producer groups.
struct Edge {
  GroupRange consumer, producer;
  /// The consumer overwrites memory that the producer read or wrote: no data passes.
  bool reuse = false;
  bool operator==(const Edge&) const = default;
};

/// All tasks of a run. A task's id is its index; ids stand stage by stage, the stages of a node in
/// the order of their roles, the nodes in an order in which producers stand before consumers.
struct TaskGraph {
  std::vector<std::string> nodes;  ///< names of operators: "conv1"
  std::vector<Kind> kinds;
  std::vector<Stage> stages;
  std::vector<Buffer> buffers;
  std::vector<AccessFunction> accesses;  ///< by node
  std::vector<Edge> edges;               ///< by consumer: stage, then group
  std::vector<Task> tasks;
  std::vector<SignalRange> signals;
  std::vector<std::uint32_t> counter_totals;  ///< signals that each counter receives in one run

  /// Stage of a task.
  StageId stage_of(std::uint32_t id) const;
  /// The node's stage with this role; null when it has none.
  const Stage* find(NodeId node, Role role) const;
  /// Appends what a task reads and writes.
  void list_accesses(StageId stage, std::uint32_t group, std::uint32_t block,
                     std::vector<Access>& list) const {
    accesses[stages[stage].node](stages[stage].role, group, block, list);
  }
  /// Calls visit(counter) for every signal of a task.
  template <class Visit>
  void for_each_signal(const Task& task, Visit visit) const {
    for (std::uint32_t i = 0; i < task.num_signals; ++i) {
      const SignalRange& range = signals[task.first_signal + i];
      for (std::uint32_t c = 0; c < range.count; ++c) visit(range.first + c);
    }
  }
};

/// "I[3,0]": kind letter, group, block; "F[5]" where a stage has one group only of role prepare;
/// "conv2/I[3,0]" where the graph has several nodes.
std::string name(const TaskGraph& graph, const Task& task);

/// Appends a stage and its tasks, without waits and signals. Throws Error(unsupported) past 2^31
/// tasks, Error(out_of_memory).
void add_stage(TaskGraph& graph, Stage stage);

/// Fills `graph.edges` from the accesses. Throws Error(invalid_argument) naming operator, buffer
/// and region: a region outside its buffer, a read of what no task writes and nobody gives, a read
/// of what is written by a later stage only.
void link(TaskGraph& graph);

/// Replaces the edges of reuse by those that the buffers' slots and places ask for. Whole buffers
/// with memory of their own need none.
void add_reuse(TaskGraph& graph);

/// The same tasks with whole buffers. A window is part of an order's choice, and only adds edges.
TaskGraph without_window(TaskGraph graph);

/// Fills counters, waits and signals from the edges. An edge that others imply gets no signals: a
/// task that waits for another has also waited for all that the other waited for.
void count_signals(TaskGraph& graph);

}  // namespace megaconv
