// SPDX-License-Identifier: Apache-2.0
// x, U -> y without a transform: any filter, stride, dilation, padding and groups.
//
// Lanes are columns where lanes_are_columns() says so (columns.inl); channels of depthwise problems
// in NHWC and nchw16c (depthwise.inl); else filters. Then a task reads x in place if
// reads_x_in_place() (in_place.inl). Else it copies the input under its rectangle of outputs into a
// patch (extents.hpp) in which the input pixels of neighbouring outputs are 64 bytes apart,
// whatever the stride; the micro-kernel sums over panels (r, s, channel block) in the order in
// which U is stored.
#pragma once

#include <type_traits>

#include "tasks/cpu/filter_transform.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/micro_kernel.inl"
#include "tasks/cpu/pixels.inl"
#include "tasks/direct/cpu/columns.inl"
#include "tasks/direct/cpu/depthwise.inl"
#include "tasks/direct/cpu/in_place.inl"
#include "tasks/fused_winograd/cpu/fused_winograd.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// One block of 16 words of the patch.
template <class Reader>
void pack_patch(const ConvProblem& problem, const Extents& extents, const PixelRect& rect,
                const Reader& reader, float* patch) {
  const Size rows = (rect.rows - 1) * problem.stride_h + extents.extent_h;
  const Size cols = (rect.cols - 1) * problem.stride_w + extents.extent_w;
  const Size row = rect.row * problem.stride_h - problem.pad_h;
  const Size col = rect.col * problem.stride_w - problem.pad_w;
  for (Size i = 0; i < rows; ++i) {
    if (i % problem.stride_h >= extents.extent_h) continue;  // between filters
    float* const patch_row = patch + i * extents.patch_row;
    if (problem.stride_w == 1) {
      reader.read_row(
          row + i, col,
          cols, [&](Size j) __attribute__((always_inline)) { return patch_row + j * kBlock; });
    } else if (problem.stride_w == 2 && extents.extent_w == 1) {  // phase 0 alone is read
      reader.template read_row<2>(
          row + i, col,
          rect.cols, [&](Size j) __attribute__((always_inline)) { return patch_row + j * kBlock; });
    } else {
      reader.read_row(
          row + i, col, cols, [&](Size j) __attribute__((always_inline)) {
            return patch_row +
                   (j % problem.stride_w * extents.phase_cols + j / problem.stride_w) * kBlock;
          });
    }
  }
}

/// Where the pixel of tap (r, s) stands in the patch, from that of tap (0, 0).
inline Size tap_offset(const ConvProblem& problem, const Extents& extents, Size r, Size s) {
  const Size col = s * problem.dilation_w;
  return r * problem.dilation_h * extents.patch_row +
         (col % problem.stride_w * extents.phase_cols + col / problem.stride_w) * kBlock;
}

/// Lanes are filters: `blocks` of one conv group.
template <class T>
void direct_blocks(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                   Size conv_group, const BlockRange& blocks, std::byte* scratch) {
  using Product = typename Products<T>::Direct;
  const ConvProblem& problem = args.tiling->problem;
  float* const patch = reinterpret_cast<float*>(scratch);
  Panel* const panels = reinterpret_cast<Panel*>(scratch + extents.panels_at);
  float* const pixels = reinterpret_cast<float*>(scratch + extents.pixels_at);

  const Size first_channel = conv_group * extents.channels;
  constexpr Size kBlockChannels = kBlock * Product::kChannels;
  for (Size c = 0; c < extents.channels; c += kBlockChannels) {
    const PixelReader<T, Product> reader(args, rect.image, first_channel + c,
                                         min_of(kBlockChannels, extents.channels - c));
    pack_patch(problem, extents, rect, reader, patch + c / kBlockChannels * extents.patch_block);
  }
  const Size words = ceil_div(extents.channels, Product::kChannels);
  Size num_panels = 0;
  for (Size r = 0; r < problem.r; ++r) {
    for (Size s = 0; s < problem.s; ++s) {
      for (Size first = 0; first < words; first += kBlock) {
        panels[num_panels++] = {
            tap_offset(problem, extents, r, s) + first / kBlock * extents.patch_block,
            min_of(kBlock, words - first)};
      }
    }
  }

  const Size u_block = packed_filter_block<Product>(problem, extents);
  const Size first_block = conv_group * extents.filter_blocks_per_conv_group;
  const auto multiply_row = [&](Size kb, Size row) {
    const Size num_blocks = min_of(kMaxBlocks, blocks.last - kb);
    const MicroArgs micro{
        .a = patch + row * problem.stride_h * extents.patch_row,
        .panels = panels,
        .num_panels = num_panels,
        .u = args.u + kb * u_block,
        .u_block = u_block,
        .out = pixels,
        .out_block = rect.cols * kBlock,
        .next_u = nullptr,
        .fetch_lines = 0,
    };
    multiply_rows<Product>(micro, rect.cols, num_blocks);
    for (Size i = 0; i < num_blocks; ++i) {
      const Size filter = (kb + i - first_block) * kBlock;  // within the conv group
      const PixelWriter<T> writer(args, extents, rect.image, conv_group * extents.filters + filter,
                                  min_of(kBlock, extents.filters - filter));
      writer.write_row(pixels + i * micro.out_block, rect.row + row, rect.col, rect.cols);
    }
  };
  // All rows for some filters, which stay in the caches.
  for (Size kb = blocks.first; kb < blocks.last; kb += kMaxBlocks) {
    for (Size row = 0; row < rect.rows; ++row) multiply_row(kb, row);
  }
}

template <class T>
void direct_convolution(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                        std::byte* scratch) {
  const Tiling& tiling = *args.tiling;
  const Extents extents(tiling);
  const DirectCut& cut = direct_cut(tiling);
  const PixelRect rect(cut, extents, group);
  const BlockRange blocks(block, cut.filter_blocks_per_gemm_task, extents.filter_blocks);
  if (extents.depthwise) {
    if (extents.columns) {
      depthwise_columns<T>(args, extents, rect, blocks, scratch);
    } else {
      depthwise_channels<T>(args, extents, rect, blocks);
    }
    end_streaming();
    return;
  }
  // A task's filter blocks may span conv groups; each has its own input channels.
  const Size per_group = extents.filter_blocks_per_conv_group;
  for (BlockRange part = blocks; part.first < blocks.last; part.first = part.last) {
    const Size conv_group = part.first / per_group;
    part.last = min_of(blocks.last, (conv_group + 1) * per_group);
    if constexpr (std::is_same_v<T, float>) {
      if (extents.in_place) {
        in_place(args, extents, rect, conv_group, part, scratch);
        continue;
      }
    }
    if constexpr (Products<T>::Direct::kChannels == 1) {
      if (extents.columns) {
        direct_columns<T>(args, extents, rect, conv_group, part, scratch);
        continue;
      }
    }
    direct_blocks<T>(args, extents, rect, conv_group, part, scratch);
  }
  end_streaming();
}

/// Tasks of kind `direct`.
template <class T>
void direct(const TaskArgs& args, std::uint32_t group, std::uint32_t block, std::byte* scratch) {
  if (args.tiling->algorithm() == Algorithm::fused_winograd) {
    return fused_winograd<T>(args, group, scratch);
  }
  direct_convolution<T>(args, group, block, scratch);
}

}  // namespace megaconv::cpu::MEGACONV_ISA
