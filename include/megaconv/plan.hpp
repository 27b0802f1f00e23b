// SPDX-License-Identifier: Apache-2.0
// A convolution that is ready to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "megaconv/machine.hpp"
#include "megaconv/problem.hpp"
#include "megaconv/trace.hpp"

namespace megaconv {

/// How a CUDA run is launched.
enum class CudaLaunch : std::uint8_t {
  automatic,  ///< staged for tasks on tensor cores, and for other Winograd whose V and M are less
              ///< than 1.8 L2 caches or than five times U; persistent for all else, V and M of over
              ///< 8 GiB, and an order, a window or a number of blocks that is asked for. Networks:
              ///< what is estimated to be faster
  persistent,          ///< one kernel; its blocks take tickets until no task is left
  one_block_per_task,  ///< one kernel with a block for every task, each taking one ticket
  raw_block_index,  ///< the same with blockIdx as the position: relies on an order of blocks that
                    ///< CUDA does not promise, and may end in Status::timeout; for research
  staged,           ///< one kernel per stage: whole tensors, the policy staged, no trace
};
const char* to_string(CudaLaunch launch) noexcept;  ///< "automatic", "one_block_per_task", ...

/// Where a plan's configuration comes from. What the caller fixes in PlanOptions stays fixed.
enum class PlanSource : std::uint8_t {
  database,   ///< the plan database where it knows the problem, else the heuristics
  heuristic,  ///< the heuristics
  measure,    ///< measured in place for measure_ms; needs the tensors' memory for that time
};
const char* to_string(PlanSource source) noexcept;  ///< "database", "heuristic", "measure"

/// Threads of the caller's own in place of megaconv's: a pool of another library, an OpenMP team.
struct WorkerThreads {
  /// Calls body(state, worker) for every worker from 0 to num_workers - 1, once each, and returns
  /// when all calls have returned. They are meant to run at the same time, but may run in any order
  /// and one after the other. `body` throws nothing. May be called by several runs at once.
  void (*run)(void* context, std::uint32_t num_workers,
              void (*body)(void* state, std::uint32_t worker), void* state) = nullptr;
  void* context = nullptr;  ///< for `run`; must live as long as the plan
};

struct PlanOptions {
  TilingOptions tiling{};    ///< algorithm, tile, points, filter mode, window
  MappingOptions mapping{};  ///< policy and its parameters
  PolicyFunction policy{};   ///< when set, replaces mapping.policy
  Backend backend = Backend::cpu;
  PlanSource source = PlanSource::database;
  std::string database{};           ///< file; empty: the user's and the system's (docs/tuning.md)
  std::uint32_t measure_ms = 1000;  ///< budget of PlanSource::measure
  std::size_t workspace_limit = 0;  ///< bytes; 0: any. A plan that needs more is not chosen
  /// CPU workers; 0: MEGACONV_NUM_THREADS, else the CPUs this process may run on, but no more than
  /// have 10 us of work each.
  std::uint32_t num_threads = 0;
  /// CPU: who runs the workers; without `run`, the pool that all plans of the process share.
  WorkerThreads threads{};
  /// CUDA workers (thread blocks of the persistent kernel); 0: as many as the device holds at once.
  std::uint32_t num_blocks = 0;
  CudaLaunch cuda_launch = CudaLaunch::automatic;
  /// Backend::sim: the machine to simulate; unset: the preset "h200". num_blocks and cuda_launch
  /// are read as for CUDA; an automatic launch is persistent.
  std::optional<MachineModel> machine{};
  /// A task that waits longer than this ends the run with Status::timeout and a report.
  std::uint32_t wait_budget_ms = 10'000;
};

/// The machine that a plan with these options is made for. Throws like Plan::create.
Target target_of(const PlanOptions& options);

/// Elements from one index to the next along each axis of a tensor. All 0: it is dense.
///
/// Others are of a sub-tensor: some channels, or some rows and columns, of a larger one. In nchw
/// the pixels of a row are neighbours (w = 1); in nhwc channels are (c = 1), and h is a multiple of
/// w. Axes of one index may have any stride. No two elements may share memory.
struct TensorStrides {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  bool operator==(const TensorStrides&) const = default;
};

/// Arguments of one run. All pointers are to tensors in ConvProblem's layout and storage type
/// (scale and bias: ConvProblem::vector_type()), dense but for the strides given; none is kept. On
/// a CPU x and y may be sub-tensors, also of one tensor, if they share no element. Elsewhere, and
/// in layouts without strides, they are refused (Error(unsupported)). Implicit GEMM on CUDA wants
/// x, w and y of 16 bits in NHWC at multiples of 16 bytes, if channels and filters are whole
/// octets; at the precision of TF32 it may want x and w of f32 in NHWC there, if channels are whole
/// fours. Small tiles want x at multiples of 16 bytes if channels are whole octets, y and residual
/// at multiples of four elements if filters are whole fours.
struct Tensors {
  const void* x = nullptr;  ///< input, [N][C][H][W] or [N][H][W][C]
  const void* w =
      nullptr;  ///< filters, [K][C/groups][R][S] or [K][R][S][C/groups]; null when prepared
  const void* scale = nullptr;     ///< [K], when the epilogue has a scale
  const void* bias = nullptr;      ///< [K], when the epilogue has a bias
  const void* residual = nullptr;  ///< shape of y, when the epilogue has one; may be y itself
  void* y = nullptr;               ///< output, [N][K][P][Q] or [N][P][Q][K]
  const void* prepared_filters =
      nullptr;  ///< from Plan::prepare_filters, with FilterMode::prepared
  TensorStrides x_strides = {};
  TensorStrides y_strides = {};  ///< of y and of the residual
};

/// Arguments of one run of a network: dense tensors in its layout and storage type. None is kept.
struct NetworkTensors {
  std::span<const void* const> inputs;     ///< in the order of Network::inputs
  std::span<void* const> outputs;          ///< in the order of Network::outputs
  const void* prepared_filters = nullptr;  ///< from Plan::prepare_filters
};

/// What one run may do besides computing.
struct RunOptions {
  /// Receives one record per task. A CUDA run with a trace returns when it is complete; it throws
  /// Error(unsupported) when the plan's launch is staged, so ask for a persistent one.
  Trace* trace = nullptr;
  /// cudaStream_t of a CUDA run (null: the default stream); not read on a CPU.
  void* stream = nullptr;
};

/// On Backend::sim a run computes nothing: it fills the trace with the times that the machine model
/// gives, and y is left as it was.
///
/// Immutable: every method is const and may be called from any number of threads at once, each run
/// with a workspace of its own. Copies share one state.
class Plan {
 public:
  /// Alignment of workspaces and prepared filters, in bytes.
  static constexpr std::size_t kAlignment = 64;
  /// On CUDA a workspace that is zero in its first kHeaderBytes begins afresh, whatever is in the
  /// rest: so does one that a CUDA graph has to itself only while it runs.
  static constexpr std::size_t kHeaderBytes = 512;

  /// Chooses and checks everything; all planning errors come from here. A plan database that is
  /// missing, damaged or foreign is no error: describe() says so.
  /// Throws Error: invalid_argument, unsupported; out_of_memory when no plan fits workspace_limit.
  static Plan create(const ConvProblem& problem, const PlanOptions& options = {});

  /// A network as one task graph, which one run executes: tasks of one operator begin as soon as
  /// what they read of others is there. Values between operators lie in the workspace. Operators
  /// are fused where one task can do the work of several, and batch norm is folded into weights;
  /// describe() says what became of each. `options.tiling` holds for every convolution; filters are
  /// prepared. `options.source` is database or heuristic.
  /// Backend::cuda runs networks of f32 (`options.tiling.precision` f32 or tf32), f16 and bf16 on
  /// compute capability 8.0 and later: in one launch (CudaLaunch::persistent, and automatic) or one
  /// for every stage (staged). Operators have values in nhwc; inputs and outputs in nchw are
  /// converted. Tensors are aligned to 16 bytes; prepare_filters() returns when it is done.
  /// Throws Error: invalid_argument (what validate(network) says), unsupported naming the operator.
  static Plan create(const Network& network, const PlanOptions& options = {});

  /// From a lowering of one's own: an imported mapping file, or lower() with other options. It is
  /// validated. Of `options.tiling` the error budget alone is read, and `options.mapping` is not;
  /// an automatic launch is persistent.
  static Plan create(Lowering lowering, const PlanOptions& options = {});

  /// Bytes that every run needs, aligned to kAlignment; never 0. Their content need not be
  /// initialised. On a CPU it may be anything before every run. On CUDA other plans may use them
  /// in between, or all may be overwritten, but not a part.
  std::size_t workspace_bytes() const noexcept;

  /// Bytes of prepared filters; 0 unless the plan was made with FilterMode::prepared. Of a network:
  /// of all filters and biases.
  std::size_t prepared_filter_bytes() const noexcept;

  /// Transforms the filters once. `prepared`: prepared_filter_bytes(), aligned to kAlignment.
  /// Throws Error(invalid_argument) when the plan transforms filters in every run.
  /// CUDA: device pointers; enqueued on `stream`.
  void prepare_filters(const void* w, void* prepared, void* stream = nullptr) const;

  /// Runs the convolution. On a CPU it returns when y is complete. On a CUDA device all pointers
  /// are device pointers and the run is only enqueued on run.stream: no allocation, no
  /// synchronisation; it can be captured into a CUDA graph. (Where the residual is y itself and
  /// scales are guessed, it is copied to memory of the stream's pool.) Runs that share a workspace
  /// must be ordered, by one stream or by events. Throws Error before any work starts:
  /// invalid_argument (a null, misaligned or overlapping pointer; a workspace in use by another
  /// run), out_of_memory (workspace too small, no thread to be had). Throws Error(timeout) with a
  /// report when a wait exceeds its budget; y is then undefined. The plan and the workspace stay
  /// usable. Throws Error(invalid_argument) when PlanOptions::threads did not call every worker
  /// once. On a CPU, y does not depend on the caller's rounding mode or treatment of denormal
  /// numbers, which are as before afterwards. A child of fork() may execute its parent's plans.
  void execute(const Tensors& tensors, void* workspace, std::size_t workspace_bytes,
               const RunOptions& run = {}) const;

  /// The same of a network, whose weights the plan has, as long as the caller keeps those that he
  /// only lent (view_weights()). Folds batch norm, too.
  void prepare_filters(void* prepared) const;

  /// Runs a network, as the other execute() runs a convolution.
  void execute(const NetworkTensors& tensors, void* workspace, std::size_t workspace_bytes,
               const RunOptions& run = {}) const;

  /// Waits until `stream` has done all its work, and throws Error(timeout) with a report when the
  /// last run in `workspace` was given up, Error(invalid_argument) when it could not run all tasks
  /// because the workspace had been changed in part, Error(device_error) for any other failure. No
  /// later run may be using the workspace. Returns at once on a CPU.
  void wait(void* workspace, void* stream = nullptr) const;

  /// Of a plan of one convolution.
  const ConvProblem& problem() const;
  const Lowering& lowering() const noexcept;
  Backend backend() const noexcept;
  /// Tasks that run at the same time: CPU threads or CUDA thread blocks.
  std::uint32_t num_workers() const noexcept;

  /// Everything that was chosen and why, in lines of "name: value".
  std::string describe() const;

 private:
  struct State;
  struct Origin;
  static std::shared_ptr<State> make_state(Lowering lowering, const PlanOptions& options,
                                           const Origin& origin);
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// A policy from a shared object that defines megaconv_policy (megaconv.h). It runs in a process of
/// its own, so that whatever it does it does to itself. Calling the result throws Error:
/// invalid_argument when the file is no such object, the policy refuses the graph or ends by a
/// signal or an exception; timeout when it takes longer than `budget_ms`.
PolicyFunction load_policy(const std::string& path, std::uint32_t budget_ms = 10'000);

/// "0.1.0"
const char* version() noexcept;

}  // namespace megaconv
