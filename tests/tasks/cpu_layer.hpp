// SPDX-License-Identifier: Apache-2.0
// One layer's tensors and intermediates, poisoned and fenced, and a serial run of its tasks.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "megaconv/mapping.hpp"
#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/reference.hpp"

namespace megaconv {

/// Floats between two fences. Everything starts as one particular NaN: a read outside or before a
/// write spoils the result, a write outside spoils the fence, a missing write leaves the NaN.
class FencedBuffer {
 public:
  explicit FencedBuffer(std::size_t size)
      : size_(size),
        floats_(static_cast<float*>(
            ::operator new ((size + 2 * kFence) * sizeof(float), std::align_val_t{64}))) {
    std::fill(floats_.get(), floats_.get() + size_ + 2 * kFence, poison());
  }
  float* data() { return floats_.get() + kFence; }
  std::span<float> span() { return {data(), size_}; }

  static bool is_poison(float value) {
    return std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(poison());
  }
  bool fences_whole() {
    return std::all_of(floats_.get(), data(), is_poison) &&
           std::all_of(data() + size_, data() + size_ + kFence, is_poison);
  }
  bool all_written() { return std::none_of(data(), data() + size_, is_poison); }

 private:
  struct Free {
    void operator()(float* floats) const { ::operator delete (floats, std::align_val_t{64}); }
  };
  static constexpr std::size_t kFence = 1024;  // floats: one page
  static float poison() { return std::bit_cast<float>(0x7fc0dead); }
  std::size_t size_;
  std::unique_ptr<float[], Free> floats_;
};

inline std::size_t floats(std::uint64_t bytes) { return bytes / sizeof(float); }

/// A tiling with all its memory.
struct CpuLayer {
  explicit CpuLayer(const Tiling& t)
      : tiling(t),
        x(static_cast<std::size_t>(t.problem.x_size())),
        w(static_cast<std::size_t>(t.problem.w_size())),
        bias(static_cast<std::size_t>(t.problem.k)),
        residual(static_cast<std::size_t>(t.problem.y_size())),
        u(floats(t.u_bytes())),
        v(floats(in_slots(t) ? t.v_slots * cpu::Extents(t).v_slot_bytes() : 0)),
        m(floats(in_slots(t) ? t.m_slots * cpu::Extents(t).m_slot_bytes() : 0)),
        y(static_cast<std::size_t>(t.problem.y_size())) {}

  void fill_random(std::uint64_t seed) {
    fill(x.span(), {.kind = Filling::Kind::relu_normal}, seed);
    fill_normal(w.span(), seed + 1);
    fill_normal(bias.span(), seed + 2);
    fill_normal(residual.span(), seed + 3);
  }
  void fill_whole_numbers(std::uint64_t seed, float weight_multiple) {
    fill_integers(x.span(), seed);
    fill_integers(w.span(), seed + 1, 0.11, weight_multiple);
    fill_integers(bias.span(), seed + 2);
    fill_integers(residual.span(), seed + 3);
  }

  /// Runs every task, group after group, so that a window of one slot is enough.
  void run(const cpu::Kernels& kernels) {
    const cpu::TaskArgs args{.tiling = &tiling,
                             .x = x.data(),
                             .w = w.data(),
                             .bias = bias.data(),
                             .residual = residual.data(),
                             .y = y.data(),
                             .u = u.data(),
                             .v = v.data(),
                             .m = m.data()};
    FencedBuffer scratch(floats(kernels.scratch_bytes(tiling)));
    const auto run_all = [&](TaskKind kind, std::uint32_t group, std::uint32_t count) {
      for (std::uint32_t block = 0; block < count; ++block) {
        kernels.run[static_cast<std::uint32_t>(kind)](args, group, block,
                                                      reinterpret_cast<std::byte*>(scratch.data()));
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
           v.fences_whole() && m.fences_whole() && y.fences_whole() && bias.fences_whole() &&
           residual.fences_whole();
  }

  /// y against direct convolution in double.
  ErrorReport error() {
    const auto size = static_cast<std::size_t>(tiling.problem.y_size());
    std::vector<double> reference(size), magnitude(size);
    reference_convolution(tiling.problem, x.data(), w.data(), bias.data(), residual.data(),
                          reference.data(), magnitude.data());
    return compare(tiling, y.data(), reference.data(), magnitude.data());
  }

  /// Whether V and M are tensors, not a task's own.
  static bool in_slots(const Tiling& t) { return t.algorithm == Algorithm::winograd; }

  Tiling tiling;
  FencedBuffer x, w, bias, residual, u, v, m, y;
  bool scratch_whole = false;
};

}  // namespace megaconv
