// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "megaconv/megaconv.h"
#include "tests/catch.hpp"

namespace {
struct PlanHandle {
  ~PlanHandle() { megaconv_plan_destroy(plan); }
  megaconv_plan* plan = nullptr;
};
struct Memory {
  explicit Memory(size_t bytes) : pointer(std::aligned_alloc(64, (bytes + 63) / 64 * 64)) {}
  ~Memory() { std::free(pointer); }
  void* pointer;
};
}  // namespace

TEST_CASE("C: a problem string becomes a plan that runs") {
  megaconv_problem problem;
  REQUIRE(megaconv_problem_parse("n1c16h8k16+nhwc+bias", &problem) == MEGACONV_SUCCESS);
  CHECK(problem.c == 16);
  CHECK(problem.w == 8);
  CHECK(problem.layout == MEGACONV_NHWC);
  CHECK(problem.bias == 1);

  PlanHandle handle;
  megaconv_plan_options options = {};
  options.algorithm = MEGACONV_ALGORITHM_WINOGRAD;
  options.tile = 4;
  options.num_threads = 2;
  REQUIRE(megaconv_plan_create(&problem, &options, &handle.plan) == MEGACONV_SUCCESS);

  // x and w all ones: an inner output is 9 * 16 + bias, a corner 4 * 16 + bias.
  std::vector<float> x(1 * 8 * 8 * 16, 1.0f), w(16 * 3 * 3 * 16, 1.0f), bias(16, 2.0f),
      y(8 * 8 * 16);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  megaconv_tensors tensors = {};
  tensors.x = x.data();
  tensors.w = w.data();
  tensors.bias = bias.data();
  tensors.y = y.data();
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  CHECK(std::abs(y[0] - 66.0f) < 1e-3f);
  CHECK(std::abs(y[(3 * 8 + 3) * 16 + 5] - 146.0f) < 1e-3f);
  CHECK_THAT(megaconv_describe(handle.plan), ContainsSubstring("n1c16h8"));

  const char* mapping = megaconv_export_mapping(handle.plan);
  REQUIRE(mapping != nullptr);
  PlanHandle copy;
  CHECK(megaconv_plan_create_from_mapping(mapping, &problem, &options, &copy.plan) ==
        MEGACONV_SUCCESS);
  problem.n = 2;
  PlanHandle other;
  CHECK(megaconv_plan_create_from_mapping(mapping, &problem, &options, &other.plan) ==
        MEGACONV_INVALID_ARGUMENT);
}

TEST_CASE("C: tensors are in the problem's storage type") {
  megaconv_problem problem;
  REQUIRE(megaconv_problem_parse("n1c16h8k16+bf16", &problem) == MEGACONV_SUCCESS);
  CHECK(problem.dtype == MEGACONV_BF16);
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, nullptr, &handle.plan) == MEGACONV_SUCCESS);
  CHECK_THAT(megaconv_describe(handle.plan), ContainsSubstring("+bf16"));
  std::vector<std::uint16_t> x(16 * 8 * 8, 0x3f80), w(16 * 16 * 3 * 3, 0x3f80), y(16 * 8 * 8);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  megaconv_tensors tensors = {};
  tensors.x = x.data();
  tensors.w = w.data();
  tensors.y = y.data();
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  CHECK(y[0] == 0x4280);      // 64
  CHECK(y[8 + 1] == 0x4310);  // 144
}

TEST_CASE("C: tensors of 8-bit integers have scales and biases of float") {
  megaconv_problem problem;
  REQUIRE(megaconv_problem_parse("c16h4k3r1+i8+scale+bias", &problem) == MEGACONV_SUCCESS);
  CHECK(problem.dtype == MEGACONV_I8);
  CHECK(problem.scale == 1);
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, nullptr, &handle.plan) == MEGACONV_SUCCESS);
  const std::vector<std::int8_t> x(16 * 16, 100), w(3 * 16, -2);
  const float scale[3] = {0.01f, -0.01f, -1}, bias[3] = {0.4f, -0.6f, 0};
  std::vector<std::int8_t> y(3 * 16);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  megaconv_tensors tensors = {};
  tensors.x = x.data();
  tensors.w = w.data();
  tensors.scale = scale;
  tensors.bias = bias;
  tensors.y = y.data();
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  CHECK(y[0] == -32);  // -3200 times 0.01, and 0.4
  CHECK(y[16] == 31);
  CHECK(y[32] == 127);
  tensors.scale = nullptr;
  CHECK(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                         megaconv_workspace_bytes(handle.plan)) == MEGACONV_INVALID_ARGUMENT);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("scale is null"));
}

TEST_CASE("C: prepared filters") {
  megaconv_problem problem;
  REQUIRE(megaconv_problem_parse("n1c3h5k4r1", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = {};
  options.prepared_filters = 1;
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, &options, &handle.plan) == MEGACONV_SUCCESS);
  std::vector<float> x(3 * 25, 1.0f), w(4 * 3, 2.0f), y(4 * 25);
  const Memory prepared(megaconv_prepared_filter_bytes(handle.plan));
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  REQUIRE(megaconv_prepare_filters(handle.plan, w.data(), prepared.pointer) == MEGACONV_SUCCESS);
  megaconv_tensors tensors = {};
  tensors.x = x.data();
  tensors.y = y.data();
  tensors.prepared_filters = prepared.pointer;
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  for (const float value : y) CHECK(value == 6.0f);
}

TEST_CASE("C: every failure has a status and a text, and writes no output") {
  megaconv_problem problem = {};
  megaconv_plan* plan = nullptr;
  CHECK(megaconv_problem_parse("n0c1", &problem) == MEGACONV_INVALID_ARGUMENT);
  CHECK(std::strlen(megaconv_last_error()) > 0);
  CHECK(megaconv_problem_parse(nullptr, &problem) == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_plan_create(nullptr, nullptr, &plan) == MEGACONV_INVALID_ARGUMENT);
  REQUIRE(megaconv_problem_parse("n1c16h8k16u2", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = {};
  options.algorithm = MEGACONV_ALGORITHM_WINOGRAD;
  CHECK(megaconv_plan_create(&problem, &options, &plan) == MEGACONV_UNSUPPORTED);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("stride"));
  problem.layout = static_cast<megaconv_layout>(3);
  CHECK(megaconv_plan_create(&problem, nullptr, &plan) == MEGACONV_INVALID_ARGUMENT);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("layout 3, must be 0 to 2"));
  problem.layout = MEGACONV_NCHW;
  options.algorithm = MEGACONV_ALGORITHM_AUTO;
  options.policy = "fastest";
  CHECK(megaconv_plan_create(&problem, &options, &plan) == MEGACONV_INVALID_ARGUMENT);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("fastest"));
  CHECK(plan == nullptr);
  CHECK(megaconv_execute(nullptr, nullptr, nullptr, 0) == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_plan_create_from_mapping("{", nullptr, nullptr, &plan) ==
        MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_describe(nullptr) == nullptr);
  CHECK(megaconv_workspace_bytes(nullptr) == 0);
  megaconv_plan_destroy(nullptr);
  CHECK(std::string(megaconv_status_name(MEGACONV_TIMEOUT)) == "timeout");
  CHECK(std::string(megaconv_status_name(MEGACONV_SUCCESS)) == "success");
}
