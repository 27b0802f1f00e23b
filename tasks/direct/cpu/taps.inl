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
    begin = min_of(taps_before(axis, -first), axis.taps);
    end = max_of(begin, min_of(axis.taps, taps_before(axis, axis.extent - first)));
  }
  bool operator==(const TapRange&) const = default;
  Size begin, end;

 private:
  /// Of endless ones from 0 on; divisions would take most of the time of some tiles.
  static Size taps_before(const Axis& axis, Size distance) {
    if (distance <= 0) return 0;
    return axis.dilation == 1 ? distance : ceil_div(distance, axis.dilation);
  }
};

/// A number shared out evenly among the fewest parts of `most` each, without a division for each.
struct EvenParts {
  EvenParts(Size total, Size most)
      : count(ceil_div(total, most)), least(total / count), larger(total % count) {}
  Size operator[](Size part) const { return least + (part < larger ? 1 : 0); }
  Size count, least, larger;
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
