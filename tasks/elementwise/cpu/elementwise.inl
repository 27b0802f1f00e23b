// SPDX-License-Identifier: Apache-2.0
// y = clamp(scale x + bias + residual). kernels.inl includes this.
//
// Vectors hold neighbouring numbers of memory: of a run of channels of one pixel in nhwc, of a run
// of pixels of one channel in nchw; without scale and concatenation the task is one run in nhwc.
#pragma once

#include "tasks/cpu/activation.inl"
#include "tasks/cpu/storage.inl"
#include "tasks/elementwise/cpu/elementwise.hpp"
#include "tasks/elementwise/elementwise.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

/// scale x + bias with a scale and a bias for every number, for all numbers, or without them.
struct AffineOfEach {
  const float *scale, *bias;
  MEGACONV_INLINE Vec operator()(Vec v, Size at) const {
    return fused_multiply_add(v, load(scale + at), load(bias + at));
  }
  MEGACONV_INLINE Vec operator()(Vec v, Size at, Size count) const {
    return fused_multiply_add(v, read_first(scale + at, count), read_first(bias + at, count));
  }
};
struct AffineOfAll {
  Vec scale, bias;
  MEGACONV_INLINE Vec operator()(Vec v, Size, Size = 0) const {
    return fused_multiply_add(v, scale, bias);
  }
};
struct NotAffine {
  MEGACONV_INLINE Vec operator()(Vec v, Size, Size = 0) const { return v; }
};

template <class T>
class ElementwiseBody {
 public:
  ElementwiseBody(const ElementwiseArgs& args, const ElementwiseTask& task)
      : args_(args),
        task_(task),
        activate_(ActivationTerms{task.least, task.most, 0, Bend::none, false, 0, 0}) {}

  void run() const {
    Size first = 0;  // of a tensor, in y
    for (Size i = 0; i < task_.num_inputs; ++i) {
      const Size channels = task_.channels[i];
      const Size begin = max_of(first, task_.first_channel);
      const Size end = min_of(first + channels, task_.end_channel);
      const Part part{static_cast<const T*>(args_.x[i]), channels, begin - first, begin,
                      end - begin};
      if (begin < end) task_.nhwc ? run_pixels(part) : run_planes(part);
      first += channels;
    }
  }

 private:
  /// Neighbouring channels of a tensor, which has `channels`.
  struct Part {
    const T* x;
    Size channels, first, first_of_y, count;
  };

  void run_pixels(const Part& part) const {
    const Size pixel = (task_.image * task_.h + task_.row) * task_.w, pixels = task_.rows * task_.w;
    const T* from = part.x + pixel * part.channels + part.first;
    const Size to = pixel * task_.c + part.first_of_y;
    if (!task_.affine && part.count == task_.c)
      return run_numbers(from, to, pixels * part.count, NotAffine{});
    const AffineOfEach affine{args_.scale + part.first_of_y, args_.bias + part.first_of_y};
    for (Size i = 0; i < pixels; ++i, from += part.channels) {
      task_.affine ? run_numbers(from, to + i * task_.c, part.count, affine)
                   : run_numbers(from, to + i * task_.c, part.count, NotAffine{});
    }
  }

  void run_planes(const Part& part) const {
    const Size plane = task_.h * task_.w, at = task_.row * task_.w, count = task_.rows * task_.w;
    for (Size i = 0; i < part.count; ++i) {
      const Size c = part.first_of_y + i;
      const T* const from = part.x + (task_.image * part.channels + part.first + i) * plane + at;
      const Size to = (task_.image * task_.c + c) * plane + at;
      if (task_.affine) {
        run_numbers(from, to, count,
                    AffineOfAll{broadcast(args_.scale[c]), broadcast(args_.bias[c])});
      } else {
        run_numbers(from, to, count, NotAffine{});
      }
    }
  }

  template <class Affine>
  MEGACONV_INLINE void run_numbers(const T* x, Size to, Size count, const Affine& affine) const {
    T* const y = static_cast<T*>(args_.y) + to;
    const T* const residual = static_cast<const T*>(args_.residual) + (task_.residual ? to : 0);
    Size i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      Vec v = affine(read(x + i), i);
      if (task_.residual) v += read(residual + i);
      write(y + i, activate_(v));
    }
    if (const Size rest = count - i; rest > 0) {
      Vec v = affine(read_first(x + i, rest), i, rest);
      if (task_.residual) v += read_first(residual + i, rest);
      write_first(y + i, activate_(v), rest);
    }
  }

  const ElementwiseArgs& args_;
  const ElementwiseTask& task_;
  const Activate activate_;
};

template <class T>
void elementwise(const ElementwiseArgs& args, std::uint32_t group) {
  const ElementwiseTask task = task_of(*args.cut, group);
  ElementwiseBody<T>(args, task).run();
}

#define MEGACONV_ELEMENTWISE_TEXT(name) #name
#define MEGACONV_ELEMENTWISE_NAME(macro) MEGACONV_ELEMENTWISE_TEXT(macro)

extern const ElementwiseKernels kElementwiseKernels;
const ElementwiseKernels kElementwiseKernels = {
    .isa = MEGACONV_ELEMENTWISE_NAME(MEGACONV_ISA),
    .by_dtype = {elementwise<float>, elementwise<Float16>, elementwise<Bfloat16>, nullptr},
};

#undef MEGACONV_ELEMENTWISE_NAME
#undef MEGACONV_ELEMENTWISE_TEXT

}  // namespace megaconv::cpu::MEGACONV_ISA
