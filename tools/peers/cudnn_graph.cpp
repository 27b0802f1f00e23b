// SPDX-License-Identifier: Apache-2.0
// The graph API (cuDNN's "backend"): one convolution as an operation graph, all engines for it.
// Source: cuDNN developer guide, "Backend descriptor types".
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "tasks/strides.hpp"
#include "tools/peers/cudnn.hpp"

namespace megaconv::cli::cudnn {
namespace {

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(cudnnBackendCreateDescriptor(type, &raw_), "descriptor");
  }
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  ~Descriptor() {
    if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
  }
  cudnnBackendDescriptor_t get() const { return raw_; }

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::span<const T> values) {
    check(cudnnBackendSetAttribute(raw_, name, type, static_cast<std::int64_t>(values.size()),
                                   values.data()),
          "attribute " + std::to_string(name));
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(name, CUDNN_TYPE_INT64, values);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.raw_);
  }

  /// The values, `most` at most.
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        std::size_t most) const {
    std::vector<T> found(most);
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(raw_, name, type, static_cast<std::int64_t>(most), &count,
                                   found.data()),
          "attribute " + std::to_string(name));
    found.resize(std::min(most, static_cast<std::size_t>(std::max<std::int64_t>(count, 0))));
    return found;
  }
  std::int64_t number(cudnnBackendAttributeName_t name) const {
    const auto found = values<std::int64_t>(name, CUDNN_TYPE_INT64, 1);
    return found.empty() ? 0 : found.front();
  }

  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(raw_); }
  void finalize(const char* what) { check(try_finalize(), what); }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

// Names of the tensors in a variant pack.
enum : std::int64_t { kX = 1, kW, kY };

Descriptor tensor(std::int64_t id, const Arithmetic& arithmetic,
                  std::array<std::int64_t, 4> extents, const Strides& strides) {
  const std::array<std::int64_t, 4> steps = {strides.image, strides.channel,
                                             strides.pixel * extents[3], strides.pixel};
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, arithmetic.storage);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, steps);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
           static_cast<std::int64_t>(arithmetic.alignment));
  made.finalize("tensor");
  return made;
}

Descriptor convolution(const ConvProblem& p, const Arithmetic& arithmetic) {
  using Pair = std::array<std::int64_t, 2>;
  const Pair padding = {p.pad_h, p.pad_w};
  Descriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, arithmetic.sums);
  made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  made.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding);
  made.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding);
  made.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Pair{p.dilation_h, p.dilation_w});
  made.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Pair{p.stride_h, p.stride_w});
  made.finalize("convolution");
  return made;
}

/// The operation graph, with everything that it refers to.
class Graph {
 public:
  Graph(cudnnHandle_t handle, const ConvProblem& p, Precision precision)
      : arithmetic_(arithmetic_of(p.dtype, precision)),
        x_(tensor(kX, arithmetic_, {p.n, p.c, p.h, p.w}, x_strides(p))),
        w_(tensor(kW, arithmetic_, {p.k, p.c / p.groups, p.r, p.s}, w_strides(p))),
        y_(tensor(kY, arithmetic_, {p.n, p.k, p.p(), p.q()}, y_strides(p, p.p() * p.q()))),
        convolution_(convolution(p, arithmetic_)),
        operation_(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR),
        graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    operation_.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x_);
    operation_.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w_);
    operation_.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y_);
    operation_.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution_);
    operation_.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    operation_.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    operation_.finalize("operation");
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    graph_.finalize("operation graph");
  }
  const Descriptor& descriptor() const { return graph_; }
  const Arithmetic& arithmetic() const { return arithmetic_; }

 private:
  Arithmetic arithmetic_;
  Descriptor x_, w_, y_, convolution_, operation_, graph_;
};

/// An engine with its knobs, and the engine's number.
struct Configuration {
  Descriptor descriptor;
  std::int64_t engine = 0;
  bool allowed = true;  ///< by the arithmetic
};

bool engine_allowed(const Descriptor& engine, const Arithmetic& arithmetic) {
  const auto notes = engine.values<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return arithmetic.tensor_cores ||
         std::none_of(notes.begin(), notes.end(), [](cudnnBackendNumericalNote_t note) {
           return note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                  note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                  note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
         });
}

/// Appends what the heuristics propose.
void add_proposed(const Graph& graph, cudnnBackendHeurMode_t mode,
                  std::vector<Configuration>& configurations) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS) return;  // it has nothing to propose
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
        "heuristics");
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    raw.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
        "heuristics");
  for (Descriptor& configuration : std::span(found).first(static_cast<std::size_t>(count))) {
    const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t target = engine.get();
    std::int64_t one = 0;
    check(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &target),
          "engine");
    configurations.push_back({std::move(configuration),
                              engine.number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                              engine_allowed(engine, graph.arithmetic())});
  }
}

/// Appends the engines that are not there yet. Returns how many of those left refuse the problem.
int add_other_engines(const Graph& graph, std::vector<Configuration>& configurations) {
  std::set<std::int64_t> known;
  for (const Configuration& configuration : configurations) known.insert(configuration.engine);
  const std::int64_t count =
      graph.descriptor().number(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
  int refused = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    if (known.contains(index)) continue;
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.descriptor());
    engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, index);
    Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    bool supported = engine.try_finalize() == CUDNN_STATUS_SUCCESS;
    if (supported) {
      configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
      supported = configuration.try_finalize() == CUDNN_STATUS_SUCCESS;
    }
    if (!supported) {
      ++refused;
      continue;
    }
    configurations.push_back(
        {std::move(configuration), index, engine_allowed(engine, graph.arithmetic())});
  }
  return refused;
}

Descriptor variant_pack(const TensorView& tensors, void* workspace) {
  const std::array<std::int64_t, 3> ids = {kX, kW, kY};
  const std::array<void*, 3> pointers = {const_cast<void*>(tensors.x), const_cast<void*>(tensors.w),
                                         tensors.y};
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::span<void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize("variant pack");
  return pack;
}

/// Plans of every `step`-th configuration. Some are compiled, which takes a tenth of a second; so
/// there are several builders, with a thread, a handle and a graph each: cuDNN lets no two threads
/// use the same handle at a time.
struct Builder {
  Builder(cudnnHandle_t own_handle, const TensorView& own_tensors)
      : handle(own_handle), tensors(own_tensors) {}

  void build(std::size_t first, std::size_t step) {
    try {
      build_all(first, step);
    } catch (...) {
      error = std::current_exception();
    }
  }

  cudnnHandle_t handle;
  TensorView tensors;
  GraphPlans found;
  std::exception_ptr error;

 private:
  void build_all(std::size_t first, std::size_t step) {
    const auto graph = std::make_shared<Graph>(handle, tensors.problem, tensors.precision);
    std::vector<Configuration> configurations;
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
      add_proposed(*graph, mode, configurations);
    }
    const int refused = add_other_engines(*graph, configurations);
    if (first == 0) found.refused = refused;
    for (std::size_t i = first; i < configurations.size(); i += step) {
      add_plan(graph, std::move(configurations[i]));
    }
  }
  void add_plan(const std::shared_ptr<Graph>& graph, Configuration configuration) {
    if (!configuration.allowed) {
      ++found.other_arithmetic;
      return;
    }
    const auto plan = std::make_shared<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const auto own = std::make_shared<Descriptor>(std::move(configuration.descriptor));
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *own);
    if (plan->try_finalize() != CUDNN_STATUS_SUCCESS) {
      ++found.refused;
      return;
    }
    Algorithm& algorithm = found.plans.emplace_back();
    algorithm.name = "graph engine " + std::to_string(configuration.engine) + ", " +
                     to_string(tensors.problem.layout);
    algorithm.workspace_bytes =
        static_cast<std::size_t>(plan->number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    algorithm.enqueue = [of = handle, graph, own, plan, view = tensors](cudaStream_t stream,
                                                                        void* workspace) {
      const Descriptor pack = variant_pack(view, workspace);
      check(cudnnSetStream(of, stream), "stream");
      check(cudnnBackendExecute(of, plan->get(), pack.get()), "cudnnBackendExecute");
    };
  }
};

/// A handle for each thread that builds plans. They are kept: plans are run with them, and to make
/// one takes long.
std::span<const cudnnHandle_t> building_handles() {
  static const std::vector<cudnnHandle_t> handles = [] {
    constexpr unsigned kMost = 16;
    std::vector<cudnnHandle_t> made(std::clamp(std::thread::hardware_concurrency(), 1u, kMost));
    for (cudnnHandle_t& handle : made) check(cudnnCreate(&handle), "cudnnCreate");
    return made;
  }();
  return handles;
}

}  // namespace

GraphPlans graph_plans(const TensorView& tensors) {
  std::vector<Builder> builders;
  for (cudnnHandle_t handle : building_handles()) builders.emplace_back(handle, tensors);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < builders.size(); ++i) {
      threads.emplace_back([&, i] { builders[i].build(i, builders.size()); });
    }
  }
  GraphPlans found;
  for (Builder& builder : builders) {
    if (builder.error) std::rethrow_exception(builder.error);
    found.refused += builder.found.refused;
    found.other_arithmetic += builder.found.other_arithmetic;
    std::move(builder.found.plans.begin(), builder.found.plans.end(),
              std::back_inserter(found.plans));
  }
  return found;
}

}  // namespace megaconv::cli::cudnn
