// SPDX-License-Identifier: Apache-2.0
// How a convolution is cut into tasks:
//
//   ConvProblem --make_tiling--> Tiling --build_graph--> TaskGraph
//
// Words: docs/glossary.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "megaconv/algorithm.hpp"
#include "megaconv/graph.hpp"
#include "megaconv/problem.hpp"
#include "megaconv/small_gemm.hpp"

namespace megaconv {

/// Interpolation points of F(m x m, 3 x 3), besides infinity.
///   low_error: m = 2: 0, +-1;  m = 4: 0, +-5/8, +-3/2;  m = 6: 0, +-1/2, +-1, +-2
///   integer:   m = 2: 0, +-1;  m = 4: 0, +-1, +-2;      m = 6: 0, +-1/2, +-1, +-2
/// low_error has 2.2 times less error at m = 4; integer keeps integers exact, which tests use.
enum class Points : std::uint8_t { low_error, integer };

/// How products are computed; sums are FP32 always. fma and split_f16 are FP32-accurate. All but
/// fma are for tensor cores: CUDA on compute capability 9.0; Winograd from 8.0 on, if asked for
/// (MEGACONV_CUDA_ISA).
enum class Arithmetic : std::uint8_t {
  automatic,  ///< the fastest that the precision allows and that runs
  fma,        ///< FP32 multiply-adds
  split_f16,  ///< pairs of scaled FP16 numbers, three products of them; f32 tensors, implicit
              ///< GEMM or Winograd with m = 2 or 4
  tf32,       ///< f32 tensors rounded to TF32, one product; implicit GEMM in NHWC with C % 4 = 0
              ///< and without residual
  f16,        ///< FP16 numbers, one product. Implicit GEMM: of f16 tensors as they are, of f32
              ///< tensors scaled and rounded to the 11 bits that TF32 has, too. Winograd with
              ///< m = 4: V and U scaled and rounded once, of f32, f16 and bf16 tensors
  bf16,       ///< the same with the numbers of bf16 tensors; implicit GEMM
};

const char* to_string(Arithmetic arithmetic) noexcept;  ///< "automatic", "fma", "split_f16", ...

/// openCNN: how the products pass through shared memory to the threads that transform them
/// (section 4.1 of the paper, whose names these are).
enum class OutputLayout : std::uint8_t {
  baseline,          ///< 16-byte stores of half the lanes
  optSTS64,          ///< 8-byte stores of all lanes, padded rows
  optSTS64_compact,  ///< rows rotated, not padded: two buffers fit into 64 KB
  optLDS64,          ///< optSTS64, read in 8-byte loads
};

const char* to_string(OutputLayout layout) noexcept;  ///< "baseline", "optSTS64", ...

/// Where the plan will run; tilings are chosen for it.
enum class Backend : std::uint8_t { cpu, cuda, sim };

const char* to_string(Backend backend) noexcept;  ///< "cpu", "cuda", "sim"

/// When filters are transformed (or packed, for direct convolution).
enum class FilterMode : std::uint8_t {
  every_run,  ///< NF tasks in front of every run
  prepared,   ///< once, by Plan::prepare_filters; NF = 0
};

/// What a tiling is chosen for. The defaults describe one core of a current CPU.
struct Target {
  Backend backend = Backend::cpu;
  std::uint32_t workers = 1;                     ///< tasks that run at the same time
  std::size_t cache_bytes_per_worker = 1 << 20;  ///< fast memory that a worker has to itself
  bool split_f16 = false;                        ///< has tasks for tensor cores
  /// Multiprocessors, each of which runs one task of implicit GEMM at a time; 0: that is not
  /// chosen.
  std::uint32_t multiprocessors = 0;
  std::size_t shared_bytes = 0;      ///< shared memory of a multiprocessor; 0: not known
  std::uint32_t cluster_blocks = 1;  ///< thread blocks that a cluster may have; 1: there are none
  bool amx = false;                  ///< CPU: direct tasks on BF16 and INT8 have products of AMX
  std::size_t mesh_cache_bytes = 0;  ///< CPU: L3 that cores reach over a mesh; 0: there is none
  bool stages = false;  ///< CUDA: a launch for every stage, so that each may have its own kernel
};

/// m of F(4 x 6, 3 x 3): tiles of 4 rows and 6 columns of outputs. 2.0 products an output, where
/// F(4 x 4) has 2.25.
inline constexpr std::uint32_t kWideTile = 46;

/// What a caller may fix about a tiling; 0 and nullopt mean "choose".
struct TilingOptions {
  Algorithm algorithm = Algorithm::automatic;
  std::uint32_t m = 0;  ///< Winograd output tile: 2, 4 or, on a CPU, 6 or kWideTile
  Points points = Points::low_error;
  Precision precision = Precision::f32;
  /// Error budget: the most relative L2 error, ||y - exact|| / ||exact||, that a plan may have. Its
  /// bound decides, not a measurement: for data with independent roundings whose sums do not
  /// cancel, and rounding to the storage type included (tasks/error_bound.cpp says how bounds were
  /// found). Algorithm, output tile, points and products are chosen within it. `precision` must be
  /// left out: the budget is the permission. Greater than 0. Of a network it holds for each
  /// convolution by itself, of what this one reads; on CUDA all have one precision.
  std::optional<double> max_error{};
  Arithmetic arithmetic = Arithmetic::automatic;
  OutputLayout output_layout = OutputLayout::optSTS64;  ///< openCNN
  FilterMode filters = FilterMode::every_run;
  std::uint32_t group_tiles = 0;  ///< t: Winograd tiles of one task group
  // Sizes of tasks, as in the cuts.
  std::uint32_t channel_blocks_per_input_task = 0;
  std::uint32_t filter_blocks_per_gemm_task = 0;  ///< also of direct tasks
  std::uint32_t positions_per_gemm_task = 0;
  std::uint32_t filter_blocks_per_output_task = 0;
  std::uint32_t tiles_per_transform_task = 0;  ///< at most; a group may have fewer
  std::uint32_t rows_per_group = 0;            ///< direct
  std::uint32_t cols_per_group = 0;            ///< direct; implicit GEMM: of a stripe
  std::uint32_t places_per_group = 0;          ///< implicit GEMM: padded pixels
  std::uint32_t v_slots = 0;                   ///< window: group slots of V; >= NG keeps V whole
  std::uint32_t m_slots = 0;                   ///< window: group slots of M; >= NG keeps M whole
  bool whole_tensors = false;                  ///< no window: V and M whole
  /// One launch of a network on CUDA: thread blocks of a cluster, 1, 2 or 4. So many tasks may
  /// share a sum.
  std::uint32_t cluster_blocks = 0;
  bool operator==(const TilingOptions&) const = default;
};

// --- cuts: what each algorithm has of its own. Channels and filters are counted in blocks of
// Tiling::kLaneBlock.

/// Direct: a task group is one rectangle of output pixels of one image.
struct DirectCut {
  static constexpr Algorithm kAlgorithm = Algorithm::direct;

  std::uint32_t rows_per_group = 0, cols_per_group = 0;
  std::uint32_t filter_blocks_per_gemm_task = 0;  ///< of a direct task

  bool operator==(const DirectCut&) const = default;
};

/// The tiles of algorithms that multiply in Winograd's domain, F(m x m, 3 x 3). They are numbered
/// image-major, then by tile row, then by tile column. Under stride 2 m is 2 or 4: the even inputs
/// meet two taps of a row, as F(m, 2), and the odd ones meet one.
struct WinogradTiles {
  std::uint32_t m = 0;  ///< 2, 4 or, on a CPU, 6 or kWideTile
  Points points = Points::low_error;
  std::uint32_t group_tiles = 0;  ///< t; the last group may have fewer

  // Derived.
  std::uint32_t tiles_h = 0, tiles_w = 0;
  std::uint64_t num_tiles = 0;  ///< T, over the whole batch
  std::uint32_t stride = 1;     ///< of the problem, 1 or 2

  std::uint32_t rows() const { return m == kWideTile ? 4 : m; }  ///< of outputs
  std::uint32_t cols() const { return m == kWideTile ? 6 : m; }
  std::uint32_t alpha_h() const { return alpha(rows()); }
  std::uint32_t alpha_w() const { return alpha(cols()); }
  std::uint32_t num_positions() const { return alpha_h() * alpha_w(); }

  bool operator==(const WinogradTiles&) const = default;

 private:
  std::uint32_t alpha(std::uint32_t outputs) const {
    return stride == 1 ? outputs + 2 : 2 * outputs + 1;
  }
};

/// Group g uses slot g % v_slots of V and g % m_slots of M. NG slots: whole tensors.
struct Window {
  std::uint32_t v_slots = 0, m_slots = 0;

  bool operator==(const Window&) const = default;
};

/// Winograd in stages.
struct WinogradCut : WinogradTiles {
  static constexpr Algorithm kAlgorithm = Algorithm::winograd;

  std::uint32_t channel_blocks_per_input_task = 0;
  std::uint32_t tiles_per_transform_task = 0;  ///< of input and output tasks
  std::uint32_t filter_blocks_per_gemm_task = 0;
  std::uint32_t positions_per_gemm_task = 0;  ///< of alpha^2
  std::uint32_t filter_blocks_per_output_task = 0;
  Window window;

  std::uint32_t tile_chunks() const;  ///< parts of a group's tiles that transform tasks take

  bool operator==(const WinogradCut&) const = default;
};

/// Fused Winograd: one task a group.
struct FusedWinogradCut : WinogradTiles {
  static constexpr Algorithm kAlgorithm = Algorithm::fused_winograd;

  bool operator==(const FusedWinogradCut&) const = default;
};

/// openCNN: m = 2, groups of 32 tiles; in chwn the same tile of 32 images. Its blocking is
/// fixed.
struct OpencnnCut : WinogradTiles {
  static constexpr Algorithm kAlgorithm = Algorithm::opencnn;

  OutputLayout output_layout = OutputLayout::optSTS64;

  bool operator==(const OpencnnCut&) const = default;
};

/// Load path of x in the product tasks of implicit GEMM.
enum class Operands : std::uint8_t {
  loaded,           ///< threads load and convert x; any tensor
  in_tensor,        ///< TMA loads x; 16 bits, NHWC, C a multiple of 8 (and K beside a residual)
  in_float_tensor,  ///< TMA loads x and rounds it to TF32; f32, NHWC
  in_copy,          ///< TMA loads an FP16 copy of x that input tasks make; f32, NHWC
  converted,        ///< TMA loads f32 in NHWC; a warpgroup converts it to FP16 in shared memory
  in_tensor_wide,   ///< as in_tensor, in tiles of 128 filters; each tap has an input of its own
  in_float_tensor_wide,  ///< as in_float_tensor, the same
  in_tensor_tall,  ///< as in_tensor, in tiles of 128 padded pixels by up to 256 filters; the same
  in_float_tensor_tall,  ///< as in_float_tensor, by up to 192 filters
  converted_tall,  ///< TMA loads f32 in NHWC; consumers convert it to FP16 in registers; the same
                   ///< tiles by up to 176 filters
  split_tall       ///< the same, to pairs of FP16 numbers (split_f16); by up to 128 filters
};

const char* to_string(Operands operands) noexcept;  ///< "loaded", "in_tensor", ...

/// Implicit GEMM: a task group is a run of padded pixels of a stripe of cols_per_group columns. A
/// stripe goes through all images, or has all columns of several that stand abreast; the gaps
/// between rows and images are padded pixels, too (tasks/implicit_gemm/stripes.hpp).
struct ImplicitGemmCut {
  static constexpr Algorithm kAlgorithm = Algorithm::implicit_gemm;

  Operands operands = Operands::loaded;
  std::uint32_t cols_per_group = 0;
  std::uint32_t places_per_group = 0;               ///< padded pixels
  std::uint32_t channel_blocks_per_input_task = 0;  ///< in_copy; others have no input tasks: 0
  std::uint32_t filter_blocks_per_gemm_task = 0;    ///< of a direct task
  /// Of a network: a pooling alone reads y, which the tasks compute and store in the place of y:
  /// the maximum of 2x2 pixels, without overlaps. A group has whole windows.
  bool pools = false;

  bool operator==(const ImplicitGemmCut&) const = default;
};

/// Of SmallGemmCut (small_gemm.hpp), the problem, the precision and the counts follow from the
/// tiling.
using ConvCut = std::variant<DirectCut, WinogradCut, FusedWinogradCut, OpencnnCut, ImplicitGemmCut,
                             SmallGemmCut>;

/// How a convolution is cut into tasks: what all algorithms share, and the cut of one of them.
struct Tiling {
  /// Channels (and filters) are padded to a multiple of this in U, V and M.
  static constexpr std::uint32_t kLaneBlock = 16;

  ConvProblem problem;
  FilterMode filters = FilterMode::every_run;
  Arithmetic arithmetic = Arithmetic::fma;  ///< never automatic
  ConvCut cut = {};

  // Sizes of filter tasks, in lane blocks. openCNN's are fixed.
  std::uint32_t filter_blocks_per_filter_task = 0;
  std::uint32_t channel_blocks_per_filter_task = 0;  ///< direct: 0, all of them

  // Derived counts (kept here because every stage needs them; make_tiling fills them).
  std::uint32_t num_groups = 0;        ///< NG
  std::uint32_t num_filter_tasks = 0;  ///< NF; 0 when filters are prepared
  std::uint32_t input_tasks = 0;       ///< SI
  std::uint32_t gemm_tasks = 0;        ///< SG: GEMM (Winograd) or direct tasks of a group
  std::uint32_t output_tasks = 0;      ///< SO

  Algorithm algorithm() const;         ///< whose cut it has
  const WinogradTiles* tiles() const;  ///< null for algorithms of direct sums
  const Window* window() const;        ///< null for algorithms without V and M
  Window* window();                    ///< the same
  /// Lane blocks of C / groups; implicit GEMM may multiply several conv groups as one, with zeros.
  std::uint32_t channel_blocks() const;
  std::uint32_t filter_blocks() const;  ///< groups x those of K / groups; of K if depthwise
  // Back ends may round these up to suit their tasks.
  std::uint64_t v_slot_bytes() const;  ///< one group's V
  std::uint64_t m_slot_bytes() const;  ///< one group's M
  std::uint64_t u_bytes() const;       ///< transformed or packed filters

  bool operator==(const Tiling&) const = default;
};

/// Chooses a tiling. Throws Error(unsupported) when the algorithm asked for cannot compute the
/// problem ("winograd: stride 2x2, must be 1x1") or nothing is within the error budget, with the
/// least error that is possible; Error(invalid_argument) for options out of range.
Tiling make_tiling(const ConvProblem& problem, const TilingOptions& options, const Target& target);

/// One line per property, for describe() and `map show`.
std::string to_string(const Tiling& tiling);

/// Kinds of task; the values are part of the C ABI.
enum class TaskKind : KindId {
  filter_transform = 0,  ///< w -> U (Winograd), or w packed for direct tasks
  input_transform = 1,   ///< x -> V
  gemm = 2,              ///< V, U -> M for some positions and filter blocks
  output_transform = 3,  ///< M -> y, with the epilogue
  direct = 4,            ///< x, U -> y, with the epilogue; also fused tasks
  pooling = 5,           ///< x -> y of a pooling
  elementwise = 6,       ///< additions, concatenations, activations
};
inline constexpr std::uint32_t kNumTaskKinds = 7;
const char* to_string(TaskKind kind) noexcept;  ///< "filter_transform", ...
char letter(TaskKind kind) noexcept;            ///< F I G O D P E
constexpr KindId id_of(TaskKind kind) { return static_cast<KindId>(kind); }
constexpr TaskKind kind_of(const Task& task) { return static_cast<TaskKind>(task.kind); }

/// All tasks of a convolution with their regions and counters, in staged order:
///   F[0..NF) I[0,0..SI) ... I[NG-1,*] G[0,0..SG) ... O[0,0..SO) ...     (D in the place of G if
///   direct)
/// Buffers are x, w, U, V, M, residual and y, as far as the algorithm has them. Throws
/// Error(unsupported) past 2^31 tasks.
TaskGraph build_graph(const Tiling& tiling);

/// The graph that only transforms filters (what Plan::prepare_filters runs).
TaskGraph build_filter_graph(const Tiling& tiling);

}  // namespace megaconv
