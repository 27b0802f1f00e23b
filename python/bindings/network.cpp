// SPDX-License-Identifier: Apache-2.0
// Networks: built-in ones, ONNX models, and those that Python makes operator by operator; and their
// plans.
#include "megaconv/network.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "megaconv/onnx.hpp"
#include "python/bindings/arrays.hpp"
#include "python/bindings/plan.hpp"
#include "runtime/tuning/scratch_device.hpp"

namespace megaconv::python {
namespace {

using Text = std::string;
using Pair = std::pair<std::int64_t, std::int64_t>;
using Extents = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Four = Extents;  // above, below, left, right
using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

constexpr DataType kTypes[] = {DataType::f32, DataType::f16, DataType::bf16};
constexpr PixelFunction kFunctions[] = {
    PixelFunction::multiply,     PixelFunction::leaky_relu,          PixelFunction::sigmoid,
    PixelFunction::hard_sigmoid, PixelFunction::hard_swish,          PixelFunction::tanh,
    PixelFunction::softmax,      PixelFunction::local_response_norm, PixelFunction::gelu,
    PixelFunction::gelu_tanh};
constexpr Layout kLayouts[] = {Layout::nchw, Layout::nhwc};
constexpr auto kNameOf = [](auto value) { return to_string(value); };

Extents extents_of(const Shape& shape) { return {shape.n, shape.c, shape.h, shape.w}; }

// Numbers as NumPy has them, in C order; none for None.
Weights weights_of(nb::handle numbers) {
  if (numbers.is_none()) return {};
  const nb::object dense =
      nb::module_::import_("numpy").attr("ascontiguousarray")(numbers, "float32");
  const auto array = nb::cast<FloatArray>(dense);
  return make_weights(std::vector<float>(array.data(), array.data() + array.size()));
}

// Also of a network that does not say its outputs yet.
std::map<Text, Shape> known_shapes(Network network) {
  std::map<Text, Shape> inputs;
  for (const NetworkInput& input : network.inputs) inputs[input.name] = input.shape;
  if (network.operators.empty()) return inputs;
  if (network.outputs.empty()) network.outputs = {network.operators.back().name};
  return shapes_of(network);
}

void put(Network& network, Operator op) {
  Network grown = network;
  grown.operators.push_back(std::move(op));
  static_cast<void>(known_shapes(grown));
  network = std::move(grown);
}

Network make(const nb::dict& inputs, const Text& dtype, const Text& layout) {
  Network network;
  for (const auto& [name, extents] : inputs) {
    const auto [n, c, h, w] = nb::cast<Extents>(extents);
    network.inputs.push_back({nb::cast<Text>(name), {n, c, h, w}});
  }
  network.dtype = enumerator("dtype", dtype, kTypes, kNameOf);
  network.layout = enumerator("layout", layout, kLayouts, kNameOf);
  return network;
}

nb::dict shapes_by_name(const Network& network, const std::vector<Text>& names) {
  const std::map<Text, Shape> shapes = known_shapes(network);
  nb::dict found;
  for (const Text& name : names) found[name.c_str()] = extents_of(shapes.at(name));
  return found;
}

std::vector<Text> input_names(const Network& network) {
  std::vector<Text> names;
  for (const NetworkInput& input : network.inputs) names.push_back(input.name);
  return names;
}

using Described = std::tuple<Text, Text, std::vector<Text>, Extents>;
std::vector<Described> operators_of(const Network& network) {
  const std::map<Text, Shape> shapes = known_shapes(network);
  std::vector<Described> found;
  for (const Operator& op : network.operators) {
    found.push_back({op.name, kind_of(op), op.reads, extents_of(shapes.at(op.name))});
  }
  return found;
}

/// A plan with the filters that it prepared, and what its network was like.
struct NetworkPlan : Plan {
  NetworkPlan(Plan plan, const Network& network)
      : Plan(std::move(plan)),
        inputs(input_names(network)),
        outputs(network.outputs),
        shapes(shapes_of(network)),
        dtype(network.dtype),
        layout(network.layout) {}

  std::vector<Text> inputs, outputs;
  std::map<Text, Shape> shapes;
  DataType dtype;
  Layout layout;
  std::shared_ptr<void> filters;  // prepared, where the plan runs
};

// Filters of a plan, on the CPU or on the current device.
std::shared_ptr<void> filters_of(const Plan& plan) {
  const std::size_t bytes = plan.prepared_filter_bytes();
  if (plan.backend() == Backend::sim || bytes == 0) return nullptr;
  const std::shared_ptr<ScratchDevice> device =
      plan.backend() == Backend::cuda ? make_cuda_scratch_device() : make_cpu_scratch_device();
  std::shared_ptr<void> filters(device->allocate(bytes),
                                [device](void* memory) { device->release(memory); });
  plan.prepare_filters(filters.get());
  return filters;
}

void construct(NetworkPlan* self, const Network& network, const Text& backend,
               const Text& algorithm, const Text& precision, const MaybeError& max_error,
               const Policy& policy, const MaybeNumber& dig, const MaybeNumber& dgo,
               const MaybeNumber& m_groups, std::int64_t seed, std::int64_t threads,
               const Text& launch, const std::optional<Text>& machine, std::int64_t wait_budget_ms,
               const RunWorkers& run_workers) {
  PlanOptions options = base_options(backend, algorithm, precision, max_error);
  options.cuda_launch = launch_of(launch);
  const std::optional<PythonPolicy> function = set_policy(options, policy);
  set_order(options, dig, dgo, m_groups, seed);
  options.num_threads = unsigned_of<std::uint32_t>("threads", threads);
  if (machine) options.machine = machine_of(*machine);
  options.wait_budget_ms = unsigned_of<std::uint32_t>("wait_budget_ms", wait_budget_ms);
  options.threads = threads_of(run_workers);
  const nb::gil_scoped_release unlocked;
  try {
    NetworkPlan plan(Plan::create(network, options), network);
    plan.filters = filters_of(plan);
    if (function) function->forget();
    new (self) NetworkPlan(std::move(plan));
  } catch (const Error&) {
    if (function) function->rethrow();
    throw;
  }
}

Axes axes_of(const Shape& shape) { return {shape.n, shape.c, shape.h, shape.w}; }

std::optional<RecordedRun> execute(const NetworkPlan& plan, const std::vector<nb::object>& inputs,
                                   const std::vector<nb::object>& outputs, nb::object workspace,
                                   std::uintptr_t stream, bool trace) {
  const auto require = [](const char* what, std::size_t given, std::size_t wanted) {
    if (given == wanted) return;
    throw Error(Status::invalid_argument,
                std::to_string(given) + ' ' + what + ", must be " + std::to_string(wanted));
  };
  require("inputs", inputs.size(), plan.inputs.size());
  require("outputs", outputs.size(), plan.outputs.size());
  const auto wanted = [&](const Text& name) {
    return Wanted{name.c_str(), axes_of(plan.shapes.at(name)), plan.layout, plan.dtype,
                  plan.backend()};
  };
  std::vector<ReadArray> held;
  std::vector<const void*> from;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    held.push_back(read_array(plan.inputs[i].c_str(), inputs[i]));
    check(held.back(), wanted(plan.inputs[i]));
    from.push_back(held.back().data());
  }
  std::vector<WrittenArray> written;
  std::vector<void*> to;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    written.push_back(written_array(plan.outputs[i].c_str(), outputs[i]));
    check(written.back(), wanted(plan.outputs[i]));
    to.push_back(written.back().data());
  }
  const std::size_t bytes = plan.workspace_bytes();
  void* const space = workspace_of(workspace, plan);
  std::optional<RecordedRun> recorded;
  if (trace) recorded = RecordedRun{plan, {}};
  const NetworkTensors tensors{
      .inputs = from, .outputs = to, .prepared_filters = plan.filters.get()};
  const nb::gil_scoped_release unlocked;
  plan.Plan::execute(tensors, space, bytes,
                     {.trace = trace ? &recorded->trace : nullptr, .stream = stream_of(stream)});
  return recorded;
}

nb::object call(nb::handle self, const nb::args& arguments, const nb::kwargs& names) {
  return nb::module_::import_("megaconv._arrays").attr("run_network")(self, *arguments, **names);
}

nb::dict shapes_of_plan(const NetworkPlan& plan, const std::vector<Text>& names) {
  nb::dict found;
  for (const Text& name : names) found[name.c_str()] = extents_of(plan.shapes.at(name));
  return found;
}

constexpr const char* kNetworkDoc =
    R"(Operators and the values between them: what runs as one task graph.

network() and load() make one; or begin with the inputs, add operators, each by its name and those
that it reads, and say which are outputs:

    net = megaconv.Network({"x": (1, 3, 32, 32)})
    net.convolution("conv", "x", w, padding=1, relu=True)
    net.pooling("pool", "conv", "max", 2)
    net.outputs = ["pool"]

Shapes are (N, C, H, W), whatever the layout. Weights are float32, copied once. Every method raises
ValueError for a name, a shape or weights that do not fit, and leaves the network as it was.

dtype   of all values: "f32", "f16" or "bf16"
layout  of all values in memory: "nhwc" or "nchw")";

constexpr const char* kNetworkPlanDoc = R"(A network that is ready to run, in one launch.

Weights are prepared here, once. Operators are fused where one task can do the work of several.

network          Network
backend          "cpu"; "cuda": on the device that is current now; or "sim": runs only fill traces,
                 with the times of a machine model
algorithm        of all convolutions: "automatic" or "direct"
precision        of the products of f32 values: "f32", "tf32", "f16" or "bf16"; a permission
max_error        error budget of each convolution by itself, as of Plan; an error names the operator
policy           name (policy_names()), a function of a Graph that returns all task ids in order, or
                 these ids as an array
dig, dgo, m_groups   numbers of the policies "interleaved" and "blended"
seed             of "random_topological"
threads          CPU workers; 0: MEGACONV_NUM_THREADS, else all CPUs of this process
launch           CUDA: "automatic", "persistent" (one launch) or "staged" (one for every stage)
machine          of backend "sim": a name (machine_names()) or the JSON of a model; None: h200
wait_budget_ms   a task that waits longer ends the run with TimeoutError
run_workers      threads of one's own, as of Plan

Raises ValueError, NotImplementedError, and what a policy raises.)";

}  // namespace

void bind_network(nb::module_& module) {
  nb::class_<Network> type(module, "Network", kNetworkDoc);
  type.def(
          "__init__",
          [](Network* self, const nb::dict& inputs, const Text& dtype, const Text& layout) {
            new (self) Network(make(inputs, dtype, layout));
          },
          nb::arg("inputs"), nb::kw_only(), nb::arg("dtype") = "f32", nb::arg("layout") = "nhwc",
          nb::sig("def __init__(self, inputs: dict[str, tuple[int, int, int, int]], *, "
                  "dtype: str = 'f32', layout: str = 'nhwc') -> None"))
      .def_prop_ro(
          "inputs", [](const Network& n) { return shapes_by_name(n, input_names(n)); },
          nb::sig("def inputs(self) -> dict[str, tuple[int, int, int, int]]"),
          "shapes of the inputs by name, in the order of a run's arguments")
      .def_prop_rw(
          "outputs", [](const Network& n) { return n.outputs; },
          [](Network& n, std::vector<Text> outputs) {
            std::swap(n.outputs, outputs);
            try {
              validate(n);
            } catch (...) {
              std::swap(n.outputs, outputs);
              throw;
            }
          },
          "names of the operators whose values a run returns")
      .def_prop_ro("operators", &operators_of,
                   "(name, kind, names that it reads, shape of its value) of every operator")
      .def_prop_ro("dtype", [](const Network& n) { return to_string(n.dtype); })
      .def_prop_ro("layout", [](const Network& n) { return to_string(n.layout); })
      .def("__len__", [](const Network& n) { return n.operators.size(); })
      .def("__repr__", [](const Network& n) {
        return "<megaconv.Network of " + std::to_string(n.operators.size()) + " operators, " +
               to_string(n.dtype) + ", " + to_string(n.layout) + ">";
      });
  type.def(
          "convolution",
          [](Network& n, const Text& name, const Text& x, nb::object w, nb::object bias,
             Pair stride, Pair padding, Pair dilation, std::int64_t groups, bool relu,
             std::optional<Text> residual) {
            const auto shape = nb::cast<std::vector<std::int64_t>>(w.attr("shape"));
            if (shape.size() != 4) {
              throw Error(Status::invalid_argument, name + ": w has " +
                                                        std::to_string(shape.size()) +
                                                        " axes, must have 4: K, C/groups, R, S");
            }
            Operator op{name,
                        Convolution{.k = shape[0],
                                    .r = shape[2],
                                    .s = shape[3],
                                    .pad_h = padding.first,
                                    .pad_w = padding.second,
                                    .stride_h = stride.first,
                                    .stride_w = stride.second,
                                    .dilation_h = dilation.first,
                                    .dilation_w = dilation.second,
                                    .groups = groups,
                                    .w = weights_of(w),
                                    .bias = weights_of(bias),
                                    .relu = relu},
                        {x}};
            if (residual) op.reads.push_back(*residual);
            put(n, std::move(op));
          },
          nb::arg("name"), nb::arg("x"), nb::arg("w"), nb::arg("bias") = nb::none(), nb::kw_only(),
          nb::arg("stride") = Pair(1, 1), nb::arg("padding") = Pair(0, 0),
          nb::arg("dilation") = Pair(1, 1), nb::arg("groups") = 1, nb::arg("relu") = false,
          nb::arg("residual") = nb::none(),
          "y = relu(conv(x, w) + bias + residual): w (K, C/groups, R, S), bias (K,) or None.")
      .def(
          "pooling",
          [](Network& n, const Text& name, const Text& x, const Text& mode, Pair size, Pair stride,
             Pair padding) {
            constexpr PoolMode modes[] = {PoolMode::max, PoolMode::average};
            put(n, {name,
                    Pooling{.mode = enumerator("mode", mode, modes, kNameOf),
                            .r = size.first,
                            .s = size.second,
                            .pad_h = padding.first,
                            .pad_w = padding.second,
                            .stride_h = stride.first,
                            .stride_w = stride.second},
                    {x}});
          },
          nb::arg("name"), nb::arg("x"), nb::arg("mode"), nb::arg("size"), nb::kw_only(),
          nb::arg("stride"), nb::arg("padding") = Pair(0, 0),
          "\"max\" or \"average\" over windows; padding counts for nothing.")
      .def(
          "global_average_pooling",
          [](Network& n, const Text& name, const Text& x) {
            put(n, {name, GlobalAveragePooling{}, {x}});
          },
          nb::arg("name"), nb::arg("x"), "The average of each channel: (N, C, 1, 1).")
      .def(
          "batch_norm",
          [](Network& n, const Text& name, const Text& x, nb::object gamma, nb::object beta,
             nb::object mean, nb::object variance, double epsilon) {
            put(n, {name,
                    BatchNorm{.gamma = weights_of(gamma),
                              .beta = weights_of(beta),
                              .mean = weights_of(mean),
                              .variance = weights_of(variance),
                              .epsilon = epsilon},
                    {x}});
          },
          nb::arg("name"), nb::arg("x"), nb::arg("gamma"), nb::arg("beta"), nb::arg("mean"),
          nb::arg("variance"), nb::arg("epsilon") = 1e-5,
          "gamma (x - mean) / sqrt(variance + epsilon) + beta; all (C,).")
      .def(
          "add",
          [](Network& n, const Text& name, const Text& a, const Text& b) {
            put(n, {name, Add{}, {a, b}});
          },
          nb::arg("name"), nb::arg("a"), nb::arg("b"), "a + b, of one shape.")
      .def(
          "concatenation",
          [](Network& n, const Text& name, std::vector<Text> values) {
            put(n, {name, Concatenation{}, std::move(values)});
          },
          nb::arg("name"), nb::arg("values"), "The channels of all, one behind the other.")
      .def(
          "fully_connected",
          [](Network& n, const Text& name, const Text& x, nb::object w, nb::object bias) {
            const auto shape = nb::cast<std::vector<std::int64_t>>(w.attr("shape"));
            const std::int64_t k = shape.empty() ? 0 : shape[0];
            put(n,
                {name, FullyConnected{.k = k, .w = weights_of(w), .bias = weights_of(bias)}, {x}});
          },
          nb::arg("name"), nb::arg("x"), nb::arg("w"), nb::arg("bias") = nb::none(),
          "Sums over all of an image: w (K, C, H, W) or (K, C H W), bias (K,) or None.")
      .def(
          "clamp",
          [](Network& n, const Text& name, const Text& x, double least, double most) {
            put(n, {name, Clamp{static_cast<float>(least), static_cast<float>(most)}, {x}});
          },
          nb::arg("name"), nb::arg("x"), nb::arg("least") = 0.0, nb::arg("most") = INFINITY,
          "x, but at least `least` and at most `most`: ReLU as it stands, ReLU6 with most=6.")
      .def(
          "pixelwise",
          [](Network& n, const Text& name, const Text& function, const std::vector<Text>& values,
             double alpha, double beta, double bias, std::int64_t size) {
            const Pixelwise does{.function = enumerator("function", function, kFunctions, kNameOf),
                                 .alpha = static_cast<float>(alpha),
                                 .beta = static_cast<float>(beta),
                                 .bias = static_cast<float>(bias),
                                 .size = size};
            put(n, {name, does, values});
          },
          nb::arg("name"), nb::arg("function"), nb::arg("values"), nb::kw_only(),
          nb::arg("alpha") = 0.0, nb::arg("beta") = 0.0, nb::arg("bias") = 0.0, nb::arg("size") = 1,
          R"(A function of every pixel by itself: of one value, or of two ("multiply").

"multiply", "leaky_relu" (alpha), "sigmoid", "hard_sigmoid" (alpha, beta), "hard_swish", "tanh",
"gelu", "gelu_tanh", "softmax" over channels, "local_response_norm" (alpha, beta, bias, size). pixelwise.hpp has the
formulas. The second value of "multiply" may have height and width 1.)")
      .def(
          "rearrangement",
          [](Network& n, const Text& name, const Text& x, std::int64_t first_channel,
             std::int64_t channels, std::int64_t groups, Pair repeat, const Four& padding,
             double fill) {
            const auto [top, bottom, left, right] = padding;
            put(n, {name,
                    Rearrangement{.first_channel = first_channel,
                                  .channels = channels,
                                  .groups = groups,
                                  .repeat_h = repeat.first,
                                  .repeat_w = repeat.second,
                                  .top = top,
                                  .bottom = bottom,
                                  .left = left,
                                  .right = right,
                                  .fill = static_cast<float>(fill)},
                    {x}});
          },
          nb::arg("name"), nb::arg("x"), nb::kw_only(), nb::arg("first_channel") = 0,
          nb::arg("channels") = 0, nb::arg("groups") = 1, nb::arg("repeat") = Pair(1, 1),
          nb::arg("padding") = Four(0, 0, 0, 0), nb::arg("fill") = 0.0,
          R"(Numbers of x at other places; each part optional, in this order.

channels from first_channel on (0: all behind it); channel shuffle of groups; every row and column
repeated, which is upsampling; padding (top, bottom, left, right) of `fill`, negative to cut off.)");

  module.def("network_names", &network_names, "Names of the networks that are built in.");
  module.def(
      "network",
      [](const Text& name, std::int64_t batch, std::int64_t image, std::int64_t classes,
         std::int64_t seed, const Text& dtype, const Text& layout) {
        return make_network(name, {.batch = batch,
                                   .image = image,
                                   .classes = classes,
                                   .seed = unsigned_of<std::uint64_t>("seed", seed),
                                   .dtype = enumerator("dtype", dtype, kTypes, kNameOf),
                                   .layout = enumerator("layout", layout, kLayouts, kNameOf)});
      },
      nb::arg("name"), nb::kw_only(), nb::arg("batch") = 1, nb::arg("image") = 0,
      nb::arg("classes") = 0, nb::arg("seed") = 1, nb::arg("dtype") = "f32",
      nb::arg("layout") = "nhwc",
      R"(A built-in network with seeded weights: "resnet50", ... (network_names()).

image: height and width; 0: the usual, 224 or 299. classes: numbers of the last layer. Raises
ValueError for another name, and for an image that is too small.)");
  module.attr("reads_onnx") = reads_onnx();
  module.def(
      "load",
      [](const Text& path, std::int64_t batch, std::int64_t image, const Text& dtype,
         const Text& layout) {
        const OnnxOptions options{.batch = batch,
                                  .image = image,
                                  .dtype = enumerator("dtype", dtype, kTypes, kNameOf),
                                  .layout = enumerator("layout", layout, kLayouts, kNameOf)};
        const nb::gil_scoped_release unlocked;
        return read_onnx(path, options);
      },
      nb::arg("path"), nb::kw_only(), nb::arg("batch") = 0, nb::arg("image") = 0,
      nb::arg("dtype") = "f32", nb::arg("layout") = "nhwc",
      R"(The network of an ONNX model, operator sets 7 and newer.

batch, image: where the model leaves them open; 0: 1 image, and no open height and width. Raises
ValueError for a damaged model, NotImplementedError naming the node for an operator that networks do
not have, and in a build without protobuf (reads_onnx).)");

  nb::class_<NetworkPlan, Plan>(module, "NetworkPlan", kNetworkPlanDoc)
      .def("__init__", &construct, nb::arg("network"), nb::kw_only(), nb::arg("backend") = "cpu",
           nb::arg("algorithm") = "automatic", nb::arg("precision") = "f32",
           nb::arg("max_error") = nb::none(), nb::arg("policy") = nb::none(),
           nb::arg("dig") = nb::none(), nb::arg("dgo") = nb::none(),
           nb::arg("m_groups") = nb::none(), nb::arg("seed") = 0, nb::arg("threads") = 0,
           nb::arg("launch") = "automatic", nb::arg("machine") = nb::none(),
           nb::arg("wait_budget_ms") = 10'000, nb::arg("run_workers") = nb::none(),
           nb::keep_alive<1, 16>())
      .def("__call__", &call,
           nb::sig("def __call__(self, *inputs: Any, copy: bool | None = None) -> Any"),
           R"(The outputs for these inputs: an array of their library, or a tuple of several.

Inputs (N, C, H, W), of the network's type; one that is not dense in its layout is copied, once,
or with copy=False a ValueError.)")
      .def("execute", &execute, nb::arg("inputs"), nb::arg("outputs"), nb::kw_only(),
           nb::arg("workspace") = nb::none(), nb::arg("stream") = 0, nb::arg("trace") = false,
           R"(Runs the network on arrays as they are; nothing is copied.

inputs, outputs: lists of arrays (N, C, H, W) of the network's type, dense in its layout. workspace:
array of workspace_bytes bytes, at a multiple of 64; None: the thread's own (CPU). stream:
cudaStream_t as a number; the run is only enqueued. trace: record the run.
Returns the Trace or None. Raises ValueError, TypeError, MemoryError before any work starts.)")
      .def_prop_ro(
          "inputs", [](const NetworkPlan& plan) { return shapes_of_plan(plan, plan.inputs); },
          nb::sig("def inputs(self) -> dict[str, tuple[int, int, int, int]]"),
          "shapes of the inputs by name")
      .def_prop_ro(
          "outputs", [](const NetworkPlan& plan) { return shapes_of_plan(plan, plan.outputs); },
          nb::sig("def outputs(self) -> dict[str, tuple[int, int, int, int]]"),
          "shapes of the outputs by name")
      .def_prop_ro("dtype", [](const NetworkPlan& plan) { return to_string(plan.dtype); })
      .def_prop_ro("layout", [](const NetworkPlan& plan) { return to_string(plan.layout); })
      .def("__repr__", [](const NetworkPlan& plan) {
        return "<megaconv.NetworkPlan of " + std::to_string(plan.lowering().nodes.size()) +
               " nodes on " + to_string(plan.backend()) + ">";
      });
}

}  // namespace megaconv::python
