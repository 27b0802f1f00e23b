// SPDX-License-Identifier: Apache-2.0
#include "tasks/row_bands.hpp"

#include <algorithm>
#include <utility>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// A task that has fewer numbers takes no longer than a worker takes to fetch and signal it.
constexpr double kLeastNumbersOfTask = 8192;

}  // namespace

std::uint32_t rows_of_bands(std::int64_t images, std::int64_t rows, std::int64_t numbers,
                            std::uint32_t workers) {
  if (workers == 0) fail("workers = 0: must be at least 1");
  const double most = static_cast<double>(kTasksPerWorker * workers);
  const auto wanted = static_cast<std::uint64_t>(
      std::clamp(static_cast<double>(numbers) / kLeastNumbersOfTask, 1.0, most));
  return u32(u64(rows) / std::min(u64(rows), ceil_div(wanted, u64(images))));
}

std::uint32_t count_bands(std::int64_t images, std::int64_t rows, std::uint32_t rows_per_group) {
  if (rows_per_group < 1 || rows_per_group > u64(rows)) {
    fail("rows_per_group = " + std::to_string(rows_per_group) + ": must be 1 to " +
         std::to_string(rows));
  }
  const std::uint64_t groups = u64(images) * ceil_div(u64(rows), std::uint64_t{rows_per_group});
  if (groups > kMaxTasks) {
    throw Error(Status::unsupported,
                std::to_string(groups) + " tasks: must be at most 2^31; use larger groups");
  }
  return u32(groups);
}

RowBand band_of(std::int64_t rows, std::uint32_t rows_per_group, std::uint32_t group) {
  const std::int64_t bands = ceil_div(rows, std::int64_t{rows_per_group});
  const std::int64_t row = group % bands * rows_per_group;
  return {group / bands, row, std::min<std::int64_t>(rows_per_group, rows - row)};
}

void check_storage(const char* what, DataType dtype, Layout layout) {
  if (dtype != DataType::f32 && dtype != DataType::f16 && dtype != DataType::bf16) {
    throw Error(Status::unsupported, std::string(what) + ": storage type " + to_string(dtype) +
                                         ", must be f32, f16 or bf16");
  }
  if (layout != Layout::nchw && layout != Layout::nhwc) {
    throw Error(Status::unsupported,
                std::string(what) + ": layout " + to_string(layout) + ", must be nchw or nhwc");
  }
}

void check_cuda_image(const char* what, Layout layout, std::int64_t numbers) {
  if (layout != Layout::nhwc) {
    throw Error(Status::unsupported,
                std::string(what) + " on CUDA: layout " + to_string(layout) + ", must be nhwc");
  }
  if (numbers > std::int64_t{1} << 30) {
    throw Error(Status::unsupported, std::string(what) + " on CUDA: an image of " +
                                         std::to_string(numbers) +
                                         " numbers, must be at most 2^30");
  }
}

Region tensor_extent(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return {.rows = {0, u64(n * h)}, .cols = {0, u64(w)}, .channels = {0, u64(c)}};
}

BufferId add_bands(TaskGraph& graph, const std::string& name, std::uint32_t groups,
                   const Region& y_extent, std::uint64_t y_bytes, double operations,
                   const std::vector<BandRead>& reads,
                   const std::function<AccessFunction(BufferId y)>& accesses) {
  using Piece = Traffic::Piece;
  const auto y = static_cast<BufferId>(graph.buffers.size());
  Stage stage;
  stage.node = static_cast<NodeId>(graph.nodes.size());
  stage.role = Role::product;
  stage.kind = id_of(TaskKind::elementwise);
  stage.groups = groups;
  stage.per_group = 1;
  const auto tasks = static_cast<double>(stage.num_tasks());
  stage.operations = operations / tasks;
  for (const BandRead& read : reads) {
    stage.traffic.push_back({read.buffer, Mode::read, Piece::evenly, read.bytes / tasks});
    stage.bytes += read.bytes / tasks;
  }
  const double written = static_cast<double>(y_bytes) / tasks;
  stage.traffic.push_back({y, Mode::write, Piece::of_task, written});
  stage.bytes += written;
  add_stage(graph, std::move(stage));  // the one that may throw comes first
  graph.nodes.push_back(name);
  graph.buffers.push_back({.name = name + ".y", .extent = y_extent, .bytes = y_bytes});
  graph.accesses.push_back(accesses(y));
  return y;
}

}  // namespace megaconv
