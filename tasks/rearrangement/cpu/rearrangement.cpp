// SPDX-License-Identifier: Apache-2.0
#include "tasks/rearrangement/cpu/rearrangement.hpp"

#include <algorithm>

#include "tasks/cpu/operators.hpp"
#include "tasks/rearrangement/operator.hpp"
#include "tasks/rearrangement/rearrangement.hpp"
#include "tasks/row_bands.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv::cpu {
namespace {

using Size = std::ptrdiff_t;

template <class T>
class RearrangementBody {
 public:
  RearrangementBody(const RearrangementArgs& args, const RowBand& band)
      : a_(args.cut->problem),
        band_(band),
        fill_(from_float<T>(a_.does.fill)),
        in_(strides_of(a_.layout, a_.n, a_.c, a_.h * a_.w)),
        out_(strides_of(a_.y_layout(), a_.n, a_.k(), a_.p() * a_.q())),
        left_(std::clamp<Size>(a_.does.left, 0, a_.q())),
        right_(std::clamp<Size>(a_.q() - a_.does.right, left_, a_.q())),
        x_(static_cast<const T*>(args.x) + band.image * in_.image),
        y_(static_cast<T*>(args.y) + band.image * out_.image) {}

  void run() const {
    for (Size p = band_.row; p < band_.row + band_.rows; ++p) {
      const Size row = source_row(a_, p);
      if (a_.transposes) {
        run_numbers(p, row);
      } else if (a_.layout == Layout::nhwc) {
        run_pixels(p, row);
      } else {
        for (Size c = 0; c < a_.k(); ++c) run_row(c, p, row);
      }
    }
  }

 private:
  bool is_padding(Size row) const { return row < 0 || row >= a_.h; }

  /// A row of y in nhwc.
  void run_pixels(Size p, Size row) const {
    const Size channels = a_.k();
    T* const y = y_ + p * a_.q() * channels;
    if (is_padding(row)) {
      std::fill_n(y, a_.q() * channels, fill_);
      return;
    }
    std::fill_n(y, left_ * channels, fill_);
    std::fill_n(y + right_ * channels, (a_.q() - right_) * channels, fill_);
    const T* const x = x_ + row * a_.w * a_.c + a_.does.first_channel;
    for (Size q = left_; q < right_; ++q) {
      const T* const from = x + source_col(a_, q) * a_.c;
      T* const to = y + q * channels;
      if (a_.does.groups == 1) {
        std::copy_n(from, channels, to);
      } else {
        const Size groups = a_.does.groups, each = channels / groups;
        for (Size j = 0; j < each; ++j) {
          for (Size i = 0; i < groups; ++i) to[j * groups + i] = from[i * each + j];
        }
      }
    }
  }

  /// A row of one channel of y in nchw.
  void run_row(Size c, Size p, Size row) const {
    T* const y = y_ + c * out_.channel + p * a_.q();
    if (is_padding(row)) {
      std::fill_n(y, a_.q(), fill_);
      return;
    }
    std::fill_n(y, left_, fill_);
    std::fill_n(y + right_, a_.q() - right_, fill_);
    const T* const x = x_ + source_channel(a_, c) * in_.channel + row * a_.w;
    if (a_.does.repeat_w == 1) {
      std::copy_n(x + (left_ - a_.does.left), right_ - left_, y + left_);
    } else {
      for (Size q = left_; q < right_; ++q) y[q] = x[source_col(a_, q)];
    }
  }

  /// A row of y in another layout than x, number by number.
  void run_numbers(Size p, Size row) const {
    for (Size q = 0; q < a_.q(); ++q) {
      const bool inside = !is_padding(row) && q >= left_ && q < right_;
      const T* const x = x_ + (row * a_.w + source_col(a_, q)) * in_.pixel;
      T* const y = y_ + (p * a_.q() + q) * out_.pixel;
      for (Size c = 0; c < a_.k(); ++c) {
        y[c * out_.channel] = inside ? x[source_channel(a_, c) * in_.channel] : fill_;
      }
    }
  }

  const RearrangementProblem& a_;
  const RowBand& band_;
  const T fill_;
  const Strides in_, out_;
  const Size left_, right_;  ///< columns of y that are of x
  const T* const x_;         ///< the image
  T* const y_;
};

}  // namespace

void run_rearrangement(const RearrangementArgs& args, std::uint32_t group) {
  const RearrangementCut& cut = *args.cut;
  const RowBand band = band_of(cut.problem.p(), cut.rows_per_group, group);
  with_storage(cut.problem.dtype, [&](auto number) {
    if constexpr (!std::is_same_v<decltype(number), Int8>) {
      RearrangementBody<decltype(number)>(args, band).run();
    }
  });
}

NodeTasks node_tasks(const RearrangementCut& cut, const Kernels&) {
  NodeTasks tasks;
  tasks.run = [&cut](const TaskArgs& pointers, const Task& task, std::byte*) {
    run_rearrangement({.cut = &cut, .x = pointers.x, .y = pointers.y}, task.group);
  };
  return tasks;
}

}  // namespace megaconv::cpu
