// SPDX-License-Identifier: Apache-2.0
#include "tasks/pixelwise/cpu/pixelwise.hpp"

#include <algorithm>
#include <cmath>

#include "tasks/activation.hpp"
#include "tasks/cpu/operators.hpp"
#include "tasks/pixelwise/operator.hpp"
#include "tasks/row_bands.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv::cpu {
namespace {

using Size = std::ptrdiff_t;

template <class T>
class PixelwiseBody {
 public:
  PixelwiseBody(const PixelwiseArgs& args, const RowBand& band)
      : a_(args.cut->problem), strides_(strides_of(a_.layout, a_.n, a_.c, a_.h * a_.w)) {
    const Size first = band.image * strides_.image + band.row * a_.w * strides_.pixel;
    x_ = static_cast<const T*>(args.x) + first;
    y_ = static_cast<T*>(args.y) + first;
    b_ = static_cast<const T*>(args.b);
    if (b_ != nullptr) b_ += a_.per_channel ? band.image * a_.c : first;
    pixels_ = band.rows * a_.w;
  }

  void run() const {
    const Pixelwise& does = a_.does;
    switch (does.function) {
      case PixelFunction::multiply:
        return a_.per_channel ? scale_channels() : multiply();
      case PixelFunction::leaky_relu:
        return map([slope = double{does.alpha}](double v) { return v < 0 ? slope * v : v; });
      case PixelFunction::sigmoid:
        return map([](double v) { return 1 / (1 + std::exp(-v)); });
      case PixelFunction::hard_sigmoid:
        return map([&](double v) {
          return std::clamp(double{does.alpha} * v + double{does.beta}, 0.0, 1.0);
        });
      case PixelFunction::hard_swish:
        return map([](double v) { return v * std::clamp(v / 6 + 0.5, 0.0, 1.0); });
      case PixelFunction::tanh:
        return map([](double v) { return std::tanh(v); });
      case PixelFunction::gelu:
        return map([](double v) { return activated(kGelu, v); });
      case PixelFunction::gelu_tanh:
        return map([](double v) { return activated(kGeluTanh, v); });
      case PixelFunction::softmax:
        return softmax();
      case PixelFunction::local_response_norm:
        return local_response_norm();
    }
  }

 private:
  static void put(T& y, double value) { y = from_float<T>(static_cast<float>(value)); }

  /// Calls visit(first number, how many) for runs of neighbouring numbers.
  template <class Visit>
  void for_each_run(const Visit& visit) const {
    if (a_.layout == Layout::nhwc) return visit(Size{0}, Size{0}, pixels_ * a_.c);
    for (Size c = 0; c < a_.c; ++c) visit(c, c * strides_.channel, pixels_);
  }

  template <class Function>
  void map(const Function& function) const {
    for_each_run([&](Size, Size first, Size count) {
      for (Size i = first; i < first + count; ++i) put(y_[i], function(double{to_float(x_[i])}));
    });
  }
  void multiply() const {
    for_each_run([&](Size, Size first, Size count) {
      for (Size i = first; i < first + count; ++i) {
        y_[i] = from_float<T>(to_float(x_[i]) * to_float(b_[i]));
      }
    });
  }
  void scale_channels() const {
    for_each_run([&](Size channel, Size first, Size count) {
      for (Size i = 0; i < count; ++i) {
        const T& b = b_[a_.layout == Layout::nhwc ? i % a_.c : channel];
        y_[first + i] = from_float<T>(to_float(x_[first + i]) * to_float(b));
      }
    });
  }

  void softmax() const {
    for (Size pixel = 0; pixel < pixels_; ++pixel) {
      const T* const x = x_ + pixel * strides_.pixel;
      T* const y = y_ + pixel * strides_.pixel;
      double largest = to_float(x[0]), sum = 0;
      for (Size c = 1; c < a_.c; ++c) {
        largest = std::max(largest, double{to_float(x[c * strides_.channel])});
      }
      for (Size c = 0; c < a_.c; ++c) {
        sum += std::exp(double{to_float(x[c * strides_.channel])} - largest);
      }
      for (Size c = 0; c < a_.c; ++c) {
        const Size at = c * strides_.channel;
        put(y[at], std::exp(double{to_float(x[at])} - largest) / sum);
      }
    }
  }

  void local_response_norm() const {
    const Pixelwise& does = a_.does;
    const Size before = (does.size - 1) / 2, behind = does.size / 2;
    const double scale = double{does.alpha} / static_cast<double>(does.size);
    const bool usual = does.beta == 0.75f;  // two roots are faster than a power
    for (Size pixel = 0; pixel < pixels_; ++pixel) {
      const T* const x = x_ + pixel * strides_.pixel;
      T* const y = y_ + pixel * strides_.pixel;
      for (Size c = 0; c < a_.c; ++c) {
        double squares = 0;
        const Size last = std::min<Size>(a_.c - 1, c + behind);
        for (Size i = std::max<Size>(0, c - before); i <= last; ++i) {
          const double value = to_float(x[i * strides_.channel]);
          squares += value * value;
        }
        const double base = double{does.bias} + scale * squares, root = std::sqrt(base);
        const double power = usual ? root * std::sqrt(root) : std::pow(base, double{does.beta});
        put(y[c * strides_.channel], double{to_float(x[c * strides_.channel])} / power);
      }
    }
  }

  const PixelwiseProblem& a_;
  const Strides strides_;
  const T *x_, *b_;
  T* y_;
  Size pixels_;
};

}  // namespace

void run_pixelwise(const PixelwiseArgs& args, std::uint32_t group) {
  const PixelwiseCut& cut = *args.cut;
  const RowBand band = band_of(cut.problem.h, cut.rows_per_group, group);
  with_storage(cut.problem.dtype, [&](auto number) {
    if constexpr (!std::is_same_v<decltype(number), Int8>) {
      PixelwiseBody<decltype(number)>(args, band).run();
    }
  });
}

NodeTasks node_tasks(const PixelwiseCut& cut, const Kernels&) {
  NodeTasks tasks;
  tasks.run = [&cut](const TaskArgs& pointers, const Task& task, std::byte*) {
    run_pixelwise({.cut = &cut, .x = pointers.x, .b = pointers.residual, .y = pointers.y},
                  task.group);
  };
  return tasks;
}

}  // namespace megaconv::cpu
