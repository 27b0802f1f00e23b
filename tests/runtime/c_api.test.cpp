// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/megaconv.h"
#include "runtime/sized_struct.hpp"
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

/// A struct of a newer header: ours with one more field.
template <class T>
struct Newer {
  T ours{};
  std::int64_t added = 0;
};

/// A struct that has grown since its first version, whose last field was `first`.
struct Grown {
  std::size_t struct_size;
  std::int64_t first, added;
};
constexpr std::size_t kFirstGrown = MEGACONV_BYTES_TO(Grown, first);

/// What a caller of Grown's first version owns, and no byte more.
struct OldCaller {
  explicit OldCaller(std::int64_t value) : memory(new unsigned char[kFirstGrown]) {
    std::memcpy(memory.get(), &kFirstGrown, sizeof(kFirstGrown));
    std::memcpy(memory.get() + offsetof(Grown, first), &value, sizeof(value));
  }
  Grown* get() const { return reinterpret_cast<Grown*>(memory.get()); }
  std::unique_ptr<unsigned char[]> memory;
};

/// The text of the megaconv::Error that `call` throws; "" when it throws none.
template <class Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const megaconv::Error& error) {
    return error.what();
  }
  return {};
}

/// Expects that `call` fails, and that the text names the struct, the value and what is allowed.
template <class Call>
void check_refused_size(const char* type, std::size_t size, std::size_t least, Call call) {
  CAPTURE(type, size);
  CHECK(call() == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_last_error() == std::string(type) + ".struct_size = " + std::to_string(size) +
                                     ": must be sizeof(" + type + "), " + std::to_string(least) +
                                     " to 4096");
}
}  // namespace

TEST_CASE("C: a problem string becomes a plan that runs") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("n1c16h8k16+nhwc+bias", &problem) == MEGACONV_SUCCESS);
  CHECK(problem.c == 16);
  CHECK(problem.w == 8);
  CHECK(problem.layout == MEGACONV_NHWC);
  CHECK(problem.bias == 1);

  PlanHandle handle;
  megaconv_plan_options options = megaconv_plan_options_init();
  options.algorithm = MEGACONV_ALGORITHM_WINOGRAD;
  options.tile = 4;
  options.num_threads = 2;
  REQUIRE(megaconv_plan_create(&problem, &options, &handle.plan) == MEGACONV_SUCCESS);

  // x and w all ones: an inner output is 9 * 16 + bias, a corner 4 * 16 + bias.
  std::vector<float> x(1 * 8 * 8 * 16, 1.0f), w(16 * 3 * 3 * 16, 1.0f), bias(16, 2.0f),
      y(8 * 8 * 16);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  megaconv_tensors tensors = megaconv_tensors_init();
  tensors.x = x.data();
  tensors.w = w.data();
  tensors.bias = bias.data();
  tensors.y = y.data();
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  CHECK(std::abs(y[0] - 66.0f) < 1e-3f);
  CHECK(std::abs(y[(3 * 8 + 3) * 16 + 5] - 146.0f) < 1e-3f);

  std::vector<float> wide(8 * 8 * 32, -1.0f);  // y is the last 16 of 32 channels
  tensors.y = wide.data() + 16;
  tensors.y_strides = {8 * 8 * 32, 1, 8 * 32, 32};
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  CHECK(wide[(3 * 8 + 3) * 32 + 16 + 5] == y[(3 * 8 + 3) * 16 + 5]);
  CHECK(wide[(3 * 8 + 3) * 32 + 15] == -1.0f);
  tensors.y_strides.w = 8;
  CHECK(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                         megaconv_workspace_bytes(handle.plan)) == MEGACONV_INVALID_ARGUMENT);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("y_strides (2048, 1, 256, 8)"));
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
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("n1c16h8k16+bf16", &problem) == MEGACONV_SUCCESS);
  CHECK(problem.dtype == MEGACONV_BF16);
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, nullptr, &handle.plan) == MEGACONV_SUCCESS);
  CHECK_THAT(megaconv_describe(handle.plan), ContainsSubstring("+bf16"));
  std::vector<std::uint16_t> x(16 * 8 * 8, 0x3f80), w(16 * 16 * 3 * 3, 0x3f80), y(16 * 8 * 8);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  megaconv_tensors tensors = megaconv_tensors_init();
  tensors.x = x.data();
  tensors.w = w.data();
  tensors.y = y.data();
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  CHECK(y[0] == 0x4280);      // 64
  CHECK(y[8 + 1] == 0x4310);  // 144
}

TEST_CASE("C: tensors of 8-bit integers have scales and biases of float") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("c16h4k3r1+i8+scale+bias", &problem) == MEGACONV_SUCCESS);
  CHECK(problem.dtype == MEGACONV_I8);
  CHECK(problem.scale == 1);
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, nullptr, &handle.plan) == MEGACONV_SUCCESS);
  const std::vector<std::int8_t> x(16 * 16, 100), w(3 * 16, -2);
  const float scale[3] = {0.01f, -0.01f, -1}, bias[3] = {0.4f, -0.6f, 0};
  std::vector<std::int8_t> y(3 * 16);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  megaconv_tensors tensors = megaconv_tensors_init();
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
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("n1c3h5k4r1", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = megaconv_plan_options_init();
  options.prepared_filters = 1;
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, &options, &handle.plan) == MEGACONV_SUCCESS);
  std::vector<float> x(3 * 25, 1.0f), w(4 * 3, 2.0f), y(4 * 25);
  const Memory prepared(megaconv_prepared_filter_bytes(handle.plan));
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  REQUIRE(megaconv_prepare_filters(handle.plan, w.data(), prepared.pointer) == MEGACONV_SUCCESS);
  megaconv_tensors tensors = megaconv_tensors_init();
  tensors.x = x.data();
  tensors.y = y.data();
  tensors.prepared_filters = prepared.pointer;
  REQUIRE(megaconv_execute(handle.plan, &tensors, workspace.pointer,
                           megaconv_workspace_bytes(handle.plan)) == MEGACONV_SUCCESS);
  for (const float value : y) CHECK(value == 6.0f);
}

TEST_CASE("C: every failure has a status and a text, and writes no output") {
  megaconv_problem problem = megaconv_problem_init();
  megaconv_plan* plan = nullptr;
  CHECK(megaconv_problem_parse("n0c1", &problem) == MEGACONV_INVALID_ARGUMENT);
  CHECK(std::strlen(megaconv_last_error()) > 0);
  CHECK(megaconv_problem_parse(nullptr, &problem) == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_plan_create(nullptr, nullptr, &plan) == MEGACONV_INVALID_ARGUMENT);
  REQUIRE(megaconv_problem_parse("n1c16h8k16u2", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = megaconv_plan_options_init();
  options.algorithm = MEGACONV_ALGORITHM_WINOGRAD;
  CHECK(megaconv_plan_create(&problem, &options, &plan) == MEGACONV_UNSUPPORTED);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("stride"));
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
  CHECK(std::string(megaconv_status_name(99)) == "unknown");
}

TEST_CASE("C: a struct_size that no version has is refused") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("c16h8k16", &problem) == MEGACONV_SUCCESS);
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, nullptr, &handle.plan) == MEGACONV_SUCCESS);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  std::vector<float> x(16 * 64), w(16 * 16 * 9), y(16 * 64, 7.0f);
  megaconv_tensors tensors = megaconv_tensors_init();
  tensors.x = x.data();
  tensors.w = w.data();
  tensors.y = y.data();
  megaconv_plan_options options = megaconv_plan_options_init();
  megaconv_plan* plan = nullptr;

  const std::size_t first_problem = offsetof(megaconv_problem, activation);
  for (const std::size_t size : {std::size_t{0}, first_problem - 1, std::size_t{4097}}) {
    megaconv_problem wrong = problem;
    wrong.struct_size = size;
    wrong.n = 5;
    const auto refused = [&](auto call) {
      check_refused_size("megaconv_problem", size, first_problem, call);
    };
    refused([&] { return megaconv_problem_parse("c1h1k1", &wrong); });
    CHECK(wrong.n == 5);  // nothing was written
    refused([&] { return megaconv_plan_create(&wrong, nullptr, &plan); });
    const char* const mapping = megaconv_export_mapping(handle.plan);
    refused([&] { return megaconv_plan_create_from_mapping(mapping, &wrong, nullptr, &plan); });
  }
  const std::size_t first_options = offsetof(megaconv_plan_options, backend);
  for (const std::size_t size : {std::size_t{0}, first_options - 1, std::size_t{4097}}) {
    options.struct_size = size;
    check_refused_size("megaconv_plan_options", size, first_options,
                       [&] { return megaconv_plan_create(&problem, &options, &plan); });
  }
  const std::size_t first_tensors = offsetof(megaconv_tensors, x_strides);
  for (const std::size_t size : {std::size_t{0}, first_tensors - 1, std::size_t{4097}}) {
    tensors.struct_size = size;
    check_refused_size("megaconv_tensors", size, first_tensors, [&] {
      return megaconv_execute(handle.plan, &tensors, workspace.pointer,
                              megaconv_workspace_bytes(handle.plan));
    });
  }
  CHECK(plan == nullptr);
  CHECK(y[0] == 7.0f);
}

TEST_CASE("C: structs of a newer header are taken when what was added is zero") {
  Newer<megaconv_problem> problem;
  problem.ours.struct_size = sizeof(problem);
  REQUIRE(megaconv_problem_parse("c16h8k16", &problem.ours) == MEGACONV_SUCCESS);
  CHECK(problem.ours.struct_size == sizeof(problem));  // stays the caller's
  CHECK(problem.ours.c == 16);
  Newer<megaconv_plan_options> options;
  options.ours.struct_size = sizeof(options);
  options.ours.num_threads = 1;
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem.ours, &options.ours, &handle.plan) == MEGACONV_SUCCESS);
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  std::vector<float> x(16 * 64, 1.0f), w(16 * 16 * 9, 1.0f), y(16 * 64);
  Newer<megaconv_tensors> tensors;
  tensors.ours.struct_size = sizeof(tensors);
  tensors.ours.x = x.data();
  tensors.ours.w = w.data();
  tensors.ours.y = y.data();
  const auto execute = [&] {
    return megaconv_execute(handle.plan, &tensors.ours, workspace.pointer,
                            megaconv_workspace_bytes(handle.plan));
  };
  REQUIRE(execute() == MEGACONV_SUCCESS);
  CHECK(std::abs(y[0] - 64.0f) < 1e-3f);

  tensors.added = 1;
  CHECK(execute() == MEGACONV_INVALID_ARGUMENT);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("megaconv_tensors.struct_size"));
  megaconv_plan* plan = nullptr;
  options.added = -1;
  CHECK(megaconv_plan_create(&problem.ours, &options.ours, &plan) == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_last_error() ==
        "megaconv_plan_options.struct_size = " + std::to_string(sizeof(options)) + ": byte " +
            std::to_string(sizeof(options.ours)) + " is 255, must be 0: this library knows " +
            std::to_string(sizeof(options.ours)) + " bytes");
  problem.added = std::int64_t{1} << 56;  // its last byte, on a little-endian machine
  CHECK(megaconv_plan_create(&problem.ours, nullptr, &plan) == MEGACONV_INVALID_ARGUMENT);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("megaconv_problem.struct_size"));
  CHECK(megaconv_problem_parse("c3h8k16", &problem.ours) == MEGACONV_INVALID_ARGUMENT);
  CHECK(problem.ours.c == 16);
  CHECK(plan == nullptr);
}

TEST_CASE("C: fields that an older header lacks are zero, and are not written") {
  const OldCaller old(41);
  const Grown read = megaconv::read_struct(old.get(), kFirstGrown, "grown");
  CHECK(read.struct_size == sizeof(Grown));
  CHECK(read.first == 41);
  CHECK(read.added == 0);

  const auto write = [&](const Grown& value) {
    return refusal_of([&] { megaconv::write_struct(value, old.get(), kFirstGrown, "grown"); });
  };
  CHECK(write({.struct_size = sizeof(Grown), .first = 42, .added = 1}) ==
        "grown.struct_size = 16: must be 24 for a value with fields of a newer header");
  CHECK(megaconv::read_struct(old.get(), kFirstGrown, "grown").first == 41);
  CHECK(write({.struct_size = sizeof(Grown), .first = 42, .added = 0}) == "");
  CHECK(megaconv::read_struct(old.get(), kFirstGrown, "grown").first == 42);
  CHECK(megaconv::check_struct_size(old.get(), kFirstGrown, "grown") == kFirstGrown);
}

TEST_CASE("C: a value that is no enumerator is an error that says what is allowed") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("c16h8k16", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = megaconv_plan_options_init();
  megaconv_plan* plan = nullptr;
  const auto refusal = [&] {
    CHECK(megaconv_plan_create(&problem, &options, &plan) == MEGACONV_INVALID_ARGUMENT);
    return std::string(megaconv_last_error());
  };
  for (const std::int32_t value : {-1, 4, 256, INT32_MAX, INT32_MIN}) {
    problem.dtype = value;
    CHECK(refusal() == "dtype " + std::to_string(value) + ", must be 0 to 3");
  }
  problem.dtype = MEGACONV_F32;
  for (const std::int32_t value : {-1, 4, 256, INT32_MAX, INT32_MIN}) {
    problem.layout = value;
    CHECK(refusal() == "layout " + std::to_string(value) + ", must be 0 to 3");
  }
  problem.layout = MEGACONV_NCHW;
  for (const std::int32_t value : {-1, 7, 256, INT32_MAX, INT32_MIN}) {
    options.algorithm = value;
    CHECK(refusal() == "algorithm " + std::to_string(value) + ", must be 0 to 6");
  }
  options.algorithm = MEGACONV_ALGORITHM_AUTO;
  const auto check_last = [&](std::int32_t& field, const std::string& name, int last) {
    for (const std::int32_t value : {-1, last + 1, 256, INT32_MAX, INT32_MIN}) {
      field = value;
      CHECK(refusal() ==
            name + ' ' + std::to_string(value) + ", must be 0 to " + std::to_string(last));
    }
    field = 0;
  };
  check_last(options.backend, "backend", MEGACONV_BACKEND_SIM);
  check_last(options.precision, "precision", MEGACONV_PRECISION_BF16);
  check_last(options.arithmetic, "arithmetic", MEGACONV_ARITHMETIC_BF16);
  check_last(options.points, "points", MEGACONV_POINTS_INTEGER);
  check_last(options.source, "source", MEGACONV_SOURCE_MEASURE);
  check_last(options.launch, "launch", MEGACONV_LAUNCH_STAGED);
  check_last(options.prepared_filters, "prepared_filters", 1);
  check_last(options.whole_tensors, "whole_tensors", 1);
  check_last(problem.scale, "scale", 1);
  check_last(problem.bias, "bias", 1);
  check_last(problem.residual, "residual", 1);
  check_last(problem.relu, "relu", 1);
  check_last(problem.activation, "activation", MEGACONV_ACTIVATION_GELU_TANH);
  for (const double value : {-1e-6, std::numeric_limits<double>::quiet_NaN()}) {
    options.max_error = value;
    CHECK_THAT(refusal(), ContainsSubstring(": must be a number greater than 0"));
  }
  options.max_error = 0;
  options.reserved = 1;
  CHECK(refusal() == "reserved 1, must be 0");
  CHECK(plan == nullptr);
}

TEST_CASE("C: implicit GEMM can be asked for, and is not for a CPU") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("c16h8k16", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = megaconv_plan_options_init();
  options.algorithm = MEGACONV_ALGORITHM_IMPLICIT_GEMM;
  megaconv_plan* plan = nullptr;
  CHECK(megaconv_plan_create(&problem, &options, &plan) == MEGACONV_UNSUPPORTED);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("implicit_gemm"));
}

TEST_CASE("C: options of an older header are taken, and what they lack is as before") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("c16h8k16", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = megaconv_plan_options_init();
  options.num_threads = 1;
  options.struct_size = offsetof(megaconv_plan_options, backend);
  options.backend = 99;  // not read: an older caller does not own these bytes
  PlanHandle handle;
  REQUIRE(megaconv_plan_create(&problem, &options, &handle.plan) == MEGACONV_SUCCESS);
  CHECK_THAT(megaconv_describe(handle.plan), ContainsSubstring("backend: cpu, 1 workers"));
}

TEST_CASE("C: backend, machine, precision, source, database and limit reach the plan") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("n4c64h28k64", &problem) == MEGACONV_SUCCESS);
  megaconv_plan_options options = megaconv_plan_options_init();
  const auto described = [&] {
    PlanHandle handle;
    if (megaconv_plan_create(&problem, &options, &handle.plan) != MEGACONV_SUCCESS) {
      return std::string(megaconv_last_error());
    }
    return std::string(megaconv_describe(handle.plan));
  };
  options.backend = MEGACONV_BACKEND_SIM;
  options.machine = "v100";
  options.launch = MEGACONV_LAUNCH_STAGED;
  CHECK_THAT(described(), ContainsSubstring("sim, v100") && ContainsSubstring("launch: staged"));
  options.machine = "v1000";
  CHECK_THAT(described(), ContainsSubstring("v1000"));
  options = megaconv_plan_options_init();
  options.source = MEGACONV_SOURCE_HEURISTIC;
  CHECK_THAT(described(), ContainsSubstring("chosen by: heuristic\n"));
  options.source = MEGACONV_SOURCE_DATABASE;
  options.database = "/nowhere/plans.db";
  CHECK_THAT(described(), ContainsSubstring("/nowhere/plans.db"));
  options = megaconv_plan_options_init();
  options.max_error = 1e-6;
  CHECK_THAT(described(), ContainsSubstring("error: at most 8.1e-07, within max_error = 1e-06\n"));
  options.max_error = 1e-9;
  CHECK_THAT(described(), ContainsSubstring("max_error = 1e-09: must be at least 8.1e-07"));
  options = megaconv_plan_options_init();
  options.workspace_limit = 1;
  CHECK_THAT(described(), ContainsSubstring("limit"));
  options = megaconv_plan_options_init();
  options.algorithm = MEGACONV_ALGORITHM_WINOGRAD;
  options.tile = 4;
  options.points = MEGACONV_POINTS_INTEGER;
  CHECK_THAT(described(), ContainsSubstring("integer"));
  options.policy = "staged";
  options.policy_library = "./nowhere.so";
  CHECK(described() == "policy and policy_library given, must be at most one");
  options.policy = nullptr;
  CHECK_THAT(described(), ContainsSubstring("nowhere.so"));
}

TEST_CASE("C: a network is made by name, planned and run") {
  struct NetworkHandle {
    ~NetworkHandle() { megaconv_network_destroy(network); }
    megaconv_network* network = nullptr;
  } made;
  megaconv_network_options shape = megaconv_network_options_init();
  shape.batch = 2;
  shape.image = 32;
  shape.classes = 10;
  shape.layout = MEGACONV_NHWC;
  REQUIRE(megaconv_network_make("resnet18", &shape, &made.network) == MEGACONV_SUCCESS);
  CHECK(megaconv_network_num_inputs(made.network) == 1);
  CHECK(megaconv_network_num_outputs(made.network) == 1);
  megaconv_value value = megaconv_value_init();
  REQUIRE(megaconv_network_input(made.network, 0, &value) == MEGACONV_SUCCESS);
  CHECK(std::string(value.name).size() > 0);
  CHECK((value.n == 2 && value.c == 3 && value.h == 32 && value.w == 32));
  REQUIRE(megaconv_network_output(made.network, 0, &value) == MEGACONV_SUCCESS);
  CHECK((value.n == 2 && value.c == 10 && value.h == 1 && value.w == 1));
  CHECK(megaconv_network_output(made.network, 1, &value) == MEGACONV_INVALID_ARGUMENT);
  CHECK(std::string(megaconv_last_error()) == "output 1, must be less than 1");

  PlanHandle handle;
  REQUIRE(megaconv_plan_create_network(made.network, nullptr, &handle.plan) == MEGACONV_SUCCESS);
  CHECK_THAT(megaconv_describe(handle.plan), ContainsSubstring("network: "));
  const Memory filters(megaconv_prepared_filter_bytes(handle.plan));
  const Memory workspace(megaconv_workspace_bytes(handle.plan));
  REQUIRE(megaconv_prepare_filters(handle.plan, nullptr, filters.pointer) == MEGACONV_SUCCESS);
  std::vector<float> image(2 * 3 * 32 * 32), scores(2 * 10, NAN);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 7) - 3.0f;
  const void* inputs[] = {image.data()};
  void* outputs[] = {scores.data()};
  megaconv_network_tensors tensors = megaconv_network_tensors_init();
  tensors.inputs = inputs;
  tensors.num_inputs = 1;
  tensors.outputs = outputs;
  tensors.num_outputs = 1;
  tensors.prepared_filters = filters.pointer;
  const auto execute = [&] {
    return megaconv_execute_network(handle.plan, &tensors, workspace.pointer,
                                    megaconv_workspace_bytes(handle.plan));
  };
  REQUIRE(execute() == MEGACONV_SUCCESS);
  for (const float score : scores) CHECK(std::isfinite(score));
  CHECK(scores[0] != scores[1]);

  tensors.num_inputs = 2;
  CHECK(execute() == MEGACONV_INVALID_ARGUMENT);
  CHECK(std::string(megaconv_last_error()) == "2 inputs, must be 1");
  tensors.inputs = nullptr;
  CHECK(execute() == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_network_make("resnet51", nullptr, &made.network) == MEGACONV_INVALID_ARGUMENT);
  CHECK_THAT(megaconv_last_error(), ContainsSubstring("resnet50"));
  CHECK(megaconv_network_input(nullptr, 0, &value) == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_plan_create_network(nullptr, nullptr, &handle.plan) == MEGACONV_INVALID_ARGUMENT);
  shape.dtype = 9;
  CHECK(megaconv_network_make("resnet18", &shape, &made.network) == MEGACONV_INVALID_ARGUMENT);
  CHECK(std::string(megaconv_last_error()) == "dtype 9, must be 0 to 3");
  CHECK(megaconv_network_load("nowhere.onnx", nullptr, &made.network) != MEGACONV_SUCCESS);
  CHECK(megaconv_network_load(nullptr, nullptr, &made.network) == MEGACONV_INVALID_ARGUMENT);
  CHECK(megaconv_wait(handle.plan, workspace.pointer, nullptr) == MEGACONV_SUCCESS);
}
