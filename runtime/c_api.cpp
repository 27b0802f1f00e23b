// SPDX-License-Identifier: Apache-2.0
// The C ABI over the C++ API: translates values, turns exceptions into a status and a text.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "megaconv/megaconv.h"
#include "megaconv/network.hpp"
#include "megaconv/onnx.hpp"
#include "megaconv/plan.hpp"
#include "runtime/sized_struct.hpp"

static_assert(MEGACONV_ALIGNMENT == megaconv::Plan::kAlignment);

struct megaconv_network {
  megaconv::Network network;
  std::map<std::string, megaconv::Shape> shapes;
};

// A text is made by the first call that asks for it, under the plan's lock.
struct megaconv_plan {
  megaconv::Plan plan;
  std::mutex mutex;
  std::optional<std::string> description;
  std::optional<std::string> mapping;
};

namespace {

// A switch without a default: -Wswitch names the enumerator that megaconv.h does not have.
constexpr int kNotInC = -1;
constexpr int c_value(megaconv::Status status) {
  switch (status) {
    case megaconv::Status::invalid_argument:
      return MEGACONV_INVALID_ARGUMENT;
    case megaconv::Status::unsupported:
      return MEGACONV_UNSUPPORTED;
    case megaconv::Status::out_of_memory:
      return MEGACONV_OUT_OF_MEMORY;
    case megaconv::Status::device_error:
      return MEGACONV_DEVICE_ERROR;
    case megaconv::Status::timeout:
      return MEGACONV_TIMEOUT;
    case megaconv::Status::internal:
      return MEGACONV_INTERNAL;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::DataType dtype) {
  switch (dtype) {
    case megaconv::DataType::f32:
      return MEGACONV_F32;
    case megaconv::DataType::f16:
      return MEGACONV_F16;
    case megaconv::DataType::bf16:
      return MEGACONV_BF16;
    case megaconv::DataType::i8:
      return MEGACONV_I8;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::Layout layout) {
  switch (layout) {
    case megaconv::Layout::nchw:
      return MEGACONV_NCHW;
    case megaconv::Layout::nhwc:
      return MEGACONV_NHWC;
    case megaconv::Layout::chwn:
      return MEGACONV_CHWN;
    case megaconv::Layout::nchw16c:
      return MEGACONV_NCHW16C;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::Algorithm algorithm) {
  switch (algorithm) {
    case megaconv::Algorithm::automatic:
      return MEGACONV_ALGORITHM_AUTO;
    case megaconv::Algorithm::direct:
      return MEGACONV_ALGORITHM_DIRECT;
    case megaconv::Algorithm::winograd:
      return MEGACONV_ALGORITHM_WINOGRAD;
    case megaconv::Algorithm::opencnn:
      return MEGACONV_ALGORITHM_OPENCNN;
    case megaconv::Algorithm::fused_winograd:
      return MEGACONV_ALGORITHM_FUSED_WINOGRAD;
    case megaconv::Algorithm::implicit_gemm:
      return MEGACONV_ALGORITHM_IMPLICIT_GEMM;
    case megaconv::Algorithm::small_gemm:
      return MEGACONV_ALGORITHM_SMALL_GEMM;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::Backend value) {
  switch (value) {
    case megaconv::Backend::cpu:
      return MEGACONV_BACKEND_CPU;
    case megaconv::Backend::cuda:
      return MEGACONV_BACKEND_CUDA;
    case megaconv::Backend::sim:
      return MEGACONV_BACKEND_SIM;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::Precision value) {
  switch (value) {
    case megaconv::Precision::f32:
      return MEGACONV_PRECISION_F32;
    case megaconv::Precision::tf32:
      return MEGACONV_PRECISION_TF32;
    case megaconv::Precision::f16:
      return MEGACONV_PRECISION_F16;
    case megaconv::Precision::bf16:
      return MEGACONV_PRECISION_BF16;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::Arithmetic value) {
  switch (value) {
    case megaconv::Arithmetic::automatic:
      return MEGACONV_ARITHMETIC_AUTO;
    case megaconv::Arithmetic::fma:
      return MEGACONV_ARITHMETIC_FMA;
    case megaconv::Arithmetic::split_f16:
      return MEGACONV_ARITHMETIC_SPLIT_F16;
    case megaconv::Arithmetic::tf32:
      return MEGACONV_ARITHMETIC_TF32;
    case megaconv::Arithmetic::f16:
      return MEGACONV_ARITHMETIC_F16;
    case megaconv::Arithmetic::bf16:
      return MEGACONV_ARITHMETIC_BF16;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::ActivationFunction value) {
  switch (value) {
    case megaconv::ActivationFunction::none:
      return MEGACONV_ACTIVATION_NONE;
    case megaconv::ActivationFunction::relu:
      return MEGACONV_ACTIVATION_RELU;
    case megaconv::ActivationFunction::clamp:
      return MEGACONV_ACTIVATION_CLAMP;
    case megaconv::ActivationFunction::leaky_relu:
      return MEGACONV_ACTIVATION_LEAKY_RELU;
    case megaconv::ActivationFunction::sigmoid:
      return MEGACONV_ACTIVATION_SIGMOID;
    case megaconv::ActivationFunction::hard_sigmoid:
      return MEGACONV_ACTIVATION_HARD_SIGMOID;
    case megaconv::ActivationFunction::silu:
      return MEGACONV_ACTIVATION_SILU;
    case megaconv::ActivationFunction::hard_swish:
      return MEGACONV_ACTIVATION_HARD_SWISH;
    case megaconv::ActivationFunction::gelu:
      return MEGACONV_ACTIVATION_GELU;
    case megaconv::ActivationFunction::gelu_tanh:
      return MEGACONV_ACTIVATION_GELU_TANH;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::Points value) {
  switch (value) {
    case megaconv::Points::low_error:
      return MEGACONV_POINTS_LOW_ERROR;
    case megaconv::Points::integer:
      return MEGACONV_POINTS_INTEGER;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::PlanSource value) {
  switch (value) {
    case megaconv::PlanSource::database:
      return MEGACONV_SOURCE_DATABASE;
    case megaconv::PlanSource::heuristic:
      return MEGACONV_SOURCE_HEURISTIC;
    case megaconv::PlanSource::measure:
      return MEGACONV_SOURCE_MEASURE;
  }
  return kNotInC;
}
constexpr int c_value(megaconv::CudaLaunch value) {
  switch (value) {
    case megaconv::CudaLaunch::automatic:
      return MEGACONV_LAUNCH_AUTO;
    case megaconv::CudaLaunch::persistent:
      return MEGACONV_LAUNCH_PERSISTENT;
    case megaconv::CudaLaunch::one_block_per_task:
      return MEGACONV_LAUNCH_ONE_BLOCK_PER_TASK;
    case megaconv::CudaLaunch::raw_block_index:
      return MEGACONV_LAUNCH_RAW_BLOCK_INDEX;
    case megaconv::CudaLaunch::staged:
      return MEGACONV_LAUNCH_STAGED;
  }
  return kNotInC;
}

// Whether the enumerators from `first` to `last` have the same values in C, and no other exists.
template <class Enum>
constexpr bool agree(int first, int last) {
  for (int value = first; value <= last; ++value) {
    if (c_value(static_cast<Enum>(value)) != value) return false;
  }
  return c_value(static_cast<Enum>(first - 1)) == kNotInC &&
         c_value(static_cast<Enum>(last + 1)) == kNotInC;
}
constexpr int kLastDataType = MEGACONV_I8;
constexpr int kLastLayout = MEGACONV_NCHW16C;
constexpr int kLastActivation = MEGACONV_ACTIVATION_GELU_TANH;
constexpr int kLastAlgorithm = MEGACONV_ALGORITHM_SMALL_GEMM;
constexpr int kLastBackend = MEGACONV_BACKEND_SIM;
constexpr int kLastPrecision = MEGACONV_PRECISION_BF16;
constexpr int kLastArithmetic = MEGACONV_ARITHMETIC_BF16;
constexpr int kLastPoints = MEGACONV_POINTS_INTEGER;
constexpr int kLastSource = MEGACONV_SOURCE_MEASURE;
constexpr int kLastLaunch = MEGACONV_LAUNCH_STAGED;
static_assert(agree<megaconv::Status>(1, MEGACONV_INTERNAL));
static_assert(agree<megaconv::DataType>(0, kLastDataType));
static_assert(agree<megaconv::Layout>(0, kLastLayout));
static_assert(agree<megaconv::ActivationFunction>(0, kLastActivation));
static_assert(agree<megaconv::Algorithm>(0, kLastAlgorithm));
static_assert(agree<megaconv::Backend>(0, kLastBackend));
static_assert(agree<megaconv::Precision>(0, kLastPrecision));
static_assert(agree<megaconv::Arithmetic>(0, kLastArithmetic));
static_assert(agree<megaconv::Points>(0, kLastPoints));
static_assert(agree<megaconv::PlanSource>(0, kLastSource));
static_assert(agree<megaconv::CudaLaunch>(0, kLastLaunch));

// Where the first version of each struct ended, which stays; and where it ends now.
constexpr std::size_t kFirstProblem = MEGACONV_BYTES_TO(megaconv_problem, relu);
constexpr std::size_t kFirstOptions = MEGACONV_BYTES_TO(megaconv_plan_options, reserved);
constexpr std::size_t kFirstTensors = MEGACONV_BYTES_TO(megaconv_tensors, prepared_filters);
constexpr std::size_t kFirstNetworkOptions = MEGACONV_BYTES_TO(megaconv_network_options, layout);
constexpr std::size_t kFirstValue = MEGACONV_BYTES_TO(megaconv_value, w);
constexpr std::size_t kFirstNetworkTensors =
    MEGACONV_BYTES_TO(megaconv_network_tensors, prepared_filters);
static_assert(sizeof(megaconv_problem) == MEGACONV_BYTES_TO(megaconv_problem, reserved));
static_assert(sizeof(megaconv_plan_options) == MEGACONV_BYTES_TO(megaconv_plan_options, max_error));
static_assert(sizeof(megaconv_tensors) == MEGACONV_BYTES_TO(megaconv_tensors, y_strides));
static_assert(sizeof(megaconv_network_options) == kFirstNetworkOptions);
static_assert(sizeof(megaconv_value) == kFirstValue);
static_assert(sizeof(megaconv_network_tensors) == kFirstNetworkTensors);

thread_local std::string last_error;

megaconv_status fail(megaconv_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

template <class Function>
megaconv_status guarded(Function&& function) noexcept {
  try {
    function();
    return MEGACONV_SUCCESS;
  } catch (const megaconv::Error& error) {
    return fail(static_cast<megaconv_status>(c_value(error.status())), error.what());
  } catch (const std::bad_alloc&) {
    return fail(MEGACONV_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(MEGACONV_INTERNAL, error.what());
  }
}

void require(bool condition, const char* message) {
  if (!condition) throw megaconv::Error(megaconv::Status::invalid_argument, message);
}

// Any integer may come from C: `last` is the largest that is an enumerator.
template <class Enum>
Enum checked_enum(std::int32_t value, int last, const char* what) {
  if (value < 0 || value > last) {
    throw megaconv::Error(
        megaconv::Status::invalid_argument,
        std::string(what) + ' ' + std::to_string(value) + ", must be 0 to " + std::to_string(last));
  }
  return static_cast<Enum>(value);
}

bool checked_flag(std::int32_t value, const char* what) {
  return checked_enum<std::uint8_t>(value, 1, what) != 0;
}

// relu = 1 is a short form of activation = MEGACONV_ACTIVATION_RELU.
megaconv::Activation activation_of(const megaconv_problem& c) {
  require(c.reserved == 0, "reserved must be 0");
  const megaconv::Activation activation{.function = checked_enum<megaconv::ActivationFunction>(
                                            c.activation, kLastActivation, "activation"),
                                        .alpha = c.alpha,
                                        .beta = c.beta};
  if (!checked_flag(c.relu, "relu")) return activation;
  require(activation == megaconv::Activation{}, "relu = 1: activation, alpha and beta must be 0");
  return megaconv::kRelu;
}

megaconv::ConvProblem from_c(const megaconv_problem* given) {
  const megaconv_problem c = megaconv::read_struct(given, kFirstProblem, "megaconv_problem");
  megaconv::ConvProblem problem;
  problem.n = c.n;
  problem.c = c.c;
  problem.h = c.h;
  problem.w = c.w;
  problem.k = c.k;
  problem.r = c.r;
  problem.s = c.s;
  problem.pad_h = c.pad_h;
  problem.pad_w = c.pad_w;
  problem.stride_h = c.stride_h;
  problem.stride_w = c.stride_w;
  problem.dilation_h = c.dilation_h;
  problem.dilation_w = c.dilation_w;
  problem.groups = c.groups;
  problem.dtype = checked_enum<megaconv::DataType>(c.dtype, kLastDataType, "dtype");
  problem.layout = checked_enum<megaconv::Layout>(c.layout, kLastLayout, "layout");
  problem.epilogue = {.scale = checked_flag(c.scale, "scale"),
                      .bias = checked_flag(c.bias, "bias"),
                      .residual = checked_flag(c.residual, "residual"),
                      .activation = activation_of(c)};
  return problem;
}

megaconv_problem to_c(const megaconv::ConvProblem& problem) {
  return {.struct_size = sizeof(megaconv_problem),
          .n = problem.n,
          .c = problem.c,
          .h = problem.h,
          .w = problem.w,
          .k = problem.k,
          .r = problem.r,
          .s = problem.s,
          .pad_h = problem.pad_h,
          .pad_w = problem.pad_w,
          .stride_h = problem.stride_h,
          .stride_w = problem.stride_w,
          .dilation_h = problem.dilation_h,
          .dilation_w = problem.dilation_w,
          .groups = problem.groups,
          .dtype = c_value(problem.dtype),
          .layout = c_value(problem.layout),
          .scale = problem.epilogue.scale,
          .bias = problem.epilogue.bias,
          .residual = problem.epilogue.residual,
          .relu = problem.epilogue.activation == megaconv::kRelu,
          .activation = c_value(problem.epilogue.activation == megaconv::kRelu
                                    ? megaconv::ActivationFunction::none
                                    : problem.epilogue.activation.function),
          .alpha = problem.epilogue.activation.alpha,
          .beta = problem.epilogue.activation.beta,
          .reserved = 0};
}

// A preset's name, or the text of a model.
megaconv::MachineModel machine_of(const std::string& name_or_json) {
  return name_or_json.find('{') == std::string::npos ? megaconv::machine_preset(name_or_json)
                                                     : megaconv::parse_machine(name_or_json);
}

megaconv::PlanOptions from_c(const megaconv_plan_options* given) {
  megaconv::PlanOptions options;
  if (given == nullptr) return options;
  const megaconv_plan_options c =
      megaconv::read_struct(given, kFirstOptions, "megaconv_plan_options");
  const auto chosen = [](std::uint32_t value) {
    return value == 0 ? std::nullopt : std::optional(value);
  };
  if (c.reserved != 0) {
    throw megaconv::Error(megaconv::Status::invalid_argument,
                          "reserved " + std::to_string(c.reserved) + ", must be 0");
  }
  options.tiling.algorithm =
      checked_enum<megaconv::Algorithm>(c.algorithm, kLastAlgorithm, "algorithm");
  options.tiling.m = c.tile;
  options.tiling.precision =
      checked_enum<megaconv::Precision>(c.precision, kLastPrecision, "precision");
  options.tiling.arithmetic =
      checked_enum<megaconv::Arithmetic>(c.arithmetic, kLastArithmetic, "arithmetic");
  if (c.max_error != 0) options.tiling.max_error = c.max_error;
  options.tiling.points = checked_enum<megaconv::Points>(c.points, kLastPoints, "points");
  options.tiling.filters = checked_flag(c.prepared_filters, "prepared_filters")
                               ? megaconv::FilterMode::prepared
                               : megaconv::FilterMode::every_run;
  options.tiling.whole_tensors = checked_flag(c.whole_tensors, "whole_tensors");
  if (c.policy != nullptr) {
    megaconv::check_policy(c.policy);
    options.mapping.policy = c.policy;
  }
  options.mapping.dig = chosen(c.dig);
  options.mapping.dgo = chosen(c.dgo);
  options.mapping.m_groups = chosen(c.m_groups);
  options.num_threads = c.num_threads;
  options.threads = {c.run_workers, c.run_workers_context};
  if (c.wait_budget_ms != 0) options.wait_budget_ms = c.wait_budget_ms;
  options.backend = checked_enum<megaconv::Backend>(c.backend, kLastBackend, "backend");
  options.source = checked_enum<megaconv::PlanSource>(c.source, kLastSource, "source");
  if (c.measure_ms != 0) options.measure_ms = c.measure_ms;
  if (c.database != nullptr) options.database = c.database;
  options.workspace_limit = c.workspace_limit;
  options.cuda_launch = checked_enum<megaconv::CudaLaunch>(c.launch, kLastLaunch, "launch");
  options.num_blocks = c.num_blocks;
  if (c.machine != nullptr) options.machine = machine_of(c.machine);
  if (c.policy_library != nullptr) {
    require(c.policy == nullptr, "policy and policy_library given, must be at most one");
    options.policy = megaconv::load_policy(c.policy_library);
  }
  return options;
}

megaconv::NetworkOptions from_c(const megaconv_network_options* given) {
  const megaconv_network_options c =
      given == nullptr
          ? megaconv_network_options_init()
          : megaconv::read_struct(given, kFirstNetworkOptions, "megaconv_network_options");
  megaconv::NetworkOptions options;
  if (c.batch != 0) options.batch = c.batch;
  options.image = c.image;
  if (c.classes != 0) options.classes = c.classes;
  options.seed = c.seed;
  options.dtype = checked_enum<megaconv::DataType>(c.dtype, kLastDataType, "dtype");
  options.layout = checked_enum<megaconv::Layout>(c.layout, kLastLayout, "layout");
  return options;
}

megaconv::Tensors from_c(const megaconv_tensors* given) {
  const megaconv_tensors c = megaconv::read_struct(given, kFirstTensors, "megaconv_tensors");
  return {.x = c.x,
          .w = c.w,
          .scale = c.scale,
          .bias = c.bias,
          .residual = c.residual,
          .y = c.y,
          .prepared_filters = c.prepared_filters,
          .x_strides = {c.x_strides.n, c.x_strides.c, c.x_strides.h, c.x_strides.w},
          .y_strides = {c.y_strides.n, c.y_strides.c, c.y_strides.h, c.y_strides.w}};
}

megaconv::NetworkTensors from_c(const megaconv_network_tensors* given) {
  const megaconv_network_tensors c =
      megaconv::read_struct(given, kFirstNetworkTensors, "megaconv_network_tensors");
  require(c.inputs != nullptr || c.num_inputs == 0, "inputs is null");
  require(c.outputs != nullptr || c.num_outputs == 0, "outputs is null");
  return {.inputs = {c.inputs, c.num_inputs},
          .outputs = {c.outputs, c.num_outputs},
          .prepared_filters = c.prepared_filters};
}

// An input or output of a network; `names` are those of all of this kind.
template <class Names, class NameOf>
megaconv_status write_value(const megaconv_network* network, const Names& names, std::size_t index,
                            megaconv_value* value, const char* what, NameOf name_of) {
  return guarded([&] {
    require(value != nullptr, "value is null");
    if (index >= names.size()) {
      throw megaconv::Error(megaconv::Status::invalid_argument,
                            std::string(what) + ' ' + std::to_string(index) +
                                ", must be less than " + std::to_string(names.size()));
    }
    const std::string& name = name_of(names[index]);
    const megaconv::Shape& shape = network->shapes.at(name);
    megaconv::write_struct({.struct_size = sizeof(megaconv_value),
                            .name = name.c_str(),
                            .n = shape.n,
                            .c = shape.c,
                            .h = shape.h,
                            .w = shape.w},
                           value, kFirstValue, "megaconv_value");
  });
}

const char* text_of(megaconv_plan* plan, std::optional<std::string> megaconv_plan::*text,
                    std::string (*make)(const megaconv::Plan&)) noexcept {
  if (plan == nullptr) return nullptr;
  try {
    const std::lock_guard lock(plan->mutex);
    if (!(plan->*text)) plan->*text = make(plan->plan);
    return (plan->*text)->c_str();
  } catch (const std::exception& error) {
    fail(MEGACONV_OUT_OF_MEMORY, error.what());
    return nullptr;
  }
}

}  // namespace

const char* megaconv_version(void) { return megaconv::version(); }

const char* megaconv_status_name(std::int32_t status) {
  return status == MEGACONV_SUCCESS ? "success"
                                    : megaconv::to_string(static_cast<megaconv::Status>(status));
}

const char* megaconv_last_error(void) { return last_error.c_str(); }

megaconv_status megaconv_problem_parse(const char* text, megaconv_problem* problem) {
  return guarded([&] {
    require(text != nullptr, "text is null");
    require(problem != nullptr, "problem is null");
    megaconv::write_struct(to_c(megaconv::parse_problem(text)), problem, kFirstProblem,
                           "megaconv_problem");
  });
}

megaconv_status megaconv_network_make(const char* name, const megaconv_network_options* options,
                                      megaconv_network** network) {
  return guarded([&] {
    require(name != nullptr, "name is null");
    require(network != nullptr, "network is null");
    megaconv::Network made = megaconv::make_network(name, from_c(options));
    auto shapes = megaconv::shapes_of(made);
    *network = new megaconv_network{std::move(made), std::move(shapes)};
  });
}

megaconv_status megaconv_network_load(const char* path, const megaconv_network_options* options,
                                      megaconv_network** network) {
  return guarded([&] {
    require(path != nullptr, "path is null");
    require(network != nullptr, "network is null");
    const megaconv::NetworkOptions open = from_c(options);
    megaconv::Network read =
        megaconv::read_onnx(path, {.batch = options == nullptr ? 0 : options->batch,
                                   .image = open.image,
                                   .dtype = open.dtype,
                                   .layout = open.layout});
    auto shapes = megaconv::shapes_of(read);
    *network = new megaconv_network{std::move(read), std::move(shapes)};
  });
}

void megaconv_network_destroy(megaconv_network* network) { delete network; }

size_t megaconv_network_num_inputs(const megaconv_network* network) {
  return network == nullptr ? 0 : network->network.inputs.size();
}

size_t megaconv_network_num_outputs(const megaconv_network* network) {
  return network == nullptr ? 0 : network->network.outputs.size();
}

megaconv_status megaconv_network_input(const megaconv_network* network, size_t index,
                                       megaconv_value* value) {
  if (network == nullptr) return fail(MEGACONV_INVALID_ARGUMENT, "network is null");
  return write_value(network, network->network.inputs, index, value, "input",
                     [](const auto& input) -> const std::string& { return input.name; });
}

megaconv_status megaconv_network_output(const megaconv_network* network, size_t index,
                                        megaconv_value* value) {
  if (network == nullptr) return fail(MEGACONV_INVALID_ARGUMENT, "network is null");
  return write_value(network, network->network.outputs, index, value, "output",
                     [](const auto& name) -> const std::string& { return name; });
}

megaconv_status megaconv_plan_create(const megaconv_problem* problem,
                                     const megaconv_plan_options* options, megaconv_plan** plan) {
  return guarded([&] {
    require(problem != nullptr, "problem is null");
    require(plan != nullptr, "plan is null");
    *plan = new megaconv_plan{megaconv::Plan::create(from_c(problem), from_c(options)), {}, {}, {}};
  });
}

megaconv_status megaconv_plan_create_from_mapping(const char* json, const megaconv_problem* problem,
                                                  const megaconv_plan_options* options,
                                                  megaconv_plan** plan) {
  return guarded([&] {
    require(json != nullptr, "json is null");
    require(plan != nullptr, "plan is null");
    std::optional<megaconv::ConvProblem> expected;
    if (problem != nullptr) expected = from_c(problem);
    megaconv::Lowering lowering = megaconv::import_mapping(json, expected ? &*expected : nullptr);
    *plan =
        new megaconv_plan{megaconv::Plan::create(std::move(lowering), from_c(options)), {}, {}, {}};
  });
}

megaconv_status megaconv_plan_create_network(const megaconv_network* network,
                                             const megaconv_plan_options* options,
                                             megaconv_plan** plan) {
  return guarded([&] {
    require(network != nullptr, "network is null");
    require(plan != nullptr, "plan is null");
    *plan =
        new megaconv_plan{megaconv::Plan::create(network->network, from_c(options)), {}, {}, {}};
  });
}

void megaconv_plan_destroy(megaconv_plan* plan) { delete plan; }

size_t megaconv_workspace_bytes(const megaconv_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

size_t megaconv_prepared_filter_bytes(const megaconv_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.prepared_filter_bytes();
}

megaconv_status megaconv_prepare_filters(const megaconv_plan* plan, const void* w, void* prepared) {
  return megaconv_prepare_filters_on(plan, w, prepared, nullptr);
}

megaconv_status megaconv_prepare_filters_on(const megaconv_plan* plan, const void* w,
                                            void* prepared, void* stream) {
  return guarded([&] {
    require(plan != nullptr, "plan is null");
    const bool of_network = !plan->plan.lowering().inputs.empty();
    if (of_network && w == nullptr) return plan->plan.prepare_filters(prepared);
    plan->plan.prepare_filters(w, prepared, stream);
  });
}

megaconv_status megaconv_execute(const megaconv_plan* plan, const megaconv_tensors* tensors,
                                 void* workspace, size_t workspace_bytes) {
  return megaconv_execute_on(plan, tensors, workspace, workspace_bytes, nullptr);
}

megaconv_status megaconv_execute_on(const megaconv_plan* plan, const megaconv_tensors* tensors,
                                    void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&] {
    require(plan != nullptr, "plan is null");
    require(tensors != nullptr, "tensors is null");
    plan->plan.execute(from_c(tensors), workspace, workspace_bytes, {.stream = stream});
  });
}

megaconv_status megaconv_execute_network(const megaconv_plan* plan,
                                         const megaconv_network_tensors* tensors, void* workspace,
                                         size_t workspace_bytes) {
  return megaconv_execute_network_on(plan, tensors, workspace, workspace_bytes, nullptr);
}

megaconv_status megaconv_execute_network_on(const megaconv_plan* plan,
                                            const megaconv_network_tensors* tensors,
                                            void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&] {
    require(plan != nullptr, "plan is null");
    require(tensors != nullptr, "tensors is null");
    plan->plan.execute(from_c(tensors), workspace, workspace_bytes, {.stream = stream});
  });
}

megaconv_status megaconv_wait(const megaconv_plan* plan, void* workspace, void* stream) {
  return guarded([&] {
    require(plan != nullptr, "plan is null");
    plan->plan.wait(workspace, stream);
  });
}

const char* megaconv_describe(megaconv_plan* plan) {
  return text_of(plan, &megaconv_plan::description,
                 [](const megaconv::Plan& p) { return p.describe(); });
}

const char* megaconv_export_mapping(megaconv_plan* plan) {
  return text_of(plan, &megaconv_plan::mapping,
                 [](const megaconv::Plan& p) { return megaconv::export_mapping(p.lowering()); });
}
