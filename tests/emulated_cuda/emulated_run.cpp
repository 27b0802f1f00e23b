// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated_cuda/emulated_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cuda/ptx>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/cuda/task_arguments.hpp"
#include "tasks/direct/depthwise_box.hpp"
#include "tests/emulated_cuda/include/runtime/cuda/kernel_set.cuh"
#include "tests/emulated_cuda/include/runtime/cuda/redo_kernel.cuh"

namespace megaconv::test {
namespace {

constexpr std::byte kPoison{0xff};  // floats: NaN

// Bytes as device memory has them, all poison, between two guard bands of the same.
class Memory {
 public:
  Memory(const char* name, std::size_t bytes) : name_(name), bytes_(bytes) {
    if (bytes != 0) all_ = std::unique_ptr<Line[]>(new Line[bytes / sizeof(Line) + 1 + 2 * kGuard]);
    std::fill_n(base(), whole(), kPoison);
  }
  // In a storage type that holds the values exactly.
  Memory(const char* name, const std::vector<float>& values, DataType dtype)
      : Memory(name, values.size() * size_of(dtype)) {
    const std::vector<std::byte> stored = as_stored(values, dtype);
    std::memcpy(get(), stored.data(), bytes_);
  }
  float* get() const {
    return bytes_ == 0 ? nullptr : reinterpret_cast<float*>(all_.get() + kGuard);
  }
  std::vector<std::byte> bytes() const {
    const auto* const first = reinterpret_cast<const std::byte*>(get());
    return {first, first + bytes_};
  }
  void check_guards() const {
    const auto intact = [&](std::size_t from, std::size_t to) {
      return std::all_of(base() + from, base() + to, [](std::byte b) { return b == kPoison; });
    };
    const std::size_t begin = kGuard * sizeof(Line);
    if (bytes_ != 0 && !(intact(0, begin) && intact(begin + bytes_, whole()))) {
      throw std::runtime_error("emulated task: wrote beyond " + std::string(name_));
    }
  }

 private:
  struct alignas(256) Line {
    std::byte bytes[256];
  };
  static constexpr std::size_t kGuard = 16;  // lines
  std::byte* base() const { return reinterpret_cast<std::byte*>(all_.get()); }
  std::size_t whole() const {
    return bytes_ == 0 ? 0 : (bytes_ / sizeof(Line) + 1 + 2 * kGuard) * sizeof(Line);
  }

  const char* name_;
  std::size_t bytes_;
  std::unique_ptr<Line[]> all_;
};

// x in boxes of depthwise tasks.
CUtensorMap box_map(const cuda::TaskArgs& a, const Tiling& tiling) {
  const auto bytes = static_cast<std::int64_t>(size_of(tiling.problem.dtype));
  const std::int64_t pixel = a.c * bytes;
  const DepthwiseBox box = depthwise_box(tiling.problem, std::get<DirectCut>(tiling.cut));
  return {.tensor = reinterpret_cast<const std::byte*>(a.x),
          .sizes = {a.c, a.w_in, a.h, a.n},
          .strides = {bytes, pixel, pixel * a.w_in, pixel * a.w_in * a.h},
          .box = {box.channels, box.cols, box.rows, 1}};
}

// A run that guesses what was right in the one before needs no other scale, and gives the same
// bits.
void check_right_scale(cuda::TaskArgs& args, const Memory& y, const std::function<void()>& run) {
  const std::vector<std::byte> first = y.bytes();
  args.x_scale = std::exchange(*args.right_x_scale, 0.0f);
  run();
  if (*args.right_x_scale != 0) throw std::runtime_error("emulated run: the right scale was wrong");
  if (y.bytes() != first) throw std::runtime_error("emulated run: other bits by the right scale");
}

}  // namespace

std::vector<std::byte> as_stored(const std::vector<float>& values, DataType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  with_storage(dtype, [&](auto number) {
    auto* const stored = reinterpret_cast<decltype(number)*>(bytes.data());
    std::transform(values.begin(), values.end(), stored,
                   [](float value) { return from_float<decltype(number)>(value); });
  });
  return bytes;
}

std::vector<float> run_emulated(const Layer& layer, const Lowering& lowering,
                                const cuda::KernelSet& kernels, ThreadOrder order) {
  const Tiling& tiling = lowering.tiling();
  const Epilogue& epilogue = layer.problem.epilogue;
  cuda::TaskArgs args = make_task_args(tiling, kernels);
  const cuda::TaskMemory bytes =
      memory_of_tasks(tiling, kernels, args, build_filter_graph(tiling).tasks.size());
  const DataType dtype = layer.problem.dtype;
  const Memory x("x", layer.x, dtype), w("w", layer.w, dtype), scale("scale", layer.scale, dtype),
      bias("bias", layer.bias, dtype), residual("residual", layer.residual, dtype),
      u("U", bytes.u_bytes), v("V", bytes.v_bytes), m("M", bytes.m_bytes),
      footer("the footer", bytes.footer_bytes), y("y", layer.residual.size() * size_of(dtype)),
      shared("shared memory", static_cast<std::size_t>(kernels.most_shared_bytes));
  args.x = x.get();
  args.w = w.get();
  args.scale = epilogue.scale ? scale.get() : nullptr;
  args.bias = epilogue.bias ? bias.get() : nullptr;
  args.residual = epilogue.residual ? residual.get() : nullptr;
  args.y = y.get();
  args.u = u.get();
  args.v = v.get();
  args.m = m.get();
  if (args.depth.channels != 0) args.multiply_copy();
  if (bytes.footer_bytes != 0) {
    args.x_footer = reinterpret_cast<cuda::OperandFooter*>(footer.get());
    args.x_magnitudes = reinterpret_cast<std::uint32_t*>(footer.get()) + cuda::kFooterNumbers;
  }
  if (kernels.loads_boxes) args.x_tensors[0] = box_map(args, tiling);
  set_shared_memory(reinterpret_cast<std::byte*>(shared.get()));
  auto* const own = reinterpret_cast<std::byte*>(shared.get());
  const auto run_one = [&](int shared_bytes, const std::function<void()>& body) {
    std::fill_n(own, shared_bytes, kPoison);
    ::cuda::ptx::num_valid_barriers = 0;  // blocks of other tests may have kept theirs
    run_block(kernels.num_threads, order, body);
    ::cuda::ptx::check_nothing_left();
  };
  const std::vector<Task>& tasks = lowering.graph.tasks;
  float right_x_scale = 0;
  args.right_x_scale = &right_x_scale;
  const auto run_all = [&] {
    std::vector<Task> in_turn;  // all of a stage, which comes last
    for (const std::uint32_t id : lowering.mapping.order) {
      const Task& task = tasks[id];
      const std::size_t kind = task.kind;
      if (kernels.streams[kind]) {
        in_turn.push_back(task);
        continue;
      }
      const auto run = reinterpret_cast<cuda::EmulatedTask>(const_cast<void*>(kernels.stage[kind]));
      run_one(kernels.shared_bytes[kind], [&] { run(args, task, own); });
    }
    if (!in_turn.empty()) {
      const std::size_t kind = in_turn.front().kind;
      const auto run =
          reinterpret_cast<cuda::EmulatedTurns>(const_cast<void*>(kernels.stage[kind]));
      gridDim.x = 2;
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        run_one(kernels.shared_bytes[kind], [&] {
          run(args, in_turn.data(), static_cast<std::uint32_t>(in_turn.size()), own);
        });
      }
    }
    if (kernels.redo == nullptr) return;
    const auto redo = reinterpret_cast<cuda::EmulatedRedo>(const_cast<void*>(kernels.redo));
    gridDim.x = 3;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
      run_one(kernels.most_shared_bytes, [&] {
        redo(args, tasks.data(), static_cast<std::uint32_t>(tasks.size()),
             static_cast<std::uint32_t>(args.num_groups), own);
      });
    }
  };
  run_all();
  if (right_x_scale != 0) check_right_scale(args, y, run_all);
  for (const Memory* memory :
       {&x, &w, &scale, &bias, &residual, &u, &v, &m, &footer, &y, &shared}) {
    memory->check_guards();
  }
  return with_storage(dtype, [&](auto number) {
    const auto* const stored = reinterpret_cast<const decltype(number)*>(y.get());
    std::vector<float> values(layer.residual.size());
    std::transform(stored, stored + values.size(), values.begin(),
                   [](auto value) { return to_float(value); });
    return values;
  });
}

}  // namespace megaconv::test
