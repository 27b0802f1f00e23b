// SPDX-License-Identifier: Apache-2.0
// Winograd tasks of every instruction set, stage by stage: each of U, V, M and y is recomputed in
// double from what the stage before it really wrote, so that a failure points at a stage.
#include <utility>
#include <vector>

#include "tasks/activation.hpp"
#include "tasks/winograd/cpu/tile_order.hpp"
#include "tasks/winograd/winograd.hpp"
#include "tasks/winograd/winograd_matrices.hpp"
#include "tests/catch.hpp"
#include "tests/tasks/cpu_layer.hpp"

namespace megaconv {
namespace {

constexpr double kUnitRoundoff = unit_roundoff(DataType::f32);

/// The worst |got - truth| / (u scale) of a stage; infinite when an element was not computed. What
/// rounding to a narrow storage type may have done is taken off: u of that type times the number
/// before it was rounded, which is at most |got| / (1 - u).
struct StageError {
  double worst = 0;
  void add(float got, double truth, double scale, DataType stored_as = DataType::f32) {
    double error = std::fabs(got - truth);
    if (stored_as != DataType::f32) {
      const double u = unit_roundoff(stored_as);
      const double size = std::max<double>(std::fabs(got), least_normal(stored_as));
      error = std::max(0.0, error - u / (1 - u) * size);
    }
    if (error == 0) return;
    worst = std::isfinite(got) ? std::max(worst, error / (kUnitRoundoff * scale))
                               : std::numeric_limits<double>::infinity();
  }
};

using Matrix = std::vector<std::vector<double>>;

template <class Scalar, int kRows, int kCols>
Matrix matrix_of(const Scalar (&numbers)[kRows][kCols]) {
  Matrix matrix(kRows, std::vector<double>(kCols));
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) {
      matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] =
          static_cast<double>(numbers[i][j]);
    }
  }
  return matrix;
}

/// left * d * right^T and |left| |d| |right|^T.
struct Sandwich {
  Sandwich(const Matrix& left, const Matrix& d, const Matrix& right)
      : value(left.size(), std::vector<double>(right.size())), magnitude(value) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      for (std::size_t j = 0; j < right.size(); ++j) {
        for (std::size_t a = 0; a < left[i].size(); ++a) {
          for (std::size_t b = 0; b < right[j].size(); ++b) {
            const double term = left[i][a] * d[a][b] * right[j][b];
            value[i][j] += term;
            magnitude[i][j] += std::fabs(term);
          }
        }
      }
    }
  }
  Matrix value, magnitude;
};

/// A dimension of a tile.
struct Line {
  std::vector<int> positions;  ///< that it needs
  Matrix bt, at;
};

/// A whole tile, or an edge tile of fewer outputs.
template <int kM, int kOutputs = kM>
Line line_of(Points points, std::int64_t outputs) {
  Line line;
  if constexpr (kOutputs > 0) {
    if (outputs != kOutputs) return line_of<kM, kOutputs - 1>(points, outputs);
    if constexpr (kOutputs == kM) {
      const WinogradMatrices<kM> whole = winograd_matrices<kM>(points);
      line = {{}, matrix_of(whole.bt), matrix_of(whole.at)};
      for (int i = 0; i < kM + 2; ++i) line.positions.push_back(i);
    } else {
      const EdgeMatrices<kOutputs> edge = edge_matrices<kM, kOutputs>(points);
      line = {{std::begin(edge.position), std::end(edge.position)},
              matrix_of(edge.bt),
              matrix_of(edge.at)};
    }
  }
  return line;
}

/// Checks each stage of a layer that has run with whole V and M.
template <int kRows, int kCols = kRows>
class StageCheck {
 public:
  explicit StageCheck(CpuLayer& layer)
      : layer_(layer),
        tiling_(layer.tiling),
        tiles_(*tiling_.tiles()),
        problem_(layer.tiling.problem) {}

  // One rounding of a value computed in double (and the double's own roundings, 2^-28 u).
  void check_u() {
    StageError error;
    bool tail_zero = true;
    for (std::int64_t k = 0; k < tiling_.filter_blocks() * kBlock; ++k) {
      for (std::int64_t c = 0; c < problem_.c; ++c) {
        Matrix g(kWinogradR, std::vector<double>(kWinogradR));
        for (std::size_t i = 0; i < 9 && k < problem_.k; ++i) {
          g[i / 3][i % 3] = weight(k, c, static_cast<int>(i));
        }
        const Sandwich truth(g_h_, g, g_w_);
        for (std::size_t p = 0; p < kPositions; ++p) {
          const float got = u(static_cast<int>(p), k, c);
          const double value = truth.value[p / kAlphaW][p % kAlphaW];
          if (k >= problem_.k) tail_zero &= got == 0;
          error.add(got, value,
                    std::fabs(value) + 0x1p-26 * truth.magnitude[p / kAlphaW][p % kAlphaW]);
        }
      }
    }
    CHECK(tail_zero);
    CHECK(error.worst <= 1);
  }

  // Each one-dimensional transform makes at most alpha + 1 roundings on the way to an output.
  // Positions that a tile does not need are left alone.
  void check_v() {
    StageError error;
    bool tail_zero = true, rest_untouched = true;
    for (std::int64_t tile = 0; tile < tiling_.num_groups * tiles_.group_tiles; ++tile) {
      const Line rows = rows_of(tile), cols = cols_of(tile);
      for (std::int64_t c = 0; c < tiling_.channel_blocks() * kBlock; ++c) {
        Matrix d(rows.bt.size(), std::vector<double>(cols.bt.size()));
        for (std::size_t i = 0; i < rows.bt.size(); ++i) {
          for (std::size_t j = 0; j < cols.bt.size(); ++j) {
            d[i][j] = input(tile, c, static_cast<int>(i), static_cast<int>(j));
          }
        }
        const Sandwich truth(rows.bt, d, cols.bt);
        std::vector<bool> needed(kPositions);
        for (std::size_t i = 0; tile < num_tiles_ && i < rows.positions.size(); ++i) {
          for (std::size_t j = 0; j < cols.positions.size(); ++j) {
            const int p = rows.positions[i] * kAlphaW + cols.positions[j];
            needed[static_cast<std::size_t>(p)] = true;
            const float got = v(p, tile, c);
            if (c >= problem_.c) tail_zero &= got == 0;
            error.add(got, truth.value[i][j], truth.magnitude[i][j]);
          }
        }
        for (int p = 0; p < kPositions; ++p) {
          if (!needed[static_cast<std::size_t>(p)]) {
            rest_untouched &= FencedBuffer::is_poison(v(p, tile, c));
          }
        }
      }
    }
    CHECK(tail_zero);
    CHECK(rest_untouched);
    CHECK(error.worst <= kAlphaH + kAlphaW + 2);
  }

  // A sum of C products with fused or separate roundings: gamma_(C+1), from what V and U hold.
  void check_m() {
    StageError error;
    bool rest_untouched = true;
    for (std::int64_t tile = 0; tile < tiling_.num_groups * tiles_.group_tiles; ++tile) {
      for (std::int64_t k = 0; k < tiling_.filter_blocks() * kBlock; ++k) {
        for (int p = 0; p < kPositions; ++p) {
          if (FencedBuffer::is_poison(v(p, tile, 0))) {
            rest_untouched &= FencedBuffer::is_poison(m(p, tile, k));
            continue;
          }
          double sum = 0, magnitude = 0;
          for (std::int64_t c = 0; c < problem_.c; ++c) {
            const double product = static_cast<double>(v(p, tile, c)) * u(p, k, c);
            sum += product;
            magnitude += std::fabs(product);
          }
          error.add(m(p, tile, k), sum, magnitude);
        }
      }
    }
    CHECK(rest_untouched);
    CHECK(error.worst <= static_cast<double>(problem_.c) + 1);
  }

  // Two transforms of at most alpha + 1 roundings each, then bias and residual.
  void check_y() {
    StageError error;
    for (std::int64_t tile = 0; tile < num_tiles_; ++tile) {
      const std::int64_t row = tile / tiles_.tiles_w % tiles_.tiles_h * kRows;
      const std::int64_t col = tile % tiles_.tiles_w * kCols;
      const Line rows = rows_of(tile), cols = cols_of(tile);
      for (std::int64_t k = 0; k < problem_.k; ++k) {
        Matrix d(rows.positions.size(), std::vector<double>(cols.positions.size()));
        for (std::size_t i = 0; i < rows.positions.size(); ++i) {
          for (std::size_t j = 0; j < cols.positions.size(); ++j) {
            d[i][j] = m(rows.positions[i] * kAlphaW + cols.positions[j], tile, k);
          }
        }
        const Sandwich truth(rows.at, d, cols.at);
        for (std::int64_t i = 0; i < kRows && row + i < problem_.p(); ++i) {
          for (std::int64_t j = 0; j < kCols && col + j < problem_.q(); ++j) {
            const std::int64_t at =
                output_at(tile / (tiles_.tiles_h * tiles_.tiles_w), k, row + i, col + j);
            const auto ui = static_cast<std::size_t>(i), uj = static_cast<std::size_t>(j);
            double value = truth.value[ui][uj], magnitude = truth.magnitude[ui][uj];
            const auto add = [&](float term) {
              value += term;
              magnitude += std::fabs(term);
            };
            if (problem_.epilogue.bias) add(layer_.bias[static_cast<std::size_t>(k)]);
            if (problem_.epilogue.residual) add(layer_.residual[static_cast<std::size_t>(at)]);
            error.add(layer_.y[static_cast<std::size_t>(at)],
                      activated(problem_.epilogue.activation, value), magnitude, problem_.dtype);
          }
        }
      }
    }
    CHECK(error.worst <= kAlphaH + kAlphaW + 2 + 2);
  }

 private:
  static constexpr int kAlphaH = kRows + 2, kAlphaW = kCols + 2, kPositions = kAlphaH * kAlphaW;
  static constexpr std::int64_t kBlock = Tiling::kLaneBlock;

  float weight(std::int64_t k, std::int64_t c, int tap) const {
    return layer_.w[static_cast<std::size_t>(nhwc_ ? (k * 9 + tap) * problem_.c + c
                                                   : (k * problem_.c + c) * 9 + tap)];
  }
  float input(std::int64_t tile, std::int64_t c, int i, int j) const {
    const std::int64_t n = tile / (tiles_.tiles_h * tiles_.tiles_w);
    const std::int64_t row = tile / tiles_.tiles_w % tiles_.tiles_h * kRows + i - problem_.pad_h;
    const std::int64_t col = tile % tiles_.tiles_w * kCols + j - problem_.pad_w;
    if (tile >= num_tiles_ || c >= problem_.c || row < 0 || row >= problem_.h || col < 0 ||
        col >= problem_.w) {
      return 0;
    }
    return layer_.x[static_cast<std::size_t>(
        nhwc_ ? ((n * problem_.h + row) * problem_.w + col) * problem_.c + c
              : ((n * problem_.c + c) * problem_.h + row) * problem_.w + col)];
  }
  std::int64_t output_at(std::int64_t n, std::int64_t k, std::int64_t row, std::int64_t col) const {
    return nhwc_ ? ((n * problem_.p() + row) * problem_.q() + col) * problem_.k + k
                 : ((n * problem_.k + k) * problem_.p() + row) * problem_.q() + col;
  }
  // Outputs of the last tile of a line.
  std::int64_t last_outputs(std::int64_t outputs, std::int64_t m) const {
    return tiles_.points == Points::low_error && outputs % m != 0 ? outputs % m : m;
  }
  std::int64_t last_rows() const { return last_outputs(problem_.p(), kRows); }
  std::int64_t last_cols() const { return last_outputs(problem_.q(), kCols); }
  bool ends_row(std::int64_t tile) const {
    return last_cols() < kCols && tile % tiles_.tiles_w == tiles_.tiles_w - 1;
  }
  bool ends_column(std::int64_t tile) const {
    return last_rows() < kRows && tile / tiles_.tiles_w % tiles_.tiles_h == tiles_.tiles_h - 1;
  }
  Line rows_of(std::int64_t tile) const {
    return line_of<kRows>(tiles_.points, ends_column(tile) ? last_rows() : kRows);
  }
  Line cols_of(std::int64_t tile) const {
    return line_of<kCols>(tiles_.points, ends_row(tile) ? last_cols() : kCols);
  }
  // Among the tiles of its group: ends of rows, whole tiles, ends of columns, corners.
  std::int64_t row_of(std::int64_t tile) const {
    const auto part = [&](std::int64_t t) {
      return ends_column(t) ? (ends_row(t) ? 3 : 2) : ends_row(t) ? 0 : 1;
    };
    const std::int64_t first = tile / tiles_.group_tiles * tiles_.group_tiles;
    if (tile >= num_tiles_) return tile - first;
    std::int64_t row = 0;
    for (std::int64_t t = first; t < std::min(first + tiles_.group_tiles, num_tiles_); ++t) {
      if (part(t) < part(tile) || (part(t) == part(tile) && t < tile)) ++row;
    }
    return row;
  }
  // [slot][panel][block][p][h][16], with as many slots as groups and panels of at most 56 tiles,
  // between whose positions there is an odd number of tiles
  float in_panels(FencedBuffer& buffer, std::int64_t blocks, int p, std::int64_t tile,
                  std::int64_t lane) const {
    const std::int64_t t = tiles_.group_tiles, panels = (t + 55) / 56;
    const std::int64_t h = (t + panels - 1) / panels, row = row_of(tile);
    const std::int64_t panel = tile / t * panels + row / h;
    const std::int64_t rows = (panel * blocks + lane / kBlock) * kPositions + p;
    return buffer.floats()[(rows * (h | 1) + row % h) * kBlock + lane % kBlock];
  }
  float v(int p, std::int64_t tile, std::int64_t c) const {
    return in_panels(layer_.v, tiling_.channel_blocks(), p, tile, c);
  }
  float m(int p, std::int64_t tile, std::int64_t k) const {
    return in_panels(layer_.m, tiling_.filter_blocks(), p, tile, k);
  }
  float u(int p, std::int64_t k, std::int64_t c) const {
    const std::int64_t row = (p * tiling_.filter_blocks() + k / kBlock) * problem_.c + c;
    return layer_.u.floats()[row * kBlock + k % kBlock];
  }

  CpuLayer& layer_;
  const Tiling& tiling_;
  const WinogradTiles& tiles_;
  const ConvProblem& problem_;
  const Matrix g_h_ = matrix_of(winograd_matrices<kRows>(tiles_.points).g);
  const Matrix g_w_ = matrix_of(winograd_matrices<kCols>(tiles_.points).g);
  const bool nhwc_ = layer_.tiling.problem.layout == Layout::nhwc;
  const std::int64_t num_tiles_ = static_cast<std::int64_t>(tiles_.num_tiles);
};

struct Winograd {
  std::uint32_t m;
  Points points;
};
constexpr Winograd kWinograds[] = {{2, Points::low_error},       {4, Points::low_error},
                                   {4, Points::integer},         {kWideTile, Points::low_error},
                                   {kWideTile, Points::integer}, {6, Points::low_error},
                                   {6, Points::integer}};

Tiling winograd_tiling(const std::string& text, Winograd winograd, std::uint32_t group_tiles) {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.m = winograd.m;
  options.points = winograd.points;
  options.group_tiles = group_tiles;
  options.whole_tensors = true;
  return make_tiling(parse_problem(text), options, Target{.workers = 3});
}

void check_stages(const Tiling& tiling, const cpu::Kernels& kernels) {
  INFO(to_string(tiling) << "isa: " << kernels.isa);
  CpuLayer layer(tiling, kernels);
  layer.fill_random(1);
  layer.run();
  CHECK(layer.fences_whole());
  CHECK(layer.u.all_written());
  CHECK(layer.y.all_written());
  const auto check = [](auto stages) {
    stages.check_u();
    stages.check_v();
    stages.check_m();
    stages.check_y();
  };
  if (tiling.tiles()->m == 2) check(StageCheck<2>(layer));
  if (tiling.tiles()->m == 4) check(StageCheck<4>(layer));
  if (tiling.tiles()->m == kWideTile) check(StageCheck<4, 6>(layer));
  if (tiling.tiles()->m == 6) check(StageCheck<6>(layer));

  const ErrorReport report = layer.error();
  INFO(to_string(report));
  CHECK(error_bound(tiling).covers(report));
}

/// Every layout with a storage type, each type at least once.
constexpr const char* kSuffixes[] = {"+nchw", "+nhwc", "+nchw+bf16", "+nhwc+f16"};
constexpr const char* kAllSuffixes[] = {"+nchw", "+nhwc", "+nchw+bf16", "+nhwc+f16", "+nchw16c"};

void check_problem(const std::string& text, std::uint32_t group_tiles) {
  for (const Winograd& winograd : kWinograds) {
    for (const char* suffix : kSuffixes) {
      const Tiling tiling = winograd_tiling(text + suffix, winograd, group_tiles);
      for (const std::string& isa : cpu::available_isas()) {
        check_stages(tiling, cpu::kernels_for(isa));
      }
    }
  }
}

TEST_CASE("Winograd stages are right for channels, filters and images of odd sizes") {
  check_problem("n2c17h9w13k19", 5);
  check_problem("c35h7w5k16", 3);
  check_problem("c16h12w12k33", 100);
  check_problem("c1h4w4k1", 1);
  check_problem("n3c5h1w2k3", 2);
}

TEST_CASE("Winograd stages are right for every padding from 0 to 3") {
  check_problem("c18h8w11k16p0", 4);
  check_problem("c3h5w6k18p2", 7);
  check_problem("n2c16h3w4k5p3", 16);
  check_problem("c4h6w9k7p0x3", 5);
}

TEST_CASE("Winograd stages are right for tile rows wider than a strip") {
  check_problem("c3h3w150k2", 60);
  check_problem("c16h4w133k1p2x1", 21);
}

TEST_CASE("no position is multiplied for a tile that does not need it") {
  for (const auto& [problem, m] : {std::pair{"n4c16h13k16", 0u},
                                   {"n2c16h26w14k16", 0u},
                                   {"c16h7w12k16", 0u},
                                   {"n2c16h25w14k16u2", 0u},
                                   {"n4c16h13k16", kWideTile},
                                   {"n2c16h14w28k16", kWideTile}}) {
    for (const std::uint32_t group_tiles : {1u, 5u, 7u}) {
      TilingOptions options;
      options.algorithm = Algorithm::fused_winograd;
      options.m = m;
      options.group_tiles = group_tiles;
      const Tiling tiling = make_tiling(parse_problem(problem), options, Target{});
      double rows = 0;
      for (std::uint32_t group = 0; group < tiling.num_groups; ++group) {
        const cpu::TileOrder order(tiling, group);
        for (std::uint32_t p = 0; p < tiling.tiles()->num_positions(); ++p) {
          const auto [first, last] = order.rows_of(p);
          rows += static_cast<double>(last - first);
        }
      }
      INFO(to_string(tiling));
      CHECK(rows == needed_positions(tiling.problem, *tiling.tiles()));
    }
  }
}

TEST_CASE("transformed filters larger than the caches are right") {
  for (const std::string& isa : cpu::available_isas()) {  // U: 36 x 352 x 352 floats, 18 MB
    check_stages(winograd_tiling("c352h4w4k352", kWinograds[1], 1), cpu::kernels_for(isa));
  }
}

TEST_CASE("outputs larger than the caches are right") {  // y: 17 x 512 x 512 floats, 18 MB
  for (const std::string& isa : cpu::available_isas()) {
    for (const Algorithm algorithm : {Algorithm::fused_winograd, Algorithm::direct}) {
      const Tiling tiling = make_tiling(parse_problem("c1h512k17+bias+relu"),
                                        {.algorithm = algorithm}, Target{.workers = 2});
      INFO(to_string(tiling) << "isa: " << isa);
      CpuLayer layer(tiling, cpu::kernels_for(isa));
      layer.fill_random(2);
      layer.run();
      CHECK(layer.fences_whole());
      CHECK(layer.y.all_written());
      CHECK(error_bound(tiling).covers(layer.error()));
    }
  }
}

TEST_CASE("output transforms apply every epilogue") {
  for (const char* epilogue :
       {"+bias", "+residual", "+relu", "+bias+residual", "+bias+relu", "+residual+relu",
        "+bias+residual+relu", "+bias+clamp:-0.5:6", "+residual+leaky_relu:0.1"}) {
    check_problem(std::string("c5h7w18k21") + epilogue, 4);
  }
}

TEST_CASE("Winograd tasks may be cut anywhere, and may share window slots") {
  for (const char* suffix : kSuffixes) {
    Tiling tiling = winograd_tiling(std::string("n2c50h13w18k70+bias") + suffix, kWinograds[1], 7);
    CpuLayer whole(tiling);
    whole.fill_random(9);
    whole.run();
    for (const std::uint32_t blocks : {1u, 2u, 3u}) {
      for (const std::uint32_t positions : {1u, 5u, 35u}) {
        auto& sizes = std::get<WinogradCut>(tiling.cut);
        sizes.channel_blocks_per_input_task = blocks;
        sizes.tiles_per_transform_task = 2 * blocks;
        sizes.filter_blocks_per_gemm_task = blocks;
        sizes.filter_blocks_per_output_task = blocks;
        tiling.filter_blocks_per_filter_task = blocks;
        tiling.channel_blocks_per_filter_task = blocks;
        sizes.positions_per_gemm_task = positions;
        sizes.window = {1, 2};
        derive_counts(tiling);
        INFO(to_string(tiling));
        CpuLayer cut(tiling);
        cut.fill_random(9);
        cut.run();
        CHECK(cut.fences_whole());
        CHECK(cut.y.same_numbers(whole.y));
      }
    }
  }
}

TEST_CASE("fused tasks compute bit for bit what tasks of stages compute") {
  for (const char* text : {"n2c17h9w13k19+bias+residual+relu", "c35h7w5k16", "c1h4w4k1",
                           "c16h4w133k1p2x1", "n2c50h13w18k70+relu", "c18h6w9k150+bias"}) {
    for (const Winograd& winograd : kWinograds) {
      for (const char* suffix : kAllSuffixes) {
        for (const std::string& isa : cpu::available_isas()) {
          Tiling tiling = winograd_tiling(std::string(text) + suffix, winograd, 3);
          CpuLayer stages(tiling, cpu::kernels_for(isa));
          stages.fill_random(4);
          stages.run();
          const WinogradTiles tiles = *tiling.tiles();
          auto& fused_cut = tiling.cut.emplace<FusedWinogradCut>(tiles);
          for (const std::uint32_t group_tiles : {1u, 16u, 1000u}) {
            fused_cut.group_tiles =
                std::min(group_tiles, static_cast<std::uint32_t>(tiles.num_tiles));
            derive_counts(tiling);
            INFO(to_string(tiling) << "isa: " << isa);
            CpuLayer fused(tiling, cpu::kernels_for(isa));
            fused.fill_random(4);
            fused.run();
            CHECK(fused.fences_whole());
            CHECK(fused.y.same_numbers(stages.y));
          }
        }
      }
    }
  }
}

TEST_CASE("fused tasks of stride 2 are right, and those of 2 x 2 outputs exact for whole numbers") {
  for (const char* text :
       {"n2c17h9w13k19u2+bias+residual+relu", "c35h7w5k16u2p0", "c1h3w3k1u2p0", "n3c5h2w1k3u2",
        "c16h4w300k33u2p1x2", "c48h20w21k40u2p2+bias", "c9h30w7k5u2p3x0", "c150h8w8k150u2"}) {
    for (const char* suffix : kAllSuffixes) {
      for (const auto& [m, group_tiles] :
           {std::pair{2u, 1u}, {2u, 16u}, {2u, 1000u}, {4u, 1u}, {4u, 7u}, {4u, 1000u}}) {
        const Tiling tiling = make_tiling(
            parse_problem(std::string(text) + suffix),
            {.algorithm = Algorithm::fused_winograd, .m = m, .group_tiles = group_tiles},
            Target{.workers = 3});
        CHECK(tiling.tiles()->num_positions() == (2 * m + 1) * (2 * m + 1));
        for (const std::string& isa : cpu::available_isas()) {
          INFO(to_string(tiling) << "isa: " << isa);
          CpuLayer layer(tiling, cpu::kernels_for(isa));
          layer.fill_random(6);
          layer.run();
          CHECK(layer.fences_whole());
          CHECK(layer.y.all_written());
          CHECK(error_bound(tiling).covers(layer.error()));
          if (m == 4) continue;  // its points are no whole numbers
          layer.fill_whole_numbers(3, 1);
          layer.run();
          CHECK(layer.exact());
        }
      }
    }
  }
}

TEST_CASE("Winograd is exact for whole numbers") {
  for (const char* suffix : kAllSuffixes) {
    for (const char* text : {"n2c40h13w11k35+bias+residual+relu", "c128h14w14k32", "c9h30w7k5p2"}) {
      for (const auto& [winograd, multiple] :
           {std::pair{Winograd{2, Points::integer}, 4.0f}, {{4, Points::integer}, 576.0f}}) {
        for (const std::string& isa : cpu::available_isas()) {
          const Tiling tiling = winograd_tiling(std::string(text) + suffix, winograd, 10);
          INFO(to_string(tiling) << "isa: " << isa);
          CpuLayer layer(tiling, cpu::kernels_for(isa));
          layer.fill_whole_numbers(3, multiple);
          layer.run();
          CHECK(layer.exact());
        }
      }
    }
  }
}

}  // namespace
}  // namespace megaconv
