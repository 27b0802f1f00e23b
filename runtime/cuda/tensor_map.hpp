// SPDX-License-Identifier: Apache-2.0
// Tensor maps: how TMA finds its way through tensors whose channels lie side by side (CUDA driver
// API, "Tensor Map Object Management").
#pragma once

#include <cuda.h>

#include "megaconv/problem.hpp"
#include "tasks/direct/depthwise_box.hpp"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv::cuda {

// All throw Error(invalid_argument) for an address that is no multiple of 16.
void check_whole_octets(const char* name, const void* address);

/// What a tensor holds.
enum class Elements { f16, bf16, f32, f32_rounded_to_tf32 };
Elements elements_of(const ConvProblem& problem);  ///< of its tensors, as they are

/// x of a problem in NHWC, or what was made of it.
struct Pixels {
  const void* x;
  std::int64_t channels;  ///< of a pixel
  std::int64_t pitch;     ///< numbers from a pixel to the next; fewer than it has, if they overlap
  std::int64_t row_pixels;  ///< from a row to the next
  Elements elements;
};
/// `places` padded pixels of the `stripe`-th stripe (tasks/implicit_gemm/stripes.hpp), in a K block
/// of 64 or 128 bytes of channels.
CUtensorMap pixel_tensor(const ConvProblem& problem, const Pixels& pixels, const Stripes& stripes,
                         int stripe, int k_block_channels, int places);

/// The same of images abreast: a box of `rows` rows of all of them.
CUtensorMap abreast_tensor(const ConvProblem& problem, const Pixels& pixels, const Stripes& stripes,
                           int k_block_channels, int rows);

/// x of a problem in NHWC as boxes of depthwise tasks.
CUtensorMap box_tensor(const ConvProblem& problem, const void* x, const DepthwiseBox& box);

/// w of a problem in NHWC, or what was made of it, with so many numbers a tap: a tap of `filters`
/// filters, in a K block of 64 or 128 bytes of channels.
CUtensorMap filter_tensor(const ConvProblem& problem, const void* w, std::int64_t tap_numbers,
                          Elements elements, int k_block_channels, int filters);

/// y of a problem in NHWC, or a residual, whose pixels are whole vectors of 16 bytes: `cols`
/// columns of a row, or so many pixels in order, of each the filters in 128 bytes.
CUtensorMap output_tensor(const char* name, const ConvProblem& problem, const void* y, int cols,
                          bool in_order);

}  // namespace megaconv::cuda
