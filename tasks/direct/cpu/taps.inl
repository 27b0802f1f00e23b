// SPDX-License-Identifier: Apache-2.0
// Which taps of a filter are inside of the image, for which outputs.
#pragma once

#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/simd.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

/// Rows or columns of a problem.
struct Axis {
  Size extent, taps, stride, dilation, pad;

  static Axis rows(const ConvProblem& a) { return {a.h, a.r, a.stride_h, a.dilation_h, a.pad_h}; }
  static Axis cols(const ConvProblem& a) { return {a.w, a.s, a.stride_w, a.dilation_w, a.pad_w}; }
  /// Where tap 0 of an output is; may be outside.
  Size input(Size output) const { return output * stride - pad; }
};

/// The taps of an output that are inside of the image.
struct TapRange {
  TapRange(Size first, Size last) : begin(first), end(last) {}
  TapRange(const Axis& axis, Size output) {
    const Size first = axis.input(output);
    begin = min_of(ceil_div(max_of(-first, 0), axis.dilation), axis.taps);
    end = max_of(begin, min_of(axis.taps, ceil_div(max_of(axis.extent - first, 0), axis.dilation)));
  }
  bool operator==(const TapRange&) const = default;
  Size begin, end;
};

/// Neighbouring outputs that have the same taps: as many from `first` on, before `end`, as there
/// are.
struct AlikeOutputs {
  AlikeOutputs(const Axis& axis, Size first_output, Size end)
      : first(first_output), count(1), taps(axis, first_output) {
    if (taps == TapRange(0, axis.taps)) {  // up to the last output that has all of them
      const Size last = axis.extent - 1 - (axis.taps - 1) * axis.dilation + axis.pad;
      count = min_of(end, last / axis.stride + 1) - first;
      return;
    }
    while (first + count < end && TapRange(axis, first + count) == taps) ++count;
  }
  Size first, count;
  TapRange taps;
};

/// Calls body(rows, cols) for each part of a rectangle whose outputs have the same taps.
template <class Body>
MEGACONV_INLINE void for_alike_parts(const ConvProblem& problem, const PixelRect& rect,
                                     const Body& body) {
  const Axis row_axis = Axis::rows(problem), col_axis = Axis::cols(problem);
  const Size last_row = rect.row + rect.rows, last_col = rect.col + rect.cols;
  for (Size row = rect.row; row < last_row;) {
    const AlikeOutputs rows(row_axis, row, last_row);
    for (Size col = rect.col; col < last_col;) {
      const AlikeOutputs cols(col_axis, col, last_col);
      body(rows, cols);
      col += cols.count;
    }
    row += rows.count;
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
