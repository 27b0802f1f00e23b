// SPDX-License-Identifier: Apache-2.0
// Runs of a plan on arrays of any library's.
#include <nanobind/stl/unique_ptr.h>

#include <array>

#include "python/bindings/arrays.hpp"
#include "python/bindings/plan.hpp"

namespace megaconv::python {
namespace {

// The workspace of this thread's runs on a CPU: as large as the largest that any of them needed.
std::byte* workspace_of_thread(std::size_t bytes) {
  thread_local Memory memory;
  thread_local std::size_t size = 0;
  if (size < bytes) {
    size = 0;
    memory.reset();
    memory = allocate(bytes);
    size = bytes;
  }
  return memory.get();
}

/// Filters as Plan.prepare_filters made them, for that plan alone.
struct PreparedFilters {
  Plan plan;
  Memory own;        // null when the caller gave the memory
  nb::object given;  // and this is it
  void* data = nullptr;
};

// Memory that the caller gives: bytes in a row.
void* memory_of(const char* name, nb::handle object, std::size_t bytes) {
  const auto array = written_array(name, object);
  if (array.nbytes() < bytes) {
    throw Error(Status::out_of_memory, std::string(name) + " of " + std::to_string(array.nbytes()) +
                                           " bytes, must be at least " + std::to_string(bytes));
  }
  return array.data();
}

struct Shapes {
  Axes x, w, y, vector;
  explicit Shapes(const ConvProblem& p)
      : x{p.n, p.c, p.h, p.w},
        w{p.k, p.c / p.groups, p.r, p.s},
        y{p.n, p.k, p.p(), p.q()},
        vector{p.k} {}
};

std::optional<RecordedRun> execute(const Plan& plan, nb::object x, nb::object w, nb::object y,
                                   nb::object scale, nb::object bias, nb::object residual,
                                   nb::object workspace, std::uintptr_t stream, bool trace) {
  const ConvProblem& problem = plan.problem();
  const Shapes shapes(problem);
  std::array<ReadArray, 5> held;
  std::size_t num_held = 0;
  const auto read = [&](const char* name, nb::handle object, const Axes& shape, DataType dtype,
                        TensorStrides* strides = nullptr) -> const void* {
    if (object.is_none()) return nullptr;
    ReadArray& array = held[num_held++] = read_array(name, object);
    check(array, {name, shape, problem.layout, dtype, plan.backend(), strides != nullptr});
    if (strides != nullptr) *strides = own_strides(array, problem.layout);
    return array.data();
  };
  Tensors tensors;
  TensorStrides residual_strides;
  tensors.x = read("x", x, shapes.x, problem.dtype, &tensors.x_strides);
  if (nb::isinstance<PreparedFilters>(w)) {
    const auto& filters = nb::cast<const PreparedFilters&>(w);
    if (&filters.plan.lowering() != &plan.lowering()) {
      throw Error(Status::invalid_argument,
                  "w has filters that another plan prepared, must be of this plan");
    }
    tensors.prepared_filters = filters.data;
  } else {
    tensors.w = read("w", w, shapes.w, problem.dtype);
  }
  tensors.scale = read("scale", scale, shapes.vector, problem.vector_type());
  tensors.bias = read("bias", bias, shapes.vector, problem.vector_type());
  tensors.residual = read("residual", residual, shapes.y, problem.dtype, &residual_strides);
  const auto out = written_array("y", y);
  check(out, {"y", shapes.y, problem.layout, problem.dtype, plan.backend(), true});
  tensors.y = out.data();
  tensors.y_strides = own_strides(out, problem.layout);
  if (tensors.residual != nullptr && residual_strides != tensors.y_strides) {
    throw Error(Status::invalid_argument, "residual has other strides than y, must have the same");
  }

  const std::size_t bytes = plan.workspace_bytes();
  void* const space = workspace_of(workspace, plan);
  std::optional<RecordedRun> recorded;
  if (trace) recorded = RecordedRun{plan, {}};
  const nb::gil_scoped_release unlocked;
  plan.execute(tensors, space, bytes,
               {.trace = trace ? &recorded->trace : nullptr, .stream = stream_of(stream)});
  return recorded;
}

std::unique_ptr<PreparedFilters> prepare_filters(const Plan& plan, nb::object w, nb::object memory,
                                                 std::uintptr_t stream) {
  const ConvProblem& problem = plan.problem();
  const auto source = read_array("w", w);
  check(source, {"w", Shapes(problem).w, problem.layout, problem.dtype, plan.backend()});
  auto filters = std::make_unique<PreparedFilters>(PreparedFilters{plan, nullptr, memory});
  const std::size_t bytes = plan.prepared_filter_bytes();
  if (!memory.is_none()) {
    filters->data = memory_of("memory", memory, bytes);
  } else if (plan.backend() == Backend::cuda) {
    throw Error(Status::invalid_argument,
                "memory None, must be " + std::to_string(bytes) + " bytes of the device");
  } else {
    filters->own = allocate(bytes);
    filters->data = filters->own.get();
  }
  const nb::gil_scoped_release unlocked;
  plan.prepare_filters(source.data(), filters->data, stream_of(stream));
  return filters;
}

constexpr const char* kExecuteDoc =
    R"(Runs the convolution on arrays as they are; nothing is copied.

x          (N, C, H, W)
w          (K, C/groups, R, S), or what prepare_filters returned
y          (N, K, P, Q), written
scale, bias   (K,), if the problem has them
residual   shape of y, if the problem has one; may be y
workspace  array of workspace_bytes bytes, at a multiple of 64; None: the thread's own (CPU)
stream     cudaStream_t as a number
trace      record the run

Shapes are NCHW by meaning. w must be dense in the problem's layout. On a CPU x and y may be parts of
larger arrays: some channels, rows and columns. Returns the Trace or None.
Raises ValueError, TypeError, MemoryError before any work starts, and TimeoutError.)";

}  // namespace

void* stream_of(std::uintptr_t stream) {
  return reinterpret_cast<void*>(stream);  // NOLINT: a handle that Python has as a number
}

void* workspace_of(nb::handle given, const Plan& plan) {
  const std::size_t bytes = plan.workspace_bytes();
  if (!given.is_none()) return memory_of("workspace", given, bytes);
  return plan.backend() != Backend::cuda ? workspace_of_thread(bytes) : nullptr;
}

void bind_execute(nb::class_<Plan>& type) {
  nb::class_<PreparedFilters>(type, "PreparedFilters",
                              "Filters as the tasks of one plan read them; for that plan alone.");
  type.def("execute", &execute, nb::arg("x").none(), nb::arg("w").none(), nb::arg("y").none(),
           nb::kw_only(), nb::arg("scale") = nb::none(), nb::arg("bias") = nb::none(),
           nb::arg("residual") = nb::none(), nb::arg("workspace") = nb::none(),
           nb::arg("stream") = 0, nb::arg("trace") = false, kExecuteDoc)
      .def("prepare_filters", &prepare_filters, nb::arg("w").none(), nb::arg("memory") = nb::none(),
           nb::arg("stream") = 0,
           R"(Transforms filters w (K, C/groups, R, S) once, for a plan with filters="prepared".

memory: CUDA: an array of prepared_filter_bytes bytes. Raises ValueError for any other plan.)");
}

}  // namespace megaconv::python
