// SPDX-License-Identifier: Apache-2.0
// Operators whose task groups are one task each, with some rows of one image of y.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "megaconv/graph.hpp"
#include "megaconv/problem.hpp"

namespace megaconv {

/// Rows of an image, of which a task has some.
struct RowBand {
  std::int64_t image, row, rows;
};

/// Rows of a task: tasks enough for `workers`, none of them tiny, where all tasks together write so
/// many numbers. Throws Error(invalid_argument) without workers.
std::uint32_t rows_of_bands(std::int64_t images, std::int64_t rows, std::int64_t numbers,
                            std::uint32_t workers);

/// How many bands there are. Throws Error(invalid_argument) for rows_per_group out of range,
/// Error(unsupported) past 2^31 tasks.
std::uint32_t count_bands(std::int64_t images, std::int64_t rows, std::uint32_t rows_per_group);

RowBand band_of(std::int64_t rows, std::uint32_t rows_per_group, std::uint32_t group);

/// Throws Error(unsupported) for what such operators do not have: i8, chwn.
void check_storage(const char* what, DataType dtype, Layout layout);
/// Throws Error(unsupported) for what CUDA tasks of such operators do not have: another layout than
/// nhwc, images of more than 2^30 numbers.
void check_cuda_image(const char* what, Layout layout, std::int64_t numbers);

/// A tensor as buffers count it: rows of all images, columns, channels.
Region tensor_extent(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w);

/// Appends a node of one stage with `groups` tasks: its name, its buffer y of that extent, what its
/// tasks read and write (`accesses`, given the id of y), and what they cost. `reads`: bytes by
/// buffer that all tasks together read. Returns the id of y.
struct BandRead {
  BufferId buffer;
  double bytes;
};
BufferId add_bands(TaskGraph& graph, const std::string& name, std::uint32_t groups,
                   const Region& y_extent, std::uint64_t y_bytes, double operations,
                   const std::vector<BandRead>& reads,
                   const std::function<AccessFunction(BufferId y)>& accesses);

}  // namespace megaconv
