// SPDX-License-Identifier: Apache-2.0
// What tasks of convolutions read and write, and what follows: thousands of random problems and
// tilings, compared with a task's place written out again here, element by element.
#include <array>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "mapping/needs.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/winograd/winograd.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

constexpr std::uint64_t kLanes = Tiling::kLaneBlock;

// --- random problems and tilings

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t in(std::uint64_t least, std::uint64_t most) {
    return static_cast<std::uint32_t>(least + engine_() % (most - least + 1));
  }
  bool one_of(std::uint32_t cases) { return in(1, cases) == 1; }

 private:
  std::mt19937 engine_;
};

// `before`: the layer whose output is read.
ConvProblem random_problem(Random& random, std::uint32_t most_channels,
                           const ConvProblem* before = nullptr) {
  ConvProblem a;
  a.n = random.in(1, 4);
  a.h = random.in(1, 11);
  a.w = random.in(1, 11);
  a.c = random.in(1, most_channels);
  a.k = random.in(1, most_channels);
  a.pad_h = random.in(0, 2);
  a.pad_w = random.in(0, 2);
  a.layout = random.one_of(2) ? Layout::nhwc : Layout::nchw;
  a.epilogue.residual = random.one_of(4);
  if (before != nullptr) {
    a.n = before->n;
    a.c = before->k;
    a.h = before->p();
    a.w = before->q();
    a.layout = before->layout;
  }
  return a;
}

// Each of these sets what is chosen; derive_counts() refuses what does not fit together.

void choose_filter_tasks(Random& random, Tiling& t) {
  t.filters = random.one_of(5) ? FilterMode::prepared : FilterMode::every_run;
  t.filter_blocks_per_filter_task = random.in(1, t.filter_blocks());
  if (t.algorithm() != Algorithm::direct) {
    t.channel_blocks_per_filter_task = random.in(1, t.channel_blocks());
  }
}

void choose_tiles(Random& random, Tiling& t, WinogradTiles& tiles, const ConvProblem* before) {
  t.problem = random_problem(random, 50, before);
  tiles.m = 2 * random.in(1, 3);
  if (t.algorithm() == Algorithm::fused_winograd && tiles.m == 2) {
    t.problem.stride_h = t.problem.stride_w = random.in(1, 2);
  }
  validate(t.problem);
  count_tiles(t.problem, tiles);
  tiles.group_tiles = random.in(1, tiles.num_tiles);
  if (random.one_of(2)) {
    tiles.group_tiles = random.in(1, std::min<std::uint64_t>(5, tiles.num_tiles));
  }
  choose_filter_tasks(random, t);
}

Tiling random_winograd(Random& random, const ConvProblem* before = nullptr) {
  Tiling t;
  auto& cut = t.cut.emplace<WinogradCut>();
  choose_tiles(random, t, cut, before);
  cut.channel_blocks_per_input_task = random.in(1, t.channel_blocks());
  cut.tiles_per_transform_task = random.in(1, cut.group_tiles);
  cut.filter_blocks_per_gemm_task = random.in(1, t.filter_blocks());
  cut.positions_per_gemm_task = random.in(1, cut.num_positions());
  cut.filter_blocks_per_output_task = random.in(1, t.filter_blocks());
  cut.window = {random.in(0, 4), random.in(0, 4)};
  return t;
}

Tiling random_fused_winograd(Random& random, const ConvProblem* before = nullptr) {
  Tiling t;
  choose_tiles(random, t, t.cut.emplace<FusedWinogradCut>(), before);
  return t;
}

Tiling random_direct(Random& random, const ConvProblem* before = nullptr) {
  Tiling t;
  ConvProblem& a = t.problem;
  a = random_problem(random, 50, before);
  if (before == nullptr) {
    a.groups = random.one_of(2) ? 1 : random.in(2, 4);
    a.c *= a.groups;
  }
  a.k = random.one_of(3) ? a.c : a.k * a.groups;
  if (random.one_of(5)) a.groups = a.k = a.c;
  a.r = random.in(1, 5);
  a.s = random.in(1, 5);
  a.stride_h = random.in(1, 3);
  a.stride_w = random.in(1, 3);
  a.dilation_h = random.in(1, 3);
  a.dilation_w = random.in(1, 3);
  a.pad_h = random.in(0, 5);
  a.pad_w = random.in(0, 5);
  validate(a);
  auto& cut = t.cut.emplace<DirectCut>();
  cut.rows_per_group = random.in(1, u64(a.p()));
  cut.cols_per_group = random.in(1, u64(a.q()));
  cut.filter_blocks_per_gemm_task = random.in(1, t.filter_blocks());
  choose_filter_tasks(random, t);
  return t;
}

Tiling random_implicit_gemm(Random& random, bool layers = false,
                            const ConvProblem* before = nullptr) {
  Tiling t;
  ConvProblem& a = t.problem;
  a = random_problem(random, 50, before);
  if (before == nullptr) a.n = random.in(1, 6);
  a.r = random.in(1, 4);
  a.s = random.in(1, 4);
  a.dilation_h = random.in(1, 2);
  a.dilation_w = random.in(1, 2);
  a.pad_h = random.in(0, u64(a.filter_extent_h()) - 1);
  a.pad_w = random.in(0, u64(a.filter_extent_w()) - 1);
  t.arithmetic = Arithmetic::split_f16;
  auto& cut = t.cut.emplace<ImplicitGemmCut>();
  cut.operands = static_cast<Operands>(random.in(0, 5));
  if (layers && have_16_bits(cut.operands)) cut.operands = Operands::loaded;
  if (before != nullptr && (a.layout != Layout::nhwc || a.c % 8 != 0)) {
    cut.operands = Operands::loaded;
  }
  if (cut.operands != Operands::loaded) {
    a.layout = Layout::nhwc;
    a.epilogue.residual = false;
    if (before == nullptr) a.c = 8 * random.in(1, 8);
    a.k = 8 * random.in(1, 16);
    a.dtype = have_16_bits(cut.operands) ? DataType::f16 : DataType::f32;
    if (cut.operands == Operands::in_tensor_wide) {
      a.r = a.s = 1, a.pad_h = a.pad_w = 0;
      if (random.in(0, 1) == 1) cut.operands = Operands::in_tensor_tall;
    }
    t.arithmetic = cut.operands == Operands::in_float_tensor ? Arithmetic::tf32 : Arithmetic::f16;
  }
  validate(a);
  if (cut.operands == Operands::in_copy) cut.channel_blocks_per_input_task = random.in(1, 4);
  cut.cols_per_group = random.in(1, u64(a.q()));
  if (cut.operands != Operands::loaded && cut.operands != Operands::converted) {  // whole rows
    const std::uint32_t images = have_narrow_tiles(cut.operands) ? random.in(1, u64(a.n)) : 1;
    cut.cols_per_group = static_cast<std::uint32_t>(a.q()) * images;
  }
  const Stripes stripes = make_stripes(a, static_cast<std::int32_t>(cut.cols_per_group));
  const std::uint64_t places = u64(places_of_stripe(a, stripes));
  cut.places_per_group = random.in(1, places + 20);
  if (stripes.images > 1 && !random.one_of(3)) {
    cut.places_per_group = static_cast<std::uint32_t>(stripes.row()) * random.in(1, u64(a.p()));
  }
  cut.filter_blocks_per_gemm_task = random.in(1, 4);
  choose_filter_tasks(random, t);
  t.filter_blocks_per_filter_task = 1;
  return t;
}

Tiling random_opencnn(Random& random, bool layers = false, const ConvProblem* before = nullptr) {
  Tiling t;
  ConvProblem& a = t.problem;
  a = random_problem(random, 150, before);
  if (before == nullptr) a.c = random.in(1, 30);
  if (!layers && random.one_of(3)) {
    a.layout = Layout::chwn;
    a.n = random.in(1, 70);
    a.h = a.w = random.in(1, 6);
  }
  validate(a);
  t.cut = OpencnnCut{};
  t.filters = random.one_of(5) ? FilterMode::prepared : FilterMode::every_run;
  return t;
}

// --- which task has an element, from the algorithms' own numbering

struct Place {
  std::uint64_t group = 0, block = 0;
};

std::uint64_t ceiling(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// The group whose task computes an output pixel; for Winograd also the part of its tiles.
Place pixel_place(const Tiling& t, std::uint64_t n, std::uint64_t p, std::uint64_t q) {
  const ConvProblem& a = t.problem;
  const std::uint64_t height = u64(a.p()), width = u64(a.q());
  if (const auto* const cut = std::get_if<DirectCut>(&t.cut)) {
    const std::uint64_t rows = ceiling(height, cut->rows_per_group);
    const std::uint64_t cols = ceiling(width, cut->cols_per_group);
    return {(n * rows + p / cut->rows_per_group) * cols + q / cut->cols_per_group, 0};
  }
  if (const auto* const cut = std::get_if<ImplicitGemmCut>(&t.cut)) {
    const Stripes stripes = make_stripes(a, static_cast<std::int32_t>(cut->cols_per_group));
    const std::uint64_t groups =
        ceiling(u64(places_of_stripe(a, stripes)), cut->places_per_group);  // of a stripe
    const std::uint64_t pitch = u64(stripes.pitch), images = u64(stripes.images);
    if (images > 1) {
      const std::uint64_t place = (p * images + n % images) * pitch + q;
      return {n / images * groups + place / cut->places_per_group, 0};
    }
    const std::uint64_t stripe = q / u64(stripes.cols);
    const std::uint64_t place =
        (n * u64(stripes.period) + p) * pitch + q - stripe * u64(stripes.cols);
    return {stripe * groups + place / cut->places_per_group, 0};
  }
  const WinogradTiles& tiles = *t.tiles();
  const std::uint64_t tile_row = p / tiles.m, tile_col = q / tiles.m;
  if (t.algorithm() == Algorithm::opencnn && a.layout == Layout::chwn) {
    return {(tile_row * tiles.tiles_w + tile_col) * ceiling(u64(a.n), 32) + n / 32, 0};
  }
  const std::uint64_t tile = (n * tiles.tiles_h + tile_row) * tiles.tiles_w + tile_col;
  const std::uint64_t group = tile / tiles.group_tiles;
  const auto* const cut = std::get_if<WinogradCut>(&t.cut);
  if (cut == nullptr) return {group, 0};
  return {group, tile % tiles.group_tiles / cut->tiles_per_transform_task};
}

// The lane block of a filter: each group of a convolution begins a new one.
std::uint64_t lane_block(const ConvProblem& a, std::uint64_t k) {
  if (a.depthwise() || a.groups == 1) return k / kLanes;
  const std::uint64_t filters = u64(a.k / a.groups);
  return k / filters * ceiling(filters, kLanes) + k % filters / kLanes;
}

std::uint64_t y_task(const TaskGraph& graph, const Tiling& t, const Place& place, std::uint64_t k) {
  const std::uint64_t block = lane_block(t.problem, k);
  const Stage* stage = graph.find(0, Role::product);
  std::uint64_t index = place.block;
  if (const auto* const staged = std::get_if<WinogradCut>(&t.cut)) {
    stage = graph.find(0, Role::output);
    index += block / staged->filter_blocks_per_output_task *
             ceiling(staged->group_tiles, staged->tiles_per_transform_task);
  } else if (t.algorithm() == Algorithm::opencnn) {
    index = k / 64;
  } else if (const auto* const direct = std::get_if<DirectCut>(&t.cut)) {
    index = block / direct->filter_blocks_per_gemm_task;
  } else if (const auto* const gemm = std::get_if<ImplicitGemmCut>(&t.cut)) {
    index = block / gemm->filter_blocks_per_gemm_task;
  }
  return stage->first + place.group * stage->per_group + index;
}

// --- elements and who writes them

constexpr std::uint32_t kNobody = 0xffffffff, kSeveral = 0xfffffffe;

// A buffer, with the task that writes each of its elements.
class Canvas {
 public:
  explicit Canvas(const Region& extent)
      : extent_(extent), writer_(static_cast<std::size_t>(extent.size()), kNobody) {}

  std::uint32_t& at(std::uint64_t row, std::uint64_t col, std::uint64_t channel,
                    std::uint64_t position) {
    const std::uint64_t pixel = row * extent_.cols.end + col;
    const std::uint64_t index =
        (pixel * extent_.channels.end + channel) * extent_.positions.end + position;
    return writer_.at(static_cast<std::size_t>(index));
  }

  void paint(const Region& region, std::uint32_t task) {
    for (std::uint64_t row = region.rows.begin; row < region.rows.end; ++row) {
      for (std::uint64_t col = region.cols.begin; col < region.cols.end; ++col) {
        for (std::uint64_t c = region.channels.begin; c < region.channels.end; ++c) {
          for (std::uint64_t p = region.positions.begin; p < region.positions.end; ++p) {
            std::uint32_t& writer = at(row, col, c, p);
            writer = writer == kNobody ? task : kSeveral;
          }
        }
      }
    }
  }

  const Region& extent() const { return extent_; }

 private:
  Region extent_;
  std::vector<std::uint32_t> writer_;
};

using Canvases = std::map<std::string, Canvas>;

// All that tasks write, by buffer.
Canvases paint(const TaskGraph& graph) {
  Canvases canvases;
  for (const Buffer& buffer : graph.buffers) {
    if (!buffer.given) canvases.emplace(buffer.name, Canvas(buffer.extent));
  }
  std::vector<Access> accesses;
  for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
    accesses.clear();
    const Task& task = graph.tasks[id];
    graph.list_accesses(graph.stage_of(id), task.group, task.block, accesses);
    for (const Access& access : accesses) {
      if (access.mode == Mode::read) continue;
      canvases.at(graph.buffers[access.buffer].name).paint(access.region, id);
    }
  }
  return canvases;
}

// Elements of a buffer whose only writer is not the task that `task_of` says.
template <class TaskOf>
std::uint64_t wrong_elements(Canvas& canvas, TaskOf task_of) {
  std::uint64_t wrong = 0;
  const Region& all = canvas.extent();
  for (std::uint64_t row = 0; row < all.rows.end; ++row) {
    for (std::uint64_t col = 0; col < all.cols.end; ++col) {
      for (std::uint64_t c = 0; c < all.channels.end; ++c) {
        for (std::uint64_t p = 0; p < all.positions.end; ++p) {
          wrong += canvas.at(row, col, c, p) != task_of(row, col, c, p) ? 1 : 0;
        }
      }
    }
  }
  return wrong;
}

void check_writes(const TaskGraph& graph, const Tiling& t) {
  const ConvProblem& a = t.problem;
  Canvases canvases = paint(graph);
  const std::uint64_t height = u64(a.p());
  Canvas& y = canvases.at("y");
  REQUIRE(y.extent().size() == u64(a.y_size()));
  std::uint64_t last_row = kNobody, last_col = kNobody;
  Place place;
  REQUIRE(wrong_elements(y, [&](auto row, auto col, auto k, auto) {
            if (row != last_row || col != last_col) {
              place = pixel_place(t, row / height, row % height, col);
              last_row = row;
              last_col = col;
            }
            return y_task(graph, t, place, k);
          }) == 0);
  if (t.num_filter_tasks > 0) {
    const std::uint64_t per_k = t.filter_blocks_per_filter_task;
    const std::uint64_t per_c = t.channel_blocks_per_filter_task;
    REQUIRE(wrong_elements(canvases.at("U"), [&](auto, auto, auto c, auto k) -> std::uint64_t {
              if (t.algorithm() == Algorithm::opencnn) return k * ceiling(u64(a.c), 8) + c;
              if (t.algorithm() == Algorithm::direct) return k / per_k;
              return k / per_k * ceiling(t.channel_blocks(), per_c) + c / per_c;
            }) == 0);
  }
  if (has_input_tasks(t)) {
    const std::uint64_t per_task = std::get<ImplicitGemmCut>(t.cut).channel_blocks_per_input_task;
    REQUIRE(wrong_elements(canvases.at("V"), [&](auto pixel, auto, auto c, auto) {
              const std::uint64_t chunks = ceiling(t.channel_blocks(), per_task);
              return t.num_filter_tasks + pixel / kPixelsOfInputTask * chunks + c / per_task;
            }) == 0);
  }
  const auto* const cut = std::get_if<WinogradCut>(&t.cut);
  if (cut == nullptr) return;
  const std::uint64_t chunks = ceiling(cut->group_tiles, cut->tiles_per_transform_task);
  const std::uint64_t positions = cut->num_positions();
  REQUIRE(wrong_elements(canvases.at("V"), [&](auto tile, auto, auto c, auto) {
            return task_id(graph, Role::input, static_cast<std::uint32_t>(tile / cut->group_tiles),
                           static_cast<std::uint32_t>(
                               c / cut->channel_blocks_per_input_task * chunks +
                               tile % cut->group_tiles / cut->tiles_per_transform_task));
          }) == 0);
  REQUIRE(wrong_elements(canvases.at("M"), [&](auto tile, auto, auto k, auto position) {
            return task_id(
                graph, Role::product, static_cast<std::uint32_t>(tile / cut->group_tiles),
                static_cast<std::uint32_t>(k / cut->filter_blocks_per_gemm_task *
                                               ceiling(positions, cut->positions_per_gemm_task) +
                                           position / cut->positions_per_gemm_task));
          }) == 0);
}

// --- reads

// What a group's tasks of a stage read of a buffer: the same for all of them, if it is not given.
std::vector<Region> reads_of(const TaskGraph& graph, const Stage& stage, std::uint32_t group,
                             BufferId buffer) {
  std::vector<Region> first, other;
  std::vector<Access> accesses;
  for (std::uint32_t block = 0; block < stage.per_group; ++block) {
    accesses.clear();
    graph.accesses[stage.node](stage.role, group, block, accesses);
    std::vector<Region>& regions = block == 0 ? first : other;
    regions.clear();
    for (const Access& access : accesses) {
      if (access.mode == Mode::read && access.buffer == buffer) regions.push_back(access.region);
    }
    if (block > 0 && !graph.buffers[buffer].given) REQUIRE(other == first);
  }
  return first;
}

bool has_pixel(const std::vector<Region>& regions, std::uint64_t row, std::uint64_t col) {
  return std::any_of(regions.begin(), regions.end(), [&](const Region& region) {
    return region.rows.begin <= row && row < region.rows.end && region.cols.begin <= col &&
           col < region.cols.end;
  });
}

// Calls visit(group, row, column) for every pixel of x under a tap of an output, row by row of all
// images; the group is that of the output. Those in the padding are left out.
template <class Visit>
void for_each_tap(const Tiling& t, Visit visit) {
  const ConvProblem& a = t.problem;
  for (std::int64_t n = 0; n < a.n; ++n) {
    for (std::int64_t p = 0; p < a.p(); ++p) {
      for (std::int64_t q = 0; q < a.q(); ++q) {
        const auto group = static_cast<std::size_t>(pixel_place(t, u64(n), u64(p), u64(q)).group);
        for (std::int64_t r = 0; r < a.r; ++r) {
          for (std::int64_t s = 0; s < a.s; ++s) {
            const std::int64_t row = p * a.stride_h + r * a.dilation_h - a.pad_h;
            const std::int64_t col = q * a.stride_w + s * a.dilation_w - a.pad_w;
            if (row < 0 || row >= a.h || col < 0 || col >= a.w) continue;
            visit(group, u64(n * a.h + row), u64(col));
          }
        }
      }
    }
  }
}

// Under every tap of every output lies a pixel of x that its group reads, or padding.
void check_reads(const TaskGraph& graph, const Tiling& t) {
  const ConvProblem& a = t.problem;
  const bool staged = t.algorithm() == Algorithm::winograd || has_input_tasks(t);
  const Stage& reader = *graph.find(0, staged ? Role::input : Role::product);
  const Stage& writer =
      *graph.find(0, t.algorithm() == Algorithm::winograd ? Role::output : Role::product);
  const BufferId x = buffer_id(graph, "x"), residual = buffer_id(graph, "residual");
  std::vector<std::vector<Region>> inputs(t.num_groups), residuals(t.num_groups);
  for (std::uint32_t group = 0; group < t.num_groups; ++group) {
    inputs[group] = reads_of(graph, reader, group, x);
    if (a.epilogue.residual) residuals[group] = reads_of(graph, writer, group, residual);
    for (const Region& region : inputs[group]) {
      REQUIRE(region.channels == Interval{0, u64(a.c)});
      REQUIRE(graph.buffers[x].extent.contains(region));
    }
  }
  std::uint64_t missing = 0;
  for_each_tap(t, [&](std::size_t group, std::uint64_t row, std::uint64_t col) {
    missing += has_pixel(inputs[group], row, col) ? 0 : 1;
  });
  for (std::uint64_t row = 0; a.epilogue.residual && row < u64(a.n * a.p()); ++row) {
    for (std::uint64_t col = 0; col < u64(a.q()); ++col) {
      const std::uint64_t p = u64(a.p());
      const auto group = static_cast<std::size_t>(pixel_place(t, row / p, row % p, col).group);
      missing += has_pixel(residuals[group], row, col) ? 0 : 1;
    }
  }
  REQUIRE(missing == 0);
}

// --- needs

// A need of one group: stage and group of the producers, and whether they free a slot.
using Need = std::tuple<Role, std::uint64_t, bool>;
using NeedsOfGroups = std::map<std::pair<Role, std::uint64_t>, std::vector<Need>>;

NeedsOfGroups needs_of_edges(const TaskGraph& graph, const std::vector<Edge>& edges) {
  NeedsOfGroups needs;
  for (const Edge& edge : edges) {
    for (std::uint64_t g = edge.consumer.groups.begin; g < edge.consumer.groups.end; ++g) {
      for (std::uint64_t p = edge.producer.groups.begin; p < edge.producer.groups.end; ++p) {
        needs[{graph.stages[edge.consumer.stage].role, g}].push_back(
            {graph.stages[edge.producer.stage].role, p, edge.reuse});
      }
    }
  }
  for (auto& [group, list] : needs) std::sort(list.begin(), list.end());
  return needs;
}

// The rule by which graphs were built before there were regions: filters before all products; the
// inputs of a group before its products, copies of x all of them; products before the group's
// outputs; and before a slot is written, what reads its group before.
NeedsOfGroups former_needs(const Tiling& t) {
  NeedsOfGroups needs;
  const bool staged = t.algorithm() == Algorithm::winograd;
  for (std::uint64_t g = 0; g < t.num_groups; ++g) {
    std::vector<Need> input, product, output;
    if (t.num_filter_tasks > 0) product.push_back({Role::prepare, 0, false});
    if (staged) {
      product.push_back({Role::input, g, false});
      output.push_back({Role::product, g, false});
      const auto [v_slots, m_slots] = *t.window();
      if (g >= v_slots) input.push_back({Role::product, g - v_slots, true});
      if (g >= m_slots) product.push_back({Role::output, g - m_slots, true});
    }
    if (has_input_tasks(t)) {
      // Groups behind the last pixel have no copies to make.
      const std::uint64_t chunks =
          ceiling(u64(t.problem.n * t.problem.h * t.problem.w), kPixelsOfInputTask) *
          ceiling(t.channel_blocks(),
                  std::get<ImplicitGemmCut>(t.cut).channel_blocks_per_input_task);
      for (std::uint64_t i = 0; i < ceiling(chunks, t.input_tasks); ++i) {
        product.push_back({Role::input, i, false});
      }
    }
    if (!input.empty()) needs[{Role::input, g}] = input;
    if (!product.empty()) needs[{Role::product, g}] = product;
    if (!output.empty()) needs[{Role::output, g}] = output;
  }
  return needs;
}

// Tasks wait for exactly what their group needs.
void check_counters(const TaskGraph& graph, const NeedsOfGroups& needs) {
  std::vector<std::vector<std::uint32_t>> signallers(graph.counter_totals.size());
  for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
    graph.for_each_signal(graph.tasks[id],
                          [&](std::uint32_t c) { signallers.at(c).push_back(id); });
  }
  for (const Task& task : graph.tasks) {
    const std::uint32_t id = static_cast<std::uint32_t>(&task - graph.tasks.data());
    const auto found = needs.find({graph.stages[graph.stage_of(id)].role, task.group});
    std::vector<std::uint32_t> needed;
    if (found != needs.end()) {
      for (const auto& [role, group, reuse] : found->second) {
        const Stage& stage = *graph.find(0, role);
        for (std::uint32_t block = 0; block < stage.per_group; ++block) {
          needed.push_back(stage.id(static_cast<std::uint32_t>(group), block));
        }
      }
    }
    std::sort(needed.begin(), needed.end());
    REQUIRE((task.wait_counter == kNoCounter) == needed.empty());
    if (needed.empty()) continue;
    REQUIRE(signallers[task.wait_counter] == needed);
    REQUIRE(task.wait_count == needed.size());
  }
}

void check_needs(const TaskGraph& graph, const Tiling& tiling) {
  const NeedsOfGroups former = former_needs(tiling);
  REQUIRE(needs_of_edges(graph, graph.edges) == former);
  const Needs proof = find_needs(graph);
  REQUIRE_FALSE(proof.wrong.has_value());
  REQUIRE(needs_of_edges(graph, proof.edges) == former);
  check_counters(graph, former);
  for (const char* policy : {"staged", "interleaved", "depth_first"}) {
    const TaskMapping mapping = make_mapping(without_window(graph), {.policy = policy});
    const auto violation = validate(without_window(graph), mapping);
    REQUIRE((violation ? violation->message : "") == "");
  }
}

// Of how many kinds the cases were, so that none of them goes missing.
using Census = std::map<std::string, int>;

void count(const Tiling& t, Census& census) {
  ++census["all"];
  if (t.num_groups > 1) ++census["several groups"];
  if (const auto* const cut = std::get_if<WinogradCut>(&t.cut)) {
    const Window& window = cut->window;
    if (cut->num_tiles % cut->group_tiles != 0) ++census["odd last group"];
    if (window != Window{t.num_groups, t.num_groups}) ++census["window"];
    if (cut->group_tiles % cut->tiles_per_transform_task != 0) ++census["odd last part"];
  }
  if (t.problem.epilogue.residual) ++census["residual"];
  if (t.problem.groups > 1) ++census[t.problem.depthwise() ? "depthwise" : "groups"];
  if (t.algorithm() == Algorithm::opencnn) ++census[to_string(t.problem.layout)];
  const auto* const gemm = std::get_if<ImplicitGemmCut>(&t.cut);
  if (gemm == nullptr) return;
  ++census[std::string("operands ") + to_string(gemm->operands)];
  const Stripes stripes = make_stripes(t.problem, static_cast<std::int32_t>(gemm->cols_per_group));
  if (stripes.images > 1) ++census["abreast"];
  if (stripes.images > 1 && has_input_tasks(t)) ++census["abreast copies"];
  if (num_stripes(t.problem, stripes) > 1) ++census["several stripes"];
}

// As many random tilings as asked for, each of which is checked.
template <class MakeTiling>
Census check_many(std::uint32_t seed, int cases, MakeTiling make_tiling) {
  Census census;
  for (std::uint32_t attempt = 0; census["all"] < cases; ++attempt) {
    Random random(seed + attempt);
    REQUIRE(attempt < 20 * static_cast<std::uint32_t>(cases));  // most of them fit
    Tiling tiling;
    try {
      tiling = make_tiling(random);
      derive_counts(tiling);
    } catch (const Error&) {
      continue;
    }
    if (tiling.num_groups > 400) continue;
    INFO("seed " << seed + attempt << "\n" << to_string(tiling));
    const TaskGraph graph = build_graph(tiling);
    check_writes(graph, tiling);
    check_reads(graph, tiling);
    check_needs(graph, tiling);
    count(tiling, census);
  }
  return census;
}

}  // namespace

TEST_CASE("tasks of Winograd write each element of V, M and y once, and need what they needed") {
  const Census census = check_many(1'000'000, 2500, [](Random& r) { return random_winograd(r); });
  for (const char* kind : {"several groups", "odd last group", "odd last part", "window"}) {
    CAPTURE(kind);
    CHECK(census.at(kind) > 200);
  }
  CHECK(census.at("residual") > 100);
}

TEST_CASE("fused tasks of Winograd write each element of y once, and need what they needed") {
  const Census census =
      check_many(2'000'000, 1000, [](Random& r) { return random_fused_winograd(r); });
  CHECK(census.at("several groups") > 200);
}

TEST_CASE("direct tasks write each element of y once, and need what they needed") {
  const Census census = check_many(3'000'000, 2500, [](Random& r) { return random_direct(r); });
  for (const char* kind : {"several groups", "groups", "depthwise", "residual"}) {
    CAPTURE(kind);
    CHECK(census.at(kind) > 100);
  }
}

TEST_CASE("tasks of implicit GEMM write each element of y once, and need what they needed") {
  const Census census =
      check_many(4'000'000, 3000, [](Random& r) { return random_implicit_gemm(r); });
  for (const char* kind :
       {"several groups", "several stripes", "abreast", "operands loaded", "operands in_tensor",
        "operands in_float_tensor", "operands in_copy", "operands converted"}) {
    CAPTURE(kind);
    CHECK(census.at(kind) > 100);
  }
  CHECK(census.at("abreast copies") > 30);
}

TEST_CASE("tasks of openCNN write each element of y once, and need what they needed") {
  const Census census = check_many(5'000'000, 1000, [](Random& r) { return random_opencnn(r); });
  for (const char* kind : {"several groups", "nchw", "nhwc", "chwn"}) {
    CAPTURE(kind);
    CHECK(census.at(kind) > 100);
  }
}

// --- two layers

namespace {

Tiling random_layer(Random& random, const ConvProblem* before) {
  switch (random.in(0, 4)) {
    case 0:
      return random_winograd(random, before);
    case 1:
      return random_fused_winograd(random, before);
    case 2:
      return random_direct(random, before);
    case 3:
      return random_implicit_gemm(random, true, before);
    default:
      return random_opencnn(random, true, before);
  }
}

// The pairs of groups of `stage` and of the layer before between which there is an edge.
std::set<std::pair<std::uint64_t, std::uint64_t>> edges_between(const TaskGraph& graph,
                                                                const std::vector<Edge>& edges,
                                                                const Stage& stage) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> pairs;
  for (const Edge& edge : edges) {
    if (&graph.stages[edge.consumer.stage] != &stage) continue;
    if (graph.stages[edge.producer.stage].node != 0) continue;
    for (std::uint64_t c = edge.consumer.groups.begin; c < edge.consumer.groups.end; ++c) {
      for (std::uint64_t p = edge.producer.groups.begin; p < edge.producer.groups.end; ++p) {
        pairs.insert({c, p});
      }
    }
  }
  return pairs;
}

}  // namespace

TEST_CASE("a layer's tasks need those that write what lies under their taps in the layer before") {
  int cases = 0, partial = 0;
  std::set<std::pair<Algorithm, Algorithm>> seen;
  for (std::uint32_t seed = 6'000'000; cases < 1500; ++seed) {
    REQUIRE(seed < 6'020'000);
    Random random(seed);
    Tiling first, second;
    try {
      first = random_layer(random, nullptr);
      second = random_layer(random, &first.problem);
      for (Tiling* tiling : {&first, &second}) {
        if (Window* const window = tiling->window()) *window = {};  // whole
        derive_counts(*tiling);
      }
    } catch (const Error&) {
      continue;
    }
    if (first.problem.dtype != second.problem.dtype || second.num_groups > 400) continue;
    if (first.problem.layout != second.problem.layout || first.num_groups > 400) continue;
    ++cases;
    seen.insert({first.algorithm(), second.algorithm()});
    INFO("seed " << seed << "\n" << to_string(first) << to_string(second));
    TaskGraph graph;
    const BufferId between = add_convolution(graph, "conv1", first).y;
    add_convolution(graph, "conv2", second, {.x = between});
    link(graph);
    count_signals(graph);
    Canvas pixels(Region{.rows = graph.buffers[between].extent.rows,
                         .cols = graph.buffers[between].extent.cols});
    const Stage& writer =
        *graph.find(0, first.algorithm() == Algorithm::winograd ? Role::output : Role::product);
    std::vector<Access> accesses;
    std::set<std::uint32_t> writers;  // groups: some of implicit GEMM have gaps only
    for (std::uint32_t group = 0; group < writer.groups; ++group) {
      for (std::uint32_t block = 0; block < writer.per_group; ++block) {
        accesses.clear();
        graph.accesses[0](writer.role, group, block, accesses);
        for (const Access& access : accesses) {
          Region region = access.region;
          if (access.mode == Mode::read || region.channels.begin > 0) continue;
          region.channels = {0, 1};
          pixels.paint(region, group);
          if (region.size() > 0) writers.insert(group);
        }
      }
    }
    const bool staged = second.algorithm() == Algorithm::winograd || has_input_tasks(second);
    const Stage& reader = *graph.find(1, staged ? Role::input : Role::product);
    std::set<std::pair<std::uint64_t, std::uint64_t>> needed;
    for_each_tap(second, [&](std::size_t group, std::uint64_t row, std::uint64_t col) {
      needed.insert({group, pixels.at(row, col, 0, 0)});
    });
    const auto linked = edges_between(graph, graph.edges, reader);
    if (has_input_tasks(second)) {  // which are dealt out in the order of pixels, and read all
      REQUIRE(linked.size() == reader.groups * writers.size());
    } else {
      REQUIRE(std::includes(linked.begin(), linked.end(), needed.begin(), needed.end()));
    }
    REQUIRE(edges_between(graph, find_needs(graph).edges, reader) == linked);
    partial += linked.size() < reader.groups * writers.size() ? 1 : 0;
    for (const std::string& policy : policy_names()) {
      const auto violation = validate(graph, make_mapping(graph, {.policy = policy}));
      INFO(policy);
      REQUIRE((violation ? violation->message : "") == "");
    }
  }
  CHECK(partial > 300);  // layers do not wait for each other whole
  CHECK(seen.size() == 25);
}
