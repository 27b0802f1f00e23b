// SPDX-License-Identifier: Apache-2.0
// One layer's tensors and intermediates, poisoned and fenced, and a serial run of its tasks.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/reference.hpp"
#include "tasks/storage.hpp"

namespace megaconv {

/// Numbers of a storage type between two fences. Everything starts as one particular NaN (of i8:
/// one particular number): a read outside or before a write spoils the result, a write outside
/// spoils the fence, a missing write leaves the NaN.
class FencedBuffer {
 public:
  explicit FencedBuffer(std::size_t size, DataType dtype = DataType::f32)
      : size_(size),
        dtype_(dtype),
        bytes_(static_cast<std::byte*>(
            ::operator new ((size + 2 * kFence) * size_of(dtype), std::align_val_t{64}))) {
    const std::uint32_t bits = poison(dtype);
    for (std::size_t i = 0; i < size_ + 2 * kFence; ++i) {
      std::memcpy(at(i), &bits, size_of(dtype_));
    }
  }
  void* data() { return at(kFence); }
  /// Of a buffer of floats.
  float* floats() { return static_cast<float*>(data()); }
  float operator[](std::size_t i) {
    return with_storage(dtype_, [&](auto number) {
      std::memcpy(&number, at(kFence + i), sizeof(number));
      return to_float(number);
    });
  }
  void fill(const Filling& filling, std::uint64_t seed) {
    megaconv::fill(dtype_, data(), static_cast<std::int64_t>(size_), filling, seed);
  }
  FencedBuffer copy() {
    FencedBuffer other(size_, dtype_);
    std::memcpy(other.data(), data(), size_ * size_of(dtype_));
    return other;
  }
  bool same_numbers(FencedBuffer& other) {
    return size_ == other.size_ && std::memcmp(data(), other.data(), size_ * size_of(dtype_)) == 0;
  }

  static bool is_poison(float value) {
    return std::bit_cast<std::uint32_t>(value) == poison(DataType::f32);
  }
  bool fences_whole() {
    for (std::size_t i = 0; i < kFence; ++i) {
      if (!poisoned(i) || !poisoned(kFence + size_ + i)) return false;
    }
    return true;
  }
  bool all_written() {
    for (std::size_t i = 0; i < size_; ++i) {
      if (poisoned(kFence + i)) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete (bytes, std::align_val_t{64}); }
  };
  static constexpr std::size_t kFence = 1024;
  static std::uint32_t poison(DataType dtype) {
    return dtype == DataType::f32 ? 0x7fc0dead : dtype == DataType::f16 ? 0x7ead : 0x7fad;
  }
  std::byte* at(std::size_t i) { return bytes_.get() + i * size_of(dtype_); }
  bool poisoned(std::size_t i) {
    const std::uint32_t bits = poison(dtype_);
    return std::memcmp(at(i), &bits, size_of(dtype_)) == 0;
  }
  std::size_t size_;
  DataType dtype_;
  std::unique_ptr<std::byte[], Free> bytes_;
};

inline std::size_t floats(std::uint64_t bytes) { return bytes / sizeof(float); }

/// A tiling with all its memory.
struct CpuLayer {
  explicit CpuLayer(const Tiling& t, const cpu::Kernels& k = cpu::kernels_for())
      : tiling(t),
        kernels(k),
        x(static_cast<std::size_t>(t.problem.x_size()), t.problem.dtype),
        w(static_cast<std::size_t>(t.problem.w_size()), t.problem.dtype),
        scale(static_cast<std::size_t>(t.problem.k), t.problem.vector_type()),
        bias(static_cast<std::size_t>(t.problem.k), t.problem.vector_type()),
        residual(static_cast<std::size_t>(t.problem.y_size()), t.problem.dtype),
        u(floats(k.u_bytes(t))),
        v(floats(in_slots(t) ? t.window()->v_slots * cpu::Extents(t).v_slot_bytes() : 0)),
        m(floats(in_slots(t) ? t.window()->m_slots * cpu::Extents(t).m_slot_bytes() : 0)),
        y(static_cast<std::size_t>(t.problem.y_size()), t.problem.dtype) {}

  void fill_random(std::uint64_t seed) {
    const RandomData data(tiling.problem);
    x.fill(data.x, seed);
    w.fill(data.w, seed + 1);
    bias.fill(data.bias, seed + 2);
    residual.fill(data.residual, seed + 3);
    scale.fill(data.scale, seed + 4);
  }
  void fill_whole_numbers(std::uint64_t seed, float weight_multiple) {
    const Filling small{.kind = Filling::Kind::integers, .density = 0.11};
    Filling weights = small;
    weights.multiple = weight_multiple;
    x.fill(small, seed);
    w.fill(weights, seed + 1);
    bias.fill(small, seed + 2);
    residual.fill(small, seed + 3);
    scale.fill({.kind = Filling::Kind::integers, .multiple = 0.5f}, seed + 4);
  }

  /// Runs every task, group after group, so that a window of one slot is enough.
  void run() {
    const cpu::TaskArgs args{.tiling = &tiling,
                             .x = x.data(),
                             .w = w.data(),
                             .scale = scale.data(),
                             .bias = bias.data(),
                             .residual = residual.data(),
                             .y = y.data(),
                             .u = u.floats(),
                             .v = v.floats(),
                             .m = m.floats()};
    FencedBuffer scratch(floats(kernels.scratch_bytes(tiling)));
    const auto run_all = [&](TaskKind kind, std::uint32_t group, std::uint32_t count) {
      for (std::uint32_t block = 0; block < count; ++block) {
        kernels.run(tiling.problem.dtype, kind)(args, group, block,
                                                static_cast<std::byte*>(scratch.data()));
      }
    };
    run_all(TaskKind::filter_transform, 0, tiling.num_filter_tasks);
    for (std::uint32_t group = 0; group < tiling.num_groups; ++group) {
      run_all(TaskKind::input_transform, group, tiling.input_tasks);
      run_all(in_slots(tiling) ? TaskKind::gemm : TaskKind::direct, group, tiling.gemm_tasks);
      run_all(TaskKind::output_transform, group, tiling.output_tasks);
    }
    scratch_whole = scratch.fences_whole();
  }

  bool fences_whole() {
    return scratch_whole && x.fences_whole() && w.fences_whole() && u.fences_whole() &&
           v.fences_whole() && m.fences_whole() && y.fences_whole() && scale.fences_whole() &&
           bias.fences_whole() && residual.fences_whole();
  }

  /// y against direct convolution in double.
  ErrorReport error() {
    const Truth& known = truth();
    return compare(tiling, y.data(), known.y.data(), known.magnitude.data());
  }
  /// Whether every element of y is that of direct convolution in double, rounded once.
  bool exact() {
    return mismatch(tiling.problem.dtype, y.data(), truth().y.data(), tiling.problem.y_size())
               .count == 0;
  }

  /// Whether V and M are tensors, not a task's own.
  static bool in_slots(const Tiling& t) { return t.window() != nullptr; }

  /// Direct convolution in double, of these tensors.
  struct Truth {
    ConvProblem problem;
    std::vector<FencedBuffer> tensors;
    std::vector<double> y, magnitude;
  };
  /// Computed once for tensors that many tilings and instruction sets compute in turn.
  const Truth& truth() {
    static std::deque<Truth> recent;
    const ConvProblem& problem = tiling.problem;
    FencedBuffer* const own[] = {&x, &w, &scale, &bias, &residual};
    for (Truth& known : recent) {
      if (known.problem == problem &&
          std::equal(known.tensors.begin(), known.tensors.end(), std::begin(own),
                     [](FencedBuffer& a, FencedBuffer* b) { return a.same_numbers(*b); })) {
        return known;
      }
    }
    if (recent.size() == 2) recent.pop_front();
    Truth& truth = recent.emplace_back();
    truth.problem = problem;
    for (FencedBuffer* tensor : own) truth.tensors.push_back(tensor->copy());
    truth.y.resize(static_cast<std::size_t>(problem.y_size()));
    truth.magnitude.resize(truth.y.size());
    reference_convolution(problem,
                          {.x = x.data(),
                           .w = w.data(),
                           .scale = scale.data(),
                           .bias = bias.data(),
                           .residual = residual.data()},
                          truth.y.data(), truth.magnitude.data());
    return truth;
  }

  Tiling tiling;
  const cpu::Kernels& kernels;
  FencedBuffer x, w, scale, bias, residual, u, v, m, y;
  bool scratch_whole = false;
};

}  // namespace megaconv
