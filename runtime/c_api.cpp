// SPDX-License-Identifier: Apache-2.0
// The C ABI over the C++ API: translates values, turns exceptions into a status and a text.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "megaconv/megaconv.h"
#include "megaconv/plan.hpp"
#include "runtime/sized_struct.hpp"

static_assert(MEGACONV_ALIGNMENT == megaconv::Plan::kAlignment);

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
constexpr int kLastLayout = MEGACONV_CHWN;
constexpr int kLastAlgorithm = MEGACONV_ALGORITHM_IMPLICIT_GEMM;
static_assert(agree<megaconv::Status>(1, MEGACONV_INTERNAL));
static_assert(agree<megaconv::DataType>(0, kLastDataType));
static_assert(agree<megaconv::Layout>(0, kLastLayout));
static_assert(agree<megaconv::Algorithm>(0, kLastAlgorithm));

// Where the first version of each struct ended, which stays; and where it ends now.
constexpr std::size_t kFirstProblem = MEGACONV_BYTES_TO(megaconv_problem, relu);
constexpr std::size_t kFirstOptions = MEGACONV_BYTES_TO(megaconv_plan_options, reserved);
constexpr std::size_t kFirstTensors = MEGACONV_BYTES_TO(megaconv_tensors, prepared_filters);
static_assert(sizeof(megaconv_problem) == MEGACONV_BYTES_TO(megaconv_problem, relu));
static_assert(sizeof(megaconv_plan_options) == MEGACONV_BYTES_TO(megaconv_plan_options, reserved));
static_assert(sizeof(megaconv_tensors) == MEGACONV_BYTES_TO(megaconv_tensors, prepared_filters));

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
  problem.epilogue = {
      .scale = c.scale != 0, .bias = c.bias != 0, .residual = c.residual != 0, .relu = c.relu != 0};
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
          .relu = problem.epilogue.relu};
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
  options.tiling.filters =
      c.prepared_filters != 0 ? megaconv::FilterMode::prepared : megaconv::FilterMode::every_run;
  options.tiling.whole_tensors = c.whole_tensors != 0;
  if (c.policy != nullptr) {
    megaconv::check_policy(c.policy);
    options.mapping.policy = c.policy;
  }
  options.mapping.dig = chosen(c.dig);
  options.mapping.dgo = chosen(c.dgo);
  options.mapping.m_groups = chosen(c.m_groups);
  options.num_threads = c.num_threads;
  if (c.wait_budget_ms != 0) options.wait_budget_ms = c.wait_budget_ms;
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
          .prepared_filters = c.prepared_filters};
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

void megaconv_plan_destroy(megaconv_plan* plan) { delete plan; }

size_t megaconv_workspace_bytes(const megaconv_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

size_t megaconv_prepared_filter_bytes(const megaconv_plan* plan) {
  return plan == nullptr ? 0 : plan->plan.prepared_filter_bytes();
}

megaconv_status megaconv_prepare_filters(const megaconv_plan* plan, const void* w, void* prepared) {
  return guarded([&] {
    require(plan != nullptr, "plan is null");
    plan->plan.prepare_filters(w, prepared);
  });
}

megaconv_status megaconv_execute(const megaconv_plan* plan, const megaconv_tensors* tensors,
                                 void* workspace, size_t workspace_bytes) {
  return guarded([&] {
    require(plan != nullptr, "plan is null");
    require(tensors != nullptr, "tensors is null");
    plan->plan.execute(from_c(tensors), workspace, workspace_bytes);
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
