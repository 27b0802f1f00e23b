// SPDX-License-Identifier: Apache-2.0
// The C ABI over the C++ API: translates values, turns exceptions into a status and a text.
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "megaconv/megaconv.h"
#include "megaconv/plan.hpp"

static_assert(MEGACONV_ALIGNMENT == megaconv::Plan::kAlignment);

// A text is made by the first call that asks for it, under the plan's lock.
struct megaconv_plan {
  megaconv::Plan plan;
  std::mutex mutex;
  std::optional<std::string> description;
  std::optional<std::string> mapping;
};

namespace {

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
    return fail(static_cast<megaconv_status>(error.status()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(MEGACONV_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(MEGACONV_INTERNAL, error.what());
  }
}

void require(bool condition, const char* message) {
  if (!condition) throw megaconv::Error(megaconv::Status::invalid_argument, message);
}

// Enumerators come from C, where any integer fits: `last` is the largest that is allowed.
template <class To, class From>
To checked_enum(From value, From last, const char* what) {
  if (static_cast<long long>(value) < 0 ||
      static_cast<long long>(value) > static_cast<long long>(last)) {
    throw megaconv::Error(megaconv::Status::invalid_argument,
                          std::string(what) + ' ' + std::to_string(static_cast<long long>(value)) +
                              ", must be 0 to " + std::to_string(static_cast<long long>(last)));
  }
  return static_cast<To>(value);
}

megaconv::ConvProblem from_c(const megaconv_problem& c) {
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
  problem.dtype = checked_enum<megaconv::DataType>(c.dtype, MEGACONV_I8, "dtype");
  problem.layout = checked_enum<megaconv::Layout>(c.layout, MEGACONV_CHWN, "layout");
  problem.epilogue = {
      .scale = c.scale != 0, .bias = c.bias != 0, .residual = c.residual != 0, .relu = c.relu != 0};
  return problem;
}

megaconv_problem to_c(const megaconv::ConvProblem& problem) {
  return {.n = problem.n,
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
          .dtype = static_cast<megaconv_dtype>(problem.dtype),
          .layout = static_cast<megaconv_layout>(problem.layout),
          .scale = problem.epilogue.scale,
          .bias = problem.epilogue.bias,
          .residual = problem.epilogue.residual,
          .relu = problem.epilogue.relu};
}

megaconv::PlanOptions from_c(const megaconv_plan_options* c) {
  megaconv::PlanOptions options;
  if (c == nullptr) return options;
  const auto chosen = [](std::uint32_t value) {
    return value == 0 ? std::nullopt : std::optional(value);
  };
  options.tiling.algorithm = checked_enum<megaconv::Algorithm>(
      c->algorithm, MEGACONV_ALGORITHM_FUSED_WINOGRAD, "algorithm");
  options.tiling.m = c->tile;
  options.tiling.filters =
      c->prepared_filters != 0 ? megaconv::FilterMode::prepared : megaconv::FilterMode::every_run;
  options.tiling.whole_tensors = c->whole_tensors != 0;
  if (c->policy != nullptr) options.mapping.policy = megaconv::parse_policy(c->policy);
  options.mapping.dig = chosen(c->dig);
  options.mapping.dgo = chosen(c->dgo);
  options.mapping.m_groups = chosen(c->m_groups);
  options.num_threads = c->num_threads;
  if (c->wait_budget_ms != 0) options.wait_budget_ms = c->wait_budget_ms;
  return options;
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

const char* megaconv_status_name(megaconv_status status) {
  return status == MEGACONV_SUCCESS ? "success"
                                    : megaconv::to_string(static_cast<megaconv::Status>(status));
}

const char* megaconv_last_error(void) { return last_error.c_str(); }

megaconv_status megaconv_problem_parse(const char* text, megaconv_problem* problem) {
  return guarded([&] {
    require(text != nullptr, "text is null");
    require(problem != nullptr, "problem is null");
    *problem = to_c(megaconv::parse_problem(text));
  });
}

megaconv_status megaconv_plan_create(const megaconv_problem* problem,
                                     const megaconv_plan_options* options, megaconv_plan** plan) {
  return guarded([&] {
    require(problem != nullptr, "problem is null");
    require(plan != nullptr, "plan is null");
    *plan =
        new megaconv_plan{megaconv::Plan::create(from_c(*problem), from_c(options)), {}, {}, {}};
  });
}

megaconv_status megaconv_plan_create_from_mapping(const char* json, const megaconv_problem* problem,
                                                  const megaconv_plan_options* options,
                                                  megaconv_plan** plan) {
  return guarded([&] {
    require(json != nullptr, "json is null");
    require(plan != nullptr, "plan is null");
    std::optional<megaconv::ConvProblem> expected;
    if (problem != nullptr) expected = from_c(*problem);
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
    plan->plan.execute({.x = tensors->x,
                        .w = tensors->w,
                        .scale = tensors->scale,
                        .bias = tensors->bias,
                        .residual = tensors->residual,
                        .y = tensors->y,
                        .prepared_filters = tensors->prepared_filters},
                       workspace, workspace_bytes);
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
